package badgerstore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

// Refusing a folder gives its lock back.
func TestRefusedFolderIsLetGo(t *testing.T) {
	dir := t.TempDir()
	if err := openStore(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "MANIFEST")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, whole[:4], 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(dir, slog.New(slog.DiscardHandler)); !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("Open = %v, want ErrDamaged", err)
		}
	}
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, dir).Close(); err != nil {
		t.Error(err)
	}
}
