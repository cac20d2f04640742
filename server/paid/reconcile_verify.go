package paid

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"webring/core"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

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
	for from := uint64(0); ; {
		records, err := s.Ledger.Records(from, findPage)
		if err != nil {
			return a, err
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return a, err
			}
			if p, cents := ledger.PaymentOf(e); p.Transaction != "" {
				named[[2]string{p.Network, p.Transaction}] += cents
			}
		}
		from += uint64(len(records))
	}
	var ids map[string][]string // read when one is missed
	networks := map[string]*network{}
	for _, n := range s.networks {
		networks[n.Network()] = n
	}
	for _, key := range slices.SortedFunc(maps.Keys(named), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
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
			t, err = s.signed(ctx, n, ids[strings.ToLower(key[1])])
		}
		var finding string
		switch {
		case errors.Is(err, mpp.ErrNoTransfer):
			finding = fmt.Sprintf("%s %s brought this ring nothing; events gave %d cents for it", key[0], key[1], cents)
		case err != nil:
			a.Unknown++
		case t.Cents < cents:
			finding = fmt.Sprintf("%s %s brought %d cents; events gave %d for it", key[0], key[1], t.Cents, cents)
		}
		if finding != "" && len(a.Findings) < maxChainFindings {
			a.Findings = append(a.Findings, finding)
		}
	}
	return a, nil
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
// signed, and sums those that are settled. It fails with [mpp.ErrNoTransfer] if none is.
func (s *Service) signed(ctx context.Context, n *network, ids []string) (t mpp.Transfer, err error) {
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
		o, err := n.Outcome(ctx, p)
		switch {
		case err != nil:
			return t, err
		case o.State == mpp.Pending: // its block was dropped, or the node has dropped the receipt
			return t, mpp.ErrUnavailable
		case o.State == mpp.Settled:
			t.Cents += p.Cents
		}
	}
	if t.Cents == 0 {
		return t, mpp.ErrNoTransfer
	}
	return t, nil
}
