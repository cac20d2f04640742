package paid

import (
	"context"
	"errors"
	"math"
	"slices"

	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// The operator can change the payee, and earlier payments still count. A stored payment
// names the payee that it was signed for. But events that came back from an edge, and
// events about money without a request, have no stored payment. So the ledger stores all
// payees.

// rememberPayee stores the payee of n before the first payment to it, and gives n all
// payees that it ever had.
func (s *Service) rememberPayee(n *network) error {
	today := n.Payee()
	var known []string
	var err error
	s.Ledger.View(func(v *ledger.View) { known, err = v.Payees(n.Network()) })
	if err == nil && !slices.Contains(known, today) {
		err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error { return tx.AddPayee(n.Network(), today) })
	}
	n.payees = append([]string{today}, slices.DeleteFunc(known, func(payee string) bool { return payee == today })...)
	return err
}

// everything is more than any transaction brings, in cents.
const everything = math.MaxInt64

// received says what a transaction brought today's payee and, while that is not enough
// cents, earlier payees. It refuses as [Method.Received] does.
func (n *network) received(ctx context.Context, reference string, enough int64) (all mpp.Transfer, err error) {
	for _, payee := range n.payees {
		t, err := n.Received(ctx, payee, reference)
		switch {
		case errors.Is(err, mpp.ErrNoTransfer):
			continue
		case err != nil:
			return mpp.Transfer{}, err
		case all.Cents == 0:
			all = t
		default:
			all.Cents += t.Cents
			all.Senders += t.Senders // one that paid two payees counts twice
		}
		if all.Cents >= enough {
			break
		}
	}
	if all.Cents == 0 {
		return all, mpp.ErrNoTransfer
	}
	return all, nil
}
