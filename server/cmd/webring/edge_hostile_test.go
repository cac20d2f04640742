package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/core/snap"
)

// attack is something that a follower must refuse.
type attack struct {
	rule   string
	send   func(was snap.Checkpoint) // was is what the follower has, and the origin is one member ahead
	want   string                    // the follower says this
	breaks bool                      // the core must not be used any more where there is only one
}

// attacks are all refusals of a follower. old is a checkpoint of fewer events.
func (h *hostile) attacks(old []byte) []attack {
	t := h.t
	other, _ := newSigner(t, "other.test")
	lying, _ := newSigner(t, "ring.test")
	return []attack{
		{"wrong signature", func(snap.Checkpoint) {
			h.sends(bytes.Replace(sign(t, h.signer, h.present()), []byte("\ntime 1"), []byte("\ntime 2"), 1))
		}, "not signed with the origin's key", false},
		{"a smaller size", func(was snap.Checkpoint) { was.Size--; h.sends(sign(t, h.signer, was)) }, "checkpoint of a smaller ledger", false},
		{"another key", func(snap.Checkpoint) { h.sends(sign(t, other, h.present())) }, "not signed with the origin's key", false},
		{"a forked history", func(was snap.Checkpoint) { was.Root[0] ^= 1; was.Time++; h.sends(sign(t, h.signer, was)) }, "checkpoint of another history", false},
		{"another key of that name", func(snap.Checkpoint) { h.sends(sign(t, lying, h.present())) }, "not signed with the origin's key", false},
		{"a forked history that is longer", func(snap.Checkpoint) { h.sign(func(c *snap.Checkpoint) { c.Root[0] ^= 1 }) }, "the root is another", false},
		{"a replayed checkpoint", func(was snap.Checkpoint) { was.Time--; h.sends(sign(t, h.signer, was)) }, "checkpoint older than the one at hand", false},
		{"a replayed checkpoint of few events", func(snap.Checkpoint) { h.sends(old) }, "checkpoint of a smaller ledger", false},
		{"an altered event", func(snap.Checkpoint) { h.spoil("/log/tile/entries/"); h.sign() }, "events that the checkpoint does not sign", false},
		{"another ledger", func(snap.Checkpoint) {
			h.sends(sign(t, h.signer, h.present(func(c *snap.Checkpoint) { c.Origin = "x.test" })))
		}, "checkpoint of another origin", false},
		{"a state that is not reached", func(snap.Checkpoint) { h.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 }) }, "the fold does not reach the signed state", true},
	}
}

// spoil alters what is sent from paths with a prefix.
func (h *hostile) spoil(prefix string) {
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, prefix) {
			b[len(b)-1] ^= 1
		}
		return b
	})
}

// TestAnEdgeUnpacksNoMoreThanItCanLoad offers an edge snapshots that its instances
// have no memory for, as they come and as they are packed.
func TestAnEdgeUnpacksNoMoreThanItCanLoad(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.join("a", "b")
	h.snapshot()
	good := h.present().Snapshot
	h.sign(func(c *snap.Checkpoint) { c.Snapshot.Bytes = 64<<20 + 1 })
	e := h.edge(h.base, false, "--memory-limit", "64")
	e.says(0, "snapshot refused: 67108865 bytes, more than the 67108864 that a core has")
	mark := len(e.log.String())
	h.offer(make([]byte, 80<<20))
	h.sign()
	e.says(mark, "snapshot refused: more than the 67108864 bytes that a core has")
	h.sign(func(c *snap.Checkpoint) { c.Snapshot = good })
	h.reached(e)
	// It has no snapshot to give. It has the events of the bundle in which its own ends, and
	// passes on what it has not.
	if r := e.get(fmt.Sprintf("/sync/snapshot/%x", good.Digest)); r.Status != http.StatusNotFound || r.code(t) != "not_found" {
		t.Errorf("a snapshot from an edge: %d %s", r.Status, r.Body)
	}
	const first = "/log/tile/entries/000.p/1"
	if r := e.get(first); r.Status != http.StatusOK || len(r.Body) == 0 || h.questions(first) != 0 {
		t.Errorf("the first event: %d, %d bytes; the origin was asked %d times", r.Status, len(r.Body), h.questions(first))
	}
	const tile = "/log/tile/0/000.p/1"
	if r := e.get(tile); r.Status != http.StatusOK || h.questions(tile) != 1 {
		t.Errorf("a tile of hashes: %d; the origin was asked %d times", r.Status, h.questions(tile))
	}
}

// TestAnEdgeThatIsToBeUpgradedSaysSo has the origin run a newer core: as long as that
// comes to the same states, an edge just serves. When it does not, the edge serves its
// last good state under a load of reads, marks it stale, and says what to do, until what
// is signed is reached again.
func TestAnEdgeThatIsToBeUpgradedSaysSo(t *testing.T) {
	t.Parallel()
	for _, build := range []string{"wasm", "native"} {
		t.Run(build, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			h.join("a", "b", "c")
			h.sign()
			e := h.edge(h.base, true, "--core", build)
			h.reached(e)
			stop := e.reading("/next?from=a", "/api/leaderboard", "/api/widget?from=b", "/", "/api/ring/c")
			version := func() string {
				out, err := e.operate("version")
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return out
			}

			newer := func(c *snap.Checkpoint) { c.Core = [32]byte{9} }
			h.join("d")
			h.sign(newer)
			h.reached(e)
			if r := e.get("/api"); r.Header.Get("Webring-Stale") != "" || strings.Contains(e.log.String(), "level=ERROR") || !strings.Contains(version(), "came to all that it saw signed: ") {
				t.Errorf("a newer core that comes to the same state: stale %q\n%s", r.Header.Get("Webring-Stale"), e.log)
			}

			want, mark := e.get("/api/ring"), len(e.log.String())
			for i := range 5 {
				h.join(fmt.Sprint("later-", i))
				h.sign(newer, func(c *snap.Checkpoint) { c.State[0] ^= 1 })
			}
			e.says(mark, `refused; readers see what they saw before" origin=`+h.base+` err="upgrade this edge: `)
			r := e.get("/api/ring")
			if string(r.Body) != string(want.Body) || r.Header.Get("ETag") != want.Header.Get("ETag") || r.Header.Get("Webring-Stale") != "true" {
				t.Errorf("stale %q: it shows %s", r.Header.Get("Webring-Stale"), r.Body)
			}
			if _, rows := e.readiness(); rows["reach"].OK || !strings.HasPrefix(rows["reach"].Detail, "upgrade this edge: ") || e.scrape()["webring_replica_unreachable"] != 1 {
				t.Errorf("readiness does not say so: %+v", rows)
			}
			eventually(t, "the word of its folder", time.Minute, func() bool {
				return strings.Contains(version(), "does not come to what its origin signs, and has 5 events: upgrade this edge: ")
			})

			// A restart, too, serves that, and comes to what is signed.
			if stop() == 0 {
				t.Error("nobody read meanwhile")
			}
			e.kill()
			e.launch()
			if r := e.get("/api/ring"); string(r.Body) != string(want.Body) {
				t.Errorf("after a restart it shows %s", r.Body)
			}
			h.sign(newer)
			h.reached(e)
			if out := version(); !strings.Contains(out, "came to all that it saw signed") || e.get("/api").Header.Get("Webring-Stale") != "" {
				t.Errorf("it says\n%s", out)
			}
		})
	}
}

// TestASecondSignalEndsAnEdgeAtOnce: the first one waits for payments.
func TestASecondSignalEndsAnEdgeAtOnce(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.sign()
	paying, release := make(chan struct{}), make(chan struct{})
	h.post = func(http.ResponseWriter, *http.Request) {
		close(paying)
		<-release
	}
	t.Cleanup(func() { close(release) })
	e := h.edge(h.base, true, "--core", "native", "--edge-secret-file", secretFile(t))
	go e.try(http.MethodPost, "/api/bid", []byte(`{"member":"a","amount":"1.00"}`), "Content-Type", "application/json")
	await(t, "a payment", paying)
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e.says(0, "forwarded payments finish first")
	select {
	case <-e.gone:
		t.Fatalf("it did not wait for the payment:\n%s", e.log)
	default:
	}
	e.endsBySignal()
}
