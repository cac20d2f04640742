package badgerstore_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// The test of a damaged folder runs in a process of its own, because a crash
// is one of the outcomes that must not be.
const (
	childVariable = "WEBRING_TEST_DAMAGE"
	headName      = "head"
	storeName     = "store"
)

var (
	damageSeed  = flag.Uint64("damage.seed", 1, "seed of the damages tried")
	damageCases = flag.Int("damage.cases", 11, "damages tried per file")
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		damagedChild(dir)
		return
	}
	os.Exit(m.Run())
}

// A flipped bit or a truncation in any file of the data folder is refused with
// words that say what to do, and left as it is, or nothing is lost.
func TestDamagedFilesAreRefusedOrNothingIsLost(t *testing.T) {
	for _, f := range []struct {
		name     string
		sessions int
	}{
		// Write-ahead file only; tables next to it; tables that were merged.
		{"after one session", 1}, {"after three sessions", 3}, {"after a merge", 8},
	} {
		t.Run(f.name, func(t *testing.T) {
			dir, want := makeFolder(t, f.sessions)
			files := readFolder(t, dir)
			// Most of the rest waits for the disk. Not so before: a child that is
			// being started shares this process's locks for a moment.
			t.Parallel()
			cases := damages(files, *damageSeed, *damageCases)
			t.Logf("seed %d: %d damages in %d files: %s", *damageSeed, len(cases), len(files), describe(files))

			outcomes := map[string]int{}
			for i, out := range runDamages(t, dir, cases) {
				switch {
				case out == "opened "+want:
					outcomes["nothing lost"]++
				case strings.HasPrefix(out, "refused ") && strings.Contains(out, "restore a backup whole") && !strings.Contains(out, "/trial"):
					outcomes["refused"]++
				default:
					t.Errorf("%s: %s", cases[i], out)
				}
			}
			t.Log(outcomes)
			if outcomes["nothing lost"] == 0 || outcomes["refused"] == 0 {
				t.Error("the damages do not reach both outcomes")
			}
		})
	}
}

// damage is one change of one file.
type damage struct {
	file string
	kind string // "none", "flip", "cut", "remove"
	at   int    // bit to flip, or length to cut to
}

func (d damage) String() string { return fmt.Sprintf("%s %s %d", d.kind, d.file, d.at) }

func (d damage) apply(b []byte) []byte {
	switch b = bytes.Clone(b); d.kind {
	case "flip":
		b[d.at/8] ^= 1 << (d.at % 8)
	case "cut":
		b = b[:d.at]
	}
	return b
}

// damages draws n for each file: mostly flips, near the ends as often as in
// the middle, and truncations.
func damages(files map[string]file, seed uint64, n int) []damage {
	rnd := rand.New(rand.NewPCG(seed, 0))
	cases := []damage{{kind: "none"}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		size := len(files[name].data)
		cases = append(cases, damage{name, "remove", 0}, damage{name, "cut", 0})
		if size == 0 {
			continue
		}
		for i := range n {
			at := rnd.IntN(size)
			switch rnd.IntN(4) {
			case 0:
				at = min(at, rnd.IntN(64))
			case 1:
				at = size - 1 - min(at, rnd.IntN(64))
			}
			if i%3 == 0 {
				cases = append(cases, damage{name, "cut", at})
			} else {
				cases = append(cases, damage{name, "flip", 8*at + rnd.IntN(8)})
			}
		}
	}
	return cases
}

// makeFolder writes a ledger in several sessions, and copies its folder as a
// crash in the last one would leave it. It gives the digest of all rows.
func makeFolder(t *testing.T, sessions int) (dir, digest string) {
	live, dir := t.TempDir(), t.TempDir()
	for n := range sessions {
		s, l := openFolder(t, live)
		if n == 6 {
			if err := s.Merge(); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, l, n)
		if n == sessions-1 {
			copyFolder(t, live, dir)
			digest = digestRows(t, s)
		}
		if err := errors.Join(l.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir, digest
}

// opened is a store that was not accepted yet.
func opened(t *testing.T, store string) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustOpen opens the store in dir, finds the rows with the digest want in it, and
// closes it without accepting them. mustAccept has the ledger accept them.
func mustOpen(t *testing.T, dir, want string) {
	t.Helper()
	s := opened(t, filepath.Join(dir, storeName))
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustAccept(t *testing.T, dir, want string) {
	t.Helper()
	s, l := openFolder(t, dir)
	if got := digestRows(t, s); got != want {
		t.Error("not all rows are there when they are accepted")
	}
	if err := errors.Join(l.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func openFolder(t *testing.T, dir string) (*badgerstore.Store, *ledger.Ledger) {
	t.Helper()
	s := opened(t, filepath.Join(dir, storeName))
	l, err := ledger.Open(ledger.Config{Store: s, HeadPath: filepath.Join(dir, headName), Capacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// fill makes transactions of every kind: with events, and with reservations
// only, which no tree would miss.
func fill(t *testing.T, l *ledger.Ledger, session int) {
	t.Helper()
	do := func(fn func(tx *ledger.Tx) error) {
		t.Helper()
		if err := l.Do(context.Background(), fn); err != nil {
			t.Fatal(err)
		}
	}
	if session == 0 {
		do(func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "http://ring.test",
				Fee: 100, MinBid: 100, Grace: 10, Decay: 10}, nil)
			return err
		})
	}
	for i := range 8 {
		slug := fmt.Sprintf("member-%d-%d", session, i)
		r := &ledger.Reservation{ID: "id-" + slug, State: ledger.Reserved, Operation: ledger.OperationRegister,
			URLKey: slug + ".org", Cents: 100, Payer: "payer", ReplayKeys: []string{"tx-" + slug},
			Body: bytes.Repeat([]byte(slug), 30), ValidBefore: time.Unix(0, 0)}
		do(func(tx *ledger.Tx) error { return tx.Reserve(r) })
		do(func(tx *ledger.Tx) (err error) {
			r.Seq, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: slug, Kind: core.Agent, Category: "general", Fee: 100},
				&core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".org"}})
			if err != nil {
				return err
			}
			r.State, r.Member = ledger.Applied, slug
			return tx.Update(r)
		})
		do(func(tx *ledger.Tx) error {
			return tx.Reserve(&ledger.Reservation{ID: "bid-" + slug, State: ledger.Reserved, Operation: ledger.OperationBid,
				Member: slug, Cents: 100, Payer: "payer", ReplayKeys: []string{"bid-tx-" + slug}})
		})
	}
}

func digestRows(t *testing.T, s ledger.Store) string {
	t.Helper()
	d, err := digest(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func digest(s ledger.Store) (string, error) {
	h := sha256.New()
	err := s.Scan(nil, nil, func(key, value []byte) error {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(key))))
		h.Write(key)
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(value))))
		h.Write(value)
		return nil
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// file is a file whose data are followed by zeros up to size: a write-ahead
// file is mostly that.
type file struct {
	data []byte
	size int64
}

// equal says whether both hold the same bytes, however many of the zeros at the
// end are in data.
func (f file) equal(g file) bool {
	return f.size == g.size && bytes.Equal(bytes.TrimRight(f.data, "\x00"), bytes.TrimRight(g.data, "\x00"))
}

func readFolder(t *testing.T, dir string) map[string]file {
	t.Helper()
	files, err := loadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func loadFolder(dir string) (map[string]file, error) {
	files := map[string]file{}
	for _, sub := range []string{"", storeName} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || e.Name() == "LOCK" {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, sub, e.Name()))
			if err != nil {
				return nil, err
			}
			files[filepath.Join(sub, e.Name())] = file{bytes.TrimRight(b, "\x00"), int64(len(b))}
		}
	}
	return files, nil
}

func writeFolder(dir string, files map[string]file, d damage) error {
	if err := os.MkdirAll(filepath.Join(dir, storeName), 0o700); err != nil {
		return err
	}
	for name, f := range damaged(files, d) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(path, f.size); err != nil {
			return err
		}
	}
	return nil
}

// damaged is what becomes of files.
func damaged(files map[string]file, d damage) map[string]file {
	files = maps.Clone(files)
	f, ok := files[d.file]
	switch {
	case !ok:
	case d.kind == "remove":
		delete(files, d.file)
	default:
		if f.data = d.apply(f.data); d.kind == "cut" {
			f.size = int64(len(f.data))
		}
		files[d.file] = f
	}
	return files
}

// holds says whether the folder holds these files and nothing else.
func holds(dir string, files map[string]file) (bool, error) {
	found, err := loadFolder(dir)
	_, trial := os.Stat(filepath.Join(dir, storeName, "trial"))
	return maps.EqualFunc(found, files, file.equal) && errors.Is(trial, os.ErrNotExist), err
}

// copyFolder copies a folder with less room for what is to come than Badger
// keeps at the ends of its files: to read that again and again took most of the
// time.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	const room = 1 << 20
	files := readFolder(t, from)
	for name, f := range files {
		f.size = min(f.size, int64(len(f.data))+room)
		files[name] = f
	}
	if err := writeFolder(to, files, damage{}); err != nil {
		t.Fatal(err)
	}
}

func describe(files map[string]file) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, " %s(%d)", name, len(files[name].data))
	}
	return b.String()
}

// runDamages gives the outcome of every case. A child that dies is started
// again behind the case that killed it.
func runDamages(t *testing.T, dir string, cases []damage) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make([]string, 0, len(cases))
	for len(outcomes) < len(cases) {
		var in, stderr bytes.Buffer
		for _, d := range cases[len(outcomes):] {
			fmt.Fprintf(&in, "%s %q %d\n", d.kind, d.file, d.at)
		}
		c := exec.Command(self)
		c.Env = append(os.Environ(), childVariable+"="+dir)
		c.Stdin, c.Stderr = &in, &stderr
		out, err := c.Output()
		before := len(outcomes)
		for line := range strings.Lines(string(out)) {
			outcomes = append(outcomes, strings.TrimSpace(line))
		}
		if err == nil && len(outcomes) == len(cases) {
			break
		}
		if err == nil {
			t.Fatalf("the child stopped early after %d cases", len(outcomes)-before)
		}
		outcomes = append(outcomes, fmt.Sprintf("crashed: %v: %.2000s", err, stderr.String()))
	}
	return outcomes
}

// damagedChild reads cases from its input and prints one line for each.
func damagedChild(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	files, err := loadFolder(dir)
	if err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var d damage
		if _, err := fmt.Sscanf(in.Text(), "%s %q %d", &d.kind, &d.file, &d.at); err != nil {
			fail(err)
		}
		work, err := os.MkdirTemp("", "damage")
		if err != nil {
			fail(err)
		}
		if err := writeFolder(work, files, d); err != nil {
			fail(err)
		}
		out := tryFolder(work)
		if strings.HasPrefix(out, "refused ") {
			if same, err := holds(work, damaged(files, d)); err != nil {
				fail(err)
			} else if !same {
				out = "changed by what refused it: " + out
			}
		}
		fmt.Println(strings.ReplaceAll(out, "\n", " "))
		if err := os.RemoveAll(work); err != nil {
			fail(err)
		}
	}
}

func tryFolder(dir string) string {
	s, err := badgerstore.Open(filepath.Join(dir, storeName), slog.New(slog.DiscardHandler))
	if err != nil {
		return outcome(err)
	}
	defer s.Close()
	before, err := digest(s)
	if err != nil {
		return "scan: " + err.Error()
	}
	l, err := ledger.Open(ledger.Config{Store: s, HeadPath: filepath.Join(dir, headName), Capacity: 1000})
	if err != nil {
		return outcome(err)
	}
	defer l.Close()
	// Nothing lost also means that it goes on.
	err = l.Do(context.Background(), func(tx *ledger.Tx) error {
		return tx.Reserve(&ledger.Reservation{ID: "next", State: ledger.Reserved, Operation: ledger.OperationBid,
			Member: "member-0-0", Cents: 100, ReplayKeys: []string{"next"}})
	})
	if err != nil {
		return "write: " + err.Error()
	}
	return "opened " + before
}

func outcome(err error) string {
	for _, kind := range []error{ledger.ErrDamaged, ledger.ErrBehindHead, ledger.ErrNoHead} {
		if errors.Is(err, kind) {
			return "refused " + err.Error()
		}
	}
	return "failed: " + err.Error()
}

// What a crash leaves of a file that was being removed does not stop the next
// start.
func TestEmptyFilesOfACrashAreCleared(t *testing.T) {
	dir, want := makeFolder(t, 2)
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		if err := writeFolder(dir, map[string]file{filepath.Join(storeName, name): {}}, damage{}); err != nil {
			t.Fatal(err)
		}
	}
	mustAccept(t, dir, want)
}
