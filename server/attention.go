package server

import "webring/server/pay/mpp"

// NeedsAttention says whether an operator should look at the payment: it is open beyond its
// time, it was applied and has vanished, its money went elsewhere, or it settled without an
// effect.
func (r PaymentRow) NeedsAttention() bool {
	return r.Vanished || r.Overdue || r.Outcome == mpp.Mismatched.String() || r.NoEffect
}

// Attention counts the payments that need attention. It reads all that there are.
func (o *Operator) Attention() (n int, err error) {
	for after := ""; ; {
		page, err := o.Ledger.Reservations(after, rowsPerAnswer)
		if err != nil || len(page) == 0 {
			return n, err
		}
		for _, r := range page {
			if o.paymentRow(r).NeedsAttention() {
				n++
			}
		}
		after = page[len(page)-1].ID
	}
}
