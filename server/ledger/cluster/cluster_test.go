package cluster

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/cluster/etcdtest"
	"webring/server/ledger/ledgertest"
)

// TestCluster shares one etcd cluster. What only concerns its own ring runs at the same time.
func TestCluster(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Config{})
	t.Run("rings", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *etcdtest.Cluster){
			"contract": testContract, "standby": testStandby, "disk": testDisk, "beginnings": testBeginnings, "keys": testKeys, "shared": testShared, "twice": testTwice,
			"participant": testParticipant, "refused": testRefused, "cannot lead": testCannotLead, "broken": testBroken, "replaced": testReplaced, "gives way": testGivesWay, "leaving": testLeaving,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, e)
			})
		}
	})
	t.Run("trimming", func(t *testing.T) { testTrimming(t, e) })
	t.Run("alarm", func(t *testing.T) { testAlarm(t, e) })
	t.Run("histories", func(t *testing.T) { testHistories(t, e, false) })
	t.Run("histories without comparisons", func(t *testing.T) { testHistories(t, e, true) })
}

func testContract(t *testing.T, e *etcdtest.Cluster) {
	ledgertest.TestStore(t, func(t *testing.T) func() ledger.Store { return numbered(t, e) })
}

// slow takes its time for a commit, as a disk does.
type slow struct{ ledger.Store }

func (s slow) Commit(b ledger.Batch) error {
	time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Millisecond))))
	return s.Store.Commit(b)
}

// numbered is a store of a term for batches that have no row of their transaction.
func numbered(t *testing.T, e *etcdtest.Cluster) func() ledger.Store {
	c, local, at := config(t, e, "ada"), ledgertest.NewStore(), beginning
	begun(t, c, at)
	return func() ledger.Store {
		term := elected(t, opened(t, c), position(func() ledger.Position { return at }))
		s := term.Store(slow{local})
		s.position = func(ledger.Batch) (ledger.Position, error) {
			at.Serial++
			return at, nil
		}
		return resigning{s, term}
	}
}

// position is a copy that has everything.
type position func() ledger.Position

func (p position) Position() ledger.Position { return p() }
func (position) Apply(ledger.Batch) error    { return errors.New("nothing is missing") }

// resigning is a store that gives up its term when it is closed.
type resigning struct {
	*Store
	term *Term
}

func (s resigning) Close() error {
	return errors.Join(s.Store.Close(), s.term.Resign(context.Background(), ""))
}

// A standby gets what the leader commits, and takes over with all of it.
func testStandby(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	ada, bob, witness := newFolder(), newFolder(), newFolder()
	follower(t, opened(t, c.as("")), witness)
	term := elected(t, opened(t, c), ada)
	bobs := opened(t, c.as("bob"))
	terms := make(chan *Term, 1)
	go func() {
		term, err := bobs.Stand(t.Context(), bob)
		if err != nil {
			t.Error(err)
		}
		terms <- term
	}()
	s := term.Store(ada)
	at := beginning
	commit := func(s *Store, content []byte) {
		t.Helper()
		b, next := group(at, content)
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		at = next
		if got, err := s.Get([]byte("last")); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("after a commit, the row has %d bytes, %v", len(got), err)
		}
	}
	for i := range 30 {
		commit(s, some(100*i))
	}
	commit(s, some(ledger.MaxBatch/2-1000)) // which is there twice
	if err := term.MoveUntil(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if err := term.MoveUntil(t.Context(), 1000); err == nil {
		t.Error("the time of signing was moved to where it was")
	}
	until(t, "both have everything", func() bool { return ada.Position() == at && bob.Position() == at })
	same(t, ada, bob)
	if l, _ := bobs.Leader(); l.Node != "ada" || l.URL != "http://ada.test" {
		t.Errorf("the leader is %+v", l)
	}

	began := time.Now()
	if err := term.Resign(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	second := <-terms
	t.Logf("handed over in %s", time.Since(began))
	t.Cleanup(func() { second.Close() })
	if second.Epoch() <= term.Epoch() || second.Until() != 1000 || !errors.Is(term.Err(), ErrResigned) {
		t.Errorf("after %d comes %d, until %d; the first ended with %v", term.Epoch(), second.Epoch(), second.Until(), term.Err())
	}
	b, _ := group(at, nil)
	if err := s.Commit(b); !errors.Is(err, ErrResigned) {
		t.Errorf("a commit after the term = %v", err)
	}
	commit(second.Store(bob), []byte("by bob"))
	until(t, "both have everything", func() bool { return bob.Position() == at && witness.Position() == at })
	same(t, bob, witness)
}

// stuck hangs in commits until it is let go, as a disk may.
type stuck struct {
	*folder
	open chan struct{}
}

func (s stuck) Commit(b ledger.Batch) error {
	<-s.open
	return s.folder.Commit(b)
}

// A leader whose disk hangs does not keep its lease: another one leads, with all that was
// committed, and in the end both have the same.
func testDisk(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	c.stall = 100 * time.Millisecond
	begun(t, c, beginning)
	ada, bob := newFolder(), newFolder()
	disk := stuck{ada, make(chan struct{})}
	let := sync.OnceFunc(func() { close(disk.open) })
	term := elected(t, opened(t, c), ada)
	t.Cleanup(let)
	b, at := group(beginning, some(100))
	if err := term.Store(disk).Commit(b); err != nil {
		t.Fatal(err)
	}
	bobs := c.as("bob")
	bobs.stall = 0
	next := elected(t, opened(t, bobs), bob)
	if err := term.Err(); !errors.Is(err, ErrLost) || bob.Position() != at {
		t.Errorf("the first term ended with %v; bob has %+v of %+v", err, bob.Position(), at)
	}
	let()
	if err := term.Close(); err != nil {
		t.Errorf("when the disk is back: %v", err)
	}
	b, at = group(at, some(10))
	if err := next.Store(bob).Commit(b); err != nil {
		t.Fatal(err)
	}
	follower(t, opened(t, c.as("")), ada)
	until(t, "both have everything", func() bool { return ada.Position() == at && bob.Position() == at })
	same(t, ada, bob)
}
