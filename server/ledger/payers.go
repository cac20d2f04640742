package ledger

import (
	"errors"

	"webring/core"
)

// Each account that has paid has a row. Ledgers of earlier versions lack these rows;
// [Open] adds them once.

// HasPaid says whether an event names a payment by this account.
func (v *View) HasPaid(payer string) (bool, error) {
	_, err := v.get(payerKey(payer))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// addPayer adds the row of the account that made the payment of an event.
func addPayer(rows Batch, e core.Event) {
	if p, cents := PaymentOf(e); p.Transaction != "" && p.Payer != "" && cents > 0 {
		rows[string(payerKey(p.Payer))] = []byte{}
	}
}

// payersPage is how many events addPayers reads before it writes. It bounds the memory
// that this takes, and the batch.
const payersPage = 1024

// addPayers adds the rows of the payers of all events, unless they are there. The row
// that says so is written last, so that an opening after a crash begins anew. While
// nothing may be written, this is left to a later opening.
func (l *Ledger) addPayers() error {
	if _, err := l.store().Get([]byte(payersKey)); !errors.Is(err, ErrNotFound) {
		return err
	}
	if l.room() != nil {
		return nil
	}
	for from := uint64(0); from < l.Size(); from += payersPage {
		records, err := l.Records(from, payersPage)
		if err != nil {
			return err
		}
		rows := Batch{}
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return err
			}
			addPayer(rows, e)
		}
		if from+payersPage >= l.Size() {
			rows[payersKey] = []byte{}
		}
		if err := l.store().Commit(rows); err != nil {
			return err
		}
	}
	return nil
}
