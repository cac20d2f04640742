package ledger_test

import (
	"bytes"
	"errors"
	"slices"
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

// Whoever is told of an event finds it durable and readable.
func TestPublishedEventsAreDurable(t *testing.T) {
	r := newRing(t)
	calls := 0
	r.onPublish = func(records []ledger.Record) {
		calls++
		size := r.Size()
		got, err := r.Records(size-uint64(len(records)), len(records))
		if err != nil || len(got) != len(records) || !bytes.Equal(got[0].Event, records[0].Event) {
			t.Errorf("published at size %d: %d records, %v", size, len(got), err)
		}
	}
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(registration("ada", "payer")) })
	r.join("bob")
	if calls != 2 {
		t.Errorf("published %d times, want once for each group with events", calls)
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
