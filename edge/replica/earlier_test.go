package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// pay adds a member that has an owner.
func (o *fakeOrigin) pay(slug string) {
	o.t.Helper()
	texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".test/"}}
	o.add(&core.Joined{Stamp: time.Now().UnixMilli(), Slug: slug, Kind: core.Agent, Category: "general", Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL),
		Payment: core.Payment{Method: "tempo", Network: "tempo", Transaction: "0x" + slug, Payer: "0x0102030405060708090a0b0c0d0e0f1011121314"}, Fee: 100, Bid: 100}, texts)
}

// earlierSnapshot makes a snapshot as the version before does.
func (o *fakeOrigin) earlierSnapshot() {
	o.t.Helper()
	o.offer(o.tree.Append(coretest.Earlier(o.state)), o.tree.Size())
}

// leftBefore gives a folder in which a replica of the version before has left the origin's
// state, with records before and behind its rows.
func leftBefore(t *testing.T, o *fakeOrigin) (dir string) {
	t.Helper()
	o.pay("a")
	o.earlierSnapshot()
	o.pay("b")
	o.sign()
	dir = t.TempDir()
	f := o.booted(func(c *Config) { c.Dir = dir })
	rows := coretest.Earlier(o.state)
	o.pay("c")
	f.takes(o.sign())
	name := filepath.Join(dir, stateName(f.store.base))
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	length := binary.BigEndian.Uint64(b[9:])
	contents := b[stateHead : stateHead+length]
	_, tree, err := snap.CutFile(contents)
	if err != nil {
		t.Fatal(err)
	}
	contents = tree.Append(rows)
	head := binary.BigEndian.AppendUint64(bytes.Clone(b[:9]), uint64(len(contents)))
	if err := os.WriteFile(name, append(append(head, contents...), b[stateHead+length:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// whole holds that the replica shows all of the state that the origin has.
func (f *follower) whole(o *fakeOrigin) {
	f.t.Helper()
	f.agrees(o)
	if !bytes.Equal(f.Replica.shown.Snapshot(), snap.Append(nil, o.state)) {
		f.t.Errorf("owners are missing\n%s", f.log)
	}
}

// A state of the version before is served from disk until the origin has signed anything.
// It is neither continued nor passed on, because it lacks the owners: the replica boots as
// if it had nothing, whichever version the origin's snapshots are of, but goes back behind
// nothing that was signed.
func TestAStateOfTheVersionBeforeIsServedUntilTheOriginIsReached(t *testing.T) {
	for name, next := range map[string]func(o *fakeOrigin){
		"nothing new":                       func(*fakeOrigin) {},
		"a new checkpoint":                  func(o *fakeOrigin) { o.sign() },
		"an origin of the version before":   func(o *fakeOrigin) { o.pay("d"); o.earlierSnapshot(); o.pay("e"); o.sign() },
		"an upgraded origin":                func(o *fakeOrigin) { o.pay("d"); o.snapshot(); o.sign() },
		"an upgraded origin that went on":   func(o *fakeOrigin) { o.snapshot(); o.pay("d"); o.pay("e"); o.sign() },
		"a state that is not reached first": func(o *fakeOrigin) { o.snapshot(); o.pay("d"); o.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 }) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			dir := leftBefore(t, o)
			o.leave(true)
			asked := o.attempts()
			for range 2 {
				f := o.newReplica(func(c *Config) { c.Dir = dir })
				<-f.Ready()
				f.agrees(o)
			}
			if o.attempts() != asked {
				t.Errorf("the origin was asked for %q", o.asked[asked:])
			}
			f := o.newReplica(func(c *Config) { c.Dir = dir })
			o.leave(false)
			at, held := f.Position(), f.base
			if next(o); strings.Contains(name, "not reached") {
				if err := f.accept(t.Context(), o.signed); !errors.Is(err, ErrState) || f.Position() != at || f.Unreached() == nil {
					t.Errorf("%v at %d", err, f.Position())
				}
				o.sign()
			}
			f.takes(o.signed)
			f.whole(o)
			o.leave(true)
			if records, err := f.Events(held, 10); err != nil || uint64(len(records)) != o.tree.Size()-held {
				t.Errorf("followers get %d records from %d, %v", len(records), held, err)
			}
			o.leave(false)
			o.pay("f")
			f.takes(o.sign())
			o.leave(true)
			f = o.newReplica(func(c *Config) { c.Dir = dir })
			<-f.Ready()
			f.whole(o)
		})
	}
}

func TestAStateOfTheVersionBeforeLeadsToNoOtherHistory(t *testing.T) {
	o := newOrigin(t)
	dir := leftBefore(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
	shown, records := o.at, o.records
	last := o.records[len(o.records)-1]
	o.records = append(o.records[:len(o.records)-1:len(o.records)-1], snap.Record{Event: coretest.NewStep(&core.Bid{Stamp: 1, Member: "a", Amount: 500}, nil).EventBytes}, last)
	o.tree = snap.Tree{}
	for _, r := range o.records {
		o.tree.Add(r.Event)
	}
	if err := f.accept(t.Context(), o.sign()); !errors.Is(err, ErrForked) || f.Position() != shown.Size || f.get("/api") == "" {
		t.Errorf("another history: %v at %d", err, f.Position())
	}
	o.records, o.tree = records, snap.Tree{}
	for _, r := range records {
		o.tree.Add(r.Event)
	}
	f.takes(o.sign())
	f.whole(o)
}

// While the disk takes nothing, what the version before has left there is not gone back to.
func TestAStateOfTheVersionBeforeIsNotGoneBackTo(t *testing.T) {
	o := newOrigin(t)
	dir := leftBefore(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	if err := os.Symlink("/dev/full", filepath.Join(dir, stateName(f.Position())+".new")); err != nil {
		t.Fatal(err)
	}
	o.sign()
	f.takes(o.signed)
	if !strings.Contains(f.log.String(), "cannot be kept on disk") {
		t.Fatalf("the disk takes it\n%s", f.log)
	}
	o.pay("d")
	good := o.at
	if err := f.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 })); !errors.Is(err, ErrState) || f.Position() != good.Size {
		t.Fatalf("%v at %d", err, f.Position())
	}
	f.takes(o.sign())
	f.whole(o)
}
