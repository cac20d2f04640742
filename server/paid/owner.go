package paid

import (
	"context"
	"encoding/json"
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
// No network settles a proof, so nothing is reserved: one turn of the writer stores that the
// proof is spent and carries out the request. Spent proofs are not reservations. Proofs cost
// nothing, so they must not fill the disk: they are deleted after a day, and reservations
// never are. A spent proof holds no answer, because answers hold words that the operator can
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
	// events is how many events carryOut appends. Only the first Append may fail.
	events() int
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

// proof is one that holds for its request.
type proof struct {
	id        string // of its challenge, without the words
	challenge string // the same with the words
	expires   time.Time
	risk.Proof
}

// spent gives a spent proof of a member as the reservation that a payment of 0 would have: its
// answer was given out.
func spent(slug string, p *risk.Proof) *ledger.Reservation {
	return &ledger.Reservation{State: ledger.Applied, Delivered: true, Operation: p.Operation, Member: slug, Payer: p.Account,
		BodyDigest: p.Digest, Idempotency: p.Key, Created: time.UnixMilli(p.At)}
}

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
	p := &proof{id: id, challenge: ch.ID, Proof: risk.Proof{Operation: c.Operation, Account: account, Digest: c.digest, Key: c.idempotency(c.digest)}}
	var earlier *risk.Proof
	s.Ledger.View(func(v *ledger.View) { earlier, err = risk.ProofOf(v, c.Slug, id) })
	if err != nil {
		return a, err
	}
	if earlier != nil {
		s.mu.Lock()
		err := s.mayRepeat(c, spent(c.Slug, earlier), false, true)
		s.mu.Unlock()
		if err != nil {
			return a, err
		}
		o, err := c.op.parse(c, nil, pinned)
		if err != nil {
			return a, s.reused(spent(c.Slug, earlier))
		}
		p.Proof = *earlier
		s.Ledger.View(func(v *ledger.View) { a = s.proofAnswer(v.State(), o.(*proven), p) })
		return s.durable(a, nil)
	}
	if ch.Digest != c.digest {
		return a, errOtherRequest
	}
	if p.expires, err = ch.ExpiresAt(); err != nil || !s.Now().Before(p.expires) {
		return a, errProofExpired
	}
	o, err := c.op.parse(c, nil, pinned)
	if err != nil {
		return a, errUnreadable
	}
	if words != o.describe() {
		return a, errOtherRequest
	}
	return s.carryOutProven(c, o.(*proven), p)
}

// carryOutProven carries out a request, for which the proof holds, in one turn of the writer.
func (s *Service) carryOutProven(c *Call, o *proven, p *proof) (a Answer, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return a, errUnavailable
	}
	s.holding.Add(1)
	s.mu.Unlock()
	defer s.holding.Done()
	var earlier *risk.Proof
	s.Failpoint("proved")
	err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		v, st := tx.View(), tx.State()
		// The stamp never goes back, as a clock may.
		if !time.UnixMilli(tx.Stamp()).Before(p.expires) {
			return errProofExpired
		}
		known, err := risk.ProofOf(v, o.slug, p.id)
		if earlier = known; err != nil || known != nil {
			return err
		}
		if err := o.mayBegin(v, p.Account); err != nil {
			return err
		}
		m, err := memberOf(st, o.slug, o.operation)
		if err != nil {
			return err
		}
		// What may fail comes before the first event.
		p.Seq = st.Seq() + uint64(o.events())
		if ch, changes := o.ownerRequest.(*change); changes && ch.Category != nil {
			p.Category = *ch.Category
		}
		if err := spend(tx, o.slug, p); err != nil {
			return err
		}
		if err := o.carryOut(tx, m); err != nil {
			return err
		}
		a = s.proofAnswer(st, o, p)
		return nil
	})
	switch {
	case err != nil:
		return a, s.notWritten(err, errNotKnown)
	case earlier != nil:
		return a, s.reused(spent(o.slug, earlier))
	}
	s.Failpoint("applied")
	if c.Operation == OpVisit {
		s.Visit(o.slug)
	}
	s.Log.Info("an owner's request was carried out", Audit, "ownership", "operation", c.Operation, "member", o.slug, "account", p.Account, "proof", p.id, "request", c.Request)
	return a, nil
}

// proofAnswer is the answer to a request that was carried out: by the present state, in which
// the member may be another since.
func (s *Service) proofAnswer(st *core.State, o *proven, p *proof) Answer {
	m, err := memberOf(st, o.slug, "")
	if err != nil {
		m = nil
	}
	receipt := mpp.Receipt{Method: s.Prover.Method(), Reference: p.challenge, Timestamp: time.UnixMilli(p.At).UTC()}
	return Answer{Status: 200, Body: o.answer(st, m), Header: successHeader(receipt, st, p.Seq)}
}

// appendMember appends ,"member": and the member.
func appendMember(body []byte, st *core.State, m *member) []byte {
	if m == nil {
		return body
	}
	return api.AppendMember(append(body, `,"member":`...), st, m.at, true)
}

// spend stores that a proof is spent, and deletes those of the member that are old.
func spend(tx *ledger.Tx, slug string, p *proof) error {
	p.At = tx.Stamp()
	all, err := risk.Proofs(tx.View(), slug)
	if err != nil {
		return err
	}
	for id, old := range all {
		if old.Old(p.At) {
			if err := tx.Put(ledger.Proofs, risk.ProofKey(slug, id), nil); err != nil {
				return err
			}
		}
	}
	row, err := json.Marshal(p.Proof)
	if err != nil {
		return err
	}
	return tx.Put(ledger.Proofs, risk.ProofKey(slug, p.id), row)
}

// sweptAtOnce is how many spent proofs are looked at in one turn of the writer.
const sweptAtOnce = 256

// sweepSpent deletes spent proofs that are old, once an hour: those of members about which no
// request comes any more, too. It also ends departures.
func (s *Service) sweepSpent() {
	for more := true; more; more = s.sleep(time.Hour) {
		s.endDepartures()
		for from, left := "", true; left; {
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				rows, err := tx.View().Scan(ledger.Proofs, "", from, sweptAtOnce)
				left = len(rows) == sweptAtOnce
				for _, row := range rows {
					from = row.Key + "\x00"
					var p risk.Proof
					if err == nil && json.Unmarshal(row.Value, &p) == nil && p.Old(s.Now().UnixMilli()) {
						err = tx.Put(ledger.Proofs, row.Key, nil)
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
