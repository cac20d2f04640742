package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// behind are books that have not got all of the leader's events yet.
type behind struct {
	*ledger.Ledger
	mu  sync.Mutex
	has uint64
}

func (b *behind) Size() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.has
}

func (b *behind) get(size uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.has = size
}

// forged are books with another tree.
type forged struct{ *ledger.Ledger }

func (f forged) HashReader() tlog.HashReader {
	return tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) { return make([]tlog.Hash, len(at)), nil })
}

// relayed is a relay in a test, which says who leads.
type relayed struct {
	*publish.Relay
	t       *testing.T
	dir     string
	log     lockedBuffer
	mu      sync.Mutex
	url     string
	changed chan struct{}
}

// relay starts a relay of what is served at url.
func relay(t *testing.T, r *ring, books publish.Books, url string, edit ...func(*publish.RelayConfig)) *relayed {
	t.Helper()
	x := &relayed{t: t, dir: t.TempDir(), url: url, changed: make(chan struct{})}
	verifiers := []string{r.key.Verifier()}
	c := publish.RelayConfig{Dir: x.dir, Verifiers: func() ([]string, error) { return verifiers, nil }, Books: books, Now: time.Now, Told: func(time.Time) {}, Log: slog.New(slog.NewTextHandler(&x.log, nil)),
		Leader: func() (string, <-chan struct{}) {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.url, x.changed
		}}
	for _, f := range edit {
		f(&c)
	}
	var err error
	if x.Relay, err = publish.NewRelay(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return x
}

// lead has another node lead.
func (x *relayed) lead(url string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.url = url
	close(x.changed)
	x.changed = make(chan struct{})
}

func TestARelayPassesOnWhatItsLedgerHas(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery = 3 })
	n := serve(t, publish.Handlers(only(r.Publisher), func() string { return "https://ring.test" }))
	books := &behind{Ledger: r.books, has: 2}
	x := relay(t, r, books, "")
	if !x.Stale() || x.Checkpoint() != nil {
		t.Error("without a leader the ring is fresh")
	}
	if _, err := x.Events(1, 1); err == nil {
		t.Error("events are given out that nothing was signed of")
	}
	x.lead(n.base)
	comes(t, "the first checkpoint", func() bool { return x.Checkpoint() != nil })
	if x.Stale() {
		t.Error("with a checkpoint the ring is stale")
	}
	comes(t, "the keys", func() bool { return bytes.Equal(x.Keys(), r.Keys()) })

	// What is signed of events that are not there yet waits for them.
	changed := x.Changed()
	r.join("ada", "bob", "eve")
	signed := r.withSnapshot(4)
	if at := r.checkpoint(x.Checkpoint()); at.Size != 2 {
		t.Errorf("a checkpoint of %d events is passed on, and 2 are there", at.Size)
	}
	books.get(r.present().Size)
	x.Moved()
	<-changed
	comes(t, "the checkpoint", func() bool { return r.checkpoint(x.Checkpoint()).Snapshot == signed.Snapshot })
	records, err := x.Events(0, 9)
	if err != nil || uint64(len(records)) != r.present().Size {
		t.Errorf("%d events: %v", len(records), err)
	}

	// The snapshot is kept as a publisher keeps it, and the one before is gone.
	name := fmt.Sprintf("%020d-%x.zst", signed.Snapshot.Size, signed.Snapshot.Digest)
	comes(t, "the snapshot", func() bool {
		entries, err := os.ReadDir(x.dir)
		return err == nil && len(entries) == 1 && entries[0].Name() == name
	})
	f, length, err := x.Snapshot(signed.Snapshot.Digest)
	if err != nil || length != signed.Snapshot.Bytes {
		t.Errorf("the snapshot has %d bytes, and %d: %v", length, signed.Snapshot.Bytes, err)
	} else {
		f.Close()
	}
	if _, _, err := x.Snapshot([32]byte{1}); err == nil {
		t.Error("a snapshot is given out that is not held")
	}

	// The next relay of this node begins with what this one has passed on.
	checkpoint, keys := x.Checkpoint(), x.Keys() // both may be signed anew meanwhile
	y := relay(t, r, books, "", func(c *publish.RelayConfig) { c.Dir, c.Checkpoint, c.SignedKeys = x.dir, checkpoint, keys })
	if !bytes.Equal(y.Checkpoint(), checkpoint) || !bytes.Equal(y.Keys(), keys) {
		t.Error("it has lost what was passed on")
	}
	if f, _, err := y.Snapshot(signed.Snapshot.Digest); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

// What a node signs that led before is older, and is not passed on.
func TestARelayDoesNotGoBack(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	old := &held{key: r.key, changed: make(chan struct{})}
	was := r.present()
	size, root := r.books.Root()
	signed, err := r.key.Sign(snap.Checkpoint{Origin: "ring.test", Size: size, Root: root, Time: was.Time})
	if err != nil {
		t.Fatal(err)
	}
	old.note = signed
	routes := publish.Handlers(only(old), func() string { return "" })
	var asked atomic.Int32
	checkpoint := routes["/sync/checkpoint"]
	routes["/sync/checkpoint"] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
		checkpoint(ctx, client, known)
		asked.Add(1)
	}
	before := serve(t, routes)
	r.join("ada")
	now := r.present()
	x := relay(t, r, r.books, serve(t, publish.Handlers(only(r.Publisher), func() string { return "" })).base)
	comes(t, "the newest checkpoint", func() bool { return x.Checkpoint() != nil && r.checkpoint(x.Checkpoint()) == now })
	x.lead(before.base)
	// With the second question it is done with the first answer.
	comes(t, "two questions", func() bool { return asked.Load() > 1 })
	x.lead("")
	if got := r.checkpoint(x.Checkpoint()); got != now {
		t.Errorf("it went back to %+v", got)
	}
}

// A leader with a clock behind what was signed before signs all at one instant.
func TestARelayFollowsAClockThatIsBehind(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	r.setTime(time.Now().Add(-time.Hour))
	r.join("first") // what was being signed before the clock was set back is out of the way
	x := relay(t, r, r.books, serve(t, publish.Handlers(only(r.Publisher), func() string { return "" })).base)
	for first := r.present(); r.present().Size < first.Size+3; {
		r.join(fmt.Sprint("member-", r.present().Size))
		now := r.present()
		comes(t, "the newest checkpoint", func() bool { return x.Checkpoint() != nil && r.checkpoint(x.Checkpoint()) == now })
		if now.Time != first.Time {
			t.Errorf("signed at %d, and then at %d", first.Time, now.Time)
		}
	}
}

// After a clock that was ahead, checkpoints are signed for the present again as soon as the ring's
// clock is set back. Followers go on, and so does the next process.
func TestCheckpointsAreSetBackWithTheRing(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	x := relay(t, r, r.books, serve(t, publish.Handlers(only(r.Publisher), func() string { return "" })).base)
	follows := func() snap.Checkpoint {
		t.Helper()
		size := r.present().Size
		comes(t, "the newest checkpoint", func() bool { return x.Checkpoint() != nil && r.checkpoint(x.Checkpoint()).Size >= size })
		return r.checkpoint(x.Checkpoint())
	}
	r.setTime(time.Now().Add(365 * 24 * time.Hour))
	r.join("a")
	if c := follows(); time.Until(time.UnixMilli(c.Time)) < 300*24*time.Hour {
		t.Fatalf("signed for %d", c.Time)
	}
	r.setTime(time.Time{})
	if err := r.books.Do(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.SetBack("a test")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	signed := follows().Time
	if away := time.Until(time.UnixMilli(signed)).Abs(); away > time.Minute {
		t.Errorf("signed for %s from now", away)
	}
	r.close()
	r.open()
	r.join("b")
	if c := r.present(); c.Time <= signed || time.Until(time.UnixMilli(c.Time)) > time.Minute || time.Until(r.SignedUntil()) > time.Minute {
		t.Errorf("a restart signs for %d after %d, and may until %s", c.Time, signed, r.SignedUntil())
	}
}

func TestARelayPassesNothingOnThatIsWrong(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	n := serve(t, publish.Handlers(only(r.Publisher), func() string { return "" }))
	r.present()
	other, err := publish.OpenKey(filepath.Join(t.TempDir(), "key"), "ring.test")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		books    publish.Books
		verifier string
	}{
		"another history":               {forged{r.books}, r.key.Verifier()},
		"not signed with this node's k": {r.books, other.Verifier()},
	} {
		x := relay(t, r, c.books, n.base, func(rc *publish.RelayConfig) {
			rc.Verifiers = func() ([]string, error) { return []string{c.verifier}, nil }
		})
		comes(t, what, func() bool { return x.Trouble() != nil && strings.Contains(x.Trouble().Error(), what) })
		if x.Checkpoint() != nil {
			t.Errorf("%s is passed on", what)
		}
	}
}
