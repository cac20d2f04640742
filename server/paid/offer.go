package paid

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// The names in a challenge's opaque parameter that belong to every operation.
const (
	pinNonce     = "nonce"
	pinOperation = "op"
)

// offer answers a request that carries no usable credential. When everything
// that can be known before a payment allows the order, that is a 402 with the
// given problem and a challenge for every payment method that is up; otherwise
// it is the reason why paying would be of no use.
func (s *Service) offer(ctx context.Context, op operation, c Call, why *Problem) Answer {
	var rules *core.Rules
	s.Ledger.View(func(v *ledger.View) { rules = v.State().Rules() })
	o, err := op.read(c.Body, rules)
	if err != nil {
		return s.problem(err)
	}
	if c.IdempotencyKey != "" {
		if err := s.alreadyPaid(c); err != nil {
			return s.problem(err)
		}
	}
	if err := s.check(o); err != nil {
		return s.problem(err)
	}
	networks, err := s.ready(ctx)
	if err != nil {
		return s.problem(err)
	}
	if err := o.decide(ctx, c.Client); err != nil {
		return s.problem(err)
	}
	return s.challenge(c, o, networks, why)
}

func (s *Service) check(o order) (err error) {
	s.Ledger.View(func(v *ledger.View) { err = o.check(v) })
	return err
}

// alreadyPaid keeps a client that lost its credential from paying twice: a
// request that repeats the key and the body of one that a payment was claimed
// or reserved for gets no other challenge while its key is kept.
func (s *Service) alreadyPaid(c Call) error {
	key := idempotency(c, mpp.Digest(c.Body))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.work {
		if w.reservation.Idempotency == key {
			return errPending
		}
	}
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.ByIdempotency(key) })
	if err != nil {
		return err
	}
	switch {
	case r == nil || !s.keepsKey(r):
		return nil
	case r.State == ledger.Reserved:
		return errPending
	}
	return s.reused(r)
}

// keyLife is how long a payment stands for the Idempotency-Key it came with,
// from its reservation. Keys are not bound to a client, which has no name here:
// were they kept for ever, whoever comes later with a common key and an equal
// body, as two bids on one member are, could never pay.
const keyLife = 24 * time.Hour

// keepsKey says whether a second payment under the Idempotency-Key of r is one
// too many. A payment whose outcome is not known keeps its key however long it
// takes; one that failed gives it up, unless its money came.
func (s *Service) keepsKey(r *ledger.Reservation) bool {
	came := r.State == ledger.Applied || r.Outcome == mpp.Settled.String()
	return r.State == ledger.Reserved || came && s.Now().Before(r.Created.Add(keyLife))
}

// reservation looks a reservation up; nil stands for none.
func (s *Service) reservation(find func(*ledger.View) (*ledger.Reservation, error)) (r *ledger.Reservation, err error) {
	s.Ledger.View(func(v *ledger.View) { r, err = find(v) })
	if errors.Is(err, ledger.ErrNoReservation) {
		return nil, nil
	}
	return r, err
}

// idempotency binds an Idempotency-Key to the operation and the body it came
// with, so that the key itself is never stored.
func idempotency(c Call, digest string) string {
	if c.IdempotencyKey == "" {
		return ""
	}
	h := sha256.Sum256([]byte(c.Operation + "\x00" + digest + "\x00" + c.IdempotencyKey))
	return hex.EncodeToString(h[:])
}

// challenge writes the 402.
func (s *Service) challenge(c Call, o order, networks []*network, why *Problem) Answer {
	expires := s.Now().Add(ChallengeLife).UTC().Truncate(time.Second).Format(time.RFC3339)
	pinned := o.pin()
	pinned[pinOperation] = c.Operation
	digest, description := mpp.Digest(c.Body), o.describe()
	offers := make([]mpp.Offer, 0, len(networks))
	for _, n := range networks {
		offers = append(offers, mpp.Offer{Method: n.Name(), Intent: mpp.Charge})
	}
	more := append(make([]byte, 0, 160), `,"amount_usd":"`...)
	more = append(api.AppendUSD(more, o.cents()), `","expires":"`...)
	more = append(append(more, expires...), '"')
	a := why.document(s.base(), more)
	for _, offer := range mpp.Accept(c.AcceptPayment, offers) {
		pinned[pinNonce] = nonce()
		opaque, err := mpp.EncodeJSON(pinned)
		if err != nil {
			return s.problem(err)
		}
		request, err := s.network(offer.Method).Request(o.cents())
		if err != nil {
			return s.problem(err)
		}
		ch := mpp.Challenge{Realm: s.Realm, Method: offer.Method, Intent: offer.Intent, Request: request,
			Expires: expires, Digest: digest, Opaque: opaque, Description: description}
		s.Keys.Sign(&ch)
		a.Header = append(a.Header, [2]string{"WWW-Authenticate", ch.Header()})
	}
	return a
}

// nonce keeps two payers in one instant from sharing a challenge.
func nonce() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 22), b))
}

// reused is the answer to a credential that was consumed before. It says what
// became of the payment, so that nobody pays again to find out.
func (s *Service) reused(r *ledger.Reservation) *Problem {
	outcome, detail := "pending", "Its payment is being settled. Do not pay again."
	switch r.State {
	case ledger.Applied:
		outcome, detail = "applied", "Its payment was applied; links.self shows the member. Do not pay again."
	case ledger.Failed:
		if r.Outcome == mpp.Settled.String() {
			return &Problem{Code: api.CredentialReused, More: map[string]any{"outcome": "applied"},
				Detail: "What its transaction brought this ring was accounted for before; its operator can clear that up. Do not pay again."}
		}
		outcome, detail = "failed", "Its payment did not go through and will not. Send the request without a credential to get a new challenge."
		if r.Outcome == mpp.Mismatched.String() {
			detail = "Its transaction went through but did not pay this ring, so nothing was granted. Do not pay again before you know why."
		}
	}
	more := map[string]any{"outcome": outcome}
	if r.Member != "" {
		more["links"] = map[string]string{"self": s.base() + "/api/ring/" + r.Member}
	}
	return &Problem{Code: api.CredentialReused, Detail: "This credential was used before. " + detail, More: more}
}
