package badgerstore_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// Until something is committed, a store that was opened is left as it was found,
// however its process ends; what is committed stays.
func TestOpenedAndClosedIsAsItWasFound(t *testing.T) {
	dir, want := makeFolder(t, 3)
	store := filepath.Join(dir, storeName)
	found := readFolder(t, dir)
	s := opened(t, store)
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there")
	}
	// A copy is what a killed process leaves.
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(readFolder(t, dir), found) {
		t.Error("opening changes nothing: there is no need to keep what was found")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(readFolder(t, dir), found) {
		t.Error("closed, it is another folder than before")
	}
	// Half of a copy that was being made counts for nothing.
	half := filepath.Join(killed, storeName, "found.part")
	if err := errors.Join(os.Mkdir(half, 0o700), os.WriteFile(filepath.Join(half, "MANIFEST"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s = opened(t, filepath.Join(killed, storeName))
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there after a process that was killed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(readFolder(t, killed), found) {
		t.Error("after a process that was killed, it is another folder than before")
	}

	s = opened(t, store)
	if err := s.Commit(ledger.Batch{"zz": []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(killed, "later"), os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{store, filepath.Join(killed, "later")} {
		s = opened(t, dir)
		if v, err := s.Get([]byte("zz")); err != nil || string(v) != "new" {
			t.Errorf("what was committed reads %q, %v", v, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}

func opened(t *testing.T, dir string) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
