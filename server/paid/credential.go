package paid

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// pay answers a request that carries a credential. The checks go from cheap to
// dear, and nothing that costs more than a hash happens before the challenge
// has proved to be our own:
//
//  1. the credential can be read (done by Handle)
//  2. its challenge was not consumed before; that comes ahead of everything
//     that may have changed since, our realm and key included, because a client
//     that is told "expired" or "not issued here" pays again
//  3. its challenge is one of ours
//  4. it asks what this route would ask for this body, in time
//  5. the transaction in it pays exactly that
//
// What then follows, from the claim to the stored answer, is [work].
func (s *Service) pay(ctx context.Context, op operation, c Call, cred mpp.Credential) Answer {
	ch, n := cred.Challenge, s.network(cred.Challenge.Method)
	ours := ch.Realm == s.Realm && ch.Intent == mpp.Charge && s.Keys.Verify(ch)
	answer, err := s.consumed(c, ch.ID, ours)
	switch {
	case err != nil:
		return s.problem(err)
	case answer != nil:
		return s.durable(*answer)
	case n == nil:
		return s.problem(&Problem{Code: api.UnsupportedMethod, Detail: "No offer of this ring uses this payment method."})
	case !ours:
		return s.offer(ctx, op, c, refusal(api.InvalidChallenge, "The challenge in the credential was not issued here. Pay the new one."))
	}
	o, problem := s.answered(op, c, n, ch)
	if problem != nil {
		return s.offer(ctx, op, c, problem)
	}
	payment, err := n.Decode(cred, o.cents(), s.Now())
	if err != nil {
		return s.rejected(ctx, op, c, err)
	}
	stored, err := json.Marshal(o)
	if err != nil {
		return s.problem(err)
	}
	record, err := json.Marshal(payment)
	if err != nil {
		return s.problem(err)
	}
	digest := mpp.Digest(c.Body)
	r := &ledger.Reservation{
		ID: ch.ID, State: ledger.Reserved, Operation: c.Operation,
		Cents: o.cents(), Payer: payment.Payer, ReplayKeys: []string{challengeKey(ch.ID), payment.ReplayKey},
		Payment: record, Body: c.Body, BodyDigest: digest, Pinned: stored,
		Idempotency: idempotency(c, digest), Created: s.Now(), ValidBefore: payment.ValidBefore,
	}
	o.subject(r)
	return s.begin(ctx, op, c, &work{
		network: n, order: o, payment: payment, reservation: r, held: true, done: make(chan struct{}),
	})
}

func refusal(code api.Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

// rejected answers a refusal by a payment method: a fresh challenge where the
// protocol has one, otherwise the bare problem.
func (s *Service) rejected(ctx context.Context, op operation, c Call, err error) Answer {
	var r *mpp.Rejection
	if !errors.As(err, &r) {
		return s.problem(err)
	}
	p := refusal(api.Code(r.Code), r.Detail)
	if p.Code.Status() != 402 {
		return s.problem(p)
	}
	return s.offer(ctx, op, c, p)
}

// answered checks that ch, which is our own, was issued for this request and
// can still be answered, and restores the order it was issued for.
func (s *Service) answered(op operation, c Call, n *network, ch mpp.Challenge) (order, *Problem) {
	mismatch := refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send the request that it was issued for, or pay the new one.")
	pinned := map[string]string{}
	if err := mpp.DecodeJSON(ch.Opaque, &pinned); err != nil || pinned[pinOperation] != c.Operation {
		return nil, mismatch
	}
	o, err := op.restore(c.Body, pinned)
	if err != nil {
		return nil, mismatch
	}
	if request, err := n.Request(o.cents()); err != nil || request != ch.Request {
		return nil, mismatch
	}
	expires, err := ch.ExpiresAt()
	if err != nil {
		return nil, mismatch
	}
	if now := s.Now(); !now.Before(expires) {
		return nil, refusal(api.PaymentExpired, "The challenge expired at "+expires.UTC().Format(time.RFC3339)+". Nothing was charged; pay the new one.")
	}
	if ch.Digest != mpp.Digest(c.Body) {
		return nil, mismatch
	}
	return o, nil
}

// consumed answers a credential whose challenge was claimed or reserved before,
// or gives nil for one that was not.
//
// While the first request is held, and once a 2xx was given out, that is 409.
// In between, after an answer of 503 or the end of the process, the credential
// still has its answer to come. An Idempotency-Key gives it out any number of
// times.
//
// A challenge that is not ours, or is no longer since realm or key were changed,
// tells what became of the payment and nothing else: whoever merely knows the
// id is not given the answer, and does not take it from whom it belongs to.
func (s *Service) consumed(c Call, id string, ours bool) (*Answer, error) {
	// Work, what was given out, and the ledger are looked at as one: between
	// two looks the first copy could come to its end.
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
	digest := mpp.Digest(c.Body)
	if key := idempotency(c, r.BodyDigest); ours && key != "" && key == r.Idempotency {
		switch {
		case digest != r.BodyDigest:
			return nil, invalidRequest("this Idempotency-Key was used with another body; send the body it was used with, or another key")
		case r.State == ledger.Applied:
			return s.stored(r), nil
		}
	}
	switch {
	case held || r.Operation != c.Operation || digest != r.BodyDigest || r.State == ledger.Failed:
		return nil, s.reused(r)
	case r.State == ledger.Reserved:
		return nil, errPending
	case !ours || !s.give(r):
		return nil, s.reused(r)
	}
	return s.stored(r), nil
}

// durable lets an answer out that was read from the ledger, once it cannot be
// lost any more: a look at the ledger sees the writer's work before it is on
// the disk, and an empty turn ends after it is.
func (s *Service) durable(a Answer) Answer {
	if err := s.Ledger.Do(context.Background(), func(*ledger.Tx) error { return nil }); err != nil {
		return s.problem(errPending)
	}
	return a
}

func challengeKey(id string) string { return "challenge:" + id }

// stored is the answer kept with an applied reservation.
func (s *Service) stored(r *ledger.Reservation) *Answer {
	if r.Redacted || r.Response == nil { // it held the member's words, or was lost
		a := s.problem(s.reused(r))
		return &a
	}
	return &Answer{Status: r.Response.Status, Header: r.Response.Header, Body: r.Response.Body}
}

// give notes that the 2xx of r is handed out, and says whether this is the
// first time. From here on the credential counts as consumed. The ledger hears
// of it a moment later: should the process end in between, the answer is given
// once more, which costs nobody anything. The caller holds mu.
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
		err := s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
			stored, err := tx.Get(r.ID)
			if err != nil {
				return err
			}
			stored.Delivered = true
			return tx.Update(stored)
		})
		if err != nil {
			s.Log.Error("noting a delivered answer", "err", err)
			return
		}
		s.mu.Lock()
		delete(s.given, r.ID)
		s.mu.Unlock()
	}()
	return true
}
