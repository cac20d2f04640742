package ledger_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"webring/server/ledger"
)

// FuzzRows opens ledgers in which one row is any bytes, as a restored file or a
// disk may have it. Opening refuses, or all that is served can be read again and
// agrees; what was not altered is never refused.
func FuzzRows(f *testing.F) {
	r := newSteps(f)
	for _, s := range steps {
		r.must(s)
	}
	if err := r.Close(); err != nil {
		f.Fatal(err)
	}
	wantSize, wantRoot := r.Root()
	head, err := os.ReadFile(r.config().HeadPath)
	if err != nil {
		f.Fatal(err)
	}
	var rows []ledger.Row
	err = r.store.Scan(nil, nil, func(key, value []byte) error {
		rows = append(rows, ledger.Row{Key: slices.Clone(key), Value: slices.Clone(value)})
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	for i, row := range rows {
		f.Add(uint16(i), row.Key, row.Value)
		f.Add(uint16(i), append(slices.Clone(row.Key), 0), row.Value)
		f.Add(uint16(i), row.Key, row.Value[:len(row.Value)/2])
	}
	path := filepath.Join(f.TempDir(), "head")
	f.Fuzz(func(t *testing.T, which uint16, key, value []byte) {
		if len(key) == 0 || len(key) > 1<<10 {
			return
		}
		if err := os.WriteFile(path, head, 0o600); err != nil {
			t.Fatal(err)
		}
		store, old := r.store.Copy(), rows[int(which)%len(rows)]
		if err := store.Commit(ledger.Batch{string(old.Key): nil}); err != nil {
			t.Fatal(err)
		}
		if err := store.Commit(ledger.Batch{string(key): value}); err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(ledger.Config{Store: store, HeadPath: path, Capacity: capacity, Now: r.now})
		same := string(key) == string(old.Key) && string(value) == string(old.Value)
		if err != nil {
			if same {
				t.Fatalf("an unaltered ledger is refused: %v", err)
			}
			return
		}
		defer l.Close()
		if _, err := l.Audit(t.Context()); same && err != nil {
			t.Fatal(err)
		}
		if size, root := l.Root(); size != wantSize || root != wantRoot {
			t.Fatalf("row %d as %q: %q opens with another tree", which, key, value)
		}
	})
}
