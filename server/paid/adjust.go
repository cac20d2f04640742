package paid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/pay/mpp"
)

// ErrAdjustment says that an adjustment does not fit what the ledger and the
// chain hold. The text says why.
var ErrAdjustment = errors.New("paid: the adjustment does not fit")

// Adjustment is what the operator wants to put right about one transaction.
type Adjustment struct {
	Kind        core.Adjustment `json:"kind"`
	Transaction string          `json:"transaction"`        // 0x hash
	Member      string          `json:"member"`             // slug; for Credit, and for Void where no reservation names it
	Register    json.RawMessage `json:"register,omitempty"` // for Credit instead of a member: the body of a lost registration
	Reason      string          `json:"reason"`
}

// kinds are the names of adjustments in the log: those of their flags.
var kinds = map[core.Adjustment]string{core.Credit: "credit", core.Void: "void", core.Unclaimed: "unclaimed"}

// Adjust appends the event of an adjustment. The operator does not choose the amount: a
// credit gives what the transaction brought and no event accounts for, a void takes back
// what events gave for a transaction that is not on the chain. Both ask the network, and
// fail with [mpp.ErrUnavailable] when it is silent. It is asked about all payees that the
// ring ever had, and about a stored payment as it was signed: a change of the payee
// makes no payment vanish.
//
// A credit can be for a lost registration: the account that paid then joins with the
// words in Register, without a score. The result names the new member.
func (s *Service) Adjust(ctx context.Context, a Adjustment) (*core.Adjusted, error) {
	a.Transaction = strings.ToLower(strings.TrimSpace(a.Transaction))
	if a.Reason == "" {
		return nil, fmt.Errorf("%w: a reason is required", ErrAdjustment)
	}
	var lost *registration
	if a.Register != nil {
		var err error
		if lost, err = s.lostRegistration(a); err != nil {
			return nil, err
		}
	}
	n, t, err := s.receivedBy(ctx, a.Transaction)
	if err != nil && !errors.Is(err, mpp.ErrNoTransfer) {
		return nil, err
	}
	if lost != nil && t.Senders > 1 {
		return nil, fmt.Errorf("%w: %d accounts have paid in this transaction, so it does not say who joins; credit it to a member", ErrAdjustment, t.Senders)
	}
	in, err := s.rows(func(r *row) bool { return r.in(a.Transaction, t.Bound) })
	if err != nil {
		return nil, err
	}
	// The adjustment accounts for payments that have settled in this transaction without effect, or were
	// diverted and are named in it.
	var without []row
	for _, r := range in {
		diverted := r.Outcome == mpp.Mismatched.String()
		if r.State == ledger.Failed && (diverted || r.Outcome == mpp.Settled.String() && r.in(a.Transaction, nil)) {
			without = append(without, r)
		}
	}
	e := &core.Adjusted{Adjustment: a.Kind, Member: a.Member, Reason: a.Reason}
	switch {
	case kinds[a.Kind] == "":
		return nil, fmt.Errorf("%w: unknown kind", ErrAdjustment)
	case a.Kind == core.Void && n != nil:
		return nil, fmt.Errorf("%w: %s shows the transfer, so there is nothing to take back", ErrAdjustment, n.Network())
	case a.Kind == core.Void:
		err = s.void(ctx, a, in, e)
	case n == nil:
		return nil, fmt.Errorf("%w: no network shows a transfer to this ring in %s", ErrAdjustment, a.Transaction)
	default:
		e.Payment = core.Payment{Method: n.Name(), Network: n.Network(), Transaction: a.Transaction, Payer: t.Payer, Payee: t.Payee}
		if len(without) == 1 && without[0].payment.Payee == t.Payee && without[0].payment.Payer == t.Payer {
			e.Payment.Binding = without[0].payment.Binding
		}
		if err = s.follow(ctx, n, t); err == nil {
			e.Amount, err = s.unaccounted(ctx, n, t)
		}
	}
	if err != nil {
		return nil, err
	}
	err = s.Ledger.Do(ctx, func(tx *ledger.Tx) error {
		v := tx.View()
		credited, err := v.Credited(e.Payment.Network, a.Transaction)
		if err != nil {
			return err
		}
		if a.Kind == core.Void {
			e.Amount = credited
		} else if credited+e.Amount != t.Cents {
			return fmt.Errorf("%w: a payment in this transaction has just been settled", ErrAdjustment)
		}
		if e.Amount <= 0 {
			return fmt.Errorf("%w: the events account for this transaction already", ErrAdjustment)
		}
		// A voided member keeps its total: it would be given twice.
		member, credit, err := v.CreditedTo(e.Payment.Network, a.Transaction)
		if err != nil {
			return err
		}
		if a.Kind == core.Void {
			e.Payment.Payee, e.Payment.Binding = credit.Payee, credit.Binding
		}
		if a.Kind == core.Credit && credited == 0 && member != "" {
			return fmt.Errorf("%w: it was credited to %s before, who kept that when it was voided; record it as unclaimed", ErrAdjustment, member)
		}
		for _, r := range without {
			at, _ := step(r, facts{accounts: ReasonAdjusted})
			if err := tx.Update(&at.Reservation); err != nil {
				return err
			}
		}
		if lost != nil {
			return lost.admit(tx, e)
		}
		if at, ok := v.State().BySlug([]byte(a.Member)); ok && a.Kind == core.Credit {
			if _, open := v.OpenOnMember(a.Member); v.State().Member(at).Total()+open+e.Amount > core.MaxTotal {
				return fmt.Errorf("%w: the member's total would be too high", ErrAdjustment)
			}
		}
		e.Stamp = tx.Stamp()
		// One event has no more than the highest total of a member. What is left takes
		// another adjustment.
		left := e.Amount
		e.Amount = 0
		for range maxParts {
			part := *e
			part.Amount = min(left, core.MaxTotal)
			if _, err := tx.Append(&part, nil); err != nil {
				return err
			}
			e.Amount += part.Amount
			if left -= part.Amount; left == 0 {
				break
			}
		}
		return nil
	})
	var refused *Problem
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %s", ErrAdjustment, refused.Detail)
	case errors.Is(err, core.ErrUnknown), errors.Is(err, core.ErrEvent):
		return nil, fmt.Errorf("%w: %w", ErrAdjustment, err)
	case err != nil:
		return nil, err
	}
	s.Log.Info("payment adjusted", "kind", kinds[a.Kind], "reason", a.Reason, "transaction", a.Transaction, "member", e.Member, "amount_usd", form.FormatUSD(e.Amount), Audit, "adjustment")
	return e, nil
}

// lostRegistration reads the registration of an adjustment. The limits for new challenges
// do not apply to it.
func (s *Service) lostRegistration(a Adjustment) (*registration, error) {
	if a.Kind != core.Credit || a.Member != "" {
		return nil, fmt.Errorf("%w: a registration is credited, and names its member itself", ErrAdjustment)
	}
	r, err := form.ParseRegister(a.Register, form.Spell, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: the registration is not what /api/register takes: %w", ErrAdjustment, err)
	}
	return &registration{service: s, promised: true, unscored: true, RegisterRequest: r}, nil
}

// admit appends the event of a lost registration for the money of an adjustment, and names
// the member in the adjustment. The fee is what the opening bid leaves of the money; if
// no bid was named, the bid is all above today's fee.
func (o *registration) admit(tx *ledger.Tx, e *core.Adjusted) error {
	if err := o.stillHolds(tx.View()); err != nil {
		return err
	}
	if o.Bid == 0 {
		o.Bid = max(e.Amount-tx.State().Rules().Fee, 0)
	}
	if o.Fee = e.Amount - o.Bid; o.Fee <= 0 {
		return fmt.Errorf("%w: the transaction leaves %s USD, and the opening bid alone is %s", ErrAdjustment, form.FormatUSD(e.Amount), form.FormatUSD(o.Bid))
	}
	done, err := o.carryOut(tx, e.Payment)
	e.Member = done.slug
	return err
}

// maxParts bounds the events of one adjustment.
const maxParts = 100

// rows gives the stored payments for which pick holds, in the order of their ids.
func (s *Service) rows(pick func(*row) bool) (some []row, err error) {
	err = s.Each(func(r *ledger.Reservation) bool {
		at, err := rowOf(r)
		switch {
		case err != nil:
			s.Log.Error("a payment cannot be read", "payment", r.ID, "err", err)
		case r.Payment != nil && pick(&at): // a proof has no payment
			some = append(some, at)
		}
		return true
	})
	return some, err
}

// in says whether a payment is in a transaction: under its name, or as the token names it there.
func (r *row) in(transaction string, named []mpp.Bound) bool {
	return strings.EqualFold(r.payment.Reference, transaction) || slices.Contains(named, r.payment.Bound())
}

// Each calls fn with every reservation, in the order of their ids, until it gives
// false.
func (s *Service) Each(fn func(*ledger.Reservation) (more bool)) error {
	for after := ""; ; {
		page, err := s.Ledger.Reservations(after, findPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if !fn(r) {
				return nil
			}
		}
		after = page[len(page)-1].ID
	}
}

// unaccounted gives what a transaction brought and no event accounts for. It refuses while a payment that is open,
// or not confirmed, has settled in the transaction, may have brought that much of it, or will move
// there: the operator must not give away its money. Neither payer nor sum of the transaction decides alone,
// because it can hold other payments too.
func (s *Service) unaccounted(ctx context.Context, n *network, t mpp.Transfer) (cents int64, err error) {
	var some []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) {
		cents, err = v.Credited(n.Network(), t.Reference)
		cents, some = t.Cents-cents, append(v.Open(), v.Unconfirmed()...)
	})
	if err != nil {
		return 0, err
	}
	for _, open := range some {
		r, err := rowOf(open)
		if err != nil {
			return 0, err
		}
		by, known := "", true
		if r.payment.Method == n.Name() && (r.State == ledger.Reserved || !r.in(t.Reference, nil)) {
			if by, known, err = s.settler(ctx, n, r); err != nil {
				return 0, err
			}
		}
		if by == t.Reference || known && r.Payer == t.Payer && r.Cents == cents && r.mayBeMined(t.At) {
			return 0, fmt.Errorf("%w: a payment in this transaction, or one of this account and amount, is still being settled", ErrAdjustment)
		}
	}
	return cents, nil
}

// settler asks a network which transaction has settled a payment, as it was signed; "" if none has. known is
// false if it cannot be asked about this payment.
func (s *Service) settler(ctx context.Context, n *network, r row) (by string, known bool, err error) {
	o, err := n.Outcome(ctx, r.payment, time.Time{})
	switch {
	case errors.Is(err, mpp.ErrUnavailable):
		return "", false, fmt.Errorf("what became of payment %s: %w", r.ID, err)
	case err != nil:
		s.Log.Warn("a payment is left out: its network cannot be asked about it", "payment", r.ID, "err", err)
		return "", false, nil
	case o.State == mpp.Settled:
		by = strings.ToLower(r.settledBy(o))
	}
	return by, true, nil
}

// mayBeMined says whether a payment may have been mined at a time: not before its reservation, nor
// when it could no longer be mined. Clocks differ, and a payer may submit a payment itself before it sends
// the credential, within [ChallengeLife].
func (r *row) mayBeMined(at time.Time) bool {
	const apart = ChallengeLife + 5*time.Minute
	return r.Created.Before(at.Add(apart)) && (!r.Lapsed.IsZero() || at.Before(r.ValidBefore.Add(apart)))
}

// receivedBy asks the networks what a transaction brought all payees, and gives the network
// that it is on. It fails with [mpp.ErrNoTransfer] if it is on none.
func (s *Service) receivedBy(ctx context.Context, transaction string) (*network, mpp.Transfer, error) {
	err := mpp.ErrNoTransfer
	for _, n := range s.networks {
		t, e := n.received(ctx, transaction, everything)
		if e == nil {
			return n, t, nil
		}
		if !errors.Is(e, mpp.ErrNoTransfer) {
			err = e
		}
	}
	return nil, mpp.Transfer{}, err
}

// void fills in the payment that is to be taken back, and refuses unless [Service.VerifyChain] would find that its
// money is missing. in are the payments in its transaction.
func (s *Service) void(ctx context.Context, a Adjustment, in []row, e *core.Adjusted) error {
	given, err := s.sums()
	if err != nil {
		return err
	}
	var names []string
	var n *network
	for _, x := range s.networks {
		if names = append(names, x.Network()); given[x.Network()][a.Transaction] > 0 {
			n = x
		}
	}
	if n == nil {
		return fmt.Errorf("%w: no event gave anything for %s on a network that is configured (%s)",
			ErrAdjustment, a.Transaction, cmp.Or(strings.Join(names, ", "), "none is"))
	}
	e.Payment = core.Payment{Method: n.Name(), Network: n.Network(), Transaction: a.Transaction}
	for _, r := range in {
		switch {
		case r.State != ledger.Applied:
			continue
		case !r.Confirmed:
			return fmt.Errorf("%w: the payment may still come back; wait until its network has decided", ErrAdjustment)
		case a.Member != "" && a.Member != r.Member:
			return fmt.Errorf("%w: the payment was for %s, and not for %s", ErrAdjustment, r.Member, a.Member)
		}
		e.Member, e.Payment.Payer = r.Member, r.Payer
	}
	if e.Member == "" {
		return fmt.Errorf("%w: no payment was applied for it, so name its member", ErrAdjustment)
	}
	var found ChainAudit
	err = s.verify(ctx, n, []string{a.Transaction}, given[n.Network()], &found)
	if err == nil && found.why == nil && len(found.Findings) == 0 {
		err = fmt.Errorf("%w: by its network, the payment is settled", ErrAdjustment)
	}
	return cmp.Or(err, found.why)
}

// findPage is how many rows are read at a time.
const findPage = 1000

// Find gives the payment with this id or transaction. Of several it gives an applied
// one; without any it fails with [ledger.ErrNoReservation].
func (s *Service) Find(reference string) (*ledger.Reservation, error) {
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(reference) })
	if err != nil || r != nil && r.Cents > 0 { // not a proof
		return r, err
	}
	in, err := s.rows(func(r *row) bool { return r.in(reference, nil) })
	if err != nil || len(in) == 0 {
		return nil, cmp.Or(err, ledger.ErrNoReservation)
	}
	applied := slices.IndexFunc(in, func(r row) bool { return r.State == ledger.Applied })
	return &in[max(applied, 0)].Reservation, nil
}

// Stands says whether events still give something for a payment: they do not once it was
// voided.
func (s *Service) Stands(p mpp.Payment) (stands bool) {
	n := s.network(p.Method)
	if n == nil {
		return false
	}
	cents, err := s.credited(n, p.Reference)
	return err != nil || cents > 0
}

// ChainAudit is what the networks said of the payments in the ledger.
type ChainAudit struct {
	Asked    int      `json:"asked"`    // transactions
	Unknown  int      `json:"unknown"`  // transactions without an answer: of those asked for, and all of networks that are not configured
	Findings []string `json:"findings"` // at most a hundred; there should be none
	why      error    // of the last one that is unknown
}

// maxChainFindings bounds what one audit reports.
const maxChainFindings = 100

// VerifyChain asks the networks about every transaction that events name: each
// must have brought the payees that the ring ever had at least what events gave
// for it, or be the settled payment that was signed.
func (s *Service) VerifyChain(ctx context.Context) (a ChainAudit, err error) {
	a.Findings = []string{}
	given, err := s.sums()
	if err != nil {
		return a, err
	}
	for _, n := range s.networks {
		if err := s.verify(ctx, n, slices.Sorted(maps.Keys(given[n.Network()])), given[n.Network()], &a); err != nil {
			return a, err
		}
		delete(given, n.Network())
	}
	for _, unknown := range given { // of networks that are not configured
		a.Unknown += len(unknown)
	}
	return a, nil
}

// verify compares what events gave for some transactions of a network with what these brought.
func (s *Service) verify(ctx context.Context, n *network, some []string, given map[string]int64, a *ChainAudit) error {
	compare := func(reference string, brought, given int64, err error) {
		switch {
		case err != nil:
			a.Unknown++
			a.why = err
		case brought < given && len(a.Findings) < maxChainFindings:
			a.Findings = append(a.Findings, fmt.Sprintf("%s %s brought %d cents; events gave %d for it", n.Network(), reference, brought, given))
		}
	}
	missed := map[string]error{} // transactions that brought nothing, and why that may change
	for _, reference := range some {
		cents := given[reference]
		if cents <= 0 {
			continue // voided
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		a.Asked++
		if t, err := n.received(ctx, reference, cents); errors.Is(err, mpp.ErrNoTransfer) {
			missed[reference] = nil
		} else {
			compare(reference, t.Cents, cents, err)
		}
	}
	if len(missed) == 0 {
		return nil
	}
	// An authorisation may have been used by another transaction than ours.
	applied, err := s.rows(func(r *row) bool {
		_, is := missed[strings.ToLower(r.payment.Reference)]
		return is && r.State == ledger.Applied && r.payment.Method == n.Name()
	})
	if err != nil {
		return err
	}
	brought, moved := map[string]int64{}, map[string]int64{}
	for _, r := range applied {
		reference := strings.ToLower(r.payment.Reference)
		o, err := n.Outcome(ctx, r.payment, time.Time{})
		switch {
		case err != nil:
			missed[reference] = err
		case o.State == mpp.Pending && r.Outcome != outcomeGivenUp: // its block was dropped, or the node has dropped the receipt
			missed[reference] = fmt.Errorf("%w: by its network, the payment is pending: %s", ErrAdjustment, o.Detail)
		case o.State == mpp.Settled:
			brought[reference] += r.Cents
			if by := strings.ToLower(r.settledBy(o)); by != reference {
				moved[by] += r.Cents
			}
		}
	}
	for _, reference := range slices.Sorted(maps.Keys(missed)) {
		compare(reference, brought[reference], given[reference], missed[reference])
	}
	for _, reference := range slices.Sorted(maps.Keys(moved)) {
		t, err := n.received(ctx, reference, everything)
		compare(reference, t.Cents, given[reference]+moved[reference], err)
	}
	return nil
}
