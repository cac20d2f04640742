package paid

import (
	"context"
	"errors"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// An owner's request is a payment of 0. The account of the owner proves itself by signing a
// challenge, and a proof holds for one request, once. The id of the challenge, which a wallet
// shows, begins with words that say what the request does, so that a challenge for one thing
// cannot pass for another.
//
// No network settles a proof, so nothing is reserved: one turn of the writer carries out the
// request and stores the row of the proof, which is final from the start. Proofs cost nothing, so
// they must not fill the disk: their rows are deleted after a day, and those of payments never
// are. The row of a proof holds no answer, because answers hold words that the operator can
// redact; the answer to a repeated request is made from the present state.

// Prover asks accounts for proofs and verifies them, without a network. Its functions are
// safe for concurrent use.
type Prover interface {
	// Method is the name of the payment method of the clients that give these proofs.
	Method() string
	// Request is the request parameter of every challenge for one.
	Request() string
	// Verify returns the account that a credential proves. The id of its challenge has been
	// verified. It refuses with a *[mpp.Rejection].
	Verify(c mpp.Credential) (account string, err error)
	// ToSign is as in [Method].
	ToSign(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error)
}

// ownerRequest is what an owner wants done to a member.
type ownerRequest interface {
	// owner returns the account that must give the proof, the zero one if no account can. by has given
	// one.
	owner(m *member, by core.Account) core.Account
	// check says why it cannot be done now, by what the ledger holds.
	check(v *ledger.View, m *member) error
	// decide and pin are those of [order].
	decide(ctx context.Context, client string) error
	pin() map[string]string
	// words say what the account signs for: the operation, the member, and all that changes.
	// They are what a wallet shows, in the form of [mpp.Plain].
	words(slug string) string
	// carryOut appends its events. Only the first Append may fail.
	carryOut(tx *ledger.Tx, m *member) error
	// answer is the body that says what was done. m is nil if the member is in the ring no
	// longer.
	answer(st *core.State, m *member) []byte
}

// proven is the [order] of an owner's request.
type proven struct {
	ownerRequest
	operation, slug string
}

// owned makes the parser of orders from that of an owner's requests.
func owned(parse func(c *Call, rules *core.Rules, pinned map[string]string) (ownerRequest, error)) operation {
	return operation{owner: true, parse: func(c *Call, rules *core.Rules, pinned map[string]string) (order, error) {
		r, err := parse(c, rules, pinned)
		return &proven{r, c.Operation, c.Slug}, err
	}}
}

func (o *proven) cents() int64     { return 0 }
func (o *proven) describe() string { return o.words(o.slug) }

func (o *proven) stillHolds(*ledger.View) error { return nil }

func (o *proven) mayBegin(v *ledger.View, account string) error {
	m, err := memberOf(v.State(), o.slug, o.operation)
	switch {
	case err != nil:
		return err
	case account != "" && !o.owner(m, core.AccountOf(account)).Is(core.AccountOf(account)):
		return notOwner(v.State().Rules().BaseURL, o.slug)
	}
	return o.check(v, m)
}

// member is a member of the ring with its place in the state. Its other words than slug and
// URL lie in the state's memory.
type member struct {
	core.Member
	at core.Ordinal
}

// memberOf finds the member that a request is about: one in the ring, for a return or a
// claim one that has departed, for a return one that is hidden.
func memberOf(st *core.State, slug, operation string) (*member, error) {
	at, ok := st.BySlug([]byte(slug))
	if !ok {
		return nil, &Problem{Code: api.UnknownMember, Detail: "No member has this slug. /api/ring lists the members."}
	}
	m := &member{st.Member(at), at}
	// These two are needed after the state has changed.
	m.Slug, m.URL = strings.Clone(m.Slug), strings.Clone(m.URL)
	until, departed := st.Departed(at)
	switch {
	case departed && (operation == OpReturn || operation == OpClaim):
		return m, nil
	case departed:
		return nil, &Problem{Code: api.MemberRemoved, Detail: api.Departure(until)}
	case m.Removed:
		return nil, &Problem{Code: api.MemberRemoved, Detail: "This member has left the ring."}
	case m.Hidden && operation != OpReturn: // by which an earlier owner takes it back, hidden as it is
		return nil, errHidden
	}
	return m, nil
}

var errHidden = risk.NotAdmitted("The operator has hidden this member, so nothing about it changes.")

var (
	errOtherRequest = refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send that request, or answer the new challenge. Nothing was done.")
	errProofExpired = &Problem{Code: api.PaymentExpired, Reason: mpp.ReasonExpired, Detail: "The challenge has expired. Answer the new one. Nothing was done."}
	errNotKnown     = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "It is not known whether this was done. Send the same request with the same credential again. Nothing is charged."}
)

// notOwner refuses a proof by another account than the one that may do this.
func notOwner(base, slug string) *Problem {
	return &Problem{Code: api.NotOwner, More: map[string]any{"links": map[string]string{"claim": base + "/api/ring/" + slug + "/claim"}},
		Detail: "This proof is by another account than the owner's. If the site of this member is yours, it can name your account: see links.claim. Nothing was done."}
}

// prove answers a request that carries a proof. Cheap checks come first, as in [Service.pay].
func (s *Service) prove(c *Call, cred mpp.Credential) (a Answer, err error) {
	ch := cred.Challenge
	if ch.Intent != mpp.Charge || !s.keys.Load().Verify(ch) {
		return a, refusal(api.InvalidChallenge, "This ring did not issue the challenge in the credential. Answer the new one. Nothing was done.")
	}
	words, id := ch.SplitID()
	c.about.id = id
	pinned := map[string]string{}
	if err := mpp.DecodeJSON(ch.Opaque, &pinned); err != nil || pinned[pinOperation] != c.Operation || pinned[pinMember] != c.Slug {
		return a, errOtherRequest
	}
	if ch.Realm != s.Realm || ch.Method != s.Prover.Method() || ch.Request != s.Prover.Request() {
		return a, errConfiguration
	}
	account, err := s.Prover.Verify(cred)
	if r, ok := errors.AsType[*mpp.Rejection](err); ok {
		return a, rejection(r)
	} else if err != nil {
		return a, err
	}
	r, err := s.consumed(c, id, true)
	if err != nil {
		return a, err
	}
	expires, err := ch.ExpiresAt()
	switch {
	case r != nil:
	case ch.Digest != c.digest:
		return a, errOtherRequest
	case err != nil || !s.Now().Before(expires):
		return a, errProofExpired
	}
	read, err := c.op.parse(c, nil, pinned)
	if err != nil {
		if r != nil {
			return a, s.reused(r)
		}
		return a, errUnreadable
	}
	o := read.(*proven)
	switch {
	case r != nil:
		s.Ledger.View(func(v *ledger.View) { a = s.proofAnswer(v.State(), o, r, ch.ID) })
		return s.durable(a, nil)
	case words != o.describe():
		return a, errOtherRequest
	}
	r = &ledger.Reservation{ID: id, ReplayKeys: []string{challengeKey(id)}, State: ledger.Applied, Confirmed: true, Delivered: true,
		Operation: c.Operation, Member: c.Slug, Payer: account, BodyDigest: c.digest, Idempotency: c.idempotency(c.digest), ValidBefore: expires}
	return s.carryOutProven(c, o, r, ch.ID)
}

// carryOutProven carries out a request, for which the proof of r holds, in one turn of the writer.
func (s *Service) carryOutProven(c *Call, o *proven, r *ledger.Reservation, challenge string) (a Answer, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return a, errUnavailable
	}
	s.holding.Add(1)
	s.mu.Unlock()
	defer s.holding.Done()
	s.Failpoint("proved")
	err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		v, st := tx.View(), tx.State()
		// The stamp never goes back, as a clock may.
		if !time.UnixMilli(tx.Stamp()).Before(r.ValidBefore) {
			return errProofExpired
		}
		if err := fresh(v, r.ReplayKeys); err != nil {
			return err
		}
		if err := s.keyFree(&candidate{key: r.Idempotency, payer: r.Payer}, v); err != nil {
			return err
		}
		if err := o.mayBegin(v, r.Payer); err != nil {
			return err
		}
		m, err := memberOf(st, o.slug, o.operation)
		if err == nil {
			err = o.carryOut(tx, m)
		}
		if err == nil {
			r.Seq = st.Seq() - 1
			err = tx.Spend(r)
		}
		if err == nil {
			a = s.proofAnswer(st, o, r, challenge)
		}
		return err
	})
	if err != nil {
		return a, s.notWritten(err, errNotKnown)
	}
	s.Failpoint("applied")
	if c.Operation == OpVisit {
		s.Visit(o.slug)
	}
	s.Log.Info("an owner's request was carried out", Audit, "ownership", "operation", c.Operation, "member", o.slug, "account", r.Payer, "proof", r.ID, "request", c.Request)
	return a, nil
}

// proofAnswer is the answer to a request that was carried out: by the present state, in which
// the member may be another since. The receipt names the challenge.
func (s *Service) proofAnswer(st *core.State, o *proven, r *ledger.Reservation, challenge string) Answer {
	m, err := memberOf(st, o.slug, "")
	if err != nil {
		m = nil
	}
	receipt := mpp.Receipt{Method: s.Prover.Method(), Reference: challenge, Timestamp: r.Created.UTC()}
	return Answer{Status: 200, Body: o.answer(st, m), Header: successHeader(receipt, st, r.Seq+1)}
}

// appendMember appends ,"member": and the member.
func appendMember(body []byte, st *core.State, m *member) []byte {
	if m == nil {
		return body
	}
	return api.AppendMember(append(body, `,"member":`...), st, m.at, true)
}

// sweptAtOnce is how many proofs are looked at in one turn of the writer.
const sweptAtOnce = 256

// sweep deletes proofs that are old, once an hour. It also ends departures.
func (s *Service) sweep() {
	for more := true; more; more = s.sleep(time.Hour) {
		s.endDepartures()
		var last *ledger.Reservation
		for left := true; left; {
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				some, err := tx.View().Proofs("", last, sweptAtOnce)
				left = len(some) == sweptAtOnce
				for _, r := range some {
					if last = r; err == nil && !risk.WithinADay(r, time.UnixMilli(tx.Stamp())) {
						err = tx.Forget(r)
					}
				}
				return err
			})
			if err != nil {
				if s.ctx.Err() == nil {
					s.Log.Warn("old proofs are not cleared up yet", "err", err)
				}
				break
			}
		}
	}
}

// endDepartures frees the URLs of members that can no longer return.
func (s *Service) endDepartures() {
	const atOnce = 1 << 16 // rows that are looked at in one view
	now := s.Now().UnixMilli()
	for from, rows := 0, 1; from < rows; from += atOnce {
		var over []string
		s.Ledger.View(func(v *ledger.View) {
			st := v.State()
			rows = st.Rows()
			for o := core.Ordinal(from); int(o) < min(rows, from+atOnce); o++ {
				if until, departed := st.Departed(o); departed && until <= now {
					over = append(over, string([]byte(st.Slug(o))))
				}
			}
		})
		for _, slug := range over {
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				at, _ := tx.State().BySlug([]byte(slug))
				if until, departed := tx.State().Departed(at); !departed || tx.Stamp() < until {
					return nil // it has returned, or was removed
				}
				_, err := tx.Append(&core.Lapsed{Stamp: tx.Stamp(), Member: slug}, nil)
				return err
			})
			if err != nil {
				if s.ctx.Err() != nil {
					return
				}
				s.Log.Warn("the URL of a member that has left is not free yet", "member", slug, "err", err)
				if errors.Is(err, ledger.ErrNotNow) {
					return
				}
			}
		}
	}
}

func selfLink(base, slug string) map[string]any {
	return map[string]any{"links": map[string]string{"self": base + "/api/ring/" + slug}}
}
