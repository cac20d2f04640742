package paid

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// A client that has lost its credential repeats its request with the same Idempotency-Key,
// and must not pay twice. A request with the credential always gets its answer.

// idempotencyKey is the form of a key. An unpaid request names no payer, so keys must be
// long enough that no two clients choose the same by chance.
var idempotencyKey = regexp.MustCompile(`^[!-~]{16,255}$`)

// keyLife is how long a payment blocks its Idempotency-Key, from its reservation on.
const keyLife = 24 * time.Hour

// idempotency binds an Idempotency-Key to the operation and the body it came with, so
// that the key itself is never stored.
func idempotency(c Call, digest string) string {
	if c.IdempotencyKey == "" {
		return ""
	}
	h := sha256.Sum256([]byte(c.Operation + "\x00" + digest + "\x00" + c.IdempotencyKey))
	return hex.EncodeToString(h[:])
}

// alreadyPaid refuses a challenge for a request that repeats the key and the body of one
// with a payment.
func (s *Service) alreadyPaid(c Call) error {
	key := idempotency(c, c.digest)
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
		case !s.blocksKey(r):
		case r.State == ledger.Reserved:
			return errPending
		default:
			return s.keyUsed(r)
		}
	}
	return err
}

// keyUsedError holds the payment that blocks an Idempotency-Key.
type keyUsedError struct{ *ledger.Reservation }

func (keyUsedError) Error() string { return "paid: the idempotency key was used" }

// keyFree refuses a second payment of one payer under one Idempotency-Key, with a
// [keyUsedError].
func (s *Service) keyFree(v *ledger.View, r *ledger.Reservation) error {
	if r.Idempotency == "" {
		return nil
	}
	some, err := v.ByIdempotency(r.Idempotency)
	for _, other := range some {
		if err == nil && other.Payer == r.Payer && s.blocksKey(other) {
			return keyUsedError{other}
		}
	}
	return err
}

// keyUsed is the answer to a request under an Idempotency-Key with which r was paid, if it
// does not carry the credential of r.
func (s *Service) keyUsed(r *ledger.Reservation) *Problem {
	p := s.reused(r)
	return &Problem{Code: api.IdempotencyKeyUsed, More: p.More, Detail: "A payment was made under this Idempotency-Key for the same request, so this one was not carried out. " +
		"Send the credential of that payment to get its answer again, or another key to pay once more."}
}

// blocksKey says whether r forbids a second payment under its Idempotency-Key. An open
// payment does, however long it takes, and a failed one only if its money came.
func (s *Service) blocksKey(r *ledger.Reservation) bool {
	came := r.State == ledger.Applied || r.Outcome == mpp.Settled.String()
	return r.State == ledger.Reserved || came && s.Now().Before(r.Created.Add(keyLife))
}
