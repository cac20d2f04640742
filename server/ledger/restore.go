package ledger

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Row is one row of a store on its way to another.
type Row struct{ Key, Value []byte }

// maxRow bounds what a row may take in a batch of its own.
const maxRow = MaxBatch / 2

// ErrRow says that a row cannot come from a ledger.
var ErrRow = errors.New("ledger: a row is larger than any that a ledger writes")

// Rows calls fn for every row as they all are at one instant, in the order of
// their keys. It may run while the ledger works. The slices are valid during
// the call only.
func (m *memory) Rows(fn func(Row) error) error {
	return m.store().Scan(nil, nil, func(key, value []byte) error { return fn(Row{key, value}) })
}

// Restore fills an empty store with rows, which next gives until it says that
// there is no more, and makes the head that belongs to them. Nothing is checked
// here: [Open] does, on what is stored then.
func Restore(store Store, headPath string, next func() (r Row, more bool, err error)) error {
	err := store.Scan(nil, nil, func(_, _ []byte) error { return errors.New("ledger: the store that is to be filled is not empty") })
	if err == nil {
		err = store.Accept()
	}
	if err != nil {
		return err
	}
	batch, size := Batch{}, 0
	flush := func() error {
		err := store.Commit(batch)
		batch, size = Batch{}, 0
		return err
	}
	for {
		r, more, err := next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		n := len(r.Key) + len(r.Value)
		if n > maxRow {
			return ErrRow
		}
		if size+n > maxRow || len(batch) == MaxBatchRows/2 {
			if err := flush(); err != nil {
				return err
			}
		}
		batch[string(r.Key)] = append([]byte{}, r.Value...)
		size += n
	}
	if err := flush(); err != nil {
		return err
	}
	end, err := transactions(store)
	if err != nil {
		return err
	}
	if end.Serial == 0 {
		return errors.New("ledger: there is no transaction in what is to be restored")
	}
	h, err := createHead(headPath, end)
	if err != nil {
		return fmt.Errorf("ledger: make the head: %w", err)
	}
	return h.file.Close()
}

// RootAt is the RFC 6962 root over the first size durable events.
func (m *memory) RootAt(size uint64) (tlog.Hash, error) {
	if size > m.Size() {
		return tlog.Hash{}, fmt.Errorf("ledger: there are no %d events", size)
	}
	return tlog.TreeHash(int64(size), m.HashReader())
}
