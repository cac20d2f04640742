package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
)

func TestAppendedEventsAreStoredPublishedAndHashed(t *testing.T) {
	r := newRing(t)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	var seqs []uint64
	r.must(func(tx *ledger.Tx) error {
		e, texts := member(tx, "ada")
		one, err := tx.Append(e, texts)
		if err != nil {
			return err
		}
		if o, ok := tx.State().BySlug([]byte("ada")); !ok || tx.State().Rank(o) != 1 {
			t.Error("the event is not in the state of its own turn, with a rank")
		}
		two, err := tx.Append(bid(tx, "ada", 250), nil)
		seqs = append(seqs, one, two)
		return err
	})
	if !slices.Equal(seqs, []uint64{1, 2}) {
		t.Errorf("events are numbered %v", seqs)
	}

	for range 2 {
		records, err := r.Records(0, 10)
		if err != nil || len(records) != 3 {
			t.Fatalf("Records = %d, %v", len(records), err)
		}
		var leaves []tlog.Hash
		read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
			for _, i := range indexes {
				out = append(out, leaves[i])
			}
			return out, nil
		})
		for i, rec := range records {
			if err := snap.Verify(rec.Event, rec.Texts); err != nil {
				t.Errorf("event %d: %v", i, err)
			}
			if len(rec.Texts) > 0 != (i == 1) {
				t.Errorf("event %d has %d bytes of texts", i, len(rec.Texts))
			}
			h, err := tlog.StoredHashes(int64(i), rec.Event, read)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, h...)
		}
		want, _ := tlog.TreeHash(3, read)
		if size, root := r.Root(); size != 3 || root != want || r.Size() != 3 {
			t.Errorf("Root = %d, %v, want 3, %v", size, root, want)
		}
		proof, err := tlog.ProveRecord(3, 1, r.HashReader())
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(proof, 3, want, 1, tlog.RecordHash(records[1].Event)); err != nil {
			t.Error(err)
		}
		for i, rec := range r.published {
			if !bytes.Equal(rec.Event, records[i].Event) || !bytes.Equal(rec.Texts, records[i].Texts) {
				t.Errorf("event %d was published otherwise", i)
			}
		}
		r.reopen()
	}
	if len(r.published) != 3 {
		t.Errorf("%d events were published, want each of 3 once", len(r.published))
	}
}

func TestRecordsAreAWindow(t *testing.T) {
	r := openedRing(t, "a", "b", "c")
	for _, c := range []struct {
		from uint64
		n    int
		want int
	}{{0, 4, 4}, {0, 100, 4}, {1, 2, 2}, {3, 1, 1}, {3, 9, 1}, {4, 1, 0}, {99, 1, 0}, {0, 0, 0}, {0, -1, 0}} {
		got, err := r.Records(c.from, c.n)
		if err != nil || len(got) != c.want {
			t.Errorf("Records(%d, %d) = %d records, %v, want %d", c.from, c.n, len(got), err, c.want)
		}
		for i, rec := range got {
			if !bytes.Equal(rec.Event, r.published[c.from+uint64(i)].Event) ||
				!bytes.Equal(rec.Texts, r.published[c.from+uint64(i)].Texts) {
				t.Errorf("Records(%d, %d)[%d] is another event", c.from, c.n, i)
			}
		}
	}
}

func TestSaltsAreDrawnForEveryText(t *testing.T) {
	r := openedRing(t, "ada", "bob")
	salts := map[[16]byte]bool{}
	for _, rec := range r.published[1:] {
		texts, err := core.DecodeTexts(rec.Texts)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []core.Text{texts.Name, texts.URL, texts.Description} {
			if salts[x.Salt] || x.Salt == ([16]byte{}) {
				t.Error("a salt is used twice, or is zero")
			}
			salts[x.Salt] = true
		}
	}
}

func TestFunctionThatFailsLeavesNoTrace(t *testing.T) {
	r := openedRing(t, "ada")
	before, commits := r.digest(), r.store.Commits()
	v := registration("new", "payer")
	err := r.do(func(tx *ledger.Tx) error {
		if err := tx.Reserve(v); err != nil {
			return err
		}
		if err := tx.Reserve(bidReservation("b", "ada", 100)); err != nil {
			return err
		}
		return errRefused
	})
	if err != errRefused {
		t.Errorf("Do = %v, want the function's own error", err)
	}
	if r.digest() != before || r.store.Commits() != commits {
		t.Error("the store was touched")
	}
	r.View(func(v *ledger.View) {
		if n, cents := v.OpenOnMember("ada"); n != 0 || cents != 0 || v.OpenRegistrations() != 0 || len(v.Open()) != 0 {
			t.Error("the reservations are still counted")
		}
	})
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
}

func TestAppendThatFailsChangesNothing(t *testing.T) {
	r := openedRing(t, "ada")
	before := r.digest()
	for _, c := range []struct {
		name  string
		event func(tx *ledger.Tx) (core.Event, *core.Texts)
		want  error
	}{
		{"unknown member", func(tx *ledger.Tx) (core.Event, *core.Texts) { return bid(tx, "bob", 100), nil }, core.ErrUnknown},
		{"no amount", func(tx *ledger.Tx) (core.Event, *core.Texts) { return bid(tx, "ada", 0), nil }, core.ErrEvent},
		{"slug taken", func(tx *ledger.Tx) (core.Event, *core.Texts) { return member(tx, "ada") }, core.ErrSlugTaken},
		{"registration without texts", func(tx *ledger.Tx) (core.Event, *core.Texts) {
			e, _ := member(tx, "bob")
			return e, nil
		}, core.ErrTexts},
		{"bid with texts", func(tx *ledger.Tx) (core.Event, *core.Texts) { return bid(tx, "ada", 100), &core.Texts{} }, core.ErrTexts},
		{"stamp too early", func(*ledger.Tx) (core.Event, *core.Texts) {
			return &core.Bid{Stamp: 1, Member: "ada", Amount: 100}, nil
		}, core.ErrStampOrder},
		{"removal of nobody", func(tx *ledger.Tx) (core.Event, *core.Texts) {
			return &core.Removed{Stamp: tx.Stamp(), Member: "bob", Redacted: true}, nil
		}, core.ErrUnknown},
	} {
		err := r.do(func(tx *ledger.Tx) error {
			_, err := tx.Append(c.event(tx))
			return err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if r.digest() != before || r.Size() != 2 {
		t.Error("something was stored")
	}
	r.join("bob")
}

func TestFunctionThatFailsAfterAppendingEndsTheLedger(t *testing.T) {
	r := openedRing(t, "ada")
	before := r.digest()
	err := r.do(func(tx *ledger.Tx) error {
		if err := appendEvent(tx, bid(tx, "ada", 100)); err != nil {
			return err
		}
		return errRefused
	})
	if !errors.Is(err, ledger.ErrBroken) || !errors.Is(err, errRefused) {
		t.Errorf("Do = %v, want ErrBroken and the reason", err)
	}
	<-r.Done()
	if err := r.do(func(*ledger.Tx) error { return nil }); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("a later Do = %v, want ErrBroken", err)
	}
	if r.digest() != before {
		t.Error("the event was stored")
	}
}

// What waits while a commit is in work goes together into the next one.
func TestWaitingItemsShareOneCommit(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	before := r.store.Commits()

	const n = 100
	ran := make(chan struct{}, n+1)
	errs := make(chan error, n+1)
	send := func(fn func(*ledger.Tx) error) {
		go func() {
			errs <- r.do(func(tx *ledger.Tx) error {
				ran <- struct{}{}
				return fn(tx)
			})
		}()
	}
	place := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	send(place)
	<-g.arrived
	// The first commit is in work. Nobody else has been run, and reads go on.
	for i := range n {
		if i%10 == 0 {
			send(func(*ledger.Tx) error { return errRefused })
		} else {
			send(place)
		}
	}
	r.View(func(v *ledger.View) {
		if v.State().Seq() != 3 {
			t.Errorf("a view during the commit sees %d events", v.State().Seq())
		}
	})
	if size := r.Size(); size != 2 {
		t.Errorf("%d events are called durable during the commit of the third", size)
	}
	r.waitQueued(n)
	if len(ran) != 1 {
		t.Errorf("%d functions ran during a commit", len(ran)-1)
	}
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}

	refused := 0
	for range n + 1 {
		if err := <-errs; err == errRefused {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != n/10 || r.store.Commits()-before != 2 || r.Size() != 3+n-n/10 {
		t.Errorf("%d refused, %d commits, %d events", refused, r.store.Commits()-before, r.Size())
	}
}

func TestGroupIsBounded(t *testing.T) {
	for _, c := range []struct {
		name    string
		items   int
		body    int
		commits int // after the first
	}{
		{"256 items", 600, 10, 3},
		{"1 MiB", 20, 100 << 10, 3},
	} {
		r := openedRing(t, "ada")
		g := r.gate()
		r.reopen()
		var done sync.WaitGroup
		send := func(id string, body int) {
			done.Go(func() {
				v := bidReservation(id, "ada", 100)
				v.Body = make([]byte, body)
				if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(v) }); err != nil {
					t.Error(err)
				}
			})
		}
		send("first", 1)
		<-g.arrived
		for i := range c.items {
			send(string(rune('a'+i%26))+string(rune('a'+i/26)), c.body)
		}
		r.waitQueued(c.items)
		g.pass <- struct{}{}
		for range c.commits {
			<-g.arrived
			g.pass <- struct{}{}
		}
		done.Wait() // hangs if a commit more is tried
	}
}

func TestContextBoundsTheWaitOnly(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error), make(chan error)
	place := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	go func() { first <- r.Do(ctx, place) }()
	<-g.arrived
	go func() {
		second <- r.Do(ctx, func(*ledger.Tx) error {
			t.Error("an item that was given up has run")
			return nil
		})
	}()
	r.waitQueued(1)
	cancel()
	if err := <-second; err != context.Canceled {
		t.Errorf("the one that waits: %v, want context.Canceled", err)
	}
	g.pass <- struct{}{}
	if err := <-first; err != nil {
		t.Errorf("the one that has run: %v", err)
	}
	if err := r.Do(ctx, place); err != context.Canceled {
		t.Errorf("a call that comes too late: %v", err)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	errs := make(chan error, 5)
	place := func() {
		errs <- r.do(func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) })
	}
	go place()
	<-g.arrived
	for range cap(errs) - 1 {
		go place()
	}
	r.waitQueued(cap(errs) - 1)
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	<-r.Done()
	if err := r.do(func(*ledger.Tx) error { return nil }); err != ledger.ErrClosed || r.Err() != ledger.ErrClosed {
		t.Errorf("after Close: %v, %v", err, r.Err())
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestStampsNeverGoBack(t *testing.T) {
	r := openedRing(t, "ada")
	stamp := func() (ms, second int64) {
		r.must(func(tx *ledger.Tx) error {
			ms, second = tx.Stamp(), tx.State().Clock()
			return nil
		})
		return ms, second
	}
	place := func() {
		r.must(func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) })
	}
	r.pass(1500 * time.Millisecond)
	if ms, s := stamp(); ms != start.UnixMilli()+1500 || s != ms/1000 {
		t.Errorf("stamp %d, state at %d, now %d", ms, s, r.now().UnixMilli())
	}
	place()
	r.pass(-time.Hour)
	if ms, s := stamp(); ms != start.UnixMilli()+1500 || s != ms/1000 {
		t.Errorf("with the clock set back: stamp %d, state at %d", ms, s)
	}
	place()
	r.reopen()
	if ms, _ := stamp(); ms != start.UnixMilli()+1500 {
		t.Errorf("after opening again: stamp %d", ms)
	}

	// A clock that was wrong for a moment does not leave standings decayed.
	standing := func() (cents int64) {
		r.must(func(tx *ledger.Tx) error {
			o, _ := tx.State().BySlug([]byte("ada"))
			cents = tx.State().Standing(o)
			return nil
		})
		return cents
	}
	r.pass(time.Hour + 2*time.Hour)
	if standing() >= 300 {
		t.Error("the standing does not decay")
	}
	r.pass(-2 * time.Hour)
	if got := standing(); got != 300 {
		t.Errorf("after the clock was corrected the standing is %d, want 300", got)
	}
}

// The writer under load from all sides, for the race detector; the sums come
// out right.
func TestConcurrentUse(t *testing.T) {
	r := openedRing(t, "ada", "bob")
	const writers, each = 8, 30
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range each {
				slug := []string{"ada", "bob"}[rnd.IntN(2)]
				v := bidReservation(string(rune('a'+w))+string(rune('a'+i)), slug, 100)
				err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(v) })
				if err == nil {
					err = r.do(func(tx *ledger.Tx) (err error) {
						if v.Seq, err = tx.Append(bid(tx, slug, 100), nil); err != nil {
							return err
						}
						v.State = ledger.Applied
						return tx.Update(v)
					})
				}
				if err != nil {
					t.Error(err)
				}
				r.View(func(view *ledger.View) {
					if got, err := view.Get(v.ID); err != nil || got.State != ledger.Applied || got.Seq != v.Seq {
						t.Errorf("a view after the answer: %+v, %v", got, err)
					}
					view.State().Ranked()
				})
				if records, err := r.Records(v.Seq, 1); err != nil || len(records) != 1 {
					t.Errorf("an event that was answered for is not readable: %v", err)
				}
			}
		})
	}
	work.Wait()
	r.reopen()
	r.View(func(v *ledger.View) {
		if paid, _ := v.State().Books(); paid != 200+writers*each*100 {
			t.Errorf("%d cents were paid", paid)
		}
	})
	if r.store.Commits() >= 3+2*writers*each {
		t.Errorf("%d commits: nothing was grouped", r.store.Commits())
	}
}
