package witness

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/edge/tlog"
)

// testLog is a log in memory. Two of different salts have different histories.
type testLog struct {
	t      testing.TB
	salt   string
	signer note.Signer
	key    note.Verifier
	hashes []xtlog.Hash
	size   int64
}

const origin = "log.test/ring"

func newLog(t testing.TB, salt string, size int64) *testLog {
	t.Helper()
	secret, word, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{9}, 64)), origin)
	if err != nil {
		t.Fatal(err)
	}
	l := &testLog{t: t, salt: salt}
	l.signer, _ = note.NewSigner(secret)
	if l.key, err = note.NewVerifier(word); err != nil {
		t.Fatal(err)
	}
	l.grow(size)
	return l
}

func (l *testLog) ReadHashes(indexes []int64) (out []xtlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

func (l *testLog) grow(to int64) {
	for ; l.size < to; l.size++ {
		more, err := xtlog.StoredHashes(l.size, fmt.Appendf(nil, "%s %d", l.salt, l.size), l)
		if err != nil {
			l.t.Fatal(err)
		}
		l.hashes = append(l.hashes, more...)
	}
}

func (l *testLog) at(size int64) tlog.Checkpoint {
	l.t.Helper()
	root, err := xtlog.TreeHash(size, l)
	if err != nil {
		l.t.Fatal(err)
	}
	if size == 0 {
		root = emptyTree.Hash
	}
	return tlog.Checkpoint{Origin: origin, Tree: xtlog.Tree{N: size, Hash: root}}
}

func (l *testLog) sign(c tlog.Checkpoint, by ...note.Signer) string {
	l.t.Helper()
	signed, err := note.Sign(&note.Note{Text: c.Text()}, append([]note.Signer{l.signer}, by...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(signed)
}

// request is a right request for a checkpoint of size.
func (l *testLog) request(old, size int64) string {
	l.t.Helper()
	body := fmt.Sprintf("old %d\n", old)
	if 0 < old && old < size {
		proof, err := xtlog.ProveTree(size, old, l)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, hash := range proof {
			body += hash.String() + "\n"
		}
	}
	return body + "\n" + l.sign(l.at(size))
}

func newWitness(t testing.TB, dir string, l *testLog) *Witness {
	t.Helper()
	c, err := tlog.NewCosigner(tlog.FormatCosigner("witness.test/w", bytes.Repeat([]byte{3}, 32)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(Config{Dir: dir, Origin: origin, Keys: note.VerifierList(l.key), Signer: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// cosigns holds that an answer has a cosignature of what was asked.
func (w *Witness) cosigns(t testing.TB, request string) {
	t.Helper()
	a := w.Add([]byte(request))
	_, signed, _ := strings.Cut(request, "\n\n")
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if n, err := note.Open(append([]byte(signed), a.Body...), note.VerifierList(w.c.Signer.Key())); err != nil || len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 1 {
		t.Fatalf("%s: %v", a.Body, err)
	}
}

// Each rule of the specification, in its order: a witness that has cosigned 5 events.
func TestTheRulesOfTheSpecification(t *testing.T) {
	l, fork := newLog(t, "a", 20), newLog(t, "b", 20)
	stranger, _ := tlog.NewCosigner(tlog.FormatCosigner("witness.test/x", bytes.Repeat([]byte{4}, 32)), time.Now)
	otherOrigin := strings.ReplaceAll(l.request(5, 8), origin, "log.test/other")
	flipped := []byte(l.request(5, 8))
	flipped[len(flipped)-8] ^= 1
	swapped := func(old, size int64) string { // the proof of one history, and the checkpoint of the other
		proof, _, _ := strings.Cut(l.request(old, size), "\n\n")
		return proof + "\n\n" + fork.sign(fork.at(size))
	}
	for _, c := range []struct {
		rule    string
		request string
		status  int
	}{
		{"empty", "", 400},
		{"no empty line", strings.ReplaceAll(l.request(5, 8), "\n\n", "\n"), 400},
		{"no old size", strings.Replace(l.request(5, 8), "old ", "", 1), 400},
		{"a leading zero", strings.Replace(l.request(5, 8), "old ", "old 0", 1), 400},
		{"a negative size", strings.Replace(l.request(5, 8), "old ", "old -", 1), 400},
		{"64 hashes", "old 5\n" + strings.Repeat(xtlog.Hash{}.String()+"\n", 64) + "\n" + l.sign(l.at(8)), 400},
		{"a hash that is none", "old 5\nabc\n\n" + l.sign(l.at(8)), 400},
		{"too long", l.request(5, 8) + strings.Repeat("— x AAAAAAA=\n", 2000), 400},
		{"a smaller checkpoint", l.request(5, 5)[:6] + "\n" + l.sign(l.at(4)), 400},
		{"another origin", otherOrigin, 404},
		{"unsigned", strings.Replace(l.request(5, 8), "— "+origin, "— "+origin+"x", 1), 403},
		{"wrongly signed", string(flipped), 403},
		{"an old size below", l.request(4, 8), 409},
		{"an old size of nothing", l.request(0, 8), 409},
		{"an old size above", l.request(6, 8), 409},
		{"another old size, with another root", "old 4\n\n" + fork.sign(fork.at(5)), 409},
		{"no proof", "old 5\n\n" + l.sign(l.at(8)), 422},
		{"another history", fork.request(5, 8), 422},
		{"another history with the right proof", swapped(5, 8), 422},
		{"another root of the same size", fork.request(5, 5), 422},
		{"a proof for the same size", "old 5\n" + xtlog.Hash{}.String() + "\n\n" + l.sign(l.at(5)), 422},
		{"the same again", l.request(5, 5), 200},
		{"more", l.request(5, 8), 200},
		{"more, with signatures of others", strings.Replace(l.request(5, 8), l.sign(l.at(8)), l.sign(l.at(8), stranger), 1), 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			dir := t.TempDir()
			w := newWitness(t, dir, l)
			w.cosigns(t, l.request(0, 5))
			before := w.Latest()
			a := w.Add([]byte(c.request))
			if a.Status != c.status {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if a.Status == 409 && (string(a.Body) != "5\n" || a.Media != "text/x.tlog.size") {
				t.Errorf("%s %q", a.Media, a.Body)
			}
			if a.Status != 200 && !bytes.Equal(w.Latest(), before) {
				t.Error("it has moved")
			}
			// What a restart has is what was cosigned.
			if again := newWitness(t, dir, l); !bytes.Equal(again.Latest(), w.Latest()) || again.at != w.at {
				t.Errorf("a restart has %s", again.Latest())
			}
		})
	}
}

func TestAnEmptyLog(t *testing.T) {
	l := newLog(t, "a", 4)
	w := newWitness(t, t.TempDir(), l)
	if w.Latest() != nil {
		t.Error("cosigned before it was asked")
	}
	wrong := l.at(0)
	wrong.Hash[0] ^= 1
	if a := w.Add([]byte("old 0\n\n" + l.sign(wrong))); a.Status != 422 {
		t.Errorf("another root of nothing: %d", a.Status)
	}
	if a := w.Add([]byte("old 0\n" + xtlog.Hash{}.String() + "\n\n" + l.sign(l.at(3)))); a.Status != 422 {
		t.Errorf("a proof from nothing: %d", a.Status)
	}
	w.cosigns(t, l.request(0, 0))
	w.cosigns(t, l.request(0, 4))
}

// The log signs two roots for one size: both whole checkpoints stay as the proof.
func TestAContradictionIsKept(t *testing.T) {
	l, fork := newLog(t, "a", 5), newLog(t, "b", 5)
	dir := t.TempDir()
	w := newWitness(t, dir, l)
	w.cosigns(t, l.request(0, 5))
	if a := w.Add([]byte(fork.request(5, 5))); a.Status != 422 {
		t.Fatal(a.Status)
	}
	kept, err := os.ReadFile(w.path() + "-contradiction")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []tlog.Checkpoint{l.at(5), fork.at(5)} {
		if !bytes.Contains(kept, []byte(l.sign(c))) {
			t.Errorf("it lacks %s", c.Text())
		}
	}
	evidence, err := tlog.ParseContradiction(kept)
	if err == nil {
		_, _, err = evidence.Check(w.c.Keys)
	}
	if err != nil {
		t.Errorf("it proves nothing: %v", err)
	}
}

// Without what it has cosigned, a witness does not start.
func TestADamagedFolder(t *testing.T) {
	l := newLog(t, "a", 5)
	dir := t.TempDir()
	w := newWitness(t, dir, l)
	w.cosigns(t, l.request(0, 5))
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { return bytes.Replace(b, []byte("\n5\n"), []byte("\n4\n"), 1) },
	} {
		if err := os.WriteFile(w.path(), damage(bytes.Clone(w.Latest())), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(w.c); err == nil {
			t.Error("it starts")
		}
	}
}

// A cosignature is given only for what is on disk.
func TestADiskThatFails(t *testing.T) {
	l := newLog(t, "a", 9)
	w := newWitness(t, t.TempDir(), l)
	w.cosigns(t, l.request(0, 5))
	if err := os.RemoveAll(w.c.Dir); err != nil {
		t.Fatal(err)
	}
	if a := w.Add([]byte(l.request(5, 9))); a.Status != 500 || w.at.N != 5 {
		t.Errorf("%d, at %d", a.Status, w.at.N)
	}
}

// Of requests at the same time that lead to different sizes, only those are cosigned that follow
// each other.
func TestRequestsAtTheSameTime(t *testing.T) {
	l := newLog(t, "a", 40)
	w := newWitness(t, t.TempDir(), l)
	w.cosigns(t, l.request(0, 5))
	var all sync.WaitGroup
	statuses := make([]int, 35)
	for i := range statuses {
		request := []byte(l.request(5, 6+int64(i)))
		all.Go(func() { statuses[i] = w.Add(request).Status })
	}
	all.Wait()
	good := 0
	for i, s := range statuses {
		switch s {
		case 200:
			if good++; w.at.N != 6+int64(i) {
				t.Errorf("at %d after %d was cosigned", w.at.N, 6+i)
			}
		case 409:
		default:
			t.Errorf("status %d", s)
		}
	}
	if good != 1 {
		t.Errorf("%d were cosigned", good)
	}
}

func FuzzAdd(f *testing.F) {
	l := newLog(f, "a", 20)
	w := newWitness(f, f.TempDir(), l)
	w.cosigns(f, l.request(0, 5))
	f.Add([]byte(l.request(5, 8)))
	f.Add([]byte(l.request(0, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := w.at.N
		if a := w.Add(b); a.Status == 200 && w.at.N < before || a.Status == 0 || w.at.N > l.size {
			t.Errorf("%d: from %d to %d", a.Status, before, w.at.N)
		}
	})
}

// Strangers send checkpoints of the log, which are public, with proofs and signatures of their own. The
// log of the witness says nothing of theirs, and of each checkpoint only once in a row.
func TestStrangersDoNotWriteTheLog(t *testing.T) {
	l := newLog(t, "a", 20)
	w := newWitness(t, t.TempDir(), l)
	var lines bytes.Buffer
	w.c.Log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.cosigns(t, l.request(0, 5))
	theirs := strings.Repeat("— strangers.text/"+strings.Repeat("x", 90)+" AAAAAAAAAAAA\n", 80)
	for _, size := range []int64{8, 8, 9, 9} {
		if a := w.Add([]byte("old 5\n" + xtlog.Hash{}.String() + "\n\n" + l.sign(l.at(size)) + theirs)); a.Status != 422 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	for _, body := range []string{theirs, "old 5\n\n" + theirs, strings.Replace(l.request(5, 8), origin, theirs, 1), l.request(4, 8) + theirs} {
		w.Add([]byte(body))
	}
	said := lines.String()
	if strings.Contains(said, "strangers") || strings.Contains(said, "level=ERROR") || strings.Contains(said, "level=WARN") || strings.Count(said, "\n") != 2 || len(said) > 2000 {
		t.Errorf("%d bytes: %.2000s", len(said), said)
	}
}
