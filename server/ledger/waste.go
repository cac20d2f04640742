package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Waste is gas that the operator has paid for a payment that failed. It is stored as long as
// its payer can be refused for it.
type Waste struct {
	At          time.Time `json:"at"`
	Network     string    `json:"network"`
	Transaction string    `json:"transaction"`
	Payer       string    `json:"payer"`
	Client      string    `json:"client,omitempty"` // that brought the payment; "" if not known
	Gas         uint64    `json:"gas"`              // units
	Wei         string    `json:"wei"`              // what they cost
	Late        bool      `json:"late,omitempty"`   // the payer is not to blame
	Apart       bool      `json:"apart,omitempty"`  // the payer had paid for as much before: it does not count for others
}

// AddWaste remembers what [View.Wastes] gives. It may fail with [ErrNotNow].
func (tx *Tx) AddWaste(w Waste) error {
	row, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return tx.set(rowKey(prefixWaste, w.Network, w.Transaction), row)
}

// ForgetWaste undoes [Tx.AddWaste].
func (tx *Tx) ForgetWaste(w Waste) {
	tx.rows[string(rowKey(prefixWaste, w.Network, w.Transaction))] = nil
}

// Wastes gives all waste that is remembered, the oldest first.
func (v *View) Wastes() ([]Waste, error) {
	rows, err := v.under([]byte{prefixWaste})
	if err != nil {
		return nil, err
	}
	var all []Waste
	for _, row := range rows {
		var w Waste
		if err := json.Unmarshal(row.Value, &w); err != nil {
			return nil, fmt.Errorf("ledger: the row of the waste %q: %w", row.Key, err)
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b Waste) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Transaction, b.Transaction))
	})
	return all, nil
}
