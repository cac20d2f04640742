package paid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
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
	// Method is the name of the payment method whose clients give these proofs.
	Method() string
	// Request is the request parameter of every challenge for one.
	Request() string
	// Verify gives the account that a credential proves, whose challenge's id has been
	// verified. It refuses with a *[mpp.Rejection].
	Verify(c mpp.Credential) (account string, err error)
}

// provenOperation is one kind of request that is proved.
type provenOperation interface {
	// read parses a request without a credential, under the rules in force. It refuses
	// with an *[InputError] or a *[Problem].
	read(c *Call, rules *core.Rules) (deed, error)
	// restore rebuilds a deed from its request and from what its challenge pinned.
	restore(c *Call, pinned map[string]string) (deed, error)
}

// deed is one request of a proven operation: what an account wants done to a member.
type deed interface {
	// owner gives the account whose proof the deed takes, the zero one if nobody can prove
	// it.
	owner(m *member) core.Account
	// check says why the deed cannot be done now, by what the ledger holds. It runs before
	// the challenge, and again in the turn of the writer that does it.
	check(v *ledger.View, m *member) error
	// decide finds everything that the challenge is to pin, such as a site's score.
	// site is the member's URL.
	decide(ctx context.Context, site, client string) error
	// pin gives what restore needs besides the request. The map is the caller's.
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
		return nil, &Problem{Code: api.MemberRemoved, Detail: "This member is in the ring no longer."}
	case m.Hidden:
		return nil, notAdmitted("The operator has taken this member out of the ring for now, and it stays as it is.")
	case operation == OpReturn:
		return nil, invalidRequest("the member is in the ring, and has not left it")
	}
	return m, nil
}

// prove answers a request with a proof.
func (s *Service) prove(ctx context.Context, op provenOperation, c *Call, cred mpp.Credential) Answer {
	a, err := s.take(c, op, cred)
	var p *Problem
	switch {
	case err == nil:
		return a
	case errors.As(err, &p) && p.Code.Status() == 402:
		return s.askProof(ctx, op, c, p)
	}
	return s.problem(err)
}

// askProof answers a request without a usable proof: with a 402 and a challenge, or with the
// reason why a proof would be of no use.
func (s *Service) askProof(ctx context.Context, op provenOperation, c *Call, why *Problem) Answer {
	d, site, err := s.asked(op, c)
	if err == nil {
		err = s.checkMachine()
	}
	if err == nil {
		err = d.decide(ctx, site, c.Client)
	}
	if err != nil {
		return s.problem(err)
	}
	pinned := d.pin()
	pinned[pinOperation], pinned[pinMember], pinned[pinNonce] = c.Operation, c.Slug, nonce()
	opaque, err := mpp.EncodeJSON(pinned)
	if err != nil {
		return s.problem(err)
	}
	ch := mpp.Challenge{Realm: s.Realm, Method: s.Prover.Method(), Intent: mpp.Charge, Request: s.Prover.Request(),
		Expires: expiry(s.Now(), ChallengeLife), Digest: c.digest, Opaque: opaque}
	words := d.words(c.Slug)
	ch.Description = words + ": nothing is to be paid"
	s.keys.Load().SignWords(&ch, words)
	more := fmt.Appendf(nil, `,"amount_usd":"0.00","expires":"%s","offers":[`, ch.Expires)
	more, err = c.appendOffer(more, s.Prover, &ch, readTerms(ch.Request, nil))
	if err != nil {
		return s.problem(err)
	}
	a := why.document(s.base(), append(more, ']'))
	a.Header = append(a.Header, [2]string{"WWW-Authenticate", ch.Header()})
	return a
}

// asked gives the deed of a request without a proof, and the member's URL, if the ledger
// holds nothing against it.
func (s *Service) asked(op provenOperation, c *Call) (d deed, site string, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var m *member
		if d, err = op.read(c, v.State().Rules()); err != nil {
			return
		}
		m, err = memberOf(v.State(), c.Slug, c.Operation)
		if err == nil {
			err = s.unspentKey(v, c)
		}
		if err == nil {
			err, site = d.check(v, m), m.URL
		}
	})
	return d, site, err
}

// take does what a proof allows. Cheap checks come first, as in [Service.pay]. Errors with
// the status 402 are to be answered with another challenge.
func (s *Service) take(c *Call, op provenOperation, cred mpp.Credential) (a Answer, err error) {
	ch := cred.Challenge
	if ch.Intent != mpp.Charge || !s.keys.Load().Verify(ch) {
		return a, refusal(api.InvalidChallenge, "The challenge in the credential was not issued here. Answer the new one.")
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
	w := &proof{id: id, challenge: ch.ID, spent: spent{Operation: c.Operation, Account: account, Digest: c.digest, Key: idempotency(*c, c.digest)}}
	if earlier, err := s.spentBefore(c.Slug, id); earlier != nil || err != nil {
		return s.repeated(c, op, pinned, w, earlier, err)
	}
	if ch.Digest != c.digest {
		return a, errOtherRequest
	}
	if w.expires, err = ch.ExpiresAt(); err != nil || !s.Now().Before(w.expires) {
		return a, errProofExpired
	}
	d, err := op.restore(c, pinned)
	if err != nil {
		return a, errUnreadable
	}
	if words != d.words(c.Slug) {
		return a, errOtherRequest
	}
	return s.do(c, d, w)
}

// proof is one that holds for its request.
type proof struct {
	id        string // of its challenge, without the words
	challenge string // the same with the words
	expires   time.Time
	spent
}

var (
	errOtherRequest = refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send the request that it was issued for, or answer the new one.")
	errProofExpired = &Problem{Code: api.PaymentExpired, Reason: mpp.ReasonExpired, Detail: "The challenge has expired. Answer the new one."}
	errNotKnown     = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "It is not known whether this was done. Nothing is charged: send the same request with the same credential again."}
	errSettleFirst = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment for this member is being settled, and that comes first. Nothing was done; send the request again later."}
)

// notOwner refuses a proof by another account than the one that the deed takes.
func notOwner(base, slug string) *Problem {
	return &Problem{Code: api.NotOwner, More: map[string]any{"links": map[string]string{"claim": base + "/api/ring/" + slug + "/claim"}},
		Detail: "The proof is by another account than the one that may do this. Nothing was done. If the site of this member is yours, it can name your account: see links.claim."}
}
