package ledgertest_test

import (
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
