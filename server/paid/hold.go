package paid

import (
	"errors"
	"fmt"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// A registration holds its URL from its reservation until it is known what became of
// its payment, and nobody else can register the URL meanwhile. Payments that come to
// nothing cost little, so holds must not add up: an account's open payments together
// have to fit what it holds, and once registrations of a URL have failed, others hold
// it for a short time only, and in the end none but accounts that have paid here.

// shortHold is the longest validity of a payment for a URL for which one has failed
// in the last hour.
const shortHold = 60 * time.Second

// seconds is a time to wait as clients are told it.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// heldURL refuses a registration whose URL somebody else is paying for, until when
// that can be mined. Who is told so has paid nothing by the same request.
func (s *Service) heldURL(until time.Time) *Problem {
	wait := max(pendingRetry, seconds(until.Sub(s.Now())))
	return &Problem{Code: api.PaymentPending, RetryAfter: wait,
		Detail: fmt.Sprintf("Somebody else is registering this address; ask again in %d s. Nothing was charged by this request.", wait)}
}

// mayHold says why a payment may not hold the URL that it is for.
func (s *Service) mayHold(v *ledger.View, r *ledger.Reservation) error {
	count, until := v.URLFailures(r.URLKey)
	if count > 1 {
		paid, err := v.HasPaid(r.Payer)
		if err != nil {
			return err
		}
		if !paid {
			return &Problem{Code: api.PaymentPending, RetryAfter: seconds(until.Sub(s.Now())), Detail: onlyPayers(until) + " Nothing was charged by this request."}
		}
	}
	if count > 0 && r.ValidBefore.After(s.Now().Add(shortHold)) {
		return &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonLong,
			Detail: fmt.Sprintf("A payment for this URL came to nothing in the last hour, so the next one may stay valid for %v at most. Nothing was charged; pay the new challenge.", shortHold)}
	}
	return nil
}

// onlyPayers says who can register a URL for which two payments have failed.
func onlyPayers(until time.Time) string {
	return "Payments for this address have failed twice; until " + until.UTC().Format(time.RFC3339) +
		" only an account that has paid here before can register it. Any bid makes an account one."
}

// challengeLife is for how long an order may be paid, so that no payment for it is
// refused by [Service.mayHold] for its validity, and what its payer has to know beside
// the price.
func challengeLife(v *ledger.View, o order) (life time.Duration, note string) {
	var r ledger.Reservation
	o.subject(&r)
	switch count, until := v.URLFailures(r.URLKey); count {
	case 0:
		return ChallengeLife, ""
	case 1:
		return shortHold, ""
	default:
		return shortHold, " " + onlyPayers(until)
	}
}

// coverTries is how often an account is asked whether it holds what its open payments
// come to, a second apart.
const coverTries = 3

// errOpened says that the payer has opened other payments since it was asked what it
// holds.
var errOpened = errors.New("paid: the payer has opened other payments")

// covered makes sure that the payer of w holds enough for its open payments and this
// one, and gives what was open. Each is simulated for itself, so one balance would
// otherwise do for any number. A payment that is mined and has no effect yet counts
// twice, as open and as gone from the balance, so a refusal is not believed at once.
func (s *Service) covered(w *work) (open int64, err error) {
	for try := 1; ; try++ {
		s.Ledger.View(func(v *ledger.View) { _, open = v.OpenOfPayer(w.payment.Payer) })
		if open == 0 {
			return 0, nil // its own simulation says enough
		}
		err = w.network.Holds(s.ctx, w.payment, open+w.payment.Cents)
		if err == nil || !errors.As(err, new(*mpp.Rejection)) || try == coverTries || !s.sleep(time.Second) {
			return open, err
		}
	}
}
