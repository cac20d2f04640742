package cluster

import (
	"errors"
	"slices"
	"strings"

	"webring/server/ledger"
)

// errMoved says that the local store may have transactions that the overlay lacks.
var errMoved = errors.New("cluster: the overlay is old")

// row is a row of an overlay; the value of a deleted one is nil.
type row struct {
	key   string
	value []byte
}

// Scan implements [ledger.Store]. It reads one snapshot: that of the local store, overlaid with what
// was pending before the snapshot was taken. The overlay must have every pending transaction that the
// snapshot may have, or the scan would mix rows of different transactions. If it does not, the scan
// begins again, before it has called fn.
func (s *Store) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	for {
		over, number := s.overlay(string(prefix), string(from))
		if len(over) == 0 {
			return s.under.Scan(prefix, from, fn)
		}
		if err := s.scan(prefix, from, over, number, fn); err != errMoved {
			return err
		}
	}
}

// overlay gives the pending rows of a scan in order, and the number of the last transaction that it
// covers.
func (s *Store) overlay(prefix, from string) ([]row, uint64) {
	from = max(from, prefix)
	s.mu.RLock()
	defer s.mu.RUnlock()
	var rows []row
	for i := len(s.pending) - 1; i >= 0; i-- { // the newest first
		p := s.pending[i]
		at, _ := slices.BinarySearch(p.keys, from)
		for _, key := range p.keys[at:] {
			if !strings.HasPrefix(key, prefix) {
				break
			}
			rows = append(rows, row{key, p.rows[key]})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.key == b.key }), s.last
}

// scan merges an overlay into a scan of the local store.
func (s *Store) scan(prefix, from []byte, over []row, number uint64, fn func(key, value []byte) error) error {
	checked, ended := false, false
	// pass passes on the rows of the overlay that come before a key, or all.
	pass := func(key string, all bool) error {
		for len(over) > 0 && (all || over[0].key < key) {
			r := over[0]
			over = over[1:]
			if r.value == nil {
				continue
			}
			if err := fn([]byte(r.key), r.value); err != nil {
				ended = true
				return err
			}
		}
		return nil
	}
	err := s.under.Scan(prefix, from, func(key, value []byte) error {
		if !checked {
			// The snapshot was taken before this row was found.
			if s.mayHave(number) {
				return errMoved
			}
			checked = true
		}
		if err := pass(string(key), false); err != nil {
			return err
		}
		if len(over) > 0 && over[0].key == string(key) {
			return nil // it is passed on with the next
		}
		err := fn(key, value)
		ended = ended || err != nil
		return err
	})
	if err != nil || ended {
		return err
	}
	if !checked && s.mayHave(number) {
		return errMoved
	}
	if err := pass("", true); err != nil && !errors.Is(err, ledger.ErrStop) {
		return err
	}
	return nil
}

// mayHave reports whether the local store may have transactions after the one of this number.
func (s *Store) mayHave(number uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.begun > number
}
