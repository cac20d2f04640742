package badgerstore_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
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
	// What a killed process leaves: the rest may be anything.
	killed := t.TempDir()
	if err := os.CopyFS(filepath.Join(killed, storeName, "found"), os.DirFS(filepath.Join(store, "found"))); err != nil {
		t.Fatal(err)
	}
	writeAll(t, killed, map[string]string{storeName + "/MANIFEST": "x", storeName + "/000099.sst": "y"})
	if err := writeFolder(killed, map[string]file{headName: found[headName]}, damage{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
		t.Error("closed, it is another folder than before")
	}
	// Half of a copy that was being made counts for nothing.
	writeAll(t, killed, map[string]string{storeName + "/found.part/MANIFEST": "x"})
	s = opened(t, filepath.Join(killed, storeName))
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there after a process that was killed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
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
