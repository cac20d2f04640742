package ledger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// lived gives a closed ring that has done all steps, and its head.
func lived(t *testing.T) *ring {
	r := newSteps(t)
	for _, s := range steps {
		r.must(s)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *ring) refused(t *testing.T, name string, want error) {
	t.Helper()
	l, err := ledger.Open(r.config())
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, want) {
		t.Errorf("%s: Open = %v, want %v", name, err, want)
	} else if !strings.Contains(err.Error(), "restore a backup whole") {
		t.Errorf("%s: %v does not say what to do", name, err)
	}
}

func key(prefix byte, n uint64, more ...byte) string {
	return string(append(binary.BigEndian.AppendUint64([]byte{prefix}, n), more...))
}

func (r *ring) get(k string) []byte {
	r.t.Helper()
	v, err := r.store.Get([]byte(k))
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func TestOpenRefusesWhatContradictsItself(t *testing.T) {
	flip := func(k string, at int) func(*ring) ledger.Batch {
		return func(r *ring) ledger.Batch {
			v := r.get(k)
			v[(at+len(v))%len(v)] ^= 1
			return ledger.Batch{k: v}
		}
	}
	gone := func(keys ...string) func(*ring) ledger.Batch {
		return func(r *ring) ledger.Batch {
			b := ledger.Batch{}
			for _, k := range keys {
				r.get(k) // it must be there
				b[k] = nil
			}
			return b
		}
	}
	// The events are rules, ada, bob, a bid, and the removal of ada; the
	// transactions with the reservations are seven.
	for _, c := range []struct {
		name   string
		change func(*ring) ledger.Batch
		want   error
	}{
		{"last transaction lost", gone(key('t', 7), key('e', 4, 0)), ledger.ErrBehindHead},
		{"transaction in between lost", gone(key('t', 2)), ledger.ErrDamaged},
		{"first transaction lost", gone(key('t', 1)), ledger.ErrDamaged},
		{"size of a transaction", flip(key('t', 7), 7), ledger.ErrDamaged},
		{"size of a transaction in between", flip(key('t', 4), 6), ledger.ErrDamaged},
		{"root of the last transaction", flip(key('t', 7), -1), ledger.ErrDamaged},
		{"transaction cut short", func(r *ring) ledger.Batch { return ledger.Batch{key('t', 5): r.get(key('t', 5))[:39]} }, ledger.ErrDamaged},
		{"first event lost", gone(key('e', 0, 0)), ledger.ErrDamaged},
		{"event in between lost", gone(key('e', 2, 0), key('e', 2, 1)), ledger.ErrDamaged},
		{"last event lost", gone(key('e', 4, 0)), ledger.ErrDamaged},
		{"event too many", func(r *ring) ledger.Batch { return ledger.Batch{key('e', 5, 0): r.get(key('e', 3, 0))} }, ledger.ErrDamaged},
		{"amount of a bid", func(r *ring) ledger.Batch {
			e, err := core.DecodeEvent(r.get(key('e', 3, 0)))
			if err != nil {
				t.Fatal(err)
			}
			e.(*core.Bid).Amount++
			b, err := core.AppendEvent(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			return ledger.Batch{key('e', 3, 0): b}
		}, ledger.ErrDamaged},
		{"event that is none", flip(key('e', 3, 0), 0), ledger.ErrDamaged},
		{"event too many, with its tree", func(r *ring) ledger.Batch {
			event, err := core.AppendEvent(nil, &core.Bid{Stamp: start.UnixMilli(), Member: "bob", Amount: 100})
			if err != nil {
				t.Fatal(err)
			}
			// Number 5 completes a pair. The pair's hash is stored behind its own.
			leaf := tlog.RecordHash(event)
			pair := tlog.NodeHash(tlog.Hash(r.get(key('h', 7))), leaf)
			return ledger.Batch{key('e', 5, 0): event, key('h', 8): leaf[:], key('h', 9): pair[:]}
		}, ledger.ErrDamaged},
		{"texts malformed", flip(key('e', 2, 1), -1), ledger.ErrDamaged},
		{"salt altered", flip(key('e', 2, 1), 3), ledger.ErrDamaged},
		{"name altered", flip(key('e', 2, 1), 2+16), ledger.ErrDamaged},
		{"texts lost without a redaction", gone(key('e', 2, 1)), ledger.ErrDamaged},
		{"texts back after a redaction", func(*ring) ledger.Batch {
			e := &core.Joined{}
			texts := &core.Texts{Name: core.Text{Value: "Name of ada"}, URL: core.Text{Value: "https://ada.org"},
				Description: core.Text{Value: "What ada does"}}
			snap.Seal(e, texts)
			return ledger.Batch{key('e', 1, 1): core.AppendTexts(nil, texts)}
		}, ledger.ErrDamaged},
		{"texts beside a bid", func(r *ring) ledger.Batch { return ledger.Batch{key('e', 3, 1): r.get(key('e', 2, 1))} }, ledger.ErrDamaged},
		{"tree hash altered", flip(key('h', 2), 5), ledger.ErrDamaged},
		{"tree hash lost", gone(key('h', 3)), ledger.ErrDamaged},
		{"last tree hash lost", gone(key('h', 7)), ledger.ErrDamaged},
		{"tree hash too many", func(r *ring) ledger.Batch { return ledger.Batch{key('h', 8): r.get(key('h', 7))} }, ledger.ErrDamaged},
		{"open reservation that is not there", func(*ring) ledger.Batch { return ledger.Batch{"ox": {}} }, ledger.ErrDamaged},
		{"open reservation that has ended", func(*ring) ledger.Batch { return ledger.Batch{"ob": {}} }, ledger.ErrDamaged},
		{"everything lost", func(r *ring) ledger.Batch {
			b := ledger.Batch{}
			r.store.Scan(nil, nil, func(k, _ []byte) error { b[string(k)] = nil; return nil })
			return b
		}, ledger.ErrBehindHead},
	} {
		r := lived(t)
		if err := r.store.Commit(c.change(r)); err != nil {
			t.Fatal(err)
		}
		r.refused(t, c.name, c.want)
		r.refused(t, c.name+", tried again", c.want)
	}
}

func TestOpenRefusesWhatTheStoreCannotVerify(t *testing.T) {
	r := lived(t)
	r.store.FailVerify(ledgertest.ErrInjected)
	r.refused(t, "checksum", ledger.ErrDamaged)
}

func TestOpenHoldsTheStoreAgainstTheHead(t *testing.T) {
	r := lived(t)
	path := r.config().HeadPath
	head, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.refused(t, "no head", ledger.ErrNoHead)
	write(nil)
	r.refused(t, "empty head", ledger.ErrDamaged)
	write(make([]byte, len(head)))
	r.refused(t, "head of zeros", ledger.ErrDamaged)

	// Transaction 7 lies in the second slot, 6 in the first.
	const slot = 4096
	torn := bytes.Clone(head)
	torn[slot+20] ^= 1
	write(torn)
	r.reopen() // the other slot holds, and the store is ahead of it
	r.Close()
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, head) {
		t.Errorf("opening does not bring the head up to the store: %v", err)
	}
	torn = bytes.Clone(head)
	torn[20] ^= 1
	write(torn)
	r.reopen()
	r.Close()
	torn[slot+20] ^= 1
	write(torn)
	r.refused(t, "both slots torn", ledger.ErrDamaged)

	// A head of another ledger: as long, with another tree.
	other := newRing(t)
	for range 7 {
		other.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	}
	other.Close()
	foreign, err := os.ReadFile(other.config().HeadPath)
	if err != nil {
		t.Fatal(err)
	}
	write(foreign)
	r.refused(t, "head of another ledger", ledger.ErrDamaged)
}

// A head that has seen nothing is one for every store. That of the ring lies in the
// second slot.
func TestOpenBringsAHeadUpFromTheBeginning(t *testing.T) {
	r := lived(t)
	path := r.config().HeadPath
	head, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.BeginHead(path); !errors.Is(err, ledger.ErrBehindHead) {
		t.Errorf("over a head that has seen a ledger: %v", err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, head) {
		t.Errorf("that head has changed: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is there
		if err := ledger.BeginHead(path); err != nil {
			t.Fatal(err)
		}
	}
	r.reopen()
	r.Close()
	if again, err := os.ReadFile(path); err != nil || !bytes.HasSuffix(again, head[len(head)/2:]) {
		t.Errorf("opening does not bring the head up to the store: %v", err)
	}
}

func TestOpenOfTheSameTwiceChangesNothing(t *testing.T) {
	r := lived(t)
	before := r.digest()
	for range 3 {
		r.reopen()
	}
	if r.digest() != before {
		t.Error("opening has written into the store")
	}
}

// What was loaded can be read at once, before anything is written.
func TestOpenLeavesRanksReadable(t *testing.T) {
	r := lived(t)
	r.reopen()
	r.View(func(v *ledger.View) {
		if s := v.State(); s.Len() != 1 || len(s.AppendRanked(nil, 0, 2)) != 1 || s.Clock() != start.Unix() {
			t.Errorf("%d members, %d ranked, at %d", s.Len(), len(s.AppendRanked(nil, 0, 2)), s.Clock())
		}
	})
}

// A ring that has outgrown its capacity is whole: it must not send the
// operator to a backup.
func TestOpenWithTooLittleCapacityIsNoDamage(t *testing.T) {
	r := lived(t)
	c := r.config()
	c.Capacity = 1
	_, err := ledger.Open(c)
	if !errors.Is(err, core.ErrCapacity) || errors.Is(err, ledger.ErrDamaged) || strings.Contains(err.Error(), "restore") {
		t.Errorf("Open = %v, want ErrCapacity alone", err)
	}
}

// A registration that is open may have been paid for: a capacity without a
// place for it would leave settled money without its effect.
func TestOpenKeepsRoomForOpenRegistrations(t *testing.T) {
	r := openedRing(t, "ada", "bob")
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(registration("new", "payer")) })
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(bidReservation("b", "ada", 100)) })
	r.Close()
	for capacity, want := range map[int]error{1: core.ErrCapacity, 2: core.ErrCapacity, 3: nil} {
		c := r.config()
		c.Capacity = capacity
		l, err := ledger.Open(c)
		if !errors.Is(err, want) || (err == nil) != (want == nil) || errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("capacity %d: Open = %v, want %v", capacity, err, want)
		}
		if err == nil {
			l.Close()
		}
	}
}

func TestOpenNeedsItsParts(t *testing.T) {
	r := lived(t)
	for _, spoil := range []func(*ledger.Config){
		func(c *ledger.Config) { c.Store = nil },
		func(c *ledger.Config) { c.HeadPath = "" },
		func(c *ledger.Config) { c.Capacity = 0 },
	} {
		c := r.config()
		spoil(&c)
		if _, err := ledger.Open(c); err == nil {
			t.Error("Open accepts half a configuration")
		}
	}
}
