package ledgertest_test

import (
	"errors"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

func TestStore(t *testing.T) {
	ledgertest.TestStore(t, func(*testing.T) func() ledger.Store {
		s := ledgertest.NewStore()
		return func() ledger.Store { return s }
	})
}

func TestFaultsHappenOnceAndAtTheCommitNamed(t *testing.T) {
	for _, c := range []struct {
		fault  ledgertest.Fault
		stored bool
	}{{ledgertest.FailNotStored, false}, {ledgertest.FailButStored, true}} {
		s := ledgertest.NewStore()
		s.FailAt(2, c.fault)
		for n, want := range []error{nil, ledgertest.ErrInjected, nil} {
			if err := s.Commit(ledger.Batch{string(rune('a' + n)): {1}}); !errors.Is(err, want) {
				t.Errorf("fault %d, commit %d: %v, want %v", c.fault, n+1, err, want)
			}
		}
		if _, err := s.Get([]byte("b")); (err == nil) != c.stored {
			t.Errorf("fault %d: the row that failed: %v, stored should be %t", c.fault, err, c.stored)
		}
	}
}
