package badgerstore_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// FuzzInspect looks at a manifest and a table of any bytes, as a start does before
// Badger gets to see them: it ends, and says what is wrong or nothing.
func FuzzInspect(f *testing.F) {
	live := f.TempDir()
	for range 2 {
		s, err := badgerstore.Open(live, slog.New(slog.DiscardHandler))
		if err != nil {
			f.Fatal(err)
		}
		if err := errors.Join(s.Accept(), s.Commit(ledger.Batch{"a": []byte("one"), "b": nil, "c": {}}), s.Close()); err != nil {
			f.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(live, "*.sst"))
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	manifest, err := os.ReadFile(filepath.Join(live, "MANIFEST"))
	if err != nil {
		f.Fatal(err)
	}
	table, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest, table)
	f.Add(manifest[:len(manifest)-3], table)
	f.Add(manifest, table[:len(table)/2])
	f.Add(manifest, []byte{})
	f.Add([]byte{}, []byte{})
	dir := f.TempDir()
	put := func(t *testing.T, name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, manifest, table []byte) {
		put(t, "MANIFEST", manifest)
		for _, name := range names {
			put(t, name, table)
		}
		if err := badgerstore.Inspect(dir); err != nil && err.Error() == "" {
			t.Fatal("refused without a word")
		}
	})
}
