package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/core/snap"
)

// TestAnEdgeRefusesWhatIsNotTheOrigins sends a running edge everything but the
// truth. It says what it refuses, goes on with what it has, under a load of
// reads, and takes the truth afterwards.
func TestAnEdgeRefusesWhatIsNotTheOrigins(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.join("first")
	old := h.sign()
	h.join("a", "b")
	h.sign()
	e := h.edge(h.base, true)
	h.reached(e)
	stop := e.reading("/next?from=a", "/api/leaderboard", "/api/widget?from=b")
	for i, c := range h.attacks(old) {
		was, ring := h.present(), e.get("/api/ring")
		was.Time = h.at.Time
		h.join(fmt.Sprint("member-", i))
		mark := len(e.log.String())
		c.send(was)
		e.says(mark, c.want)
		if log := e.log.String()[mark:]; !strings.Contains(log, "level=ERROR msg=\"follow: refused; readers see what they saw before\"") {
			t.Errorf("%s: the log says %s", c.rule, log)
		}
		if got := e.get("/api/ring"); string(got.Body) != string(ring.Body) || got.Header.Get("ETag") != ring.Header.Get("ETag") {
			t.Errorf("%s: it shows %s", c.rule, got.Body)
		}
		h.bent(nil)
		h.sign()
		h.reached(e)
	}
	t.Logf("%d reads meanwhile", stop())
}

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
	spoil := func(prefix string) {
		h.bent(func(path string, b []byte) []byte {
			if strings.HasPrefix(path, prefix) {
				b[len(b)-1] ^= 1
			}
			return b
		})
	}
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
		{"an altered event", func(snap.Checkpoint) { spoil("/sync/events"); h.sign() }, "events that the checkpoint does not sign", true},
		{"another ledger", func(snap.Checkpoint) {
			h.sends(sign(t, h.signer, h.present(func(c *snap.Checkpoint) { c.Origin = "x.test" })))
		}, "checkpoint of another origin", false},
		{"a state that is not reached", func(snap.Checkpoint) { h.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 }) }, "the fold does not reach the signed state", true},
	}
}

// TestAnEdgeBootsFromWhatWasSignedAlone has an edge start on bad snapshots, and
// on connections that are cut.
func TestAnEdgeBootsFromWhatWasSignedAlone(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	for i := range 2000 {
		h.join(fmt.Sprint("m", i))
	}
	h.snapshot()
	h.join("a", "b")
	good := h.present().Snapshot
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/sync/snapshot/") {
			b[len(b)/2] ^= 1
		}
		return b
	})
	h.sign()
	base, after, cuts := cutter(t, h.base)
	e := h.edge(base, false, "--core", "native")
	e.says(0, "snapshot refused: not the one that was signed")
	h.sign(func(c *snap.Checkpoint) { c.Snapshot.Bytes = 5 << 30 })
	e.says(0, "snapshot refused: 5368709120 bytes, more than")
	if _, err := e.try(http.MethodGet, "/api", nil); err == nil {
		t.Error("it answers before it has anything to show")
	}
	// Cut in mid-snapshot, each time.
	h.bent(nil)
	after.Store(good.Bytes / 2)
	h.sign(func(c *snap.Checkpoint) { c.Snapshot = good })
	before := cuts.Load()
	eventually(t, "some cuts", time.Minute, func() bool { return cuts.Load() >= before+3 })
	if _, err := e.try(http.MethodGet, "/api", nil); err == nil {
		t.Error("it answers from half a snapshot")
	}
	after.Store(0)
	h.reached(e)

	// In mid-range, when it is running.
	want := e.get("/api/ring")
	for i := range 500 {
		h.join(fmt.Sprint("n", i))
	}
	after.Store(10_000)
	before = cuts.Load()
	h.sign()
	eventually(t, "some cuts", time.Minute, func() bool { return cuts.Load() >= before+3 })
	if got := e.get("/api/ring"); string(got.Body) != string(want.Body) {
		t.Errorf("half a range is shown: %s", got.Body)
	}
	after.Store(0)
	h.reached(e)

	// The edge holds what came after the snapshot. Earlier events are the origin's, and snapshots
	// too.
	for from, first := range map[uint64]string{3: "m2", good.Size: "a"} {
		records, err := snap.DecodeRecords(e.get(fmt.Sprint("/sync/events?from=", from)).Body)
		if err != nil || len(records) == 0 || !strings.Contains(string(records[0].Texts), "https://"+first+".") {
			t.Errorf("from %d: %d records, %v", from, len(records), err)
		}
	}
	if n, m := h.questions("/sync/events?from=3"), h.questions(fmt.Sprint("/sync/events?from=", good.Size)); n != 1 || m != 1 {
		t.Errorf("the origin was asked %d times for an early event, and %d times for one that the edge has", n, m)
	}
	if r := e.get(fmt.Sprintf("/sync/snapshot/%x", good.Digest)); r.Status != http.StatusNotFound {
		t.Errorf("a snapshot: %d", r.Status)
	}
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

// TestAFullDiskDoesNotStopAnEdge runs an edge on a small disk that fills up.
func TestAFullDiskDoesNotStopAnEdge(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs a small disk, and mounting one says %v: run the tests as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount %s: %v", disk, err)
		}
	})
	h := newHostile(t)
	h.join("a", "b")
	h.sign()
	gate, after, _ := cutter(t, h.base)
	e := h.edge(gate, false, "--core", "native")
	e.kill()
	e.data = filepath.Join(disk, "edge")
	e.launch()
	h.reached(e)
	e.kept()
	want := e.get("/api/ring")
	stop := e.reading("/next?from=a", "/api/leaderboard")

	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for i := range 200 {
		h.join(fmt.Sprint("more-", i))
	}
	h.sign()
	h.reached(e)
	e.says(0, "cannot be kept on disk; serving goes on")
	t.Logf("%d reads meanwhile", stop())

	// What was kept before is whole.
	after.Store(1) // the origin is as good as gone
	e.kill()
	e.launch()
	if got := e.get("/api/ring"); string(got.Body) != string(want.Body) {
		t.Errorf("after the restart: %s", got.Body)
	}
	after.Store(0)
	h.reached(e)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	e.kill()
	e.launch()
	h.reached(e)
	h.join("last")
	h.sign()
	h.reached(e)
	e.kept()
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

// TestTheOriginRefusesVouchersThatDoNotHold writes vouchers by their description
// and counts requests by what is left of the rate limit.
func TestTheOriginRefusesVouchersThatDoNotHold(t *testing.T) {
	t.Parallel()
	file := secretFile(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	o := start(t, "--edge-secret-file", file, "--rate-limit", "1000")
	const path, body = "/api/register", `{"name":"A","url":"https://a.dev/","kind":"agent"}`
	voucher := func(secret []byte, at time.Time, client, body string) string {
		nonce := make([]byte, 16)
		rand.Read(nonce)
		ms, n, sum := fmt.Sprint(at.UnixMilli()), base64.RawURLEncoding.EncodeToString(nonce), sha256.Sum256([]byte(body))
		m := hmac.New(sha256.New, secret)
		fmt.Fprintf(m, "webring-edge 1\n%s\n%s\n%s\nhttps\nPOST\n%s\n%s\n", ms, n, client, path, base64.RawURLEncoding.EncodeToString(sum[:]))
		return "t=" + ms + "; n=" + n + "; c=" + client + "; s=https; m=" + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	remaining := func(v string) string {
		return o.post(path, body, "Webring-Edge", v).Header.Get("RateLimit-Remaining")
	}
	now := time.Now()
	used := voucher(secret, now, "192.0.2.1", body)
	if got := remaining(used); got != "999" {
		t.Errorf("a client that an edge vouches for has %s left", got)
	}
	if log := o.log.String(); strings.Contains(log, "counted as its peer's") {
		t.Errorf("the log says %s", log)
	}
	o.get("/api") // after that of the launch: the peer is past its second
	for _, c := range []struct{ rule, voucher, want string }{
		{"replayed", used, "voucher: seen before"},
		{"forged", voucher(bytes.Repeat([]byte{1}, 32), now, "192.0.2.2", body), "voucher: wrong MAC"},
		{"of another body", voucher(secret, now, "192.0.2.2", "{}"), "voucher: wrong MAC"},
		{"stale", voucher(secret, now.Add(-time.Minute), "192.0.2.2", body), "voucher: from another time"},
		{"from the future", voucher(secret, now.Add(time.Hour), "192.0.2.2", body), "voucher: from another time"},
		{"from before the start", voucher(secret, before, "192.0.2.2", body), "voucher: from before this process began"},
		{"malformed", "t=1", "voucher: malformed"},
	} {
		mark := len(o.log.String())
		// One line a second is written.
		eventually(t, "the refusal of a voucher "+c.rule, time.Minute, func() bool {
			// What does not count is its peer's, whose minute may begin with it: then
			// the peer's next question is its second.
			if remaining(c.voucher) == "999" && o.get("/api").Header.Get("RateLimit-Remaining") != "998" {
				t.Fatalf("%s: it counts", c.rule)
			}
			return strings.Contains(o.log.String()[mark:], c.want)
		})
	}
}
