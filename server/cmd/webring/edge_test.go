package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core/snap"
	"webring/server/devchain"
)

// These are for longer runs: make test stays short.
var (
	edgePayments = flag.Int("edge-payments", 4, "payments through each of three edges by each who pays there")
	edgePayers   = flag.Int("edge-payers", 1, "how many pay at a time through each edge")
	edgeRing     = flag.Int("edge-ring", 0, "members of the ring before these payments; 0 for none")
)

// secretFile writes what an origin and its edges share.
func secretFile(t *testing.T) string {
	t.Helper()
	secret := make([]byte, 32)
	rand.Read(secret)
	path := filepath.Join(t.TempDir(), "edge-secret")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(secret)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var verifierLine = regexp.MustCompile(`--origin-key (\S+)`)

// verifier is what a started origin prints for edges to pin.
func (o *origin) verifier() (key string) {
	o.t.Helper()
	eventually(o.t, "the verifier", time.Minute, func() bool {
		m := verifierLine.FindStringSubmatch(o.log.String())
		if m != nil {
			key = m[1]
		}
		return m != nil
	})
	return key
}

// follow starts an edge behind an origin.
func (o *origin) follow(t *testing.T, key string, args ...string) *origin {
	t.Helper()
	listen := devchain.FreeAddress()
	e := &origin{t: t, data: folder(t), base: "http://" + listen, recipient: o.recipient}
	e.args = append([]string{"edge", "--listen", listen, "--origin", o.base, "--origin-key", key, "--rate-limit", "0", "--drain", "0"}, args...)
	e.launch()
	t.Cleanup(e.kill)
	return e
}

// position is what a node says it shows.
func (o *origin) position() string {
	o.t.Helper()
	return o.get("/api").Header.Get("Webring-Seq")
}

// told waits until the ledger has the event about the snapshot that a start makes, if anything has
// happened since the last one. Nothing may happen meanwhile.
func (o *origin) told() {
	o.t.Helper()
	eventually(o.t, "the event about the snapshot", longEnough, func() bool {
		text, _, _ := strings.Cut(string(o.get("/sync/checkpoint").Body), "\n\n")
		c, err := snap.ParseCheckpoint(text + "\n")
		return err == nil && c.Size == c.Snapshot.Size+1
	})
}

// settle starts the process anew, and ends that one when it has made its snapshot: the next start
// writes nothing into the ledger.
func (o *origin) settle() {
	o.t.Helper()
	o.stop()
	o.launch()
	o.told()
	o.stop()
}

// alike holds that all nodes show the same documents under validators of the
// same position, and vouch for the same state.
func alike(t *testing.T, nodes ...*origin) {
	t.Helper()
	eventually(t, "one position", time.Minute, func() bool {
		for _, n := range nodes[1:] {
			if n.position() != nodes[0].position() {
				return false
			}
		}
		return true
	})
	// Builds have tags of their own: native, and the module.
	tag := func(r reply) string { _, position, _ := strings.Cut(r.Header.Get("ETag"), "-"); return position }
	for _, target := range []string{"/api", "/api/ring?limit=500", "/api/categories", "/api/widget"} {
		for i, n := range nodes[1:] {
			var want, got reply
			// An event of the ring's own, such as that about a snapshot, may come in between.
			eventually(t, "answers of one position", time.Minute, func() bool {
				want, got = nodes[0].get(target), n.get(target)
				return got.Header.Get("Webring-Seq") == want.Header.Get("Webring-Seq")
			})
			if got.Status != want.Status || string(got.Body) != string(want.Body) || tag(got) != tag(want) {
				t.Errorf("node %d: GET %s: %d %s %s\nwant %d %s %s", i+1, target, got.Status, tag(got), got.Body, want.Status, tag(want), want.Body)
			}
		}
	}
	state := func(n *origin) string {
		lines := strings.Split(string(n.get("/sync/checkpoint").Body), "\n")
		return strings.Join([]string{lines[1], lines[2], lines[4]}, " ") // size, root, state
	}
	for i, n := range nodes[1:] {
		eventually(t, fmt.Sprintf("the state that the first vouches for, at node %d,", i+1), time.Minute, func() bool { return state(n) == state(nodes[0]) })
	}
}

// kept waits until what an edge shows is on its disk, which comes last.
func (o *origin) kept() {
	o.t.Helper()
	eventually(o.t, "the position on disk", time.Minute, func() bool {
		b, err := os.ReadFile(filepath.Join(o.data, "replica", "checkpoint"))
		return err == nil && strings.Split(string(b), "\n")[1] == o.position()
	})
}

// TestPayersReadTheirOwnWritesAtEveryEdge pays through three edges, in turn and at once.
func TestPayersReadTheirOwnWritesAtEveryEdge(t *testing.T) {
	t.Parallel()
	secret := secretFile(t)
	c, _ := chain(t)
	o := prepare(t, nil, "--tempo-rpc", c.RPC, "--edge-secret-file", secret, "--capacity", strconv.Itoa(2**edgeRing+1000))
	if *edgeRing > 0 {
		o.populate(*edgeRing)
	}
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()
	near := o.follow(t, key, "--edge-secret-file", secret)
	other := o.follow(t, key, "--edge-secret-file", secret, "--core", "native")
	far := o.follow(t, key, "--edge-secret-file", secret)

	// Edges that have just begun have more to do in a large ring than to follow.
	first := o.join("First", "agent", "")
	for _, e := range []*origin{near, other, far} {
		eventually(t, "the first member at every edge", time.Minute, func() bool { return e.get("/api/ring/"+first).Status == http.StatusOK })
	}

	each, count := *edgePayments, 3**edgePayments**edgePayers
	watch, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	atOrigin, atFar := o.watch(watch), far.watch(watch)
	var payers sync.WaitGroup
	for i, e := range []*origin{near, other, far} {
		for payer := range *edgePayers {
			payers.Go(func() {
				for n := range each {
					slug := e.join(fmt.Sprintf("Edge %d Payer %d Member %d", i, payer, n), "agent", "")
					if r := e.get("/api/ring/" + slug); r.Status != http.StatusOK || r.Header.Get("Webring-Stale") != "" {
						t.Errorf("edge %d does not show %s, which was paid for through it: %d, stale %q\n%s", i, slug, r.Status, r.Header.Get("Webring-Stale"), e.log)
					}
				}
			})
		}
	}
	payers.Wait()
	alike(t, o, near, other, far)
	if n := o.received(); n != int64(count+1)*100 {
		t.Errorf("%d cents were received for %d members", n, count+1)
	}
	stopWatching()
	there, here := <-atOrigin, <-atFar
	var lags []time.Duration
	for seq := range min(len(there), len(here)) {
		if !there[seq].IsZero() && !here[seq].IsZero() {
			lags = append(lags, here[seq].Sub(there[seq]))
		}
	}
	if len(lags) < count {
		t.Fatalf("only %d positions were seen at both ends", len(lags))
	}
	slices.Sort(lags)
	median, last := lags[len(lags)/2], lags[(len(lags)-1)*99/100]
	t.Logf("from the origin until an edge shows it: median %s, 99th percentile of %d %s", median, len(lags), last)
	measured("Visible", *edgeRing, inMilliseconds(median, "median"), inMilliseconds(last, "p99"), fmt.Sprint(len(lags), " payments"))
	// A machine that stands still once does so for more than a hundredth of the
	// payments of a short run.
	if median > 250*time.Millisecond || last > 250*time.Millisecond && len(lags) >= 200 {
		t.Errorf("an edge is behind: %s", lags)
	}
}

// watch asks a node every millisecond where it is, until ctx ends, and then gives
// when each position was first seen; no time for one that was there at first. It asks
// over one connection and looks at one header field: whatever more it did would be
// work for the processors that it watches, and be measured for the node's.
func (o *origin) watch(ctx context.Context) <-chan []time.Time {
	o.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(o.base, "http://"))
	if err != nil {
		o.t.Fatal(err)
	}
	out := make(chan []time.Time, 1)
	go func() {
		defer conn.Close()
		answers := bufio.NewReader(conn)
		var seen []time.Time
		for first := true; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			seq, err := 0, conn.SetDeadline(time.Now().Add(time.Minute))
			if err == nil {
				_, err = conn.Write([]byte("HEAD /api/widget HTTP/1.1\r\nHost: ring\r\n\r\n"))
			}
			var r *http.Response
			if err == nil {
				r, err = http.ReadResponse(answers, &http.Request{Method: http.MethodHead})
			}
			if err == nil {
				seq, err = strconv.Atoi(r.Header.Get("Webring-Seq"))
			}
			if err != nil {
				o.t.Errorf("asking where a node is: %v", err)
				break
			}
			for len(seen) <= seq {
				at := time.Now()
				if first {
					at = time.Time{}
				}
				seen = append(seen, at)
			}
			first = false
		}
		out <- seen
	}()
	return out
}

// TestEdgesGoOnWithoutTheOrigin kills the origin under a load of reads.
func TestEdgesGoOnWithoutTheOrigin(t *testing.T) {
	t.Parallel()
	secret := secretFile(t)
	o := ring(t, "--edge-secret-file", secret)
	key := o.verifier()
	near := o.follow(t, key, "--edge-secret-file", secret)
	far := o.follow(t, key, "--edge-secret-file", secret)
	slug := near.join("First", "agent", "2.00")
	alike(t, o, near, far)

	stop := make(chan struct{})
	var reads atomic.Int64
	var readers sync.WaitGroup
	for _, e := range []*origin{near, far} {
		for _, target := range []string{"/next?from=" + slug, "/api/leaderboard", "/api/widget?from=" + slug, "/"} {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					r, err := e.try(http.MethodGet, target, nil)
					if err != nil || r.Status != http.StatusOK && r.Status != http.StatusFound {
						t.Errorf("GET %s: %d %v", target, r.Status, err)
						return
					}
					reads.Add(1)
				}
			})
		}
	}
	readSome := func() {
		t.Helper()
		before := reads.Load()
		eventually(t, "reads", time.Minute, func() bool { return reads.Load() > before+200 })
	}
	readSome()
	o.kill()
	readSome()
	for _, e := range []*origin{near, far} {
		r := e.post("/api/bid", fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, slug))
		if r.Status != http.StatusServiceUnavailable || r.code(t) != "payments_unavailable" || r.Header.Get("Retry-After") == "" {
			t.Errorf("paying without the origin: %d %s, Retry-After %q", r.Status, r.Body, r.Header.Get("Retry-After"))
		}
	}
	o.launch()
	p := near.pay(wallet(t), "/api/bid", fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, slug))
	if p.Status != http.StatusOK {
		t.Errorf("paying after the origin is back: %d %s", p.Status, p.Body)
	}
	close(stop)
	readers.Wait()
	alike(t, o, near, far)
}

// TestAnEdgeStartsFromItsFolder starts an edge again when there is no origin.
func TestAnEdgeStartsFromItsFolder(t *testing.T) {
	t.Parallel()
	o := ring(t)
	key := o.verifier()
	e := o.follow(t, key)
	for _, build := range []string{"wasm", "native"} {
		slug := o.join("Member "+build, "agent", "")
		eventually(t, "the member at the edge", time.Minute, func() bool { return e.get("/api/ring/"+slug).Status == http.StatusOK })
	}
	want := e.get("/api/ring")
	alike(t, o, e)
	e.kept()
	if out, err := e.operate("edge", "--data", e.data, "--origin", o.base, "--origin-key", key, "--listen", strings.TrimPrefix(e.base, "http://")); err == nil || !strings.Contains(out, "folder of its own") {
		t.Errorf("a second edge on its folder: %v %s", err, out)
	}
	o.kill()
	for _, end := range []func(){e.kill, e.stop} {
		end()
		began := time.Now()
		e.launch()
		t.Logf("the first answer came after %s", time.Since(began))
		if got := e.get("/api/ring"); string(got.Body) != string(want.Body) || got.Header.Get("ETag") != want.Header.Get("ETag") {
			t.Errorf("after the restart: %s, want %s", got.Body, want.Body)
		}
	}
	o.launch()
	slug := o.join("Member after", "agent", "")
	eventually(t, "the member at the edge", time.Minute, func() bool { return e.get("/api/ring/"+slug).Status == http.StatusOK })
	// And from the first event.
	whole := o.follow(t, key, "--replay")
	alike(t, o, e, whole)
}

// A folder that cannot be locked ends no edge, but is told of.
func TestAnEdgeWhoseFolderCannotBeLockedSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	lock, err := holdFolder(filepath.Join(file, "edge"), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil || lock != nil || !strings.Contains(said.String(), "cannot be locked") || !strings.Contains(said.String(), file) {
		t.Errorf("%v %v %s", lock, err, said.String())
	}
}

func TestEdgeRefusesFlagsThatContradict(t *testing.T) {
	t.Parallel()
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abcd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "ring.example+c1aa2bd0+AXbGcxF39Fr0BkuYn1tzxuf2DJwrDq0jTmqYv3vHEnd3"
	for _, c := range []struct{ args, want string }{
		{"", "--origin is needed"},
		{"--origin http://127.0.0.1:1", "--origin-key is needed"},
		{"--origin http://127.0.0.1:1 --origin-key x", "origin's key"},
		{"--origin 127.0.0.1:1 --origin-key " + key, "not an http or https URL"},
		{"--origin http://127.0.0.1:1 --origin-key " + key + " --tls-cert x", "go together"},
		{"--origin http://127.0.0.1:1 --origin-key " + key + " --rate-limit -1", "negative"},
		{"--origin http://127.0.0.1:1 --origin-key " + key + " --edge-secret-file " + short, "64 hex digits"},
		{"--origin http://127.0.0.1:1 --origin-key " + key + " --core x", "--core"},
	} {
		o := &origin{t: t, data: t.TempDir()}
		out, err := o.operate(append([]string{"edge"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("webring edge %s: %v %s", c.args, err, out)
		}
	}
}
