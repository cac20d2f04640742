package backup_test

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// logged is a store that remembers its batches.
type logged struct {
	ledger.Store
	mu      sync.Mutex
	batches []ledger.Batch
}

func (l *logged) Commit(b ledger.Batch) error {
	if err := l.Store.Commit(b); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, maps.Clone(b))
	return nil
}

// follower opens a store as a copy of another ledger.
func follower(t *testing.T, store ledger.Store, head string) *ledger.Follower {
	t.Helper()
	f, err := ledger.Follow(ledger.Config{Store: store, HeadPath: head, Capacity: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// catchUp applies the batches that a follower lacks.
func (l *logged) catchUp(t *testing.T, f *ledger.Follower) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches[f.Position().Serial:] {
		if err := f.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
}

// slow takes little at a time, and lets the ledger work in between.
type slow struct {
	w    io.Writer
	work func()
}

func (s slow) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		s.work()
		var m int
		m, err = s.w.Write(p[:min(len(p), 4<<10)])
		n, p = n+m, p[m:]
	}
	return n, err
}

// A node that leads, or one that follows, hands out its ledger while it works. Whoever restores
// that follows from there on, and may lead later.
func TestANodeJoinsFromABackupOfAnother(t *testing.T) {
	log := &logged{Store: ledgertest.NewStore()}
	leader, n := booksOn(t, log, 99), 100
	work := func() {
		if err := join(leader, n); err != nil {
			t.Fatal(err)
		}
		n++
	}
	standby := follower(t, ledgertest.NewStore(), filepath.Join(t.TempDir(), "head"))
	log.catchUp(t, standby)
	for name, node := range map[string]backup.Rows{"the leader": leader, "a follower": standby} {
		var stream bytes.Buffer
		from := n
		err := backup.Write(slow{&stream, func() { work(); log.catchUp(t, standby) }}, node, keys)
		if err != nil || n < from+10 {
			t.Fatalf("%s: %d transactions meanwhile, %v", name, n-from, err)
		}
		store, head := ledgertest.NewStore(), filepath.Join(t.TempDir(), "head")
		if err := ledger.Restore(store, head, backup.Read(&stream, ignore).Next); err != nil {
			t.Fatal(err)
		}
		joined := follower(t, store, head)
		if at := joined.Position().Serial; at < uint64(from) || at >= uint64(n) {
			t.Errorf("%s: the backup is of transaction %d, and was made between %d and %d", name, at, from, n)
		}
		log.catchUp(t, joined)
		if size, root := leader.Root(); joined.Position().Size != size || joined.Position().Root != root {
			t.Errorf("%s: %+v, want %d events with %v", name, joined.Position(), size, root)
		}
		if a, err := joined.Audit(t.Context()); err != nil || len(a.Findings) > 0 || a.Members != n-1 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		led, err := joined.Lead(store)
		if err != nil {
			t.Fatal(err)
		}
		if err := led.Do(t.Context(), func(tx *ledger.Tx) error { return tx.SetScanned("network", time.Unix(1, 0)) }); err != nil {
			t.Error(err)
		}
		if err := led.Close(); err != nil {
			t.Error(err)
		}
	}
}
