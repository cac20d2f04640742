package memstore_test

import (
	"errors"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/memstore"
	"webring/server/ledger/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) func() ledger.Store {
		s := memstore.New()
		return func() ledger.Store { return s }
	})
}

func TestFaultsHappenOnceAndAtTheCommitNamed(t *testing.T) {
	for _, c := range []struct {
		fault  memstore.Fault
		stored bool
	}{{memstore.FailNotStored, false}, {memstore.FailButStored, true}} {
		s := memstore.New()
		s.FailAt(2, c.fault)
		for n, want := range []error{nil, memstore.ErrInjected, nil} {
			if err := s.Commit(ledger.Batch{string(rune('a' + n)): {1}}); !errors.Is(err, want) {
				t.Errorf("fault %d, commit %d: %v, want %v", c.fault, n+1, err, want)
			}
		}
		if _, err := s.Get([]byte("b")); (err == nil) != c.stored {
			t.Errorf("fault %d: the row that failed: %v, stored should be %t", c.fault, err, c.stored)
		}
	}
}
