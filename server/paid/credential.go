package paid

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// pay answers a request that carries a credential. Cheap checks come first, and nothing
// that costs more than a hash happens before the challenge has proved to be our own:
//
//  1. the credential can be read (done by Handle)
//  2. its challenge was not consumed before; this comes before everything that may
//     have changed since, because a client that is told "expired" or "not issued
//     here" pays again
//  3. its challenge is one of ours, signed by any key that was ever in use
//  4. the transaction in it pays exactly what the challenge asks for
//  5. the challenge asks what this route would ask for this body, in time
//
// A credential that fails one of the first four is no payment to this ring. The payment of
// one that fails the fifth may have been made already, so its network is asked before the
// refusal. The rest, from the claim to the stored answer, is [work].
func (s *Service) pay(ctx context.Context, op operation, c Call, cred mpp.Credential) Answer {
	ch, n := cred.Challenge, s.network(cred.Challenge.Method)
	ours := ch.Intent == c.intent() && s.keys.Load().Signed(ch)
	if ours {
		c.about.id = ch.ID
	}
	if ours && s.Prover != nil && ch.Request == s.Prover.Request() { // it asks for no payment
		s.tellRefused(c, n)
		return s.offer(ctx, op, c, errOtherRequest)
	}
	answer, err := s.consumed(c, ch.ID, ours)
	switch {
	case err != nil:
		return s.problem(err)
	case answer != nil:
		return s.durable(*answer)
	case n == nil && ours:
		s.tellRefused(c, nil)
		return s.problem(foreign(ch))
	case n == nil:
		s.tellRefused(c, nil)
		return s.problem(&Problem{Code: api.UnsupportedMethod, Detail: "No offer of this ring uses this payment method."})
	case !ours:
		s.tellRefused(c, n)
		return s.offer(ctx, op, c, refusal(api.InvalidChallenge, "The challenge in the credential was not issued here. Pay the new one."))
	}
	if !c.asOffered(n) {
		s.tellRefused(c, n)
		return s.offer(ctx, op, c, refusal(api.InvalidChallenge, "The member accepted of the payment is not an offer of this ring. Pay one of the new offers."))
	}
	payment, err := n.Decode(cred)
	if err != nil {
		s.tellRefused(c, n)
		return s.rejected(ctx, op, c, ch, err)
	}
	c.payer = payment.Payer
	c.about.network, c.about.payment, c.about.cents = n.Network(), &payment, payment.Cents
	record, err := json.Marshal(payment)
	if err != nil {
		return s.problem(err)
	}
	w := &work{network: n, payment: payment, client: c.Client, began: c.about.began, held: true, letGo: make(chan struct{}), done: make(chan struct{}), reservation: &ledger.Reservation{
		ID: ch.ID, State: ledger.Reserved, Operation: c.Operation,
		Cents: payment.Cents, Payer: payment.Payer, ReplayKeys: []string{challengeKey(ch.ID), payment.ReplayKey},
		Payment: record, Body: c.Body, BodyDigest: c.digest,
		Idempotency: idempotency(c, c.digest), Created: s.Now(), ValidBefore: payment.ValidBefore, Request: c.Request,
	}}
	if n.PaysGas() {
		w.reservation.Client = c.Client
	}
	w.expires, err = ch.ExpiresAt()
	if err != nil { // no challenge of ours is without
		return s.offer(ctx, op, c, refusal(api.InvalidChallenge, "The challenge in the credential has no valid expiry. Pay the new one."))
	}
	w.realm = ch.Realm
	w.order, w.refused = s.answered(op, c, ch, w)
	if w.order != nil {
		if w.reservation.Pinned, err = json.Marshal(w.order); err != nil {
			return s.problem(err)
		}
		w.order.subject(w.reservation)
	}
	return s.begin(ctx, op, c, w)
}

func refusal(code api.Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

func rejection(r *mpp.Rejection) *Problem {
	return &Problem{Code: api.Code(r.Code), Reason: r.Reason, Detail: sentence(r.Detail)}
}

// sentence makes one of the detail of a rejection.
func sentence(detail string) string {
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

// rejected answers a refusal by a payment method: a fresh challenge where the
// protocol has one, otherwise the bare problem.
func (s *Service) rejected(ctx context.Context, op operation, c Call, ch mpp.Challenge, err error) Answer {
	var r *mpp.Rejection
	if !errors.As(err, &r) {
		return s.problem(err)
	}
	if r.Code == mpp.CodeUnapplied {
		return s.problem(foreign(ch))
	}
	return s.offer(ctx, op, c, rejection(r))
}

// foreign is the answer to a credential for a challenge of ours on a network, or in a
// token, that is not configured any more. Nothing can be asked about its payment.
func foreign(ch mpp.Challenge) *Problem {
	return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": ch.ID},
		Detail: "The challenge of this credential was issued for a network or token that this ring takes no longer. If its payment was made, do not pay again: give the operator its transaction and the reference. If it was not, send the request without a credential."}
}

// answered gives the order that ch, a challenge of ours, was issued for, and the reason why
// its payment may not be sent any more. The order is nil if ch was issued for another
// request, or if its body is not accepted any more.
func (s *Service) answered(op operation, c Call, ch mpp.Challenge, w *work) (order, *Problem) {
	mismatch := refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send the request that it was issued for, or pay the new one.")
	pinned := map[string]string{}
	if err := mpp.DecodeJSON(ch.Opaque, &pinned); err != nil || pinned[pinOperation] != c.Operation || ch.Digest != w.reservation.BodyDigest {
		return nil, mismatch
	}
	w.reservation.Member = pinned[pinMember]
	o, err := op.restore(c.Body, pinned)
	if err != nil || o.cents() != w.payment.Cents {
		// The rules for bodies have changed since.
		return nil, errUnreadable
	}
	switch {
	case ch.Realm != s.Realm:
		return o, refusal(api.InvalidChallenge, errConfiguration.Detail)
	case !s.keys.Load().Verify(ch), w.payment.Payee != w.network.Payee():
		return o, errConfiguration
	}
	switch no := w.network.InTime(w.payment, s.Now(), w.expires); {
	case no == nil:
		return o, nil
	case no.Code == mpp.CodeExpired:
		return o, &Problem{Code: api.PaymentExpired, Reason: no.Reason,
			Detail: sentence(no.Detail+"; the challenge was good until "+w.expires.UTC().Format(time.RFC3339)) + " Nothing was charged; pay the new one."}
	default:
		return o, rejection(no)
	}
}

// consumed answers a credential whose challenge was claimed or reserved before. It gives
// nil for any other credential.
//
// The answer is 409 while the first request is held, and once a 2xx was given out. In
// between, after a 503 or the end of the process, the credential gets the answer of its
// payment. With an Idempotency-Key it gets that any number of times.
//
// If the challenge is not ours, or its key is not known any more, the answer only says
// what became of the payment: a client that merely knows the id does not get the stored
// answer, and does not take it away from the client that paid.
func (s *Service) consumed(c Call, id string, ours bool) (*Answer, error) {
	// Under one lock: work could end between a look at s.work and one at the ledger.
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work[challengeKey(id)]
	held := w != nil && w.held
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.ByReplayKey(challengeKey(id)) })
	switch {
	case err != nil:
		return nil, err
	case r == nil && w == nil:
		return nil, nil
	case r == nil && held:
		return nil, s.reused(w.reservation)
	case r == nil: // not reserved yet, and its request was let go
		return nil, errPending
	}
	if key := idempotency(c, r.BodyDigest); ours && key != "" && key == r.Idempotency {
		switch {
		case c.digest != r.BodyDigest:
			return nil, invalidRequest("this Idempotency-Key was used with another body; send the body it was used with, or another key")
		case r.State == ledger.Applied:
			return s.stored(r), nil
		}
	}
	switch {
	case held || r.Operation != c.Operation || c.digest != r.BodyDigest || r.State == ledger.Failed:
		return nil, s.reused(r)
	case r.State == ledger.Reserved:
		return nil, errPending
	case !ours || !s.give(r):
		return nil, s.reused(r)
	}
	return s.stored(r), nil
}

// durable returns an answer that was read from the ledger once it is on disk: a view sees
// the writer's work before that, and an empty turn ends after it.
func (s *Service) durable(a Answer) Answer {
	if err := s.Ledger.Do(context.Background(), func(*ledger.Tx) error { return nil }); err != nil {
		return s.problem(errPending)
	}
	return a
}

func challengeKey(id string) string { return "challenge:" + id }

// stored is the answer in an applied reservation.
func (s *Service) stored(r *ledger.Reservation) *Answer {
	if r.Redacted || r.Response == nil { // the answer held the member's words, or was lost
		a := s.problem(s.reused(r))
		return &a
	}
	return &Answer{Status: r.Response.Status, Header: r.Response.Header, Body: r.Response.Body}
}

// give notes that the 2xx of r goes to a client, and returns whether this is the first
// time. The credential then counts as consumed. The ledger stores that a moment later: if
// the process ends in between, the answer is given again, which is harmless. The caller
// holds mu.
func (s *Service) give(r *ledger.Reservation) bool {
	if r.Delivered || s.given[r.ID] {
		return false
	}
	s.given[r.ID] = true
	if s.ctx.Err() != nil {
		return true
	}
	s.group.Add(1)
	go func() {
		defer s.group.Done()
		err := s.update(context.Background(), r.ID, func(_ *ledger.Tx, r *ledger.Reservation) error {
			r.Delivered = true
			return nil
		})
		if err != nil {
			s.Log.Error("an answer that was delivered is not noted as such", "payment", r.ID, "err", err)
			return
		}
		s.mu.Lock()
		delete(s.given, r.ID)
		s.mu.Unlock()
	}()
	return true
}
