package ledger

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"webring/core"
)

// Events name their payments, and are found by them. So the ledger can say what the ring
// has given for any transaction of a network.

// HasPaid says whether an event names a payment by this account. Each account that has paid has a row.
func (v *View) HasPaid(payer string) (bool, error) {
	_, err := v.get(payerKey(payer))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// owes is in the row of an account that has paid and since then had a payment without an end which
// lapsed or failed. The event of its next payment empties the row.
var owes = []byte{1}

// PaidSince says whether an account has paid, and after any payment without an end of its that
// lapsed or failed.
func (v *View) PaidSince(payer string) (bool, error) {
	row, err := v.get(payerKey(payer))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && len(row) == 0, err
}

func numberValue(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Credited is what events have given for a transaction of a network, in cents,
// less what was voided again.
func (v *View) Credited(network, transaction string) (cents int64, err error) {
	rows, err := v.under(paymentKey(network, transaction))
	for _, r := range rows {
		if len(r.Value) != 8 {
			return 0, errors.New("ledger: a row of a payment is malformed")
		}
		cents += int64(binary.BigEndian.Uint64(r.Value))
	}
	return cents, err
}

// Adjusted says whether the operator has adjusted a transaction of a network.
func (v *View) Adjusted(network, transaction string) (bool, error) {
	named := paymentKey(network, transaction)
	numbers, err := v.numbers(named, named)
	for _, seq := range numbers {
		e, err := v.Event(seq)
		if err != nil {
			return false, err
		}
		if _, adjusted := e.(*core.Adjusted); adjusted {
			return true, nil
		}
	}
	return false, err
}

// MovePayment remembers that the money of event seq moved in another transaction
// of a network than the one it names: [View.Credited] counts it for both. It may
// fail with [ErrNotNow].
func (tx *Tx) MovePayment(network, transaction string, seq uint64, cents int64) error {
	return tx.set(paymentKey(network, transaction, seq), numberValue(uint64(cents)))
}

// set adds a row, or fails with [ErrNotNow].
func (tx *Tx) set(key, value []byte) error {
	if tx.refused == nil {
		tx.rows[string(key)] = value
	}
	return tx.refused
}

// CreditedTo gives the member that the first event about a transaction of a network names,
// and the payment of that event. Both have zero values without one. Several events share neither
// payee nor binding, so the payment has none then.
func (v *View) CreditedTo(network, transaction string) (member string, p core.Payment, err error) {
	named := paymentKey(network, transaction)
	numbers, err := v.numbers(named, named)
	if err != nil || len(numbers) == 0 {
		return "", p, err
	}
	e, err := v.Event(numbers[0])
	if err != nil {
		return "", p, err
	}
	if p, _ = core.PaymentOf(e); len(numbers) > 1 {
		p.Payee, p.Binding = "", ""
	}
	return core.MemberOf(e), p, nil
}

// Restored gives the first event that [Tx.Adopt] added about a payment of this network, payer and
// binding and that has no reservation yet; nil without one.
func (v *View) Restored(p core.Payment) (seq uint64, e core.Event, err error) {
	named := restoredKey(p)
	numbers, err := v.numbers(named, named)
	if err != nil || len(numbers) == 0 {
		return 0, nil, err
	}
	e, err = v.Event(numbers[0])
	return numbers[0], e, err
}

// numbers gives the numbers of the events that rows under a prefix name, in order, of those that are
// not before a key.
func (v *View) numbers(prefix, from []byte) (numbers []uint64, err error) {
	rows, err := v.rows(prefix, from, math.MaxInt)
	for _, r := range rows {
		if len(r.Key) != len(prefix)+8 {
			return nil, errors.New("ledger: a row of a payment is malformed")
		}
		numbers = append(numbers, binary.BigEndian.Uint64([]byte(r.Key[len(prefix):])))
	}
	return numbers, err
}

// Event reads event number seq, counted from 0.
func (v *View) Event(seq uint64) (core.Event, error) {
	raw, err := v.get(eventKey(seq, rowEvent))
	if err != nil {
		return nil, err
	}
	return core.DecodeEvent(raw)
}

// Scanned is the instant up to which the transfers on a network were compared with the
// events; the zero time when they never were.
func (v *View) Scanned(network string) (time.Time, error) {
	b, err := v.get(rowKey(prefixScanned, network))
	switch {
	case errors.Is(err, ErrNotFound):
		return time.Time{}, nil
	case err == nil && len(b) != 8:
		return time.Time{}, errors.New("ledger: the row of a scan is malformed")
	case err != nil:
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC(), nil
}

// SetScanned remembers what [View.Scanned] gives. It may fail with [ErrNotNow].
func (tx *Tx) SetScanned(network string, until time.Time) error {
	return tx.set(rowKey(prefixScanned, network), numberValue(uint64(until.UnixMilli())))
}

// Reservations gives up to n durable reservations of payments in the order of their ids,
// from the first id after the one given. It gives no proofs.
func (m *memory) Reservations(after string, n int) ([]*Reservation, error) {
	var found []*Reservation
	prefix := []byte{prefixReservation}
	err := m.store().Scan(prefix, rowKey(prefixReservation, after), func(key, value []byte) error {
		if string(key[1:]) == after {
			return nil
		}
		if len(found) == n {
			return ErrStop
		}
		r, err := decodeReservation(value)
		if err != nil {
			return fmt.Errorf("reservation %q: %w", key[1:], err)
		}
		if !r.proof() {
			found = append(found, r)
		}
		return nil
	})
	return found, err
}

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
	Paid        bool      `json:"paid,omitempty"`   // the payer had paid here before
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
