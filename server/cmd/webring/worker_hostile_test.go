package main

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"webring/core"
	"webring/core/snap"
)

// TestAWorkerRefusesWhatIsNotTheOrigins sends a running Worker everything that an edge
// refuses. It says what it refuses, and goes on with what it has; where its one core cannot
// be used any more, the origin answers. It takes the truth afterwards.
func TestAWorkerRefusesWhatIsNotTheOrigins(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.join("first")
	old := h.sign()
	h.join("a", "b")
	h.sign()
	w := h.worker()
	h.reachedBy(w)
	texts := attack{"an altered text", func(snap.Checkpoint) { h.spoil("/log/texts/"); h.sign() }, "events that the checkpoint does not sign, or that this core does not fold", true}
	for i, c := range append(h.attacks(old), texts) {
		was, ring := h.present(), w.get("/api/ring")
		was.Time = h.at.Time
		h.join(fmt.Sprint("member-", i))
		mark := len(w.log.String())
		c.send(was)
		// It asks for news when it is visited.
		eventually(t, c.rule+" refused", time.Minute, func() bool {
			got := w.get("/api/ring")
			passed := string(got.Body) == fromOrigin
			if !(c.breaks && passed) && (string(got.Body) != string(ring.Body) || got.Header.Get("ETag") != ring.Header.Get("ETag")) {
				t.Errorf("%s: it shows %d %s", c.rule, got.Status, got.Body)
			}
			return strings.Contains(w.log.String()[mark:], c.want) && c.breaks == passed
		})
		h.bent(nil)
		h.sign()
		h.reachedBy(w)
		if r := w.get("/api"); r.Header.Get("Webring-Stale") != "" {
			t.Errorf("%s: stale afterwards", c.rule)
		}
	}

	// More events than it holds before it has seen that they are signed.
	for i := range 9000 {
		h.join(fmt.Sprint("many-", i))
	}
	h.sign()
	h.reachedBy(w)

	// What was signed long ago is stale, however often it comes.
	h.join("late")
	h.sign(func(c *snap.Checkpoint) { c.Time -= 61_000 })
	h.reachedBy(w)
	if got := w.get("/api").Header.Get("Webring-Stale"); got != "true" {
		t.Errorf("stale %q from a frozen origin", got)
	}
}

// packedAnew gives another file with the same content, a little shorter.
func packedAnew(t *testing.T, file []byte) []byte {
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer r.Close()
	plain, err := r.DecodeAll(file, nil)
	if err != nil {
		t.Error(err)
	}
	return packed(t, plain)
}

func packed(t *testing.T, plain []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
	if err != nil {
		t.Error(err)
		return nil
	}
	return w.EncodeAll(plain, nil)
}

// headOf gives what comes before the rows in a snapshot of a state, and has it say that there
// are count.
func headOf(st *core.State, count uint32) []byte {
	b := snap.Append(nil, st)
	const base = 19 + 16 // behind the version and the digest
	at := base + 4 + endian.BigEndian.Uint32(b[base:])
	return endian.BigEndian.AppendUint32(b[:at:at], count)
}

// TestAWorkerRefusesWhatItCannotRunWith begins with settings that an operator has mistyped.
func TestAWorkerRefusesWhatItCannotRunWith(t *testing.T) {
	t.Parallel()
	bundled(t)
	const begin = `
		import { Edge } from "./edge.js";
		try {
			new Edge(null, "", JSON.parse(process.argv[1]));
			console.log("it begins");
		} catch (error) {
			console.log(error.message);
		}`
	for _, c := range []struct{ change, says string }{
		{`{}`, "it begins"},
		{`{"RATE_LIMIT": "", "EDGE_SECRET": ""}`, "it begins"},
		{`{"RATE_LIMIT": "0"}`, "it begins"},
		{`{"RATE_LIMIT": "abc"}`, "RATE_LIMIT must be"},
		{`{"RATE_LIMIT": "-1"}`, "RATE_LIMIT must be"},
		{`{"ORIGIN": null}`, "ORIGIN must be"},
		{`{"ORIGIN": ""}`, "ORIGIN must be"},
		{`{"ORIGIN": "ring.example"}`, "ORIGIN must be"},
		{`{"EDGE_SECRET": "abcd"}`, "EDGE_SECRET must have"},
		{`{"EDGE_SECRET": "` + strings.Repeat("no", 40) + `"}`, "EDGE_SECRET must have"},
		{`{"EDGE_SECRET": "` + strings.Repeat("0a", 32) + ` ` + strings.Repeat("0b", 32) + `"}`, "it begins"},
	} {
		env := map[string]any{"ORIGIN": "https://ring.example", "ORIGIN_KEY": "ring.example+00000000+AAAA"}
		if err := json.Unmarshal([]byte(c.change), &env); err != nil {
			t.Fatal(err)
		}
		given, err := json.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "--input-type=module", "-e", begin, string(given))
		cmd.Dir = workerFolder
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), c.says) {
			t.Errorf("%s: %v: it says %s, not %s", c.change, err, out, c.says)
		}
	}
}

// TestAWorkerKnowsWhatRowsTake holds a Worker's estimate of the memory for a snapshot against
// what a core takes.
func TestAWorkerKnowsWhatRowsTake(t *testing.T) {
	t.Parallel()
	bundled(t)
	const measure = `
		import { readFileSync } from "node:fs";
		import { Guest } from "./guest.js";
		import { countRows, HEAD, memoryFor } from "./snapshot.js";
		const core = await WebAssembly.compile(readFileSync("../../wasm/module/built/core.wasm"));
		const head = readFileSync(0);
		const all = [];
		for (const size of [1 << 20, 16 << 20, 64 << 20]) {
			for (const count of [0, 1000, 10_000, 50_000, 150_000, 300_000, 500_000, 800_000].filter((n) => n * 80 <= size)) {
				const guest = new Guest(core);
				head.writeUInt32BE(count, head.length - 4);
				if (countRows(head) !== count || countRows(head.subarray(0, -1)) !== -1) throw new Error("another count");
				guest.load(size);
				guest.piece(head);
				const before = guest.memory.buffer.byteLength;
				let said = "";
				try {
					guest.piece(new Uint8Array(HEAD - head.length)); // no row has no bytes
				} catch (error) {
					said = error.message;
				}
				all.push({ size, count, before, said, took: guest.memory.buffer.byteLength, expected: memoryFor(count, size) });
			}
		}
		console.log(JSON.stringify(all));`
	h := newHostile(t)
	cmd := exec.Command("node", "--input-type=module", "-e", measure)
	cmd.Dir, cmd.Stdin = workerFolder, bytes.NewReader(headOf(h.state, 0))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	var all []struct {
		Size, Count, Before, Took int
		Said                      string
		Expected                  float64
	}
	if err := json.Unmarshal(out, &all); err != nil || len(all) < 10 {
		t.Fatal(err, string(out))
	}
	for _, m := range all {
		const MiB = 1 << 20
		if over := m.Expected - float64(m.Took); over < 0 || over > 4*MiB || m.Before > 5*MiB || !strings.Contains(m.Said, "malformed") {
			t.Errorf("%+v: %.1f MiB too much", m, over/MiB)
		}
	}
}

// TestAWorkerBeginsWithWhatWasSignedAlone has a Worker begin on bad snapshots, and on a
// checkpoint that is older than one that another isolate has seen. Meanwhile the origin
// answers. Then many requests and a client that hangs up share one beginning.
func TestAWorkerBeginsWithWhatWasSignedAlone(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	for i := range 1500 {
		h.join(fmt.Sprint("m", i))
	}
	h.snapshot()
	good := h.present().Snapshot
	h.join("a", "b")
	old := h.sign()
	h.join("c")
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/sync/snapshot/") {
			b[len(b)/2] ^= 1
		}
		return b
	})
	h.sign()
	w := h.worker()
	refuses := func(what string) {
		t.Helper()
		mark := len(w.log.String())
		eventually(t, what, time.Minute, func() bool {
			if r := w.get("/api"); string(r.Body) != fromOrigin {
				t.Fatalf("it answers from what was not signed: %d %s", r.Status, r.Body)
			}
			return strings.Contains(w.log.String()[mark:], what)
		})
	}
	refuses("snapshot refused: ")
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/sync/snapshot/") {
			return packedAnew(t, b)
		}
		return b
	})
	refuses("snapshot refused: not the one that was signed")

	// Each process below sees one fault: after a row of them it would rest for a minute.
	anew := func(what string) {
		t.Helper()
		w.kill()
		w.launch()
		refuses(what)
	}
	// What would take more memory than an isolate has is refused before it is taken.
	sends := func(file []byte) {
		h.bent(func(path string, b []byte) []byte {
			if strings.HasPrefix(path, "/sync/snapshot/") {
				return bytes.Clone(file)
			}
			return b
		})
	}
	const vast = 800_000
	sends(packed(t, append(headOf(h.state, vast), make([]byte, 63<<20)...)))
	anew(fmt.Sprintf("snapshot refused: there is no memory for its %d rows here", vast))
	// A frame with a window of 128 MiB, and a byte in it.
	sends([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1<<3 | 1, 0, 0, 'x'})
	anew("snapshot refused: Zstd decompression failed: Frame requires too much memory")
	h.bent(nil)
	h.sign(func(c *snap.Checkpoint) { c.Snapshot.Bytes = 5 << 30 })
	anew("snapshot refused: 5368709120 bytes")
	h.offer(make([]byte, 128<<20))
	h.sign()
	anew("snapshot refused: there is no memory for it here")
	h.sign(func(c *snap.Checkpoint) { c.Snapshot = good; c.State[0] ^= 1 })
	anew("the fold does not reach the signed state")
	h.sign(func(c *snap.Checkpoint) { c.Snapshot = good })
	h.reachedBy(w)
	kept := func() []byte {
		text, _ := os.ReadFile(filepath.Join(w.floor, "checkpoint"))
		return text
	}
	eventually(t, "the kept checkpoint", time.Minute, func() bool { return string(kept()) == string(h.signed) })

	// Another isolate, and a cache that has an old checkpoint.
	w.kill()
	truth := h.signed
	h.sends(old)
	w.launch()
	refuses("checkpoint of a smaller ledger")
	h.sends(truth)
	h.reachedBy(w)

	// What is kept counts only if it is signed.
	w.kill()
	if err := os.WriteFile(filepath.Join(w.floor, "checkpoint"), []byte("not signed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.launch()

	// Its first requests come at once, and the first of all is given up while the snapshot is on its way.
	path := fmt.Sprintf("/sync/snapshot/%x", good.Digest)
	before := h.questions(path)
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.bent(func(of string, b []byte) []byte {
		if of == path {
			once.Do(func() { close(asked) })
			<-release
		}
		return b
	})
	ctx, hangUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/api", nil)
		if err == nil {
			_, err = noRedirects.Do(req)
		}
		first <- err
	}()
	await(t, "the question for the snapshot", asked)
	hangUp()
	if err := await(t, "the end of the first request", first); err == nil {
		t.Error("the first request was answered")
	}
	var cold sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		cold.Go(func() {
			r, err := w.try(http.MethodGet, "/api/ring", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = r.Header.Get("Webring-Seq")
			if answers[i] == "" {
				answers[i] = string(r.Body)
			}
		})
	}
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	cold.Wait()
	if slices.ContainsFunc(answers, func(seq string) bool { return seq != fmt.Sprint(h.present().Size) }) {
		t.Errorf("cold answers: %q", answers)
	}
	// One beginning reads the file twice, since it does not say how long its content is.
	if n := h.questions(path) - before; n != 2 {
		t.Errorf("%d requests at once asked for the snapshot %d times", len(answers), n)
	}
	h.bent(nil)

	// Killed at any moment, it begins again.
	for i := range 8 {
		h.join(fmt.Sprint("late-", i))
		h.sign()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 50 {
				r, err := w.try(http.MethodGet, "/api/leaderboard", nil)
				if err != nil {
					return
				}
				if r.Status != http.StatusOK && string(r.Body) != fromOrigin {
					t.Errorf("%d %s", r.Status, r.Body)
				}
			}
		}()
		time.Sleep(time.Duration(i*13) * time.Millisecond)
		w.kill()
		<-done
		w.launch()
	}
	h.reachedBy(w)
}
