package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	// Each is met with the origin one member ahead of the edge.
	for i, c := range []struct {
		rule   string
		attack func(was snap.Checkpoint)
		want   string
	}{
		{"wrong signature", func(snap.Checkpoint) {
			h.sends(bytes.Replace(sign(t, h.signer, h.present()), []byte("\ntime 1"), []byte("\ntime 2"), 1))
		}, "not signed with the origin's key"},
		{"a smaller size", func(was snap.Checkpoint) { was.Size--; h.sends(sign(t, h.signer, was)) }, "checkpoint of a smaller ledger"},
		{"another key", func(snap.Checkpoint) { h.sends(sign(t, other, h.present())) }, "not signed with the origin's key"},
		{"a forked history", func(was snap.Checkpoint) { was.Root[0] ^= 1; was.Time++; h.sends(sign(t, h.signer, was)) }, "checkpoint of another history"},
		{"another key of that name", func(snap.Checkpoint) { h.sends(sign(t, lying, h.present())) }, "not signed with the origin's key"},
		{"a forked history that is longer", func(snap.Checkpoint) { h.sign(func(c *snap.Checkpoint) { c.Root[0] ^= 1 }) }, "the root is another"},
		{"a replayed checkpoint", func(was snap.Checkpoint) { was.Time--; h.sends(sign(t, h.signer, was)) }, "checkpoint older than the one at hand"},
		{"a replayed checkpoint of few events", func(snap.Checkpoint) { h.sends(old) }, "checkpoint of a smaller ledger"},
		{"an altered event", func(snap.Checkpoint) { spoil("/sync/events"); h.sign() }, "events that the checkpoint does not sign"},
		{"another ledger", func(snap.Checkpoint) {
			h.sends(sign(t, h.signer, h.present(func(c *snap.Checkpoint) { c.Origin = "x.test" })))
		}, "checkpoint of another origin"},
		{"a state that is not reached", func(snap.Checkpoint) { h.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 }) }, "the fold does not reach the signed state"},
	} {
		was, ring := h.present(), e.get("/api/ring")
		was.Time = h.at.Time
		h.join(fmt.Sprint("member-", i))
		mark := len(e.log.String())
		c.attack(was)
		e.says(mark, c.want)
		if log := e.log.String()[mark:]; !strings.Contains(log, "level=ERROR msg=\"replica: refused; serving the last good state\"") {
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

	// What strangers ask of the edge does not reach the origin.
	for range 300 {
		if r := e.get("/sync/events?from=3"); r.Status != http.StatusOK {
			t.Fatalf("early events: %d %s", r.Status, r.Body)
		}
	}
	if n := h.questions("/sync/events?from=0"); n != 1 {
		t.Errorf("the origin was asked for the first block %d times", n)
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

// TestAnEdgeSaysWhenItIsBehind: what was signed long ago is stale, however often
// it comes.
func TestAnEdgeSaysWhenItIsBehind(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.sign(func(c *snap.Checkpoint) { c.Time -= 61_000 })
	e := h.edge(h.base, true, "--core", "native")
	if got := e.get("/api").Header.Get("Webring-Stale"); got != "true" {
		t.Errorf("stale %q from a frozen origin", got)
	}
	e.says(0, "answers are marked stale")
	h.sign()
	eventually(t, "a fresh answer", time.Minute, func() bool { return e.get("/api").Header.Get("Webring-Stale") == "" })
	e.says(0, "fresh again")
}

// buildCore builds the module from sources of which one has some text replaced.
func buildCore(t *testing.T, file, from, to string) []byte {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(root, file)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(source, []byte(from)) {
		t.Fatalf("%s has no %q any more: this test must replace something else", file, from)
	}
	bent := filepath.Join(dir, "bent.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: bent}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(bent, bytes.Replace(source, []byte(from), []byte(to), 1), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-overlay", filepath.Join(dir, "overlay.json"), "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid=", "-o", filepath.Join(dir, "core.wasm"), "./wasm")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWASM=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, err := os.ReadFile(filepath.Join(dir, "core.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestAnEdgeChangesItsCoreUnderLoad offers a running edge modules: one that says
// something else where it may, and some that do not answer as they should.
func TestAnEdgeChangesItsCoreUnderLoad(t *testing.T) {
	t.Parallel()
	const guest, answers, does = "wasm/guest.go", "reply := core.Answer(arg, small[:size])", "reply = core.Call(op, arg, in[:size])"
	const said, says = "A ring of agents", "A loop of agents"
	var good, traps, lies, fails, hangs, spins []byte
	var builds sync.WaitGroup
	builds.Go(func() { good = buildCore(t, "core/api/directory.go", said, says) })
	builds.Go(func() {
		traps = buildCore(t, guest, answers, `if op == abi.OpServe {
		panic("trap")
	}
	`+answers)
	})
	builds.Go(func() {
		// The status is the first number of a response, after the head of the reply.
		lies = buildCore(t, guest, answers, answers+"\nreply[25]++")
	})
	builds.Go(func() {
		fails = buildCore(t, guest, does, `if op == abi.OpApply {
		panic("trap")
	}
	`+does)
	})
	// Neither comes back: one from any question, one from any event.
	builds.Go(func() { hangs = buildCore(t, guest, answers, "for op == abi.OpServe {\n}\n"+answers) })
	builds.Go(func() { spins = buildCore(t, guest, does, "for op == abi.OpApply {\n}\n"+does) })
	builds.Wait()

	h := newHostile(t)
	h.join("a", "b", "c")
	h.sign()
	e := h.edge(h.base, true)
	h.reached(e)
	build := func() string {
		tag, _, _ := strings.Cut(e.get("/api/ring").Header.Get("ETag"), "-")
		return tag
	}
	own := build()
	stop := e.reading("/next?from=a", "/api/leaderboard", "/api/widget?from=b", "/", "/api/ring/c")
	refused := func(rule, want string) {
		t.Helper()
		before := build()
		mark := len(e.log.String())
		h.sign()
		e.says(mark, want)
		if log := e.log.String()[mark:]; !strings.Contains(log, "refused; going on with the core at hand") || build() != before {
			t.Errorf("%s: %s\n%s", rule, build(), log)
		}
		if got := string(e.get("/api").Body); !strings.Contains(got, said) {
			t.Errorf("%s: the directory is %s", rule, got)
		}
		h.join(rule)
		h.sign()
		h.reached(e)
	}
	h.module([]byte("no module"))
	refused("bytes", "module refused")
	h.module(good)
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/sync/core/") {
			return traps
		}
		return b
	})
	refused("other", "not the one that was signed")
	h.bent(nil)
	h.module(traps)
	refused("traps", "module refused")
	h.module(lies)
	refused("lies", "it answers")

	h.module(hangs)
	refused("hangs", "a call took too long")

	for name, code := range map[string][]byte{"fails": fails, "spins": spins} {
		h.module(code)
		mark := len(e.log.String())
		h.sign()
		e.says(mark, "another core answers from now on")
		h.join(name)
		h.sign()
		h.reached(e)
		if log := e.log.String()[mark:]; !strings.Contains(log, "going back to the core of this process") || build() != own {
			t.Errorf("%s: the build %s, that was %s\n%s", name, build(), own, log)
		}
	}

	h.module(slices.Concat(good, []byte{0, 2, 1, 'x'})) // with a section more: not the bytes refused above
	mark := len(e.log.String())
	h.sign()
	e.says(mark, "another core answers from now on")
	if got := string(e.get("/api").Body); build() == own || !strings.Contains(got, says) {
		t.Errorf("the build %s, that was %s, says %s", build(), own, got)
	}
	h.join("after")
	h.sign()
	h.reached(e)
	if n := stop(); n < 500 {
		t.Errorf("only %d reads meanwhile", n)
	}
	if got := e.get("/next?from=c").Header.Get("Location"); got != "https://bytes.test/" {
		t.Errorf("the new core sends readers to %s", got)
	}
	// Of all these modules, two are there at the next start.
	kept, err := os.ReadDir(filepath.Join(e.data, "core"))
	if err != nil || len(kept) != 2 {
		t.Errorf("compiled code is kept in %v, %v", kept, err)
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
		{"replayed", used, "voucher seen before"},
		{"forged", voucher(bytes.Repeat([]byte{1}, 32), now, "192.0.2.2", body), "voucher with a wrong MAC"},
		{"of another body", voucher(secret, now, "192.0.2.2", "{}"), "voucher with a wrong MAC"},
		{"stale", voucher(secret, now.Add(-time.Minute), "192.0.2.2", body), "voucher from another time"},
		{"from the future", voucher(secret, now.Add(time.Hour), "192.0.2.2", body), "voucher from another time"},
		{"from before the start", voucher(secret, before, "192.0.2.2", body), "voucher from before this process began"},
		{"malformed", "t=1", "malformed voucher"},
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
