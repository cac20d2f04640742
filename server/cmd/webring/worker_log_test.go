package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/coretest"
	"webring/core/snap"
	"webring/edge/follow"
	"webring/edge/tlog"
)

// cosignerOf is the nth witness of a test.
func cosignerOf(t *testing.T, n byte) *tlog.Cosigner {
	t.Helper()
	c, err := tlog.NewCosigner(tlog.FormatCosigner(fmt.Sprintf("witness.test/%d", n), bytes.Repeat([]byte{n}, 32)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cosigned gives a text as a log and witnesses have signed it.
func cosigned(t *testing.T, log note.Signer, text string, by ...byte) []byte {
	t.Helper()
	signers := []note.Signer{log}
	for _, n := range by {
		signers = append(signers, cosignerOf(t, n))
	}
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// logText is the checkpoint of the log for a statement.
func logText(c snap.Checkpoint) string {
	return tlog.Checkpoint{Origin: c.Origin, Tree: xtlog.Tree{N: int64(c.Size), Hash: c.Root}}.Text()
}

// evidenceIn checks that a text is evidence that the key has signed two histories.
func evidenceIn(t *testing.T, text, key string) *tlog.Contradiction {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evidence")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"verify", "--memory", t.TempDir(), "--evidence", file, "--origin-key", key}, &out); err != nil || !strings.Contains(out.String(), "has signed two histories") {
		t.Errorf("verify --evidence: %v\n%s\n%s", err, &out, text)
	}
	c, err := tlog.ParseContradiction([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asked is a question to the modules of the Worker, and what the edge's packages say to it: "ok",
// "refused", the text of a path, or "evidence".
type asked struct {
	What string         `json:"what"`
	Of   map[string]any `json:"of"`
	want string
}

// answersOfModules asks the modules that the Worker and /verify read logs with.
const answersOfModules = `
	import { continues, Contradiction } from "./contradiction.js";
	import { open, readKeys, verified } from "./note.js";
	import { cutCosigned, Policy } from "./policy.js";
	import { entries, tilePath } from "./tiles.js";
	const tiles = new Map();
	const get = async (path) => {
		if (!tiles.has(path)) tiles.set(path, new Uint8Array(await (await fetch(answers.base + path)).arrayBuffer()));
		return tiles.get(path);
	};
	const ask = {
		path: ({ kind, n, width }) => tilePath(kind, n, width),
		bundle: ({ bytes, width }) => void entries(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)), width),
		note: async ({ signed, keys }) => void (await verified(signed, await readKeys(keys))),
		policy: ({ policy }) => void new Policy(policy),
		check: ({ policy, signed }) => new Policy(policy).check(signed),
		joined: async ({ policy, signed, keys }) => {
			const [statement, cosigned] = cutCosigned(signed);
			const trusted = await readKeys(keys);
			return new Policy(policy).cosigned(await open(statement, trusted), cosigned, trusted);
		},
		continues: ({ keys, earlier, later }) => continues(keys, earlier, later, get),
		// Whichever tile is altered, it must not change what is said, unless to a refusal.
		altered: async ({ keys, earlier, later, at }) => {
			const honest = await answer({ what: "continues", of: { keys, earlier, later } });
			const read = new Set();
			await continues(keys, earlier, later, (path) => (read.add(path), get(path))).catch(() => {});
			let refused = 0;
			for (const altered of read) {
				const bent = async (path) => {
					const tile = (await get(path)).slice();
					if (path === altered) tile[at % tile.length] ^= 1;
					return tile;
				};
				const said = await continues(keys, earlier, later, bent).then(() => "ok", (error) => error.evidence ?? "refused");
				if (said === "refused") refused++;
				else if (said !== honest) throw new Error(altered + " altered: " + said);
				for (const broken of [tile => tile.slice(1), () => { throw new Error("withheld"); }])
					await continues(keys, earlier, later, async (path) => path === altered ? broken(await get(path)) : get(path)).then(() => { throw new Contradiction("taken"); }, (error) => {
						if (error instanceof Contradiction) throw new Error(altered + " broken: " + error.evidence);
					});
			}
			if (refused === 0 && at === 0) throw new Error("no altered tile is refused");
		},
	};
	async function answer({ what, of }) {
		try {
			return (await ask[what](of)) ?? "ok";
		} catch (error) {
			return error.evidence ?? (what === "altered" ? String(error) : "refused");
		}
	}
	async function answers({ base, questions }) {
		answers.base = base;
		const all = [];
		for (const question of questions) all.push(await answer(question));
		return all;
	}`

// inNode prints the answers of modules as Node gives them, and inChromium as Chromium does, where the
// modules are built as page.mjs builds those of /verify.
const (
	inNode = `
	import { readFileSync } from "node:fs";
	console.log(JSON.stringify(await answers(JSON.parse(readFileSync(0, "utf8")))));`
	inChromium = `
	import { readFileSync } from "node:fs";
	import { build } from "esbuild";
	import { launch } from "../browser/chromium.mjs";
	const body = readFileSync(0, "utf8");
	const { base, chromium, modules } = JSON.parse(body);
	const built = await build({
		stdin: { contents: modules + "; globalThis.answers = answers;", resolveDir: "." },
		bundle: true, format: "iife", target: "es2022", alias: { "node:crypto": "./sha256.js" }, write: false, logLevel: "warning",
	});
	const browser = await launch(chromium);
	const page = await browser.newPage();
	await page.route(base + "/asked", (route) => route.fulfill({ contentType: "application/json", body }));
	await page.route(base + "/", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html>" }));
	await page.goto(base + "/");
	await page.addScriptTag({ content: built.outputFiles[0].text });
	console.log(JSON.stringify(await page.evaluate(async () => answers(await (await fetch("/asked")).json()))));
	await browser.close();`
)

// TestAWorkerReadsLogsAsEdgesDo holds the modules of the Worker and of /verify against the edge's
// packages, in Node and in Chromium: paths, bundles, signed notes, cosignatures, policies and proofs
// by tiles.
func TestAWorkerReadsLogsAsEdgesDo(t *testing.T) {
	t.Parallel()
	bundled(t)
	const example = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n" // of tlog-cosignature
	seed := uint64(time.Now().UnixNano())
	d := rand.New(rand.NewPCG(seed, 1))
	var questions []asked
	add := func(want, what string, of map[string]any) { questions = append(questions, asked{what, of, want}) }
	taken := func(err error) string {
		if err != nil {
			return "refused"
		}
		return "ok"
	}

	for range 50 {
		n, width := d.Int64N(1<<d.IntN(40)), 1+d.IntN(tlog.TileWidth)
		level := d.IntN(7)
		add(tlog.TilePath(xtlog.Tile{H: tlog.TileHeight, L: level, N: n, W: width}), "path", map[string]any{"kind": fmt.Sprint("tile/", level), "n": n, "width": width})
		add(tlog.EntriesPath(n, width), "path", map[string]any{"kind": "tile/entries", "n": n, "width": width})
		add(tlog.TextsPath(n, width), "path", map[string]any{"kind": "texts", "n": n, "width": width})

		bundle := []byte{}
		for range width {
			bundle = tlog.AppendEntry(bundle, make([]byte, d.IntN(400)))
		}
		add("ok", "bundle", map[string]any{"bytes": bundle, "width": width})
		add("refused", "bundle", map[string]any{"bytes": bundle, "width": width + 1})
		add("refused", "bundle", map[string]any{"bytes": bundle[:len(bundle)-1], "width": width})
		add("refused", "bundle", map[string]any{"bytes": append(bundle, 0), "width": width})
		add("refused", "bundle", map[string]any{"bytes": append(bundle, 0, 0), "width": width})
	}

	// The example of golang.org/x/mod/sumdb/note, and what of it must not pass.
	const peter = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
	const saying = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
	const signature = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
	other, otherKey := newSigner(t, "other.test")
	for _, signed := range []string{saying + "\n" + signature, saying + "\n— someone x08go/ZJ\n" + signature, saying + "\n" + signature + "— someone x08go/ZJ\n"} {
		add("ok", "note", map[string]any{"signed": signed, "keys": otherKey + " " + peter})
		for _, wrong := range []string{strings.Replace(signed, "cryptography", "Cryptography", 1), strings.Replace(signed, "NIuGUgYN", "NIuGUgYM", 1), strings.Replace(signed, "nAM=", "nAN=", 1),
			strings.Replace(signed, "Neumann ", "Neumann  ", 1), strings.TrimSuffix(signed, "\n"), strings.Replace(signed, "\n\n", "\n", 1), strings.ReplaceAll(signed, "—", "-"), saying, ""} {
			add("refused", "note", map[string]any{"signed": wrong, "keys": otherKey + " " + peter})
		}
		add("refused", "note", map[string]any{"signed": signed, "keys": otherKey})
	}

	// The example of tlog-tiles: a tree of 70 000.
	for _, c := range []struct {
		path     string
		level    int
		n, width int64
	}{{"0/272", 0, 272, 256}, {"0/273.p/112", 0, 273, 112}, {"1/000", 1, 0, 256}, {"1/001.p/17", 1, 1, 17}, {"2/000.p/1", 2, 0, 1}} {
		add("/log/tile/"+c.path, "path", map[string]any{"kind": fmt.Sprint("tile/", c.level), "n": c.n, "width": c.width})
	}

	// The example of signed-note.
	const foo = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	const message = "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
	add("ok", "note", map[string]any{"signed": message, "keys": foo})
	add("refused", "note", map[string]any{"signed": strings.Replace(message, "an", "no", 1), "keys": foo})

	// The example of tlog-policy, and that of tlog-cosignature under it.
	sofa, sofaKey := newSigner(t, "example.com/behind-the-sofa")
	given := "log " + sofaKey + "\n"
	for n, name := range []string{"X1", "X2", "X3", "Y1", "Y2", "Y3"} {
		given += "witness " + name + " " + cosignerOf(t, byte(n+1)).Verifier() + "\n"
	}
	given += "group X-witnesses 2 X1 X2 X3\n\ngroup Y-witnesses any Y1 Y2 Y3\n\ngroup X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n"
	for by, want := range map[string]string{"\x01\x02\x06": "ok", "\x01\x03\x04\x05": "ok", "\x01\x04\x05\x06": "refused", "\x01\x02\x03": "refused", "": "refused"} {
		add(want, "check", map[string]any{"policy": given, "signed": string(cosigned(t, sofa, example, []byte(by)...))})
		add("refused", "check", map[string]any{"policy": given, "signed": string(cosigned(t, other, example, []byte(by)...))})
	}

	// The same under policies of lines that mostly fit together.
	lines := []string{"log " + sofaKey, "log " + otherKey, "log " + sofaKey + " https://log.test", "# a comment", "", " \t", "quorum none", "quorum X1", "quorum X", "quorum all-of", "quorum X1 X2", "monitor X1",
		"witness X1 " + cosignerOf(t, 1).Verifier(), "witness X2\t" + cosignerOf(t, 2).Verifier() + " https://x2.test/w/", "witness Y1 " + cosignerOf(t, 3).Verifier(), "witness none " + cosignerOf(t, 4).Verifier(),
		"witness X1 " + cosignerOf(t, 5).Verifier(), "witness Y2 " + sofaKey, "witness Y2 " + cosignerOf(t, 1).Verifier()[2:], " group X 2 X1 X2 ", "group X any X1 X2", "group X 3 X1 X2", "group X 0 X1", "group X 01 X1 X2",
		"group X any", "group X all X1 X1", "group all-of all X Y1", "group X constructor X1", "group X any none", "group Y any X1", "quorum X1\r", "log " + cosignerOf(t, 1).Verifier()}
	whole := []int{12, 13, 14, 19, 26, 9}
	var policies []string
	for i := range 400 {
		order := slices.Clone(whole)
		if i%4 == 1 { // their order matters
			a, b := d.IntN(len(order)), d.IntN(len(order))
			order[a], order[b] = order[b], order[a]
		}
		if at := d.IntN(len(order)); i%3 == 1 {
			order[at] = d.IntN(len(lines))
		} else if i%3 == 2 {
			order = slices.Insert(order, at, d.IntN(len(lines)))
		}
		if d.IntN(3) == 0 {
			order = slices.Insert(order, 0, d.IntN(3))
		}
		text := ""
		for _, n := range order {
			text += lines[n] + "\n"
		}
		policies = append(policies, text)
	}
	held := 0
	for _, lines := range policies {
		policy, err := tlog.ParsePolicy([]byte(lines))
		add(taken(err), "policy", map[string]any{"policy": lines})
		if err != nil {
			continue
		}
		var by []byte
		for n := byte(1); n <= 5; n++ {
			if d.IntN(5) > 0 {
				by = append(by, n)
			}
		}
		signer := []note.Signer{sofa, other}[d.IntN(2)]
		text := string(cosigned(t, signer, example+[]string{"", "an extension\n"}[d.IntN(2)], by...))
		if d.IntN(4) == 0 && len(by) > 0 { // one of the cosignatures is wrong
			at := len(text) - 40
			text = text[:at] + string("AB"[len(strings.Trim(text[at:at+1], "B"))]) + text[at+1:]
		}
		_, err = policy.Check([]byte(text))
		add(taken(err), "check", map[string]any{"policy": lines, "signed": text})
		if err == nil {
			held++
		}
	}
	timeless, err := tlog.NewCosigner(tlog.FormatCosigner("witness.test/1", bytes.Repeat([]byte{1}, 32)), func() time.Time { return time.Unix(0, 0) })
	if err != nil {
		t.Fatal(err)
	}
	unsaid, err := note.Sign(&note.Note{Text: example}, timeless)
	if err != nil {
		t.Fatal(err)
	}
	add("refused", "check", map[string]any{"policy": lines[12] + "\nquorum X1\n", "signed": string(unsaid)})
	add("ok", "check", map[string]any{"policy": lines[12] + "\nquorum X1\n", "signed": string(cosigned(t, sofa, example, 1))})
	if held == 0 {
		t.Errorf("seed %d: no policy holds", seed)
	}

	// What /sync/cosigned gives.
	h := newHostile(t)
	h.join("a")
	statement := h.sign()
	at := h.at
	both := "witness a " + cosignerOf(t, 1).Verifier() + "\nwitness b " + cosignerOf(t, 2).Verifier() + "\ngroup both all a b\nquorum both\n"
	joined := func(want string, second []byte) {
		add(want, "joined", map[string]any{"policy": both, "signed": string(follow.JoinCosigned(statement, second)), "keys": h.key})
	}
	joined("ok", cosigned(t, h.signer, logText(at), 1, 2))
	joined("ok", cosigned(t, h.signer, logText(at), 2, 3, 1))
	joined("refused", cosigned(t, h.signer, logText(at)))
	joined("refused", cosigned(t, h.signer, logText(at), 2))
	joined("refused", cosigned(t, h.signer, logText(at), 1, 3))
	joined("refused", cosigned(t, other, logText(at), 1, 2))
	joined("refused", nil)
	for _, bend := range []func(*snap.Checkpoint){func(c *snap.Checkpoint) { c.Root[0] ^= 1 }, func(c *snap.Checkpoint) { c.Size++ }, func(c *snap.Checkpoint) { c.Origin = "x.test" }} {
		bent := at
		bend(&bent)
		joined("refused", cosigned(t, h.signer, logText(bent), 1, 2))
	}

	// A log with two levels of whole tiles.
	const size = 66_000
	h.hashes = nil
	for n := range int64(size) {
		hashes, err := xtlog.StoredHashes(n, fmt.Appendf(nil, "entry %d", n), h)
		if err != nil {
			t.Fatal(err)
		}
		h.hashes = append(h.hashes, hashes...)
	}
	checkpoint := func(n int64, bend byte) map[string]any {
		root, err := xtlog.TreeHash(n, h)
		if err != nil {
			t.Fatal(err)
		}
		root[0] ^= bend
		c := snap.Checkpoint{Origin: "ring.test", Size: uint64(n), Root: root}
		return map[string]any{"size": n, "root": root.String(), "signed": string(sign(t, h.signer, c))}
	}
	sizes := []int64{1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, size - 1, size}
	for range 8 {
		sizes = append(sizes, 1+d.Int64N(size))
	}
	for i, m := range sizes {
		n := max(m, sizes[d.IntN(len(sizes))])
		if i < 6 {
			n = size
		}
		of := func(bendEarlier, bendLater byte) map[string]any {
			return map[string]any{"keys": h.key, "earlier": checkpoint(m, bendEarlier), "later": checkpoint(n, bendLater), "at": i * 997}
		}
		add("ok", "continues", of(0, 0))
		add("evidence", "continues", of(1, 0))
		if m < n {
			add("refused", "continues", of(0, 1)) // the tiles are of another log
			add("ok", "altered", of(0, 0))
			add("ok", "altered", of(1, 0))
		} else {
			add("evidence", "continues", of(0, 1))
		}
	}

	t.Run("Node", func(t *testing.T) { modulesAnswer(t, h, seed, questions, "", inNode) })
	t.Run("Chromium", func(t *testing.T) {
		chromium := browser(t)
		if !*wholeBrowser { // these take long, and the page's own test alters tiles and bundles, too
			questions = slices.DeleteFunc(questions, func(q asked) bool { return q.What == "altered" || q.What == "bundle" })
		}
		modulesAnswer(t, h, seed, questions, chromium, inChromium)
	})
}

// modulesAnswer has a program of Node ask the modules, and holds the answers against what is wanted.
func modulesAnswer(t *testing.T, h *hostile, seed uint64, questions []asked, chromium, program string) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"base": h.base, "questions": questions, "chromium": chromium, "modules": answersOfModules})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "--input-type=module", "-e", answersOfModules+program)
	cmd.Dir, cmd.Stdin = workerFolder, bytes.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	var answers []string
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(questions) {
		t.Fatalf("%v: %d answers to %d questions", err, len(answers), len(questions))
	}
	keys, err := tlog.Keys(h.key)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		got := answers[i]
		if q.want == "evidence" {
			c, err := tlog.ParseContradiction([]byte(got))
			if err == nil {
				_, _, err = c.Check(keys)
			}
			if err != nil {
				t.Errorf("seed %d: %v: no evidence: %v: %s", seed, q.Of, err, got)
			}
		} else if got != q.want {
			t.Errorf("seed %d: %s of %v: %s, not %s", seed, q.What, q.Of, got, q.want)
		}
	}
	t.Logf("%d questions", len(questions))
}

// TestAWorkerContinuesItsFloor has a Worker begin on snapshots of later events than another isolate
// has seen signed. Whoever signs, the history before must be the one that was seen: tiles show it.
// If it is another, the Worker keeps evidence that stands alone.
func TestAWorkerContinuesItsFloor(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	for i := range 300 {
		h.join(fmt.Sprint("m", i))
	}
	seen := string(h.sign())
	w := h.worker()
	h.reachedBy(w)
	kept := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(w.floor, name))
		return string(text)
	}
	eventually(t, "the kept checkpoint", time.Minute, func() bool { return kept("checkpoint") == seen })

	// The same history, which goes on.
	for i := range 300 {
		h.join(fmt.Sprint("n", i))
	}
	h.snapshot()
	h.join("last")
	h.sign()
	refuses := func(follows *hostile, what string) {
		t.Helper()
		w.kill()
		w.env[0] = "ORIGIN=" + follows.base
		w.launch()
		eventually(t, what, time.Minute, func() bool {
			if r := w.get("/api"); string(r.Body) != fromOrigin {
				t.Fatalf("it answers from what was not signed before: %d %s", r.Status, r.Body)
			}
			return strings.Contains(w.log.String(), what)
		})
	}
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/log/tile/0/") {
			return nil
		}
		return b
	})
	refuses(h, "/log/tile/0/001: status 500")
	h.bent(func(path string, b []byte) []byte {
		if strings.HasPrefix(path, "/log/tile/0/001") {
			b[40] ^= 1
		}
		return b
	})
	refuses(h, "the tiles of the log do not lead to the signed root")
	h.bent(nil)

	// Another history with the same first event, which the same key has signed.
	fork := openHostile(t)
	fork.signer, fork.key = h.signer, h.key
	fork.copy(h.records[0])
	for i := range 400 {
		fork.join(fmt.Sprint("x", i))
	}
	fork.snapshot()
	fork.join("y")
	fork.sign()
	if kept("contradiction") != "" {
		t.Error("evidence against an honest origin")
	}
	refuses(fork, "the origin has signed two histories; keep the evidence")
	eventually(t, "the evidence", time.Minute, func() bool { return kept("contradiction") != "" })
	evidence := kept("contradiction")
	c := evidenceIn(t, evidence, h.key)
	if string(c.Earlier) != seen || string(c.Later) != string(fork.signed) {
		t.Errorf("the evidence is about others:\n%s", evidence)
	}
	if kept("checkpoint") != seen {
		t.Error("the floor is another now")
	}

	// The snapshot is older than the floor, and without one.
	fork.at.Snapshot = snap.Snapshot{}
	fork.sign()
	refuses(fork, "checkpoint of another history of 301 events")

	// The true one is taken, with no event from before its snapshot.
	w.kill()
	asked := h.questions("/log/tile/entries/000")
	w.env[0] = "ORIGIN=" + h.base
	w.launch()
	h.reachedBy(w)
	if h.questions("/log/tile/entries/000") != asked {
		t.Error("it asked for events from before the snapshot")
	}

	// An isolate that shows one history refuses another that is longer.
	h.sends(fork.signed)
	mark := len(w.log.String())
	for range 500 {
		fork.join(fmt.Sprint("z", len(fork.records)))
	}
	fork.sign()
	h.mu.Lock()
	h.records, h.hashes, h.signed, h.at = fork.records, fork.hashes, fork.signed, fork.at
	h.mu.Unlock()
	eventually(t, "the refusal", time.Minute, func() bool {
		if r := w.get("/api/ring?limit=1"); r.Status != 200 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		return strings.Contains(w.log.String()[mark:], "the origin has signed two histories")
	})
	if kept("contradiction") != evidence {
		t.Error("the first evidence is gone")
	}
}

// copy adds a record of another ledger.
func (h *hostile) copy(r snap.Record) {
	h.t.Helper()
	if err := h.apply(coretest.Step{EventBytes: r.Event, TextBytes: r.Texts}); err != nil {
		h.t.Fatal(err)
	}
}

// TestAWorkerShowsWhatItsPolicyAsksFor gives a Worker a policy, and checkpoints that its witnesses
// have cosigned or not.
func TestAWorkerShowsWhatItsPolicyAsksFor(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.join("first")
	cosign := func(by ...byte) {
		h.sign()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.files["/sync/cosigned"] = follow.JoinCosigned(h.signed, cosigned(t, h.signer, logText(h.at), by...))
	}
	cosign(1)
	w := h.worker("POLICY=# two of two\nwitness a " + cosignerOf(t, 1).Verifier() + "\nwitness b " + cosignerOf(t, 2).Verifier() + "\ngroup both all a b\nquorum both\n")
	eventually(t, "a refusal", time.Minute, func() bool {
		if r := w.get("/api"); string(r.Body) != fromOrigin {
			t.Fatalf("it shows what one witness has cosigned: %d %s", r.Status, r.Body)
		}
		return strings.Contains(w.log.String(), "not cosigned as the policy requires")
	})
	cosign(1, 2)
	h.reachedBy(w)
	before := w.get("/api/ring")
	h.join("second")
	cosign(2)
	mark := len(w.log.String())
	eventually(t, "a refusal", time.Minute, func() bool {
		if r := w.get("/api/ring"); string(r.Body) != string(before.Body) || r.Header.Get("Webring-Stale") != "" {
			t.Fatalf("it shows what one witness has cosigned: %d %s", r.Status, r.Body)
		}
		return strings.Contains(w.log.String()[mark:], "not cosigned as the policy requires")
	})
	cosign(1, 2)
	h.reachedBy(w)

	// What no witness cosigns is refused, and is evidence.
	forged := h.present(func(c *snap.Checkpoint) { c.Root[0] ^= 1 })
	h.mu.Lock()
	h.files["/sync/cosigned"] = sign(t, h.signer, forged)
	h.mu.Unlock()
	eventually(t, "the evidence", time.Minute, func() bool {
		if r := w.get("/api"); r.Status != 200 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		text, err := os.ReadFile(filepath.Join(w.floor, "contradiction"))
		if err == nil {
			evidenceIn(t, string(text), h.key)
		}
		return err == nil
	})
}
