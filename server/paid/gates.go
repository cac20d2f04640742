package paid

import (
	"cmp"
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

// moment is when gates are asked.
type moment uint8

const (
	offering  moment = 1 << iota // before a 402 is made
	naming                       // for each network that it may name
	claiming                     // a credential is claimed; nothing is asked of its network yet
	sending                      // it may be worth a question to its network
	asking                       // its network is asked
	covering                     // and again, as long as what it pays beside has changed meanwhile
	reserving                    // in the turn of the writer that stores the payment
	settling                     // in the turn that gives a payment its effect which holds nothing any more
)

var moments = [...]string{"offering", "naming", "claiming", "sending", "asking", "covering", "reserving", "settling"}

// gates are all that refuses a payment once its credential was read; one that stands nowhere here does not
// exist. They are asked in this order. A refusal while claiming is the answer; after any other one that does not
// say itself what became of the payment, the network is asked whether it was made all the same: see [row.claimed].
var gates = [...]struct {
	name  string
	at    moment
	world func(s *Service, x *candidate) error                 // asks anything but the ledger,
	books func(s *Service, x *candidate, v *ledger.View) error // or the ledger alone
}{
	{name: "claimed", at: offering, world: (*Service).keyClaimed},
	{name: "known", at: claiming, books: (*Service).known},
	{name: "poor", at: claiming, world: (*Service).poor},
	{name: "credential", at: sending, world: func(_ *Service, x *candidate) error { return problem(x.w.refusal) }},
	{name: "gas", at: naming | sending, world: func(s *Service, x *candidate) error { return problem(s.refuses(x.n, x.payer, x.paid)) }},
	{name: "key", at: offering | reserving, books: (*Service).keyFree},
	{name: "possible", at: offering | sending | reserving | settling, books: func(_ *Service, x *candidate, v *ledger.View) error { return x.order.stillHolds(v) }},
	{name: "admitted", at: offering | sending | reserving, books: func(_ *Service, x *candidate, v *ledger.View) error { return x.order.mayBegin(v, x.payer) }},
	{name: "first", at: sending | reserving, books: (*Service).oneAtFirst},
	{name: "ready", at: naming | sending, world: func(s *Service, x *candidate) error { return s.checkReady(x.n) }},
	{name: "simulated", at: asking, world: (*Service).simulateInTurn},
	{name: "unused", at: asking, world: (*Service).unused},
	{name: "site", at: covering, world: (*Service).askSite},
	{name: "covered", at: covering, world: (*Service).covered},
	{name: "expired", at: covering, world: (*Service).unexpired},
	{name: "open", at: reserving, books: (*Service).mayOpen},
	{name: "lapsed", at: reserving, books: (*Service).mayLapse},
	{name: "nonce", at: reserving, books: (*Service).mayUseNonce},
	{name: "url", at: reserving, books: (*Service).mayHold},
}

// candidate is what gates are asked about, as far as it is known.
type candidate struct {
	order order
	payer string // "" if it is not known
	paid  bool   // the payer has paid here before
	key   string // the Idempotency-Key, as it is stored; "" for none
	n     *network
	w     *work               // nil before a credential came
	r     *ledger.Reservation // that is to be stored
	open  int64               // cents that the payer had open when its balance was asked for
	asked bool                // its site, for the accounts that it names
}

// pass asks the gates of a moment. v is the turn's view, nil outside of one.
func (s *Service) pass(at moment, x *candidate, v *ledger.View) (err error) {
	for _, g := range gates {
		switch {
		case g.at&at == 0:
			continue
		case g.world != nil:
			err = g.world(s, x)
		case v != nil:
			err = g.books(s, x, v)
		default:
			s.Ledger.View(func(v *ledger.View) { err = g.books(s, x, v) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// problem is p as an error.
func problem(p *Problem) error {
	if p == nil {
		return nil
	}
	return p
}

// keyClaimed refuses a challenge while the payment of its request is not stored yet.
func (s *Service) keyClaimed(x *candidate) error {
	if x.key == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.work {
		if w.brought.Idempotency == x.key {
			return errPending
		}
	}
	return nil
}

// known says what is known of a payment already: it may be stored under one of its replay keys,
// by another copy of its credential that has been through since [Service.consumed]; none can be now, under
// the claim. Or events account for its transaction, such as one that came back from an edge without its
// row, or the operator's.
func (s *Service) known(x *candidate, v *ledger.View) error {
	keys := x.w.ReplayKeys
	if x.w.payment.Bearer {
		keys = append(slices.Clip(keys), keptKey(x.w.payment))
	}
	if err := fresh(v, keys); err != nil {
		return err
	}
	network, reference := x.n.Network(), x.w.payment.Reference
	cents, err := v.Credited(network, reference)
	if err == nil && cents == 0 {
		x.paid, err = v.HasPaid(x.payer)
		return err
	}
	adjusted, failed := v.Adjusted(network, reference)
	return cmp.Or(err, failed, error(accounted(adjusted, reference)))
}

// fresh refuses a payment or a proof if one of its replay keys is known.
func fresh(v *ledger.View, keys []string) error {
	for _, k := range keys {
		if r, err := v.ByReplayKey(k); err == nil {
			at, _ := rowOf(r) // without a reference if it cannot be read
			return at.reused(v.State().Rules().BaseURL)
		} else if !errors.Is(err, ledger.ErrNoReservation) {
			return err
		}
	}
	return nil
}

// poor refuses a payment of an account of which the network has said a moment ago that it holds too little.
func (s *Service) poor(x *candidate) error {
	until := x.n.strangers.Until(x.payer, x.w.payment.Cents, s.Now())
	if x.w.refusal != nil || x.paid || !until.After(s.Now()) {
		return nil
	}
	return &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(until.Sub(s.Now())), Reason: mpp.ReasonFunds,
		Detail: "This account held too little to pay when its network was asked a moment ago, and it is not asked again before " + until.UTC().Format(time.RFC3339) +
			". This ring has not sent the payment. Send the same request with the same credential then."}
}

// keyFree refuses a request if another was made under its Idempotency-Key.
func (s *Service) keyFree(x *candidate, v *ledger.View) error {
	r, err := s.earlier(v, x.key, x.payer)
	switch {
	case err != nil || r == nil:
		return err
	case x.w == nil && r.State == ledger.Reserved:
		return errPending
	}
	at, err := rowOf(r)
	if err != nil {
		return err
	}
	return &Problem{Code: api.IdempotencyKeyUsed, More: at.reused(v.State().Rules().BaseURL).More, Detail: "The same request was made under this Idempotency-Key before, so this one was not carried out or charged. " +
		"Send the credential of that request to get its answer again, or another key to make it once more."}
}

// oneAtFirst refuses a second open payment of an account that has never paid, where this
// service pays for the gas.
func (s *Service) oneAtFirst(x *candidate, v *ledger.View) error {
	if open, _ := holding(v.OpenOf(x.payer)); open == 0 || x.paid || !x.n.PaysGas() {
		return nil
	}
	return errFirstOpen
}

// simulateInTurn asks the network whether a payment would go through. Accounts that have never paid take turns,
// and have to hold what they pay: that is asked first.
func (s *Service) simulateInTurn(x *candidate) error {
	w, cents := x.w, x.w.payment.Cents
	if !x.paid {
		ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
		defer cancel()
		leave, err := x.n.strangers.Enter(ctx, w.client)
		if err != nil {
			return s.notSimulated(w, fmt.Errorf("%w: %w", mpp.ErrUnavailable, err))
		}
		defer leave()
		err = x.n.holds(ctx, w.payment, cents)
		if no, ok := errors.AsType[*mpp.Rejection](err); ok && no.Reason == mpp.ReasonFunds {
			x.n.strangers.Put(x.payer, cents, s.Now())
			w.unused = true // its network has said that, too
		}
		if err != nil {
			return s.notSimulated(w, err)
		}
	}
	if err := s.simulate(w); err != nil {
		return s.notSimulated(w, err)
	}
	s.Failpoint("simulated")
	return nil
}

// unused asks once more whether the nonce of a payment has been used, if it has one.
func (s *Service) unused(x *candidate) error {
	if x.w.payment.Nonce == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	if err := x.n.Unused(ctx, x.w.payment); err != nil {
		return s.notSimulated(x.w, err)
	}
	return nil
}

// askSite asks the site that is to join which accounts it names, if a payment for its URL has failed.
func (s *Service) askSite(x *candidate) error {
	var failed bool
	s.Ledger.View(func(v *ledger.View) { failed = len(failures(v, x.order)) > 0 })
	if !failed {
		return nil
	}
	known := false
	x.asked = true
	x.w.names, known = s.accountsAt(s.ctx, x.w.client, x.order.(*registration).URL)
	if !known && !x.w.names.Includes(core.AccountOf(x.payer)) {
		return errUnavailable
	}
	return nil
}

// Bounds of the payments that are open at a time.
const (
	// maxOpenPerPayer is how many payments of one account may be open. If the account
	// moves its money away they are never mined, and occupy memory here and requests at
	// edges for minutes.
	maxOpenPerPayer = 8
	// maxEndlessPerPayer is how many of them may have no end, or one far ahead. Those in one lane come one after
	// the other, so honest accounts hardly have more.
	maxEndlessPerPayer = 2
	// maxOpen is how many may be open in all. The last reservedOpen are for accounts
	// without an open payment, so that a few accounts cannot take all.
	maxOpen, reservedOpen = 1024, 256
)

// mayOpen refuses another open payment of an account when too many are open, or when it has
// opened others since [Service.covered] asked for its balance.
func (s *Service) mayOpen(x *candidate, v *ledger.View) error {
	own, cents := holding(v.OpenOf(x.payer))
	switch all := v.OpenPayments(); {
	case own >= maxOpenPerPayer:
		return errManyOpen
	case all >= maxOpen || own > 0 && all >= maxOpen-reservedOpen:
		return errAllOpen
	case cents > x.open:
		return errChanged
	}
	return nil
}

// mayLapse refuses a payment that can lapse while one of its account has lapsed, or too many are
// open, of its account or in all. While a payment has lapsed, its account pays for the same thing
// no other way either.
func (s *Service) mayLapse(x *candidate, v *ledger.View) error {
	r, own := x.r, 0
	for _, o := range v.OpenOf(x.payer) {
		same := o.Operation == r.Operation && o.Member == r.Member && o.URLKey == r.URLKey && (o.URLKey != "" || o.Cents == r.Cents)
		if !o.Lapsed.IsZero() && (r.Endless || same) {
			return comesFirst(o)
		}
		if o.Endless {
			own++
		}
	}
	switch {
	case !r.Endless:
		return nil
	case own >= maxEndlessPerPayer:
		return errManyEndless
	}
	paid, err := v.PaidSince(r.Payer)
	r.Stranger = !paid
	if err == nil && !risk.EndlessRoom(v, x.w.client, paid) {
		err = errAllEndless
	}
	return err
}

// mayUseNonce refuses a payment whose nonce an open one of its account has.
func (s *Service) mayUseNonce(x *candidate, v *ledger.View) error {
	if x.w.payment.Nonce == "" {
		return nil
	}
	for _, r := range v.OpenOf(x.payer) {
		if p, err := StoredPayment(r); err == nil && p.Nonce == x.w.payment.Nonce {
			return comesFirst(r)
		}
	}
	return nil
}
