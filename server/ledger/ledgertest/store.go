package ledgertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"webring/server/ledger"
)

// ErrInjected is what a commit returns that was told to fail.
var ErrInjected = errors.New("ledgertest: injected fault")

// Fault is a way in which a commit can go wrong.
type Fault int

// A commit that fails may or may not have been stored.
const (
	None Fault = iota
	FailNotStored
	FailButStored
)

// Store is a [ledger.Store] in memory. It keeps the contract, can fail in every way in which a commit
// can, and can be copied as a disk can. Use [NewStore].
type Store struct {
	mu      sync.RWMutex
	rows    map[string]string
	commits int
	faults  map[int]Fault
	verify  error
}

// NewStore gives an empty store.
func NewStore() *Store { return &Store{rows: map[string]string{}, faults: map[int]Fault{}} }

// FailAt makes commit number n from now on, counted from 1, go wrong.
func (s *Store) FailAt(n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[s.commits+n] = f
}

// FailVerify makes Verify return err.
func (s *Store) FailVerify(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verify = err
}

// Commits is how many commits were tried.
func (s *Store) Commits() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.commits
}

// Copy gives a store with the same rows and no faults.
func (s *Store) Copy() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := NewStore()
	c.rows = maps.Clone(s.rows)
	return c
}

// Get implements [ledger.Store].
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.rows[string(key)]
	if !ok {
		return nil, ledger.ErrNotFound
	}
	return []byte(v), nil
}

// Scan implements [ledger.Store]. It reads the rows as they are at the start.
func (s *Store) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	type row struct{ key, value string }
	var rows []row
	s.mu.RLock()
	for k, v := range s.rows {
		if strings.HasPrefix(k, string(prefix)) && k >= string(from) {
			rows = append(rows, row{k, v})
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	for _, r := range rows {
		if err := fn([]byte(r.key), []byte(r.value)); errors.Is(err, ledger.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Accept implements [ledger.Store].
func (s *Store) Accept() error { return nil }

// Commit implements [ledger.Store].
func (s *Store) Commit(b ledger.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	fault := s.faults[s.commits]
	if fault != FailNotStored {
		for k, v := range b {
			if v == nil {
				delete(s.rows, k)
			} else {
				s.rows[k] = string(v)
			}
		}
	}
	if fault != None {
		return ErrInjected
	}
	return nil
}

// Verify implements [ledger.Store].
func (s *Store) Verify() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.verify
}

// Close implements [ledger.Store]. A closed store can be used again, as one
// on a disk could be opened again.
func (s *Store) Close() error { return nil }
