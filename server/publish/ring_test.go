package publish_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

const capacity = 1000

// longEnough is for what others bring about on machines that do much else.
const longEnough = time.Minute

// ring is a ledger with its publisher.
type ring struct {
	t      testing.TB
	dir    string
	store  ledger.Store
	config publish.Config
	key    *publish.Key
	*publish.Publisher
	books *ledger.Ledger
	log   lockedBuffer

	mu   sync.Mutex
	time time.Time // the publisher's clock; the true one when zero
}

// newRing opens a ring with rules and no members. edit may change what is
// published how; snapshots are made at the start alone unless it does.
func newRing(t testing.TB, store ledger.Store, edit ...func(*publish.Config)) *ring {
	r := &ring{t: t, dir: t.TempDir(), store: store}
	r.config = publish.Config{Dir: filepath.Join(r.dir, "sync"), KeyPath: filepath.Join(r.dir, "key"), NextPath: filepath.Join(r.dir, "key-next"), Name: "ring.test", Core: sha256.Sum256([]byte("module")), ABI: 7, Capacity: capacity,
		Interval: time.Hour, SnapshotEvery: 1 << 40, Now: r.now, Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	for _, f := range edit {
		f(&r.config)
	}
	r.open()
	t.Cleanup(r.close)
	r.withSnapshot(1) // so that the one made at the start is out of the way, and what the ledger says of it
	r.until("the event about it", func(c snap.Checkpoint) bool { return c.Size > r.own(c.Size) })
	return r
}

func onBadger(t testing.TB) ledger.Store {
	s, err := badgerstore.Open(filepath.Join(t.TempDir(), "store"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (r *ring) open() {
	r.t.Helper()
	r.prepare()
	if err := r.Start(context.Background(), r.books); err != nil {
		r.t.Fatal(err)
	}
}

// prepare opens everything, but publishes nothing yet.
func (r *ring) prepare() {
	r.t.Helper()
	var err error
	if r.Publisher, err = publish.New(r.config); err != nil {
		r.t.Fatal(err)
	}
	if r.key, err = publish.ReadKey(r.config.KeyPath); err != nil {
		r.t.Fatal(err)
	}
	r.books, err = ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: capacity, Publish: r.Published})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.books.Size() == 0 {
		r.append(&core.Rules{Name: "Ring", BaseURL: "https://ring.test", Fee: 100, MinBid: 100, Grace: 3600, Decay: 7200}, nil)
	}
}

func (r *ring) close() {
	if r.books == nil {
		return
	}
	if err := r.Publisher.Close(); err != nil {
		r.t.Error(err)
	}
	if err := r.books.Close(); err != nil {
		r.t.Error(err)
	}
	r.books = nil
}

func (r *ring) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.time.IsZero() {
		return time.Now()
	}
	return r.time
}

func (r *ring) setTime(to time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time = to
}

// append adds one event, stamped by the writer.
func (r *ring) append(e core.Event, texts *core.Texts) {
	r.t.Helper()
	if err := appendEvent(r.books, e, texts); err != nil {
		r.t.Fatal(err)
	}
}

func appendEvent(books *ledger.Ledger, e core.Event, texts *core.Texts) error {
	return books.Do(context.Background(), func(tx *ledger.Tx) error {
		switch e := e.(type) {
		case *core.Rules:
			e.Stamp = tx.Stamp()
		case *core.Joined:
			e.Stamp = tx.Stamp()
		case *core.Bid:
			e.Stamp = tx.Stamp()
		case *core.Removed:
			e.Stamp = tx.Stamp()
		}
		_, err := tx.Append(e, texts)
		return err
	})
}

func member(slug string) (*core.Joined, *core.Texts) {
	return &core.Joined{Slug: slug, Kind: core.Agent, Category: "general", Fee: 100},
		&core.Texts{Name: core.Text{Value: "Name of " + slug}, URL: core.Text{Value: "https://" + slug + ".org"}}
}

func (r *ring) join(slugs ...string) {
	r.t.Helper()
	for _, slug := range slugs {
		r.append(member(slug))
	}
}

// joinMany adds n members with slugs that begin with prefix.
func (r *ring) joinMany(prefix string, n int) {
	r.t.Helper()
	err := r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for i := range n {
			e, texts := member(fmt.Sprintf("%s%d", prefix, i))
			e.Stamp = tx.Stamp()
			if _, err := tx.Append(e, texts); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// checkpoint verifies and reads a signed note.
func (r *ring) checkpoint(signed []byte) snap.Checkpoint {
	r.t.Helper()
	v, err := note.NewVerifier(r.key.Verifier())
	if err != nil {
		r.t.Fatal(err)
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		r.t.Fatalf("%v: %q", err, signed)
	}
	c, err := snap.ParseCheckpoint(n.Text)
	if err != nil {
		r.t.Fatalf("%v: %q", err, n.Text)
	}
	return c
}

// until waits for a checkpoint of which holds is true, and gives it.
func (r *ring) until(what string, holds func(snap.Checkpoint) bool) snap.Checkpoint {
	r.t.Helper()
	late := time.After(longEnough)
	for {
		changed := r.Changed()
		if c := r.checkpoint(r.Checkpoint()); holds(c) {
			return c
		}
		select {
		case <-changed:
		case <-late:
			r.t.Fatalf("no checkpoint came with %s; the last is %s\n%s", what, r.Checkpoint(), &r.log)
		}
	}
}

// present is the checkpoint of the ledger's present end.
func (r *ring) present() snap.Checkpoint {
	r.t.Helper()
	return r.until("the present size", func(c snap.Checkpoint) bool { return c.Size == r.books.Size() })
}

// own is how many of the first size events are not about snapshots.
func (r *ring) own(size uint64) (n uint64) {
	r.t.Helper()
	records, err := r.books.Records(0, int(size))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, record := range records {
		e, err := core.DecodeEvent(record.Event)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, about := e.(*core.Snapshotted); !about {
			n++
		}
	}
	return n
}

// withSnapshot waits for a snapshot of so many events, without those about snapshots.
func (r *ring) withSnapshot(size uint64) snap.Checkpoint {
	r.t.Helper()
	return r.until(fmt.Sprintf("a snapshot of %d events", size), func(c snap.Checkpoint) bool { return r.own(c.Snapshot.Size) == size })
}

// all reads the records from one position to another as an edge does.
func (r *ring) all(from, to uint64) (records []snap.Record) {
	r.t.Helper()
	for from < to {
		some, err := r.Events(from, int(min(snap.BlockEvents, to-from)))
		if err != nil || len(some) == 0 {
			r.t.Fatalf("events from %d: %d, %v", from, len(some), err)
		}
		records, from = append(records, some...), from+uint64(len(some))
	}
	return records
}

// file fetches and unpacks the snapshot of a checkpoint.
func (r *ring) file(s snap.Snapshot) (rows []byte, tree snap.Tree) {
	r.t.Helper()
	f, length, err := r.Snapshot(s.Digest)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	packed, err := io.ReadAll(f)
	if err != nil || int64(len(packed)) != s.Bytes || length != s.Bytes || sha256.Sum256(packed) != s.Digest {
		r.t.Fatalf("snapshot of %d bytes, announced as %d and %d: %v", len(packed), s.Bytes, length, err)
	}
	unpack, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		r.t.Fatal(err)
	}
	defer unpack.Close()
	b, err := io.ReadAll(unpack)
	if err != nil {
		r.t.Fatal(err)
	}
	if rows, tree, err = snap.CutFile(b); err != nil {
		r.t.Fatal(err)
	}
	return rows, tree
}

// reaches folds records on top of a state and a tree, and wants what the
// checkpoint says.
func (r *ring) reaches(c snap.Checkpoint, st *core.State, tree snap.Tree, records []snap.Record) {
	r.t.Helper()
	for _, rec := range records {
		if err := snap.Verify(rec.Event, rec.Texts); err != nil {
			r.t.Fatal(err)
		}
		if err := st.Apply(rec.Event, rec.Texts); err != nil {
			r.t.Fatal(err)
		}
		tree.Add(rec.Event)
	}
	if tree.Size() != c.Size || tree.Root() != c.Root || st.Digest() != c.State {
		r.t.Errorf("the events lead to %d %x %x, but %+v is signed", tree.Size(), tree.Root(), st.Digest(), c)
	}
}

// comes waits until a condition holds.
func comes(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(longEnough); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// holds waits until so many snapshots are in the folder.
func (r *ring) holds(n int) {
	r.t.Helper()
	comes(r.t, fmt.Sprintf("a folder of %d snapshots", n), func() bool { return len(r.files()) == n })
}

// stores are what a ledger may lie on.
var stores = map[string]func(testing.TB) ledger.Store{
	"memory": func(testing.TB) ledger.Store { return ledgertest.NewStore() },
	"badger": onBadger,
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
