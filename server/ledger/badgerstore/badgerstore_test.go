package badgerstore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
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
	ledgertest.TestStore(t, func(t *testing.T) func() ledger.Store {
		dir := t.TempDir()
		return func() ledger.Store { return openStore(t, dir) }
	})
}

// What a reader of rows fails with is its own affair: it may write them to a network.
func TestAnErrorOfAReaderIsNotOfTheDisk(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	if err := errors.Join(s.Accept(), s.Commit(ledger.Batch{"a": {1}})); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(nil, nil, func(_, _ []byte) error { return unix.ETIMEDOUT }); err != unix.ETIMEDOUT || s.Fault() != nil {
		t.Errorf("%v, and the disk: %v", err, s.Fault())
	}
}

func TestSecondProcessIsToldThatTheOriginRuns(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrLocked) {
		t.Errorf("opening twice = %v, want ErrLocked", err)
	}
	// A process that was begun meanwhile has a copy of each open file until it runs its program.
	inherited, err := unix.Dup(int(s.lock.d.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
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

// Badger empties the tables that it has merged before it removes them, and those
// of the copy that is tried are second names of the ones that were found. So nothing
// may be merged before it is accepted, and something must be later. When Badger merges is up to
// it, which leaves its configuration to look at.
func TestNothingIsMergedBeforeItIsAccepted(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		s := openStore(t, dir)
		if merges := s.db.Opts().NumCompactors > 0; merges != (round == 0) {
			t.Errorf("round %d: merges tables before what was found is accepted: %t", round, merges)
		}
		if err := s.Accept(); err != nil {
			t.Fatal(err)
		}
		if s.db.Opts().NumCompactors == 0 {
			t.Errorf("round %d: never merges tables", round)
		}
		if err := errors.Join(s.Commit(ledger.Batch{"a": {byte(round)}}), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
