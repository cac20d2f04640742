package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// scanned is what a view finds of a table, as one string.
func scanned(t *testing.T, v *ledger.View, prefix, from string, n int) (all string) {
	t.Helper()
	rows, err := v.Scan(ledger.Reports, prefix, from, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		all += fmt.Sprintf("%q=%q ", r.Key, r.Value)
	}
	return all
}

// expected is the same of a plain map.
func expected(rows map[string]string, prefix, from string, n int) (all string) {
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if strings.HasPrefix(key, prefix) && key >= from && n > 0 {
			all, n = all+fmt.Sprintf("%q=%q ", key, rows[key]), n-1
		}
	}
	return all
}

// Whatever turns write, delete or leave undone, a table is what a map would be: within a turn,
// within a group that is not stored yet, after it, after a restart, and from a backup.
func TestTablesAgreeWithAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := openedRing(t)
	want := map[string]string{}
	pick := func() string {
		key := make([]byte, rnd.IntN(4))
		for i := range key {
			key[i] = "a\x00\xff"[rnd.IntN(3)]
		}
		return string(key)
	}
	check := func(v *ledger.View, want map[string]string) {
		t.Helper()
		prefix, from, n := pick(), pick(), rnd.IntN(8)
		if got, want := scanned(t, v, prefix, from, n), expected(want, prefix, from, n); got != want {
			t.Fatalf("Scan(%q, %q, %d) =\n%s, want\n%s", prefix, from, n, got, want)
		}
		key := pick()
		value, err := v.Value(ledger.Reports, key)
		if there, ok := want[key]; err != nil || ok != (value != nil) || string(value) != there {
			t.Fatalf("Value(%q) = %q, %v, want %q, %t", key, value, err, there, ok)
		}
	}
	turn := func(tx *ledger.Tx) error {
		after := maps.Clone(want)
		for range rnd.IntN(6) {
			key, value := pick(), []byte(nil)
			if delete(after, key); rnd.IntN(3) > 0 {
				value = fmt.Append([]byte{}, rnd.IntN(100))
				after[key] = string(value)
			}
			if err := tx.Put(ledger.Reports, key, value); err != nil {
				t.Fatal(err)
			}
			check(tx.View(), after)
		}
		if rnd.IntN(4) == 0 {
			return errRefused
		}
		want = after
		return nil
	}
	// While a group is committed, the turns of the next one are queued, and views see both.
	var group sync.WaitGroup
	commits := 0
	r.over = func(s ledger.Store) ledger.Store {
		return hooked{s, func() {
			if commits++; commits%2 == 1 {
				for range 3 {
					group.Go(func() {
						if err := r.do(turn); err != nil && err != errRefused {
							t.Error(err)
						}
					})
				}
				r.waitQueued(3)
			}
			r.View(func(v *ledger.View) { check(v, want) })
		}}
	}
	for range 60 {
		r.reopen()
		for range 3 {
			if err := r.do(turn); err != nil && err != errRefused {
				t.Fatal(err)
			}
			group.Wait()
			r.View(func(v *ledger.View) { check(v, want) })
		}
	}
	r.View(func(v *ledger.View) {
		if got, want := scanned(t, v, "", "", 1000), expected(want, "", "", 1000); got != want || got == "" {
			t.Errorf("at last:\n%s, want\n%s", got, want)
		}
	})
}

// hooked is a store that calls a function before each commit.
type hooked struct {
	ledger.Store
	hook func()
}

func (h hooked) Commit(b ledger.Batch) error {
	h.hook()
	return h.Store.Commit(b)
}

func TestRowsOfTablesAreBounded(t *testing.T) {
	r := openedRing(t)
	before := r.digest()
	key := strings.Repeat("k", ledger.MaxTableKey)
	for name, put := range map[string]func(tx *ledger.Tx) error{
		"table": func(tx *ledger.Tx) error { return tx.Put("other", "key", nil) },
		"key":   func(tx *ledger.Tx) error { return tx.Put(ledger.Reports, key+"k", nil) },
		"value": func(tx *ledger.Tx) error {
			return tx.Put(ledger.Reports, key, make([]byte, ledger.MaxTableValue+1))
		},
	} {
		if err := r.do(put); !errors.Is(err, ledger.ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, value := range map[string][]byte{"rows": {}, "bytes": make([]byte, 100<<10)} {
		n := 0
		err := r.do(func(tx *ledger.Tx) (err error) {
			for ; err == nil; n++ {
				err = tx.Put(ledger.Reports, fmt.Sprint(n), value)
			}
			return err
		})
		if !errors.Is(err, ledger.ErrTurn) || n > ledger.MaxTurnRows+1 || n*len(value) > ledger.MaxTurnBytes+len(value) || n < 10 {
			t.Errorf("%s: %v after %d rows", name, err, n)
		}
	}
	if r.digest() != before {
		t.Error("what was refused left a trace")
	}
	r.must(func(tx *ledger.Tx) error { return tx.Put(ledger.Reports, key, make([]byte, ledger.MaxTableValue)) })
}

// A group has no more rows than a store must take, whatever its turns write.
func TestGroupIsBoundedInRows(t *testing.T) {
	r := openedRing(t)
	g := r.gate()
	r.reopen()
	var done sync.WaitGroup
	const turns = 40
	for n := range turns {
		done.Go(func() {
			err := r.do(func(tx *ledger.Tx) (err error) {
				for i := 0; i < ledger.MaxTurnRows && err == nil; i++ {
					err = tx.Put(ledger.Reports, fmt.Sprint(n, " ", i), []byte{})
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		if n == 0 {
			<-g.arrived
		}
	}
	r.waitQueued(turns - 1)
	g.pass <- struct{}{}
	for range (turns - 1 + 7) / 8 {
		<-g.arrived
		if n := r.Staged(); n > ledger.MaxBatchRows {
			t.Errorf("a batch of %d rows", n)
		}
		g.pass <- struct{}{}
	}
	done.Wait()
}

// Tables come back from a backup as they were, and an audit finds rows that nothing writes.
func TestTablesAreRestoredAndAudited(t *testing.T) {
	r := openedRing(t, "ada")
	r.must(func(tx *ledger.Tx) error { return tx.Put(ledger.Reports, "a\x00b", []byte("words")) })
	copied := ledgertest.NewStore()
	var rows []ledger.Row
	if err := r.Rows(func(row ledger.Row) error {
		rows = append(rows, ledger.Row{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	head := filepath.Join(t.TempDir(), "head")
	err := ledger.Restore(copied, head, func() (row ledger.Row, more bool, err error) {
		if len(rows) == 0 {
			return row, false, nil
		}
		row, rows = rows[0], rows[1:]
		return row, true, nil
	})
	if err != nil || digestOf(t, copied) != r.digest() {
		t.Fatalf("restored otherwise: %v", err)
	}
	for _, c := range []struct {
		row      string
		findings int
	}{{"dreports\x00c", 0}, {"dof a later version\x00c", 0}, {"dreports", 1}, {"d\x00c", 1}, {"dreports\x00" + strings.Repeat("k", 513), 1}} {
		if err := copied.Commit(ledger.Batch{c.row: {}}); err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Open(ledger.Config{Store: copied, HeadPath: head, Capacity: capacity})
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Audit(context.Background())
		if err != nil || len(a.Findings) != c.findings {
			t.Errorf("%q: %v, %v, want %d findings", c.row, a, err, c.findings)
		}
		if err := errors.Join(l.Close(), copied.Commit(ledger.Batch{c.row: nil})); err != nil {
			t.Fatal(err)
		}
	}
}
