package badgerstore_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// Until it is accepted, a store that was opened is left as it was found, however
// its process ends; what is committed then stays.
func TestOpenedAndClosedIsAsItWasFound(t *testing.T) {
	dir, want := makeFolder(t, 3)
	store := filepath.Join(dir, storeName)
	found := readFolder(t, dir)
	s := opened(t, store)
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there")
	}
	// What a killed process leaves. Badger writes a table meanwhile, and removes
	// the file that it has read it from.
	killed := t.TempDir()
	err := os.CopyFS(killed, os.DirFS(dir))
	for errors.Is(err, os.ErrNotExist) {
		killed = t.TempDir()
		err = os.CopyFS(killed, os.DirFS(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
		t.Error("closed, it is another folder than before")
	}
	if entries, err := os.ReadDir(filepath.Join(killed, storeName, "trial")); err != nil || len(entries) == 0 {
		t.Fatalf("there was no copy: %v", err)
	}
	mustOpen(t, killed, want)
	if !maps.EqualFunc(readFolder(t, killed), found, file.equal) {
		t.Error("after a process that was killed, it is another folder than before")
	}

	s = opened(t, store)
	if err := s.Commit(ledger.Batch{"zz": []byte("new")}); err == nil {
		t.Error("it takes a commit before it is accepted")
	}
	if err := errors.Join(s.Accept(), s.Commit(ledger.Batch{"zz": []byte("new")})); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s is left after a commit", e.Name())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, store)
	if v, err := s.Get([]byte("zz")); err != nil || string(v) != "new" {
		t.Errorf("what was committed reads %q, %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A copy has all rows and takes none, and what it was made of is only read. It has
// them even when tables there are emptied, as Badger does when it has merged them.
func TestACopyStandsAlone(t *testing.T) {
	dir, want := makeFolder(t, 3)
	store := filepath.Join(dir, storeName)
	found := readFolder(t, dir)
	s, err := badgerstore.OpenCopy(store, filepath.Join(t.TempDir(), "copy"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Verify(), s.Accept()); err != nil {
		t.Error(err)
	}
	if err := s.Commit(ledger.Batch{"zz": []byte("new")}); err == nil {
		t.Error("it takes a commit")
	}
	if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
		t.Error("the store is another than before")
	}
	for _, table := range tablesIn(t, store) {
		if err := os.Truncate(table, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func tablesIn(t *testing.T, store string) []string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(store, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%q %v", tables, err)
	}
	return tables
}

func TestACopyOfADamagedStore(t *testing.T) {
	dir, _ := makeFolder(t, 3)
	store := filepath.Join(dir, storeName)
	table := tablesIn(t, store)[0]
	if err := os.Truncate(table, 100); err != nil {
		t.Fatal(err)
	}
	found, copied := readFolder(t, dir), filepath.Join(t.TempDir(), "copy")
	_, err := badgerstore.OpenCopy(store, copied, slog.New(slog.DiscardHandler))
	if !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(table)) || strings.Contains(err.Error(), copied) {
		t.Errorf("opened: %v", err)
	}
	if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
		t.Error("the store is another than before")
	}
}
