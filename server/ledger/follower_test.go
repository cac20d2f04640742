package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// recorder remembers the batches that are committed to its stores.
type recorder struct {
	mu      sync.Mutex
	batches []ledger.Batch
}

// over returns a store that remembers its batches.
func (c *recorder) over(s ledger.Store) ledger.Store { return &recorded{s, c} }

// taken gives the batches since it was called last.
func (c *recorder) taken() []ledger.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	some := c.batches
	c.batches = nil
	return some
}

type recorded struct {
	ledger.Store
	by *recorder
}

func (s *recorded) Commit(b ledger.Batch) error {
	if err := s.Store.Commit(b); err != nil {
		return err
	}
	s.by.mu.Lock()
	defer s.by.mu.Unlock()
	s.by.batches = append(s.by.batches, maps.Clone(b))
	return nil
}

// twin is a follower of a ring under test.
type twin struct {
	t         testing.TB
	of        *ring
	made      recorder // by the ring's writer
	dir       string
	store     *ledgertest.Store
	last      ledger.Batch
	published []ledger.Record
	*ledger.Follower
}

// follow gives the ring a follower. Both are empty.
func follow(r *ring) *twin {
	w := &twin{t: r.t, of: r, dir: r.t.(*testing.T).TempDir(), store: ledgertest.NewStore()}
	r.over = w.made.over
	r.reopen()
	w.reopen()
	r.t.(*testing.T).Cleanup(func() { w.Close() })
	return w
}

func (w *twin) reopen() {
	w.t.Helper()
	if w.Follower != nil {
		if err := w.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	f, err := ledger.Follow(ledger.Config{Store: w.store, HeadPath: filepath.Join(w.dir, "head"), Capacity: capacity, Now: w.of.now,
		Publish: func(records []ledger.Record) { w.published = append(w.published, records...) }})
	if err != nil {
		w.t.Fatalf("Follow: %v", err)
	}
	w.Follower = f
}

// catchUp applies what the ring has written. Before each batch, bend may try others, which
// must be refused without a trace.
func (w *twin) catchUp(bend func(pending []ledger.Batch) ledger.Batch) {
	w.t.Helper()
	pending := w.made.taken()
	for i, b := range pending {
		if bend != nil {
			w.refuses(bend(pending[i:]))
		}
		if err := w.Apply(b); err != nil {
			w.t.Fatalf("Apply: %v", err)
		}
		w.last = b
	}
	if got, want := w.Dump(), w.of.Dump(); !reflect.DeepEqual(got, want) {
		w.t.Fatalf("the follower holds\n%s, want\n%s", got, want)
	}
	if got, want := digestOf(w.t, w.store), w.of.digest(); got != want {
		w.t.Fatal("the follower's store has other rows")
	}
}

// refuses applies a batch that must not be taken.
func (w *twin) refuses(b ledger.Batch) {
	w.t.Helper()
	if b == nil {
		return
	}
	before, rows, published := w.Dump(), digestOf(w.t, w.store), len(w.published)
	if err := w.Apply(b); !errors.Is(err, ledger.ErrBatch) {
		w.t.Fatalf("a batch that is not the next one: %v\n%q", err, b)
	}
	if !reflect.DeepEqual(w.Dump(), before) || digestOf(w.t, w.store) != rows || len(w.published) != published {
		w.t.Fatalf("a refused batch left a trace: %q", b)
	}
}

// swap has the follower lead, and the ring's ledger follow.
func (w *twin) swap() {
	w.t.Helper()
	w.catchUp(nil)
	r := w.of
	if err := r.Close(); err != nil {
		w.t.Fatal(err)
	}
	l, err := w.Lead(w.made.over(w.store))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Apply(ledger.Batch{})); !errors.Is(err, ledger.ErrClosed) {
		w.t.Fatalf("the follower after Lead: %v", err)
	}
	r.Ledger, w.Follower = l, nil
	r.store, w.store, r.dir, w.dir = w.store, r.store, w.dir, r.dir
	w.reopen()
}

// bender gives a function for [twin.catchUp] that makes batches that must not be taken.
func (w *twin) bender(rnd *rand.Rand, foreign []ledger.Batch) func([]ledger.Batch) ledger.Batch {
	return func(pending []ledger.Batch) ledger.Batch {
		b := maps.Clone(pending[0])
		keys := slices.Sorted(maps.Keys(b))
		pick := func(kinds string) string {
			some := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !bytes.ContainsRune([]byte(kinds), rune(k[0])) })
			if len(some) == 0 {
				return ""
			}
			return some[rnd.IntN(len(some))]
		}
		switch rnd.IntN(9) {
		case 0: // of the past
			return w.last
		case 1: // of the future
			if len(pending) > 1 {
				return pending[1]
			}
			return nil
		case 2: // without a part of an event, the tree or the transaction
			key := pick("eht")
			if b[key] == nil {
				return nil // the words of a member that is redacted in the same group
			}
			delete(b, key)
			return b
		case 3: // with a bit flipped there
			key := pick("eht")
			if len(b[key]) == 0 {
				return nil
			}
			bent := bytes.Clone(b[key])
			bent[rnd.IntN(len(bent))] ^= 1 << rnd.IntN(8)
			b[key] = bent
			return b
		case 4: // with a payment that is none
			key := pick("r")
			if key == "" {
				key = "rx"
			}
			b[key] = [][]byte{nil, []byte("{"), []byte(`{"Version":1,"ID":"other","State":"reserved"}`)}[rnd.IntN(3)]
			return b
		case 5: // with an entry of the blocklist that is none
			b["lhost\x00a.org"] = []byte(`{"kind":"host","value":"b.org"}`)
			return b
		case 6: // with rows of another version
			b["~"] = []byte("?")
			return b
		case 7: // that changes the past, or knows the future
			b[[]string{"e\x00\x00\x00\x00\x00\x00\x00\x00\x00", "e\x00\x00\x00\x00\x00\x00\x00\x00\x01", "e\xff\x00\x00\x00\x00\x00\x00\x00\x00", "h\xff\x00\x00\x00\x00\x00\x00\x00"}[rnd.IntN(4)]] = []byte("x")
			return b
		default: // of another ring
			serial := w.Position().Serial
			if serial == 0 || serial >= uint64(len(foreign)) {
				return nil
			}
			return foreign[serial]
		}
	}
}

// foreignBatches are those of another ring, one event each.
func foreignBatches(t *testing.T, n int) []ledger.Batch {
	r := newRing(t)
	var made recorder
	r.over = made.over
	r.reopen()
	for i := range n {
		r.must(func(tx *ledger.Tx) error {
			return appendEvent(tx, &core.Rules{Stamp: tx.Stamp(), Name: fmt.Sprint("Other ", i), BaseURL: "http://other.test", Fee: 100, MinBid: 100, Grace: 3600, Decay: 7200})
		})
	}
	return made.taken()
}

// Groups of many turns, some of which fail, come to the same at the follower, whatever
// other batches it was given before.
func TestFollowerTakesGroups(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := newRing(t)
	w := follow(r)
	bend := w.bender(rnd, foreignBatches(t, 30))
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	for i := range 20 {
		r.join(fmt.Sprintf("m%d", i))
	}
	for round := range 30 {
		// The first turn holds the writer until all others wait.
		held, release := make(chan struct{}), make(chan struct{})
		var turns sync.WaitGroup
		turn := func(fn func(*ledger.Tx) error) {
			turns.Go(func() {
				if err := r.do(fn); err != nil && !errors.Is(err, errRefused) {
					t.Error(err)
				}
			})
		}
		turn(func(*ledger.Tx) error { close(held); <-release; return nil })
		<-held
		const many = 20
		for i := range many {
			id, slug := fmt.Sprintf("%d-%d", round, i), fmt.Sprintf("m%d", i)
			kind := rnd.IntN(6)
			turn(func(tx *ledger.Tx) error {
				switch v := bidReservation(id, slug, int64(1+i)); kind {
				case 0, 1: // reserved and settled in one group
					err := tx.Reserve(v)
					if err == nil {
						v.Seq, err = tx.Append(bid(tx, slug, v.Cents), nil)
					}
					v.State = ledger.Applied
					if kind == 1 && err == nil {
						v.Confirmed = true
					}
					return errors.Join(err, tx.Update(v))
				case 2: // refused, after it was seen by its own turn
					return errors.Join(tx.Reserve(v), tx.Block(entry(ledger.BlockHost, "refused.org")), tx.Unblock(ledger.BlockHost, slug), errRefused)
				case 3: // failed, and then looked at again
					v := registration(fmt.Sprintf("u%d", i%3), id)
					err := tx.Reserve(v)
					v.State = ledger.Failed
					err = errors.Join(err, tx.Update(v))
					v.Delivered = true
					return errors.Join(err, tx.Update(v))
				case 4:
					if tx.View().Blocked(ledger.BlockHost, slug) {
						return tx.Unblock(ledger.BlockHost, slug)
					}
					return tx.Block(entry(ledger.BlockHost, slug))
				default:
					v := registration("never"+id, id)
					v.State, v.FailedAt = ledger.Failed, r.now()
					return errors.Join(tx.StoreUnapplied(v), tx.Put(ledger.Reports, id, []byte(slug)))
				}
			})
		}
		r.waitQueued(many)
		close(release)
		turns.Wait()
		r.pass(0)
		w.catchUp(bend)
		if rnd.IntN(5) == 0 {
			w.swap()
		}
	}
	if n := w.of.Dump().Position.Serial; n > 150 {
		t.Errorf("%d transactions: nothing was grouped", n)
	}
}

// A member that joins and is redacted in one group has no words anywhere but in what the
// writer publishes.
func TestFollowerTakesARedaction(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.register("ada")
	w.catchUp(nil)
	r.must(func(tx *ledger.Tx) error { return remove(tx, "ada", true) })
	r.must(func(tx *ledger.Tx) error {
		return errors.Join(joinMember(tx, "bob"), remove(tx, "bob", true))
	})
	r.join("cyn")
	r.must(func(tx *ledger.Tx) error { return rename(tx, "cyn", "Cynthia") })
	w.catchUp(nil)
	r.must(func(tx *ledger.Tx) error {
		return appendEvent(tx, &core.Changed{Stamp: tx.Stamp(), Member: "cyn", Kind: core.MCP})
	})
	r.must(func(tx *ledger.Tx) error {
		return errors.Join(moveTo(tx, "cyn", "https://cyn.net"), remove(tx, "cyn", true))
	})
	w.catchUp(nil)
	records, err := w.Records(1, 9)
	if err != nil || len(records) != 9 {
		t.Fatalf("%+v, %v", records, err)
	}
	for i, record := range records {
		if len(record.Texts) > 0 {
			t.Errorf("event %d has its texts", 1+i)
		}
	}
	w.swap()
	w.catchUp(nil)
}

// What a follower has no room for is refused whole, even if it finds out in the middle of a
// group; with more room it goes on.
func TestFollowerWithoutCapacity(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.must(func(tx *ledger.Tx) error {
		for i := range capacity {
			if err := joinMember(tx, fmt.Sprintf("m%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	batches := w.made.taken()
	small, err := ledger.Follow(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: capacity / 2, Now: r.now})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	if err := small.Apply(batches[0]); err != nil {
		t.Fatal(err)
	}
	before := small.Dump()
	if err := small.Apply(batches[1]); !errors.Is(err, ledger.ErrBatch) || !errors.Is(err, core.ErrCapacity) {
		t.Fatalf("beyond the capacity: %v", err)
	}
	if !reflect.DeepEqual(small.Dump(), before) {
		t.Error("a refused group left a trace")
	}
	for _, b := range batches {
		if err := w.Apply(b); err != nil {
			t.Fatal(err)
		}
	}
	w.catchUp(nil)

	room := errors.New("the disk is full")
	l, err := ledger.Follow(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: capacity, Now: r.now, Room: func() error { return room }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Apply(batches[0]); !errors.Is(err, ledger.ErrNoRoom) || !errors.Is(err, room) || l.Position().Serial != 0 {
		t.Errorf("without room: %v", err)
	}
	room = nil
	if err := l.Apply(batches[0]); err != nil || l.Position() != before.Position {
		t.Errorf("with room: %v", err)
	}
}

// When a follower's store fails, the follower ends, and the next one begins where the store is.
func TestFollowerBreaks(t *testing.T) {
	for fault, serial := range map[ledgertest.Fault]uint64{ledgertest.FailNotStored: 1, ledgertest.FailButStored: 2} {
		r := newRing(t)
		w := follow(r)
		r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
		w.catchUp(nil)
		r.join("ada")
		b := w.made.taken()[0]
		w.store.FailAt(1, fault)
		for range 2 {
			if err := w.Apply(b); !errors.Is(err, ledger.ErrBroken) {
				t.Fatalf("Apply: %v", err)
			}
		}
		if _, err := w.Lead(w.store); !errors.Is(err, ledger.ErrBroken) {
			t.Fatalf("Lead: %v", err)
		}
		w.reopen()
		if got := w.Position().Serial; got != serial {
			t.Errorf("after %v the store is at %d, want %d", fault, got, serial)
		}
		if serial == 1 {
			if err := w.Apply(b); err != nil {
				t.Fatal(err)
			}
		}
		w.catchUp(nil)
	}
}

// unread is a store that cannot be read any more.
type unread struct {
	ledger.Store
	fails bool
}

func (s *unread) Get(key []byte) ([]byte, error) {
	if s.fails {
		return nil, ledgertest.ErrInjected
	}
	return s.Store.Get(key)
}

// A store that cannot be read says nothing about the batch.
func TestFollowerWhoseStoreCannotBeRead(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	for _, slug := range []string{"", "ada", "bob"} {
		r.must(func(tx *ledger.Tx) error {
			if slug == "" {
				return appendEvent(tx, rules(tx))
			}
			return joinMember(tx, slug)
		})
	}
	r.must(func(tx *ledger.Tx) error { return remove(tx, "ada", true) })
	batches := w.made.taken()
	for n := 1; n < len(batches); n++ {
		s := &unread{Store: ledgertest.NewStore()}
		f, err := ledger.Follow(ledger.Config{Store: s, HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: capacity, Now: r.now})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range batches[:n+1] {
			s.fails = i == n
			if err := f.Apply(b); s.fails != errors.Is(err, ledger.ErrBroken) || errors.Is(err, ledger.ErrBatch) {
				t.Errorf("transaction %d: %v", i+1, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Those who read a follower go on while it applies, and begins to lead, and see whole
// transactions.
func TestReadersOfAFollowerGoOn(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	w.catchUp(nil)
	f, stop := w.Follower, make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				f.View(func(v *ledger.View) {
					if members, hosts := v.State().Rows(), len(v.Blocks()); members != hosts {
						t.Errorf("%d members and %d blocked hosts, of a transaction of one each", members, hosts)
					}
				})
				size, root := f.Root()
				again, err := f.RootAt(size)
				records, failed := f.Records(size-1, 1)
				if size < last || err != nil || again != root || failed != nil || len(records) != 1 {
					t.Errorf("%d events after %d: %v %v", size, last, err, failed)
					return
				}
				if a, err := f.Audit(t.Context()); err != nil || len(a.Findings) > 0 {
					t.Errorf("%+v, %v", a, err)
					return
				}
				last = size
			}
		})
	}
	both := func(slug string) {
		r.must(func(tx *ledger.Tx) error {
			return errors.Join(tx.Block(entry(ledger.BlockHost, slug)), joinMember(tx, slug))
		})
	}
	for i := range 20 {
		both(fmt.Sprintf("a%d", i))
		for _, b := range w.made.taken() {
			if err := w.Apply(b); err != nil {
				t.Error(err)
			}
		}
	}
	w.swap()
	for i := range 20 {
		both(fmt.Sprintf("b%d", i))
	}
	close(stop)
	readers.Wait()
	w.catchUp(nil)
}
