package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"webring/server/ledger"
)

// TestStore tests the contract of [ledger.Store]. make gives the store that is under test; called
// again, after a Close, it gives the same store with what was committed.
// Stores of different runs of make's subtest t are different stores.
func TestStore(t *testing.T, make func(t *testing.T) func() ledger.Store) {
	open := func(t *testing.T) func() ledger.Store {
		again := make(t)
		return func() ledger.Store {
			s := again()
			if err := s.Accept(); err != nil {
				t.Fatalf("Accept: %v", err)
			}
			return s
		}
	}
	t.Run("empty", func(t *testing.T) {
		s := open(t)()
		defer closeStore(t, s)
		if _, err := s.Get([]byte("a")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Get in an empty store = %v, want ErrNotFound", err)
		}
		if rows := scan(t, s, "", ""); len(rows) != 0 {
			t.Errorf("an empty store has rows: %q", rows)
		}
		if err := s.Verify(); err != nil {
			t.Errorf("Verify of an empty store = %v", err)
		}
		commit(t, s, ledger.Batch{})
	})
	t.Run("a batch is stored, replaced and deleted as one", func(t *testing.T) { batches(t, open(t)) })
	t.Run("scans are ordered, bounded and stoppable", func(t *testing.T) { scans(t, open(t)) })
	t.Run("what is given and taken is not shared", func(t *testing.T) { owned(t, open(t)) })
	t.Run("the largest batch is taken", func(t *testing.T) { largest(t, open(t)) })
	t.Run("readers see all of a batch or nothing", func(t *testing.T) { isolated(t, open(t)) })
	t.Run("a random history survives closing", func(t *testing.T) { randomHistory(t, open(t)) })
}

func batches(t *testing.T, open func() ledger.Store) {
	s := open()
	commit(t, s, ledger.Batch{"a": []byte("1"), "b": {}, "c": []byte("3")})
	commit(t, s, ledger.Batch{"a": []byte("9"), "c": nil, "absent": nil, "d\x00\xff": []byte("\x00")})
	want := "a=9 b= d\x00\xff=\x00"
	for range 2 {
		if got := strings.Join(scan(t, s, "", ""), " "); got != want {
			t.Errorf("rows are %q, want %q", got, want)
		}
		if _, err := s.Get([]byte("c")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("Get of a deleted row = %v, want ErrNotFound", err)
		}
		if v, err := s.Get([]byte("b")); err != nil || len(v) != 0 {
			t.Errorf("Get of an empty value = %q, %v", v, err)
		}
		closeStore(t, s)
		s = open()
	}
	closeStore(t, s)
}

func scans(t *testing.T, open func() ledger.Store) {
	s := open()
	defer closeStore(t, s)
	b := ledger.Batch{}
	for _, k := range []string{"a", "p", "p\x00", "p1", "p2", "p2\xff", "p\xff\xff", "q"} {
		b[k] = []byte(k)
	}
	commit(t, s, b)
	for _, c := range []struct{ prefix, from, want string }{
		{"", "", "a p p\x00 p1 p2 p2\xff p\xff\xff q"},
		{"p", "", "p p\x00 p1 p2 p2\xff p\xff\xff"},
		{"p", "p", "p p\x00 p1 p2 p2\xff p\xff\xff"},
		{"p", "p1", "p1 p2 p2\xff p\xff\xff"},
		{"p", "p11", "p2 p2\xff p\xff\xff"},
		{"p", "a", "p p\x00 p1 p2 p2\xff p\xff\xff"},
		{"p", "q", ""},
		{"p\xff", "", "p\xff\xff"},
		{"z", "", ""},
	} {
		var got []string
		err := s.Scan([]byte(c.prefix), []byte(c.from), func(key, value []byte) error {
			if !bytes.Equal(key, value) {
				t.Errorf("row %q has the value %q", key, value)
			}
			got = append(got, string(key))
			return nil
		})
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("Scan(%q, %q) = %q, %v, want %q", c.prefix, c.from, got, err, c.want)
		}
	}

	n, failure := 0, errors.New("enough")
	for _, c := range []struct{ stop, want error }{{ledger.ErrStop, nil}, {failure, failure}} {
		n = 0
		err := s.Scan(nil, nil, func(key, _ []byte) error {
			if _, err := s.Get(key); err != nil {
				t.Errorf("Get inside a scan: %v", err)
			}
			if n++; n == 2 {
				return c.stop
			}
			return nil
		})
		if err != c.want || n != 2 {
			t.Errorf("a scan stopped with %v after two rows: %v after %d", c.stop, err, n)
		}
	}
}

func owned(t *testing.T, open func() ledger.Store) {
	s := open()
	defer closeStore(t, s)
	b := ledger.Batch{"a": []byte("first")}
	commit(t, s, b)
	copy(b["a"], "other")
	v, err := s.Get([]byte("a"))
	if err != nil || string(v) != "first" {
		t.Fatalf("Get = %q, %v: the store kept the caller's bytes", v, err)
	}
	copy(v, "third")
	if v, _ := s.Get([]byte("a")); string(v) != "first" {
		t.Errorf("Get = %q: the store gave its own bytes", v)
	}
}

func largest(t *testing.T, open func() ledger.Store) {
	s := open()
	b := ledger.Batch{}
	size := ledger.MaxBatch / ledger.MaxBatchRows
	for i := range ledger.MaxBatchRows {
		key := fmt.Sprintf("%08d", i)
		b[key] = bytes.Repeat([]byte{byte(i)}, size-len(key))
	}
	commit(t, s, b)
	commit(t, s, ledger.Batch{"large": make([]byte, 512<<10)})
	closeStore(t, s)
	s = open()
	defer closeStore(t, s)
	if n := len(scan(t, s, "", "")); n != ledger.MaxBatchRows+1 {
		t.Errorf("%d rows, want %d", n, ledger.MaxBatchRows+1)
	}
	if v, err := s.Get([]byte("large")); err != nil || len(v) != 512<<10 {
		t.Errorf("the large row has %d bytes, %v", len(v), err)
	}
}

func isolated(t *testing.T, open func() ledger.Store) {
	s := open()
	defer closeStore(t, s)
	const rounds = 50
	write := func(i int) {
		v := []byte(fmt.Sprint(i))
		commit(t, s, ledger.Batch{"a": v, "m": v, "z": v})
	}
	write(0)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				seen := map[string]bool{}
				err := s.Scan(nil, nil, func(_, value []byte) error {
					seen[string(value)] = true
					return nil
				})
				if err != nil || len(seen) != 1 {
					t.Errorf("a scan saw parts of several batches: %v, %v", slices.Sorted(maps.Keys(seen)), err)
					return
				}
			}
		})
	}
	for i := range rounds {
		write(i + 1)
	}
	close(stop)
	readers.Wait()
}

func randomHistory(t *testing.T, open func() ledger.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	model := map[string]string{}
	s := open()
	for round := range 60 {
		b := ledger.Batch{}
		for range rnd.IntN(20) {
			key := fmt.Sprintf("%c%d", 'a'+rnd.IntN(3), rnd.IntN(40))
			if rnd.IntN(3) == 0 {
				b[key] = nil
				delete(model, key)
			} else {
				b[key] = fmt.Append(nil, rnd.Uint64())
				model[key] = string(b[key])
			}
		}
		commit(t, s, b)
		if round%20 == 19 {
			closeStore(t, s)
			s = open()
			if err := s.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		var want []string
		for _, k := range slices.Sorted(maps.Keys(model)) {
			want = append(want, k+"="+model[k])
		}
		if got := scan(t, s, "", ""); !slices.Equal(got, want) {
			t.Fatalf("seed %d, round %d: rows are\n%q, want\n%q", seed, round, got, want)
		}
	}
	closeStore(t, s)
}

func scan(t *testing.T, s ledger.Store, prefix, from string) []string {
	t.Helper()
	var rows []string
	err := s.Scan([]byte(prefix), []byte(from), func(key, value []byte) error {
		rows = append(rows, fmt.Sprintf("%s=%s", key, value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func commit(t *testing.T, s ledger.Store, b ledger.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func closeStore(t *testing.T, s ledger.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
