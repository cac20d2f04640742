package paid

import (
	"context"
	"errors"
	"fmt"
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
//   - after one failed registration of a URL, the next payment for it is valid for a
//     minute at most;
//   - after two, each account with a failed payment is barred from the URL for an hour,
//     and accounts that have never paid here for an hour after one of them failed;
//   - from the first on, and while one is open, the site can name an account, which nothing of this bars: see
//     [risk.Names].
//
// A payment without an end ([mpp.Payment.Endless]), or with one more than [longHold] ahead, holds its
// URL for [shortHold]. If it is not mined by then, though its network works, it lapses: that is a failure, and others can have the
// URL. The payment is waited for, and has its effect if that is still possible when it is mined.
// See [Service.lapse].

// shortHold is the longest validity of a payment for a URL if one failed in the last hour.
const shortHold = 60 * time.Second

// longHold is how far ahead the end of a payment may be that is held until then.
const longHold = 90 * time.Second

// lapses gives p as it may be held from now on: see [Service.lapse]. Authorisations end within longHold, or
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

// mayHold says why the payment of w may not hold its URL.
func (s *Service) mayHold(v *ledger.View, w *work) error {
	r := &w.Reservation
	account := core.AccountOf(r.Payer)
	if n, some := s.names.Get(r.URLKey, s.Now()); some && !w.named && !n.Account.Is(account) {
		return &Problem{Code: api.PaymentPending, RetryAfter: risk.Seconds(n.Until.Sub(s.Now())), Detail: onlyNamed(n) + " Nothing was charged by this request."}
	}
	count, until := v.URLFailures(r.URLKey)
	if count > 1 && until.After(s.Now()) && !w.named {
		paid, err := v.HasPaid(r.Payer)
		if err != nil {
			return err
		}
		if !paid {
			return &Problem{Code: api.PaymentPending, RetryAfter: risk.Seconds(until.Sub(s.Now())),
				Detail: onlyPayers(until) + s.howToBeNamed(w.order.(*registration).URL, account) + " Nothing was charged by this request."}
		}
	}
	if count > 0 && r.ValidBefore.After(s.Now().Add(shortHold)) {
		return &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonLong,
			Detail: fmt.Sprintf("A payment for this URL failed in the last hour, so the next one may be valid for at most %v. Pay the new challenge. Nothing was charged.", shortHold)}
	}
	return nil
}

// onlyNamed says which account can register a URL when its site has named one.
func onlyNamed(n risk.Naming) string {
	return "Payments for this address failed or are in progress, and its site names the account that may register it. Until " + n.Until.UTC().Format(time.RFC3339) + " no other account can."
}

// barredFor is how long the payer of r cannot reserve its URL.
func (s *Service) barredFor(r *ledger.Reservation) (rest time.Duration) {
	s.Ledger.View(func(v *ledger.View) {
		if until, barred := v.Barred(r.Payer, r.URLKey); barred {
			rest = until.Sub(s.Now())
		}
	})
	return rest
}

// onlyPayers says which accounts can register a URL for which two payments have failed.
func onlyPayers(until time.Time) string {
	return "Payments for this address have failed twice. Until " + until.UTC().Format(time.RFC3339) +
		" only an account that has paid here before can register it. Any bid makes an account one."
}

// challengeLife says how long an order may be paid: no longer than [Service.mayHold] allows.
// failed and until are those of its URL. note is for the 402 document, for an account that may
// not be known.
func (s *Service) challengeLife(o order, account core.Account, failed int, until time.Time) (life time.Duration, note string) {
	r, ok := o.(*registration)
	if !ok {
		return ChallengeLife, ""
	}
	n, named := s.names.Get(r.Key, s.Now())
	switch {
	case named && !n.Account.Is(account):
		return shortHold, " " + onlyNamed(n)
	case failed == 0:
		return ChallengeLife, ""
	case named:
		return shortHold, ""
	case failed > 1 && until.After(s.Now()):
		return shortHold, " " + onlyPayers(until) + s.howToBeNamed(r.URL, account)
	}
	return shortHold, " A payment for this address has failed." + s.howToBeNamed(r.URL, account)
}

// coverTries is how often the network is asked whether an account holds enough for its
// open payments, a second apart: a block can come between two questions.
const coverTries = 3

// errOpened says that the payer has opened other payments since its balance was asked
// for.
var errOpened = errors.New("paid: the payer has opened other payments")

// covered makes sure that the payer of w holds enough for its open payments and this
// one, and gives what was open. Each payment is simulated alone, so one balance would
// otherwise do for any number.
func (s *Service) covered(w *work) (open int64, err error) {
	for try := 1; ; try++ {
		s.Ledger.View(func(v *ledger.View) { _, open = v.OpenOfPayer(w.payment.Payer) })
		if open == 0 {
			return 0, nil // its own simulation says enough
		}
		err = w.network.holds(s.ctx, w.payment, open+w.payment.Cents)
		if errors.As(err, new(*mpp.Rejection)) {
			// A payment that is mined and has no effect yet is open, and gone from the
			// balance.
			var mined int64
			if open, mined = s.openAndMined(w); mined > 0 {
				err = w.network.holds(s.ctx, w.payment, open-mined+w.payment.Cents)
			}
		}
		if !errors.As(err, new(*mpp.Rejection)) || try == coverTries || !s.sleep(time.Second) {
			return open, err
		}
	}
}

// openAndMined gives what the payer of w has open, and how much of that is settled by what
// the network says, in cents.
func (s *Service) openAndMined(w *work) (open, mined int64) {
	var all []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { all = v.Open() })
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	for _, r := range all {
		if r.Payer != w.payment.Payer || !r.Lapsed.IsZero() {
			continue
		}
		open += r.Cents
		p, err := StoredPayment(r)
		if err != nil || p.Method != w.network.Name() {
			continue
		}
		if o, err := w.network.Outcome(ctx, p); err == nil && o.State == mpp.Settled {
			mined += r.Cents
		}
	}
	return open, mined
}

// lookFor bounds how long a payment waits for the site.
const lookFor = 8 * time.Second

// accountsAt gives the accounts that a site names.
func (s *Service) accountsAt(ctx context.Context, client, url string) risk.NamedBy {
	if s.MemberSites == nil {
		return nil
	}
	return s.MemberSites.Accounts(ctx, client, url)
}

// failures is how many payments for the URL of an order have failed lately, or can still fail, and until
// when that keeps accounts from it.
func failures(v *ledger.View, o order) (failed int, until time.Time) {
	if r, ok := o.(*registration); ok {
		failed, until = v.URLFailures(r.Key)
		if _, open := v.URLPending(r.Key); open {
			failed++
		}
	}
	return failed, until
}

// named looks whether the site of a URL for which a payment has failed, or is open, names an account, and
// notes it. It asks nothing for any other URL.
func (s *Service) named(ctx context.Context, client string, o order, account core.Account, failed int) bool {
	if failed == 0 || s.MemberSites == nil || account == (core.Account{}) {
		return false
	}
	r := o.(*registration)
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	if !s.accountsAt(ctx, client, r.URL).Includes(account) {
		return false
	}
	s.names.Put(r.Key, account, s.Now())
	return true
}

// howToBeNamed says how the site at a URL names an account. Without one, it says how that is
// asked.
func (s *Service) howToBeNamed(url string, account core.Account) string {
	if s.MemberSites == nil {
		return ""
	}
	at, err := s.MemberSites.Place(url)
	if err != nil {
		return ""
	}
	if account == (core.Account{}) {
		return " Before all others, the account that the site names can register it; a request with an account in Wallet-Account is told how."
	}
	return fmt.Sprintf(" Before all others, %s can register it, if the site names it: by the line %[1]s in %s, or in the TXT record %s.", account, at.URL, at.Name)
}
