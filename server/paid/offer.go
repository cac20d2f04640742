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
	networks, err := s.ready()
	if err == nil {
		networks, err = s.open(networks, c)
	}
	if err != nil {
		return s.problem(err)
	}
	if err := o.decide(ctx, c.Client); err != nil {
		return s.problem(err)
	}
	return s.challenge(c, o, networks, why)
}

func (s *Service) check(o order) (err error) {
	s.Ledger.View(func(v *ledger.View) { err = possible(o, v) })
	return err
}

// possible says why a payment for an order may not be made.
func possible(o order, v *ledger.View) error {
	if err := o.check(v); err != nil {
		return err
	}
	return o.ranks(v.State())
}

// alreadyPaid keeps a client that lost its credential from paying twice: a
// request that repeats the key and the body of one that a payment was claimed
// or reserved for gets no other challenge while its key is kept.
func (s *Service) alreadyPaid(c Call) error {
	key := idempotency(c, c.digest())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.work {
		if w.reservation.Idempotency == key {
			return errPending
		}
	}
	var some []*ledger.Reservation
	var err error
	s.Ledger.View(func(v *ledger.View) { some, err = v.ByIdempotency(key) })
	for _, r := range some {
		switch {
		case !s.keepsKey(r):
		case r.State == ledger.Reserved:
			return errPending
		default:
			return s.keyUsed(r)
		}
	}
	return err
}

// keyUsed is the answer to a request under an Idempotency-Key that has brought a
// payment already, unless the credential of that payment comes with it.
func (s *Service) keyUsed(r *ledger.Reservation) *Problem {
	p := s.reused(r)
	return &Problem{Code: api.IdempotencyKeyUsed, More: p.More, Detail: "A payment was made under this Idempotency-Key for the same request, so this one was not carried out. " +
		"Send the credential of that payment to get its answer again, or another key to pay once more."}
}

// keyLife is how long a payment stands for the Idempotency-Key it came with,
// from its reservation.
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

// challenge writes the 402. Its document shows when the first of its offers expires.
func (s *Service) challenge(c Call, o order, networks []*network, why *Problem) Answer {
	var life time.Duration
	var note string
	s.Ledger.View(func(v *ledger.View) { life, note = s.challengeLife(v, o) })
	now, shortest := s.Now(), life
	pinned := o.pin()
	pinned[pinOperation] = c.Operation
	digest, description := c.digest(), o.describe()
	offers := make([]mpp.Offer, 0, len(networks))
	for _, n := range networks {
		offers = append(offers, mpp.Offer{Method: n.Name(), Intent: mpp.Charge})
	}
	offers = mpp.Accept(c.AcceptPayment, offers)
	for _, offer := range offers {
		shortest = min(shortest, s.network(offer.Method).Life())
	}
	more := append(make([]byte, 0, 160), `,"amount_usd":"`...)
	more = append(api.AppendUSD(more, o.cents()), `","expires":"`...)
	more = append(append(more, expiry(now, shortest)...), '"')
	told := *why
	told.Detail += note
	a := told.document(s.base(), more)
	for _, offer := range offers {
		pinned[pinNonce] = nonce()
		opaque, err := mpp.EncodeJSON(pinned)
		if err != nil {
			return s.problem(err)
		}
		n := s.network(offer.Method)
		request, err := n.Request(o.cents())
		if err != nil {
			return s.problem(err)
		}
		ch := mpp.Challenge{Realm: s.Realm, Method: offer.Method, Intent: offer.Intent, Request: request,
			Expires: expiry(now, min(life, n.Life())), Digest: digest, Opaque: opaque, Description: description}
		s.Keys.Sign(&ch)
		a.Header = append(a.Header, [2]string{"WWW-Authenticate", ch.Header()})
	}
	return a
}

// expiry is the last instant of a life that begins now, as challenges have it.
func expiry(now time.Time, life time.Duration) string {
	return now.Add(life).UTC().Truncate(time.Second).Format(time.RFC3339)
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
			return unapplied(r)
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
