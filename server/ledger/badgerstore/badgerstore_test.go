package badgerstore

import (
	"errors"
	"log/slog"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/storetest"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() ledger.Store {
		dir := t.TempDir()
		return func() ledger.Store { return openStore(t, dir) }
	})
}

func TestSecondProcessIsToldThatTheOriginRuns(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrLocked) {
		t.Errorf("opening twice = %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, dir).Close(); err != nil {
		t.Error(err)
	}
}
