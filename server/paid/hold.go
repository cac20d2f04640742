package paid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// A registration holds its URL from its reservation until the outcome of its payment is
// final: meanwhile no other account can register the URL. A payment that fails costs
// little, so holds must not add up:
//
//   - an account must have enough money for all its open payments together;
//   - for an hour after a payment for a URL has failed, see [Service.mayHold].
//
// A payment without an end ([mpp.Payment.Endless]), or with one more than [longHold] ahead, holds its
// URL for [shortHold]. If it is not mined by then, though its network works, it lapses: that is a failure, and others can have the
// URL. The payment is waited for, and has its effect if that is still possible when it is mined.
// See [row.open].

// shortHold is how long a payment holds its URL that has no end, or a late one.
const shortHold = 60 * time.Second

// longHold is how far ahead the end of a payment may be that is held until then.
const longHold = 90 * time.Second

// lapses gives p as it may be held from now on: see [row.open]. Authorisations end within longHold, or
// soon after; they are held until then.
func lapses(p mpp.Payment, now time.Time) mpp.Payment {
	end := now.Add(shortHold).UTC().Truncate(time.Second)
	switch {
	case p.Endless && end.Before(p.ValidBefore):
		p.ValidBefore = end
	case !p.Endless && !p.Bearer && p.ValidBefore.After(now.Add(longHold)):
		p.ValidBefore, p.Until = end, p.ValidBefore
	}
	return p
}

// mayHold says why the payment of w may not hold its URL. For an hour after a payment for the URL
// has failed or lapsed:
//
//   - if the site names accounts, only those can hold it;
//   - if it names none, an account waits once two of its payments have failed. All accounts that
//     have never paid here count as one.
//
// So accounts that were made for it hold a URL twice an hour, all together. Accounts that have paid
// hold it twice each, and do not keep out the others.
func (s *Service) mayHold(x *candidate, v *ledger.View) error {
	w, payer, failed := x.w, x.payer, v.URLFailures(x.r.URLKey)
	switch {
	case len(failed) == 0 || w.names.Includes(core.AccountOf(payer)):
		return nil
	case !x.asked:
		return errChanged
	}
	if len(w.names) == 0 {
		var err error
		failed = slices.DeleteFunc(failed, func(f ledger.Failure) (other bool) {
			if other = f.Payer != payer; other && !x.paid && err == nil {
				other, err = v.HasPaid(f.Payer)
			}
			return other
		})
		if err != nil || len(failed) < 2 {
			return err
		}
		failed = failed[:len(failed)-1] // it may fail again when only the last one counts
	}
	until := failed[len(failed)-1].At.Add(ledger.FailurePeriod)
	return &Problem{Code: api.PaymentPending, RetryAfter: risk.Seconds(until.Sub(s.Now())),
		Detail: s.afterFailure(w.order, core.AccountOf(payer), until) + " Nothing was charged by this request."}
}

// afterFailure says, to an account that may not be known, who can pay for the URL of an order for which payments
// have failed.
func (s *Service) afterFailure(o order, account core.Account, until time.Time) string {
	return "Payments for this address have failed. If its site names accounts, only those can register it until " + until.UTC().Format(time.RFC3339) +
		". If it names none, an account waits until then once two of its payments have failed. Accounts that have never paid here, not even for a bid, count as one account." +
		s.howToBeNamed(o, account)
}

// coverTries is how often the network is asked whether an account holds enough for its
// open payments, a second apart: a block can come between two questions.
const coverTries = 3

// errChanged says that the gates of the moment covering are to be asked again: the payer has opened other payments
// since its balance was asked for, or a payment for the URL has failed, and its site was not asked.
var errChanged = errors.New("paid: what was asked for has changed")

// covered makes sure that a payer holds enough for its open payments and this
// one, and notes what was open. Each payment is simulated alone, so one balance would
// otherwise do for any number.
func (s *Service) covered(x *candidate) error {
	w := x.w
	for try := 1; ; try++ {
		_, open, _ := s.openOf(x.payer)
		if x.open = open; open == 0 {
			return nil // its own simulation says enough
		}
		err := w.network.holds(s.ctx, w.payment, open+w.payment.Cents)
		if errors.As(err, new(*mpp.Rejection)) {
			// A payment that is mined and has no effect yet is open, and gone from the
			// balance.
			var mined int64
			open, mined = s.openAndMined(w)
			if x.open = open; mined > 0 {
				err = w.network.holds(s.ctx, w.payment, open-mined+w.payment.Cents)
			}
		}
		switch refused := errors.As(err, new(*mpp.Rejection)); {
		case err == nil:
			return nil
		case !refused || try == coverTries || !s.sleep(time.Second):
			return s.notSimulated(w, err)
		}
	}
}

// unexpired refuses a payment that has expired while it was asked about.
func (s *Service) unexpired(x *candidate) error {
	if s.Now().Before(x.w.payment.ValidBefore) {
		return nil
	}
	return &Problem{Code: api.PaymentExpired, Reason: mpp.ReasonExpired,
		Detail: "The transaction expired before it was sent. Pay the new challenge. Nothing was charged."}
}

// openAndMined gives what the payer of w has open, and how much of that is settled by what
// the network says, in cents.
func (s *Service) openAndMined(w *work) (open, mined int64) {
	_, open, all := s.openOf(w.payment.Payer)
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	for _, r := range all {
		p, err := StoredPayment(r)
		if err != nil || !r.Lapsed.IsZero() || p.Method != w.network.Name() {
			continue
		}
		if o, err := w.network.Outcome(ctx, p, time.Time{}); err == nil && o.State == mpp.Settled {
			mined += r.Cents
		}
	}
	return open, mined
}

// lookFor bounds how long a payment waits for the site.
const lookFor = 8 * time.Second

// accountsAt gives the accounts that a site names. known is false if the site could not be asked.
func (s *Service) accountsAt(ctx context.Context, client, url string) (names risk.NamedBy, known bool) {
	if s.MemberSites == nil {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	return s.MemberSites.Accounts(ctx, client, url)
}

// vouchedFor says whether the site of a registration names the account of c.
func (s *Service) vouchedFor(ctx context.Context, c *Call, o order) bool {
	account := c.account()
	if account == (core.Account{}) {
		return false
	}
	names, _ := s.accountsAt(ctx, c.Client, o.(*registration).URL)
	return names.Includes(account)
}

// failures gives the payments for the URL of an order that failed or lapsed in the last hour.
func failures(v *ledger.View, o order) []ledger.Failure {
	if r, ok := o.(*registration); ok {
		return v.URLFailures(r.Key)
	}
	return nil
}

// howToBeNamed says how the site of a registration names an account. Without one, it says how that is
// asked.
func (s *Service) howToBeNamed(o order, account core.Account) string {
	r, ok := o.(*registration)
	if !ok || s.MemberSites == nil {
		return ""
	}
	at, err := s.MemberSites.Place(r.URL)
	if err != nil {
		return ""
	}
	if account == (core.Account{}) {
		return " After a failed payment, the accounts that the site names come first; a request with an account in Wallet-Account is told how."
	}
	return fmt.Sprintf(" After a failed payment, the accounts that the site names come first. It names %s by the line %[1]s in %s, or in the TXT record %s.", account, at.URL, at.Name)
}
