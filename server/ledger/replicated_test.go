package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// ahead is a [ledger.Replicated] with local commits that wait until they are let through.
type ahead struct {
	*ledgertest.Store // what readers see, and what is durable elsewhere
	local             *ledgertest.Store
	pass              chan struct{}
	behind            chan error // gives the outcome of the last local commit; then it is closed
	log               recorder
}

func newAhead(local *ledgertest.Store) *ahead {
	a := &ahead{Store: local.Copy(), local: local, pass: make(chan struct{}), behind: make(chan error)}
	close(a.behind)
	return a
}

func (a *ahead) CommitAhead(b ledger.Batch, stored func() error) error {
	if err := a.log.over(a.Store).Commit(b); err != nil {
		return err
	}
	if err := a.Settle(); err != nil {
		return err
	}
	b = maps.Clone(b)
	done := make(chan error, 1)
	a.behind = done
	go func() {
		<-a.pass
		err := a.local.Commit(b)
		if err == nil {
			err = stored()
		}
		done <- err
		close(done)
	}()
	return nil
}

func (a *ahead) Settle() error { return <-a.behind }

// leadAhead has the ring, which is closed, led over an [ahead] store.
func leadAhead(r *ring) (*ledger.Follower, *ahead) {
	r.t.Helper()
	f, err := ledger.Follow(r.config())
	if err != nil {
		r.t.Fatal(err)
	}
	a := newAhead(r.store)
	if r.Ledger, err = f.Lead(a); err != nil {
		r.t.Fatal(err)
	}
	return f, a
}

// unreplicated is an [ahead] with nobody who keeps its batches elsewhere.
type unreplicated struct{ *ahead }

func (unreplicated) CommitAhead(ledger.Batch, func() error) error { return syscall.ETIMEDOUT }

// An error of the network is none of the disk, although the system words it alike.
func TestAnErrorElsewhereIsNotOfTheDisk(t *testing.T) {
	r := newRing(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := ledger.Follow(r.config())
	if err != nil {
		t.Fatal(err)
	}
	if r.Ledger, err = f.Lead(unreplicated{newAhead(r.store)}); err != nil {
		t.Fatal(err)
	}
	err = r.do(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	if !errors.Is(err, ledger.ErrBroken) || !errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, ledger.ErrDisk) {
		t.Errorf("%v", err)
	}
}

// A replicated store answers before the rows are on this disk. The head stays behind them,
// so that the next process begins where the disk is, and goes on from the other copies.
func TestWriterOverAReplicatedStore(t *testing.T) {
	r := newRing(t)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f, a := leadAhead(r)
	r.join("ada")
	if size := r.Size(); size != 2 || f.Size() != 2 {
		t.Fatalf("%d events, and %d for those who followed", size, f.Size())
	}
	if records, err := f.Records(1, 1); err != nil || len(records) != 1 {
		t.Fatalf("what was answered is read as %v, %v", records, err)
	}

	crashed := &ring{t: t, dir: t.TempDir(), store: r.store.Copy(), time: start}
	head, err := os.ReadFile(filepath.Join(r.dir, "head"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(crashed.dir, "head"), head, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := ledger.Follow(crashed.config())
	if err != nil {
		t.Fatalf("after a crash in between: %v", err)
	}
	defer g.Close()
	if at := g.Position(); at.Serial != 1 {
		t.Errorf("the disk is at transaction %d, want 1", at.Serial)
	}
	for _, b := range a.log.taken() {
		if err := g.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := g.Dump(), r.Dump(); !reflect.DeepEqual(got, want) {
		t.Errorf("after it has caught up\n%s, want\n%s", got, want)
	}

	close(a.pass)
	r.join("bob")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if digestOf(t, r.store) != digestOf(t, a.Store) {
		t.Error("the ledger has been closed, and the disk lacks rows")
	}
	r.reopen()
	if r.Size() != 3 {
		t.Errorf("%d events, want 3", r.Size())
	}
}

// If the disk fails behind what was answered, the next commit says so, and Close returns.
func TestReplicatedStoreWhoseDiskFails(t *testing.T) {
	r := newRing(t)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.Close()
	_, a := leadAhead(r)
	close(a.pass)
	r.store.FailAt(1, ledgertest.FailNotStored)
	r.join("ada") // the others have it
	if err := r.do(func(tx *ledger.Tx) error { return joinMember(tx, "bob") }); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("after the disk has failed: %v", err)
	}
	if err := r.Close(); err != nil && !errors.Is(err, ledgertest.ErrInjected) {
		t.Error(err)
	}
	r.reopen()
	if r.Size() != 1 {
		t.Errorf("%d events on this disk, want 1", r.Size())
	}
}

// Wherever this machine stops, its disk opens at some transaction, and the rest of the log
// brings it to where the others are.
func TestReplicatedStoreAfterACrashAnywhere(t *testing.T) {
	r := newRing(t)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.Close()
	var mu sync.Mutex
	var crashes []*ring
	r.failpoint = func(string) { // called by the writer, and behind it
		mu.Lock()
		defer mu.Unlock()
		// The head before the store, as a stop in between leaves them.
		head, err := os.ReadFile(filepath.Join(r.dir, "head"))
		if err != nil {
			t.Error(err)
		}
		after := &ring{t: t, dir: t.TempDir(), store: r.store.Copy(), time: start}
		if err := os.WriteFile(filepath.Join(after.dir, "head"), head, 0o600); err != nil {
			t.Error(err)
		}
		crashes = append(crashes, after)
	}
	_, a := leadAhead(r)
	close(a.pass)
	for i := range 8 {
		r.register(fmt.Sprintf("m%d", i))
		r.must(func(tx *ledger.Tx) error { return tx.Block(entry(ledger.BlockHost, fmt.Sprintf("h%d", i))) })
	}
	want, log := r.Dump(), a.log.taken()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	opened := map[uint64]bool{}
	for i, after := range crashes {
		g, err := ledger.Follow(after.config())
		if err != nil {
			t.Fatalf("crash %d of %d: %v", i, len(crashes), err)
		}
		at := g.Position().Serial
		opened[at] = true
		for _, b := range log[at-1:] {
			if err := g.Apply(b); err != nil {
				t.Fatalf("crash %d of %d: %v", i, len(crashes), err)
			}
		}
		if got := g.Dump(); !reflect.DeepEqual(got, want) {
			t.Errorf("crash %d of %d: after it has caught up\n%s, want\n%s", i, len(crashes), got, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(opened) < len(log) {
		t.Errorf("the crashes leave %d of %d transactions", len(opened), len(log))
	}
}
