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
	without, err := s.withoutEffect(a.Transaction, t.Bound)
	if err != nil {
		return nil, err
	}
	e := &core.Adjusted{Adjustment: a.Kind, Member: a.Member, Reason: a.Reason}
	var foreign map[string]bool
	switch a.Kind {
	case core.Credit, core.Unclaimed:
		if n == nil {
			return nil, fmt.Errorf("%w: no network shows a transfer to this ring in %s", ErrAdjustment, a.Transaction)
		}
		e.Payment = core.Payment{Method: n.Name(), Network: n.Network(), Transaction: a.Transaction, Payer: t.Payer, Payee: t.Payee}
		if len(without) == 1 {
			if p, err := StoredPayment(without[0]); err == nil && p.Payee == t.Payee && p.Payer == t.Payer {
				e.Payment.Binding = p.Binding
			}
		}
		if foreign, err = s.awaits(ctx, n, a.Transaction); err == nil {
			err = s.follow(ctx, n, []Stray{{n.Network(), t, t.Cents}})
		}
		if err != nil {
			return nil, err
		}
	case core.Void:
		if n != nil {
			return nil, fmt.Errorf("%w: %s shows the transfer, so there is nothing to take back", ErrAdjustment, n.Network())
		}
		if err := s.findVoid(ctx, a, e); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: unknown kind", ErrAdjustment)
	}
	err = s.Ledger.Do(ctx, func(tx *ledger.Tx) error {
		v := tx.View()
		credited, err := v.Credited(e.Payment.Network, a.Transaction)
		if err != nil {
			return err
		}
		if e.Amount = credited; a.Kind != core.Void {
			e.Amount = t.Cents - credited
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
		if a.Kind != core.Void {
			// One that is not confirmed may yet move to another transaction.
			for _, r := range append(v.Open(), v.Unconfirmed()...) {
				if r.Cents == e.Amount && !foreign[r.ID] && mayBring(r, t) {
					return fmt.Errorf("%w: a payment of this account and amount is still being settled", ErrAdjustment)
				}
			}
		}
		for _, r := range without {
			at, _ := step(row{Reservation: *r}, facts{accounts: ReasonAdjusted})
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
	case errors.Is(err, core.ErrUnknown), errors.Is(err, core.ErrRemoved), errors.Is(err, core.ErrEvent):
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

// withoutEffect gives the payments that this transaction settled without an effect, or paid
// otherwise than was signed for, and for which the adjustment then accounts.
func (s *Service) withoutEffect(transaction string, named []mpp.Bound) (some []*ledger.Reservation, err error) {
	err = s.Each(func(r *ledger.Reservation) bool {
		p, err := StoredPayment(r)
		diverted := r.Outcome == mpp.Mismatched.String()
		by := strings.EqualFold(p.Reference, transaction) || diverted && slices.Contains(named, p.Bound())
		if err == nil && r.State == ledger.Failed && by && (diverted || r.Outcome == mpp.Settled.String()) {
			some = append(some, r)
		}
		return true
	})
	return some, err
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

// awaits refuses while an open payment has settled in the transaction, or will move there:
// the operator must not give away its money. Neither payer nor sum of the transaction
// decides, because it can hold other payments too. foreign has the ids of open payments of
// another chain or token than the method has now; this transaction brought nothing for
// them.
func (s *Service) awaits(ctx context.Context, n *network, transaction string) (foreign map[string]bool, err error) {
	foreign = map[string]bool{}
	var some []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { some = append(v.Open(), v.Unconfirmed()...) })
	for _, r := range some {
		p, err := StoredPayment(r)
		if err != nil {
			return nil, err
		}
		if p.Method != n.Name() || r.State == ledger.Applied && strings.EqualFold(p.Reference, transaction) {
			continue // of another method, or applied by this transaction
		}
		o, err := n.Outcome(ctx, p, time.Time{})
		switch {
		case errors.Is(err, mpp.ErrUnavailable):
			return nil, fmt.Errorf("what became of payment %s: %w", r.ID, err)
		case err != nil:
			s.Log.Warn("a payment that cannot be asked for does not keep from adjusting", "payment", r.ID, "err", err)
			foreign[r.ID] = true
		case o.State == mpp.Settled && strings.EqualFold(cmp.Or(o.Reference, p.Reference), transaction):
			return nil, fmt.Errorf("%w: a payment in this transaction is still being settled", ErrAdjustment)
		}
	}
	return foreign, nil
}

// mayBring says whether a payment may have brought a transfer. Both must have the same payer,
// and a payer's name contains the chain. The transfer must not be from before the reservation,
// nor from a time when the payment could no longer be mined. Clocks differ, and a payer may submit
// a payment itself before it sends the credential, within [ChallengeLife].
func mayBring(r *ledger.Reservation, t mpp.Transfer) bool {
	const apart = ChallengeLife + 5*time.Minute
	return r.Payer == t.Payer && r.Created.Before(t.At.Add(apart)) && (!r.Lapsed.IsZero() || t.At.Before(r.ValidBefore.Add(apart)))
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

// findVoid fills in the payment that is to be taken back.
func (s *Service) findVoid(ctx context.Context, a Adjustment, e *core.Adjusted) error {
	var err error
	s.Ledger.View(func(v *ledger.View) {
		for _, n := range s.networks {
			var credited int64
			if credited, err = v.Credited(n.Network(), a.Transaction); err != nil || credited > 0 {
				e.Payment = core.Payment{Method: n.Name(), Network: n.Network(), Transaction: a.Transaction}
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if e.Payment.Network == "" {
		var asked []string
		for _, n := range s.networks {
			asked = append(asked, n.Network())
		}
		return fmt.Errorf("%w: no event gave anything for %s on a network that is configured (%s)",
			ErrAdjustment, a.Transaction, cmp.Or(strings.Join(asked, ", "), "none is"))
	}
	r, err := s.Find(a.Transaction)
	applied := err == nil && r.State == ledger.Applied
	switch {
	case applied && !r.Confirmed:
		return fmt.Errorf("%w: the payment may still come back; wait until its network has decided", ErrAdjustment)
	case applied && a.Member != "" && a.Member != r.Member:
		return fmt.Errorf("%w: the payment was for %s, and not for %s", ErrAdjustment, r.Member, a.Member)
	case applied:
		e.Member, e.Payment.Payer = r.Member, r.Payer
		return s.vanished(ctx, r)
	case err != nil && !errors.Is(err, ledger.ErrNoReservation):
		return err
	case a.Member == "":
		return fmt.Errorf("%w: no payment was applied for it, so name its member", ErrAdjustment)
	}
	return nil
}

// vanished asks the network of an applied payment whether it is gone permanently, or has settled in
// another transaction whose money other events gave.
func (s *Service) vanished(ctx context.Context, r *ledger.Reservation) error {
	p, err := StoredPayment(r)
	if err != nil {
		return err
	}
	n := s.network(p.Method)
	if n == nil {
		return fmt.Errorf("%w: its method %s is not configured", ErrAdjustment, p.Method)
	}
	o, err := n.Outcome(ctx, p, time.Time{})
	if err != nil {
		return err
	}
	if o.State == mpp.Settled && o.Reference != "" && !strings.EqualFold(o.Reference, p.Reference) {
		t, err := n.received(ctx, o.Reference, everything)
		if err != nil {
			return err
		}
		var named int64
		err = s.eachPayment(func(_ uint64, _ time.Time, p core.Payment, cents int64) {
			if p.Network == n.Network() && strings.EqualFold(p.Transaction, o.Reference) {
				named += cents
			}
		})
		if err != nil || named+r.Cents > t.Cents {
			return err // other events gave that money, too
		}
	}
	if o.State == mpp.Settled || o.State == mpp.Pending && r.Outcome != outcomeGivenUp {
		return fmt.Errorf("%w: by its network, the payment is %s: %s", ErrAdjustment, o.State, o.Detail)
	}
	return nil
}

// findPage is how many rows are read at a time.
const findPage = 1000

// Find gives the reservation with this id or transaction. Of several it gives an applied
// one; without any it fails with [ledger.ErrNoReservation].
func (s *Service) Find(reference string) (*ledger.Reservation, error) {
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(reference) })
	if err != nil || r != nil && r.Cents > 0 {
		return r, err
	}
	var found *ledger.Reservation
	err = s.Each(func(r *ledger.Reservation) bool {
		if p, err := StoredPayment(r); err == nil && strings.EqualFold(p.Reference, reference) {
			found = r
		}
		return found == nil || found.State != ledger.Applied
	})
	if err == nil && found == nil {
		err = ledger.ErrNoReservation
	}
	return found, err
}

// StoredPayment reads the payment that a reservation holds.
func StoredPayment(r *ledger.Reservation) (p mpp.Payment, err error) {
	err = json.Unmarshal(r.Payment, &p)
	return p, err
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
}

// maxChainFindings bounds what one audit reports.
const maxChainFindings = 100

// VerifyChain asks the networks about every transaction that events name: each
// must have brought the payees that the ring ever had at least what events gave
// for it, or be the settled payment that was signed.
func (s *Service) VerifyChain(ctx context.Context) (a ChainAudit, err error) {
	a.Findings = []string{}
	named := map[[2]string]int64{}
	err = s.eachPayment(func(_ uint64, _ time.Time, p core.Payment, cents int64) {
		named[[2]string{p.Network, p.Transaction}] += cents
	})
	if err != nil {
		return a, err
	}
	var ids map[string][]string // read when one is missed
	moved := map[[2]string]int64{}
	find := func(format string, args ...any) {
		if len(a.Findings) < maxChainFindings {
			a.Findings = append(a.Findings, fmt.Sprintf(format, args...))
		}
	}
	networks := map[string]*network{}
	for _, n := range s.networks {
		networks[n.Network()] = n
	}
	for _, key := range sortedPairs(named) {
		cents := named[key]
		if cents <= 0 {
			continue // voided
		}
		n := networks[key[0]]
		if n == nil {
			a.Unknown++
			continue
		}
		if err := ctx.Err(); err != nil {
			return a, err
		}
		a.Asked++
		t, err := n.received(ctx, key[1], cents)
		if errors.Is(err, mpp.ErrNoTransfer) {
			// An authorisation may have been used by another transaction than ours.
			if ids == nil {
				if ids, err = s.idsByTransaction(); err != nil {
					return a, err
				}
			}
			t, err = s.signed(ctx, n, ids[strings.ToLower(key[1])], func(reference string, cents int64) { moved[[2]string{key[0], reference}] += cents })
		}
		switch {
		case errors.Is(err, mpp.ErrNoTransfer):
			find("%s %s brought this ring nothing; events gave %d cents for it", key[0], key[1], cents)
		case err != nil:
			a.Unknown++
		case t.Cents < cents:
			find("%s %s brought %d cents; events gave %d for it", key[0], key[1], t.Cents, cents)
		}
	}
	for _, key := range sortedPairs(moved) {
		t, err := networks[key[0]].received(ctx, key[1], everything)
		switch given := named[key] + moved[key]; {
		case err != nil:
			a.Unknown++
		case t.Cents < given:
			find("%s %s brought %d cents; events gave %d for it, %d of that for transactions that it replaces", key[0], key[1], t.Cents, given, moved[key])
		}
	}
	return a, nil
}

func sortedPairs(m map[[2]string]int64) [][2]string {
	return slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
}

// idsByTransaction gives the ids of the applied payments by their transactions.
func (s *Service) idsByTransaction() (map[string][]string, error) {
	ids := map[string][]string{}
	var unreadable error
	err := s.Each(func(r *ledger.Reservation) (more bool) {
		if r.State != ledger.Applied {
			return true
		}
		var p mpp.Payment
		p, unreadable = StoredPayment(r)
		transaction := strings.ToLower(p.Reference)
		ids[transaction] = append(ids[transaction], r.ID)
		return unreadable == nil
	})
	return ids, errors.Join(err, unreadable)
}

// signed asks a network what became of the stored payments of a transaction, as they were
// signed, and sums those that are settled. It calls moved with those that another transaction has
// settled. It fails with [mpp.ErrNoTransfer] if none is settled.
func (s *Service) signed(ctx context.Context, n *network, ids []string, moved func(reference string, cents int64)) (t mpp.Transfer, err error) {
	for _, id := range ids {
		r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(id) })
		if err != nil || r == nil {
			return t, errors.Join(err, mpp.ErrNoTransfer)
		}
		p, err := StoredPayment(r)
		if err != nil {
			return t, err
		}
		if p.Method != n.Name() {
			continue
		}
		o, err := n.Outcome(ctx, p, time.Time{})
		switch {
		case err != nil:
			return t, err
		case o.State == mpp.Pending: // its block was dropped, or the node has dropped the receipt
			return t, mpp.ErrUnavailable
		case o.State == mpp.Settled:
			if t.Cents += p.Cents; o.Reference != "" && !strings.EqualFold(o.Reference, p.Reference) {
				moved(strings.ToLower(o.Reference), p.Cents)
			}
		}
	}
	if t.Cents == 0 {
		return t, mpp.ErrNoTransfer
	}
	return t, nil
}
