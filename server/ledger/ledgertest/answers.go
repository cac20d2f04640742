package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// answers holds what clients were told against what every ledger has in the end, and
// against the chain.
func (c *checker) answers() error {
	came := map[string]bool{}
	for _, t := range c.Transfers {
		came[t.Transaction] = true
	}
	first := map[string][]byte{} // the first 2xx by payment
	for _, a := range c.Answers {
		switch told := a.told(); told {
		case ledger.Applied:
			for _, n := range c.nodes {
				if !n.Behind {
					c.applied(a, n)
				}
			}
			if a.Status/100 == 2 {
				if before, again := first[a.Payment]; again && !bytes.Equal(before, a.Body) {
					c.violated(OneAnswer, "payment %s was answered in two ways: %s and %s", a.Payment, before, a.Body)
				}
				first[a.Payment] = a.Body
			}
		case ledger.Failed:
			r := c.longest.payments[a.Payment]
			switch {
			case r != nil && r.State != ledger.Failed:
				c.violated(Truth, "%s said %s that payment %s came to nothing, and it is %s", a.Node, a, a.Payment, r.State)
			case r != nil && r.Outcome == mpp.Settled.String() && a.Code != string(api.PaymentUnapplied):
				c.violated(Truth, "%s said %s that payment %s came to nothing, and its money came", a.Node, a, a.Payment)
			case came[a.Transaction] && a.Code != string(api.PaymentUnapplied):
				c.violated(Truth, "%s said %s that payment %s came to nothing, and its transfer is on the chain", a.Node, a, a.Payment)
			}
		case ledger.Reserved: // neither this nor that is claimed
		default:
			c.violated(Truth, "%s answered payment %s with %s, which says nothing about it", a.Node, a.Payment, a)
		}
	}
	return nil
}

// told is the state of a payment that an answer claims: [ledger.Reserved] if it leaves
// that open, and "" for an answer that no payment may get.
func (a Answer) told() ledger.ReservationState {
	switch {
	case a.Status/100 == 2:
		return ledger.Applied
	case slices.Contains([]int{408, 429, 503}, a.Status):
		return ledger.Reserved
	case a.Code == string(api.CredentialReused):
		switch a.Outcome {
		case "applied":
			return ledger.Applied
		case "failed":
			return ledger.Failed
		case "pending":
			return ledger.Reserved
		}
		return ""
	case a.Status/100 == 4 && a.Code != "":
		return ledger.Failed // refused: nothing was charged
	}
	return ""
}

// String is how an answer stands in a finding.
func (a Answer) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Status, a.Code, a.Outcome))
}

// applied holds that a node has what a client was told is done.
func (c *checker) applied(a Answer, n *found) {
	r := n.payments[a.Payment]
	switch {
	case r == nil:
		c.violated(NothingLost, "payment %s was answered %s by %s, and %s does not know it", a.Payment, a, a.Node, n.Name)
		return
	case r.State != ledger.Applied:
		c.violated(NothingLost, "payment %s was answered %s by %s, and is %s at %s", a.Payment, a, a.Node, r.State, n.Name)
		return
	case r.Cents != a.Cents:
		c.violated(Truth, "payment %s of %d cents was answered %s by %s, and has %d at %s", a.Payment, a.Cents, a, a.Node, r.Cents, n.Name)
	case a.Position > n.Books.Size():
		c.violated(NothingLost, "%s answered payment %s at position %d, and %s ends at %d", a.Node, a.Payment, a.Position, n.Name, n.Books.Size())
	case a.Position != 0 && r.Seq >= a.Position:
		c.violated(Truth, "%s answered payment %s at position %d, and its event is number %d at %s", a.Node, a.Payment, a.Position, r.Seq, n.Name)
	}
	if r.Seq >= uint64(len(c.events)) || c.events[r.Seq].cents != r.Cents || c.events[r.Seq].payment.Payer != r.Payer {
		c.violated(NothingLost, "payment %s has event %d at %s, which is about another or missing", a.Payment, r.Seq, n.Name)
	}
	if a.Status/100 == 2 && r.Response != nil && !r.Redacted && !bytes.Equal(r.Response.Body, a.Body) {
		c.violated(OneAnswer, "%s answered payment %s with %s, and %s has stored %s", a.Node, a.Payment, a.Body, n.Name, r.Response.Body)
	}
}
