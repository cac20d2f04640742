package paid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// The owner of a member proves itself by a challenge for nothing. A proof holds for one
// request, once. The id of the challenge, which the account signs and a wallet shows, begins
// with words that say what the request does, so that a challenge for one thing cannot pass
// for another. Nothing but the ledger is asked about it, so what it allows is done in one
// turn of the writer, which also stores that the proof is spent.

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
}

// ownerRequest is what the account of a proof wants done to a member.
type ownerRequest interface {
	// owner returns the account that must give the proof, the zero one if no account can.
	owner(m *member) core.Account
	// check says why it cannot be done now, by what the ledger holds. It runs before
	// the challenge, and again in the turn of the writer that does it.
	check(v *ledger.View, m *member) error
	// decide finds everything that the challenge is to pin, such as a site's score.
	// site is the member's URL.
	decide(ctx context.Context, site, client string) error
	// pin gives what the parser needs in addition to the request. The map is the caller's.
	pin() map[string]string
	// words say what the account signs for: the operation, the member, and all that changes.
	// They are what a wallet shows, in the form of [mpp.Plain].
	words(slug string) string
	// waits says whether open payments for the member must be settled first.
	waits() bool
	// events is how many events carryOut appends. Only the first Append may fail.
	events() int
	carryOut(tx *ledger.Tx, m *member) error
	// answer is the body that says what was done. m is nil if the member is in the ring no
	// longer.
	answer(st *core.State, m *member) []byte
}

// member is a member of the ring with its place in the state. Its other words than slug and
// URL lie in the state's memory.
type member struct {
	core.Member
	at core.Ordinal
}

// memberOf finds the member that a request is about: one in the ring, or for a return or a
// claim one that has departed.
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
	case m.Hidden:
		return nil, risk.NotAdmitted("The operator has hidden this member, so nothing about it changes.")
	case operation == OpReturn:
		return nil, form.Invalid(api.InvalidRequest, "", "the member is in the ring, and has not left it")
	}
	return m, nil
}

// askProof answers a request without a usable proof: with a 402 and a challenge, or with the
// reason why a proof would be of no use.
func (s *Service) askProof(ctx context.Context, c *Call, why *Problem) (a Answer, err error) {
	o, site, err := s.asked(c)
	if err == nil {
		err = s.checkMachine()
	}
	if err == nil {
		err = o.decide(ctx, site, c.Client)
	}
	if err != nil {
		return a, err
	}
	pinned := o.pin()
	pinned[pinOperation], pinned[pinMember], pinned[pinNonce] = c.Operation, c.Slug, nonce()
	opaque, err := mpp.EncodeJSON(pinned)
	if err != nil {
		return a, err
	}
	ch := mpp.Challenge{Realm: s.Realm, Method: s.Prover.Method(), Intent: mpp.Charge, Request: s.Prover.Request(),
		Expires: expiry(s.Now(), ChallengeLife), Digest: c.digest, Opaque: opaque}
	words := o.words(c.Slug)
	ch.Description = words + ": nothing is to be paid"
	s.keys.Load().SignWords(&ch, words)
	more := fmt.Appendf(nil, `,"amount_usd":"0.00","expires":"%s","offers":[`, ch.Expires)
	more, err = c.appendOffer(more, s.Prover, &ch, readTerms(ch.Request, nil))
	if err != nil {
		return a, err
	}
	a = s.document(why, append(more, ']'))
	a.Header = append(a.Header, [2]string{"WWW-Authenticate", ch.Header()})
	return a, nil
}

// asked gives the order of a request without a proof, and the member's URL, if the ledger
// holds nothing against it.
func (s *Service) asked(c *Call) (o ownerRequest, site string, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var m *member
		if o, err = c.proven(c, v.State().Rules(), nil); err != nil {
			return
		}
		m, err = memberOf(v.State(), c.Slug, c.Operation)
		if err == nil {
			err = s.unspentKey(v, c)
		}
		if err == nil {
			err, site = o.check(v, m), m.URL
		}
	})
	return o, site, err
}

// take does what a proof allows. Cheap checks come first, as in [Service.pay].
func (s *Service) take(c *Call, cred mpp.Credential) (a Answer, err error) {
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
	w := &proof{id: id, challenge: ch.ID, Proof: risk.Proof{Operation: c.Operation, Account: account, Digest: c.digest, Key: c.idempotency(c.digest)}}
	if earlier, err := s.spentBefore(c.Slug, id); earlier != nil || err != nil {
		return s.repeated(c, pinned, w, earlier, err)
	}
	if ch.Digest != c.digest {
		return a, errOtherRequest
	}
	if w.expires, err = ch.ExpiresAt(); err != nil || !s.Now().Before(w.expires) {
		return a, errProofExpired
	}
	o, err := c.proven(c, nil, pinned)
	if err != nil {
		return a, errUnreadable
	}
	if words != o.words(c.Slug) {
		return a, errOtherRequest
	}
	return s.do(c, o, w)
}

// proof is one that holds for its request.
type proof struct {
	id        string // of its challenge, without the words
	challenge string // the same with the words
	expires   time.Time
	risk.Proof
}

var (
	errOtherRequest = refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send that request, or answer the new challenge. Nothing was done.")
	errProofExpired = &Problem{Code: api.PaymentExpired, Reason: mpp.ReasonExpired, Detail: "The challenge has expired. Answer the new one. Nothing was done."}
	errNotKnown     = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "It is not known whether this was done. Send the same request with the same credential again. Nothing is charged."}
	errSettleFirst = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment for this member is being settled first. Send the request again later. Nothing was done."}
)

// notOwner refuses a proof by another account than the one that may do this.
func notOwner(base, slug string) *Problem {
	return &Problem{Code: api.NotOwner, More: map[string]any{"links": map[string]string{"claim": base + "/api/ring/" + slug + "/claim"}},
		Detail: "This proof is by another account than the owner's. If the site of this member is yours, it can name your account: see links.claim. Nothing was done."}
}

// settleWait is how long a request waits for open payments for its member. Most are settled
// within seconds.
const settleWait = 20 * time.Second

// do carries out a request, for which the proof holds, in one turn of the writer.
func (s *Service) do(c *Call, o ownerRequest, p *proof) (a Answer, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return a, errUnavailable
	}
	s.holding.Add(1)
	s.mu.Unlock()
	defer s.holding.Done()
	waits := true
	turn := func(tx *ledger.Tx) error {
		// The stamp never goes back, as a clock may.
		if !time.UnixMilli(tx.Stamp()).Before(p.expires) {
			return errProofExpired
		}
		m, err := s.doable(tx.View(), c, o, p)
		if err != nil {
			return err
		}
		if count, _ := tx.View().OpenOnMember(c.Slug); o.waits() && count > 0 {
			return ledger.ErrOpenReservation
		}
		if _, departed := tx.State().Departed(m.at); departed && waits && risk.TakesPromised(tx.View(), m.at, m.Total()) {
			return ledger.ErrOpenReservation
		}
		// What may fail comes before the first event.
		p.Seq = tx.State().Seq() + uint64(o.events())
		if ch, changes := o.(*change); changes && ch.Category != nil {
			p.Category = *ch.Category
		}
		if err := s.spend(tx, c.Slug, p); err != nil {
			return err
		}
		if err := o.carryOut(tx, m); err != nil {
			return err
		}
		a = s.ownerAnswer(tx.State(), c, o, p)
		return nil
	}
	s.Failpoint("proved")
	if o.waits() {
		// Strangers must not keep payments for the member from beginning.
		s.Ledger.View(func(v *ledger.View) { _, err = s.doable(v, c, o, p) })
		if err != nil {
			return a, err
		}
		err = WhenSettled(s.ctx, s.Ledger, c.Slug, settleWait, turn)
	} else if err = s.Ledger.Do(s.ctx, turn); errors.Is(err, ledger.ErrOpenReservation) {
		// A return lets a payment settle that was promised a rank. It does not wait longer:
		// strangers must not keep a member out until it can return no more.
		if err = WhenSettled(s.ctx, s.Ledger, c.Slug, settleWait, turn); errors.Is(err, ledger.ErrOpenReservation) {
			waits = false
			err = s.Ledger.Do(s.ctx, turn)
		}
	}
	var known spentError
	switch {
	case err == nil:
		s.Failpoint("applied")
		if _, asks := o.(visit); asks {
			s.Visit(c.Slug)
		}
		s.Log.Info("an owner's request was carried out", Audit, "ownership", "operation", c.Operation, "member", c.Slug, "account", p.Account, "proof", p.id, "request", c.Request)
	case errors.As(err, &known):
		return a, s.proofReused(c.Slug)
	case errors.Is(err, ledger.ErrOpenReservation):
		return a, errSettleFirst
	case errors.Is(err, ledger.ErrBroken):
		return a, errNotKnown // it may be stored all the same
	case errors.Is(err, ledger.ErrNotNow):
		s.Log.Error("proofs refused: this machine is not ready", "err", err)
		return a, errUnavailable
	case errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled):
		return a, errUnavailable
	}
	return a, err
}

// doable gives the current member if the account of the proof may do this.
func (s *Service) doable(v *ledger.View, c *Call, o ownerRequest, p *proof) (*member, error) {
	m, err := memberOf(v.State(), c.Slug, c.Operation)
	switch {
	case err != nil:
		return nil, err
	case !o.owner(m).Is(core.AccountOf(p.Account)):
		return nil, notOwner(v.State().Rules().BaseURL, c.Slug)
	}
	return m, o.check(v, m)
}

// WhenSettled calls do in the writer's turn as soon as no payment for a member is open.
// Meanwhile no new one begins. do fails with [ledger.ErrOpenReservation] while one is open; so
// does WhenSettled after a wait that is too long.
func WhenSettled(ctx context.Context, books *ledger.Ledger, slug string, wait time.Duration, do func(*ledger.Tx) error) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	defer books.AnnounceRemoval(slug)()
	for {
		err := books.Do(ctx, do)
		if !errors.Is(err, ledger.ErrOpenReservation) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-over.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// ownerAnswer is the answer to a request that was carried out: by the present state, in which the
// member may be another since.
func (s *Service) ownerAnswer(st *core.State, c *Call, o ownerRequest, p *proof) Answer {
	m, err := memberOf(st, c.Slug, "")
	if err != nil {
		m = nil
	}
	receipt := mpp.Receipt{Method: s.Prover.Method(), Reference: p.challenge, Timestamp: time.UnixMilli(p.At).UTC()}
	return Answer{Status: 200, Body: o.answer(st, m), Header: [][2]string{
		{"Content-Type", "application/json"},
		{"Cache-Control", "private"},
		{"Payment-Receipt", receipt.Header()},
		{"Webring-Seq", strconv.FormatUint(p.Seq, 10)},
	}}
}

// appendMember appends ,"member": and the member.
func appendMember(body []byte, st *core.State, m *member) []byte {
	if m == nil {
		return body
	}
	return api.AppendMember(append(body, `,"member":`...), st, m.at, true)
}

// spentError says that a proof is spent.
type spentError struct{}

func (spentError) Error() string { return "paid: the proof is spent" }

// spend stores that a proof is spent, and deletes those of the member that are old. It
// fails with a spentError if it is spent already.
func (s *Service) spend(tx *ledger.Tx, slug string, p *proof) error {
	v := tx.View()
	if earlier, err := risk.ProofOf(v, slug, p.id); err != nil {
		return err
	} else if earlier != nil {
		return spentError{}
	}
	p.At = tx.Stamp()
	all, err := risk.Proofs(v, slug)
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

// spentBefore is spentProof by the present state.
func (s *Service) spentBefore(slug, id string) (p *risk.Proof, err error) {
	s.Ledger.View(func(v *ledger.View) { p, err = risk.ProofOf(v, slug, id) })
	return p, err
}

// sweepSpent deletes spent proofs that are old, once an hour: those of members about which no
// request comes any more, too. It also ends departures.
func (s *Service) sweepSpent() {
	defer s.group.Done()
	each := time.NewTicker(time.Hour)
	defer each.Stop()
	for {
		s.endDepartures()
		for from, more := "", true; more; {
			var old []string
			old, from, more = s.oldSpent(from)
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				for _, key := range old {
					if err := tx.Put(ledger.Proofs, key, nil); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				if s.ctx.Err() == nil {
					s.Log.Warn("old proofs are not cleared up yet", "err", err)
				}
				break
			}
		}
		select {
		case <-each.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// sweptAtOnce is how many spent proofs are looked at in one view.
const sweptAtOnce = 256

// oldSpent gives the keys of old proofs among the next ones from a key on, and the key after
// them, if there are more.
func (s *Service) oldSpent(from string) (old []string, next string, more bool) {
	var rows []ledger.TableRow
	var err error
	s.Ledger.View(func(v *ledger.View) { rows, err = v.Scan(ledger.Proofs, "", from, sweptAtOnce) })
	if err != nil {
		s.Log.Error("spent proofs cannot be read", "err", err)
	}
	now := s.Now().UnixMilli()
	for _, row := range rows {
		next = row.Key + "\x00"
		p := &risk.Proof{}
		if err := json.Unmarshal(row.Value, p); err == nil && p.Old(now) {
			old = append(old, row.Key)
		}
	}
	return old, next, len(rows) == sweptAtOnce
}

// unspentKey refuses a challenge for a request that repeats the Idempotency-Key and the body
// of one that was done.
func (s *Service) unspentKey(v *ledger.View, c *Call) error {
	key := c.idempotency(c.digest)
	if key == "" {
		return nil
	}
	all, err := risk.Proofs(v, c.Slug)
	for _, p := range all {
		if p.Key == key && !p.Old(s.Now().UnixMilli()) {
			return &Problem{Code: api.IdempotencyKeyUsed, More: selfLink(v.State().Rules().BaseURL, c.Slug), Detail: "This request was carried out under this Idempotency-Key, so it is not done again. " +
				"Send its credential to get the answer again, or another key to do it once more."}
		}
	}
	return err
}

// repeated is the answer to a proof that is spent: what was answered, if the request comes
// with the Idempotency-Key of the one that spent it.
func (s *Service) repeated(c *Call, pinned map[string]string, p *proof, earlier *risk.Proof, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	key := c.idempotency(earlier.Digest)
	switch {
	case key == "" || key != earlier.Key:
		return Answer{}, s.proofReused(c.Slug)
	case c.digest != earlier.Digest:
		return Answer{}, errOtherBody
	}
	o, err := c.proven(c, nil, pinned)
	if err != nil {
		return Answer{}, s.proofReused(c.Slug)
	}
	p.Proof = *earlier
	var a Answer
	s.Ledger.View(func(v *ledger.View) { a = s.ownerAnswer(v.State(), c, o, p) })
	return s.durable(a, nil)
}

// proofReused is the answer to a proof that is spent.
func (s *Service) proofReused(slug string) *Problem {
	more := selfLink(s.base(), slug)
	more["outcome"] = "applied"
	return &Problem{Code: api.CredentialReused, More: more, Detail: "This credential was used before, and its request was carried out. links.self shows the member."}
}

func selfLink(base, slug string) map[string]any {
	return map[string]any{"links": map[string]string{"self": base + "/api/ring/" + slug}}
}
