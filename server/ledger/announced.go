package ledger

import (
	"slices"
	"strings"

	"webring/core"
)

// announced is what the events so far say of how the ring is paid and published. The state has
// nothing of it.
type announced struct {
	payees   map[string][]string // by network, in the order of their events
	keys     core.Keys           // the last; the zero value before the first
	snapshot core.Snapshotted    // the last; the zero value before the first
	changed  uint64              // events up to the last one that is not about a snapshot
}

// take adds event number seq.
func (a *announced) take(seq uint64, e core.Event) {
	switch e := e.(type) {
	case *core.Snapshotted:
		a.snapshot = *e
		return
	case *core.Keys:
		a.keys = *e
	case *core.Payees:
		if a.payees == nil {
			a.payees = map[string][]string{}
		}
		for _, p := range e.List {
			if !slices.Contains(a.payees[p.Network], p.Account) {
				a.payees[p.Network] = append(a.payees[p.Network], p.Account)
			}
		}
	}
	a.changed = seq + 1
}

// Payees gives the payees of a network that events name, and those that an earlier version of this
// program has stored: the present one and all earlier ones.
func (v *View) Payees(network string) (payees []string, err error) {
	payees = slices.Clone(v.l.announced.payees[network])
	prefix := rowKey(prefixPayee, network, "")
	rows, err := v.under(prefix)
	for _, r := range rows {
		if payee := r.Key[len(prefix):]; !slices.Contains(payees, payee) {
			payees = append(payees, payee)
		}
	}
	return payees, err
}

// Keys gives the last event about signing keys, the zero value before the first.
func (v *View) Keys() core.Keys { return v.l.announced.keys }

// Snapshotted gives the last event about a snapshot, the zero value before the first.
func (v *View) Snapshotted() core.Snapshotted { return v.l.announced.snapshot }

// Changed is how many events there were with the last one that is not about a snapshot: what comes
// after it gives no reason for another snapshot.
func (v *View) Changed() uint64 { return v.l.announced.changed }

// AnnouncePayees adds the event that names these payees, and those that an earlier version of this
// program has stored in rows of its own, which it deletes. It adds nothing for payees that events
// name already. It may fail with [ErrNotNow].
func (tx *Tx) AnnouncePayees(some ...core.Payee) error {
	rows, err := tx.View().under([]byte{prefixPayee})
	if err != nil {
		return err
	}
	for _, r := range rows {
		network, account, _ := strings.Cut(r.Key[1:], "\x00")
		some = append(some, core.Payee{Network: network, Account: account})
	}
	some = slices.DeleteFunc(some, func(p core.Payee) bool {
		return p.Network == "" || p.Account == "" || slices.Contains(tx.l.announced.payees[p.Network], p.Account)
	})
	slices.SortFunc(some, core.Payee.Compare)
	for list := range slices.Chunk(slices.Compact(some), core.MaxPayees) {
		if _, err := tx.Append(&core.Payees{Stamp: tx.Stamp(), List: list}, nil); err != nil {
			return err
		}
	}
	for _, r := range rows {
		if err := tx.set([]byte(r.Key), nil); err != nil {
			return err
		}
	}
	return nil
}
