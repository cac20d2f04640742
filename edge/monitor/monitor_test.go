package monitor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
	log "webring/edge/tlog"
)

const origin = "ring.example"

// ring is a ring with its log, and what it tells a reader.
type ring struct {
	testing.TB
	mu      sync.Mutex
	name    string // origin line
	signer  note.Signer
	key     string // verifier
	core    [32]byte
	records []snap.Record
	hashes  []tlog.Hash
	state   *core.State

	alter map[string]func([]byte) []byte // what passes otherwise, by the beginning of the path
	fixed map[string]fixed               // answers of before
	url   string

	bids   int // the next member to bid on
	mapped int // events of which these are the paths
	paths  map[string]func() ([]byte, error)
}

// newRing gives a ring with the events of a seed that apply, and serves it.
func newRing(t testing.TB, seed uint64, steps int) *ring {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	secret, key, err := note.GenerateKey(source{random}, origin)
	if err != nil {
		t.Fatal(err)
	}
	r := &ring{TB: t, name: origin, key: key, state: core.NewState(10_000, 1), alter: map[string]func([]byte) []byte{}}
	if r.signer, err = note.NewSigner(secret); err != nil {
		t.Fatal(err)
	}
	for _, s := range coretest.Generate(seed, steps) {
		if s.Event == nil {
			continue
		}
		// Snapshots of a generated history are of no state, and a ring without redactions has all words.
		if _, lies := s.Event.(*core.Snapshotted); !lies && core.CommitmentsOf(s.Event).Some() == (len(s.TextBytes) > 0) {
			r.add(s)
		}
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// source gives random bytes.
type source struct{ *rand.Rand }

func (s source) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}

// add adds an event to the log, if it applies.
func (r *ring) add(s coretest.Step) {
	if snap.Verify(s.EventBytes, s.TextBytes) != nil || r.state.Apply(s.EventBytes, s.TextBytes) != nil {
		return
	}
	more, err := tlog.StoredHashes(int64(len(r.records)), s.EventBytes, r)
	if err != nil {
		r.Fatal(err)
	}
	r.hashes = append(r.hashes, more...)
	r.records = append(r.records, snap.Record{Event: s.EventBytes, Texts: s.TextBytes})
}

// bid adds a bid on some member.
func (r *ring) bid(cents int64) {
	for o := r.bids; ; o++ {
		m := r.state.Member(core.Ordinal(o % r.state.Rows()))
		before := len(r.records)
		r.add(coretest.NewStep(&core.Bid{Stamp: r.state.LastStamp(), Member: m.Slug, Amount: cents, Payment: core.Payment{Network: "tempo:1", Transaction: "0x1", Payer: "payer"}}, nil))
		if len(r.records) > before {
			r.bids = o + 1
			return
		}
	}
}

func (r *ring) ReadHashes(indexes []int64) (all []tlog.Hash, err error) {
	for _, i := range indexes {
		if i >= int64(len(r.hashes)) {
			return nil, errors.New("no such hash")
		}
		all = append(all, r.hashes[i])
	}
	return all, nil
}

func (r *ring) sign(text string) []byte {
	signed, err := note.Sign(&note.Note{Text: text}, r.signer)
	if err != nil {
		r.Fatal(err)
	}
	return signed
}

func (r *ring) root(size int) tlog.Hash {
	root, err := tlog.TreeHash(int64(size), r)
	if err != nil {
		r.Fatal(err)
	}
	return root
}

func (r *ring) checkpoint() []byte {
	return r.sign(fmt.Sprintf("%s\n%d\n%s\n", r.name, len(r.records), r.root(len(r.records))))
}

func (r *ring) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := req.URL.Path
	body, err := r.answer(w.Header(), path)
	if was, ok := r.fixed[path]; ok {
		body = was.body
		maps.Copy(w.Header(), was.header)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	for prefix, alter := range r.alter {
		if strings.HasPrefix(path, prefix) {
			body = alter(bytes.Clone(body))
		}
	}
	_, _ = w.Write(body)
}

func (r *ring) answer(header http.Header, path string) ([]byte, error) {
	size := len(r.records)
	switch path {
	case "/sync/keys":
		return r.sign(snap.Keys{Origin: r.name, Time: 1, Current: r.key}.Text()), nil
	case "/sync/checkpoint":
		return r.sign(snap.Checkpoint{Origin: r.name, Size: uint64(size), Root: r.root(size), Time: r.state.LastStamp(), State: r.state.Digest(), Core: r.core}.Text()), nil
	case "/log/checkpoint":
		return r.checkpoint(), nil
	case "/api/leaderboard":
		var a api.Response
		r.state.Advance(r.state.LastStamp() / 1000)
		api.Serve(r.state, []byte(path), 0, &a)
		header.Set("Webring-Seq", strconv.Itoa(size))
		header.Set("Date", time.Unix(r.state.Clock(), 0).UTC().Format(http.TimeFormat))
		return a.Body, nil
	}
	if r.mapped != size {
		r.mapped, r.paths = size, map[string]func() ([]byte, error){}
		r.mapBundles()
		r.mapTiles()
	}
	if find := r.paths[path]; find != nil {
		return find()
	}
	return nil, errors.New("there is nothing at " + path)
}

// mapBundles notes where bundles are.
func (r *ring) mapBundles() {
	for n := int64(0); n*log.TileWidth < int64(r.mapped); n++ {
		some := r.records[n*log.TileWidth : min(r.mapped, int(n+1)*log.TileWidth)]
		bundle := func(part func(snap.Record) []byte) func() ([]byte, error) {
			return func() (b []byte, err error) {
				for _, record := range some {
					b = log.AppendEntry(b, part(record))
				}
				return b, nil
			}
		}
		r.paths[log.EntriesPath(n, len(some))] = bundle(func(r snap.Record) []byte { return r.Event })
		r.paths[log.TextsPath(n, len(some))] = bundle(func(r snap.Record) []byte { return r.Texts })
	}
}

// mapTiles notes where tiles are, whole and partial.
func (r *ring) mapTiles() {
	for level, count := 0, r.mapped; count > 0; level, count = level+1, count/log.TileWidth {
		for n := 0; n*log.TileWidth < count; n++ {
			tile := tlog.Tile{H: log.TileHeight, L: level, N: int64(n), W: min(log.TileWidth, count-n*log.TileWidth)}
			r.paths[log.TilePath(tile)] = func() ([]byte, error) { return tlog.ReadTileData(tile, r) }
		}
	}
}

// fixed is an answer that goes on being given.
type fixed struct {
	body   []byte
	header http.Header
}

func (r *ring) config(memory string) Config {
	return Config{Site: r.url, Memory: Memory(memory), Capacity: 10_000, Say: func(uint64, uint64) {}, rest: time.Millisecond}
}

func (r *ring) verify(c Config) *Report {
	r.Helper()
	report, err := Verify(r.Context(), c)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// A ring is verified, first with the key that it names, then with the one that was remembered,
// as far as a saved folder without the ring.
func TestVerify(t *testing.T) {
	r := newRing(t, 3, 700)
	if len(r.records) <= 2*log.TileWidth {
		t.Fatalf("only %d events", len(r.records))
	}
	memory, saved := t.TempDir(), filepath.Join(t.TempDir(), "saved")
	c := r.config(memory)
	if first := r.verify(c); first.Trust != Claimed || first.Before != nil || first.At.N != int64(len(r.records)) || first.Keys[0] != r.key || first.Bytes == 0 {
		t.Errorf("%+v", first)
	}
	before := len(r.records)
	c.Save = saved
	for range 300 {
		r.bid(100)
	}
	second := r.verify(c)
	if second.Trust != Remembered || second.Before == nil || second.Before.N != int64(before) || second.Payers["payer"] < 100*300 {
		t.Errorf("%+v", second)
	}
	r.bid(100)
	if third := r.verify(c); third.Bytes >= second.Bytes/2 {
		t.Errorf("the third time took %d bytes, the second %d", third.Bytes, second.Bytes)
	}
	shown := r.checkpoint()
	r.alter[""] = func([]byte) []byte { t.Error("asked for"); return nil }
	offline := c
	offline.Site = ""
	if last := r.verify(offline); last.Trust != Remembered || !bytes.Equal(shown, r.checkpoint()) || last.At.N != int64(len(r.records)) || last.Bytes != 0 {
		t.Errorf("%+v", last)
	}
}

// With a policy, the witnesses must have cosigned the checkpoint or an earlier one that it continues.
func TestWitnesses(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	witness, err := log.NewCosigner(log.FormatCosigner("witness.example", bytes.Repeat([]byte{7}, 32)), func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	r := newRing(t, 8, 400)
	policy, err := log.ParsePolicy([]byte("log " + r.key + "\nwitness w " + witness.Verifier() + "\nquorum w\n"))
	if err != nil {
		t.Fatal(err)
	}
	cosign := func(of *ring) []byte {
		signed, err := note.Sign(&note.Note{Text: log.Checkpoint{Origin: origin, Tree: tlog.Tree{N: int64(len(of.records)), Hash: of.root(len(of.records))}}.Text()}, of.signer, witness)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	c := r.config(t.TempDir())
	c.Policy = policy
	if _, err := Verify(t.Context(), c); !errors.Is(err, log.ErrQuorum) {
		t.Errorf("without cosignatures: %v", err)
	}
	before, older := int64(len(r.records)), cosign(r)
	r.bid(100)
	r.alter["/log/checkpoint"] = func([]byte) []byte { return older }
	report := r.verify(c)
	if report.Events != before || report.At.N != before+1 || len(report.Witnesses) != 1 || report.Witnesses[0] != (log.Witness{Name: "w", Time: at}) || report.Trust != Given {
		t.Errorf("%+v", report.Cosigned)
	}
	newest := cosign(r)
	r.alter["/log/checkpoint"] = func([]byte) []byte { return newest }
	if report := r.verify(c); report.Events != int64(len(r.records)) {
		t.Errorf("%+v", report.Cosigned)
	}
	fork := newRing(t, 8, 400)
	fork.signer = r.signer
	fork.bid(101)
	other := cosign(fork)
	r.bid(100)
	r.alter["/log/checkpoint"] = func([]byte) []byte { return other }
	if _, err := Verify(t.Context(), c); err == nil || !strings.Contains(err.Error(), "two histories") {
		t.Errorf("another history is cosigned: %v", err)
	}
}

// A snapshot that is not of the state that the events lead to is a lie, and the log proves it.
func TestALyingSnapshot(t *testing.T) {
	r := newRing(t, 9, 300)
	tell := func(state [16]byte) {
		r.add(coretest.NewStep(&core.Snapshotted{Stamp: r.state.LastStamp(), Size: r.state.Seq(), State: state, Digest: [32]byte{1}, Bytes: 1}, nil))
	}
	tell(r.state.Digest())
	r.bid(100)
	c := r.config(t.TempDir())
	r.verify(c)
	lie := r.state.Digest()
	lie[0] ^= 1
	tell(lie)
	r.bid(100)
	if _, err := Verify(t.Context(), c); !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "the snapshot is a lie") {
		t.Errorf("%v", err)
	}
}

// say adds an event about a snapshot of the state as it is, or with a bit of its digest flipped.
func (r *ring) say(flip byte) {
	state := r.state.Digest()
	state[0] ^= flip
	r.add(coretest.NewStep(&core.Snapshotted{Stamp: r.state.LastStamp(), Size: r.state.Seq(), State: state, Digest: [32]byte{1}, Bytes: 1}, nil))
}

// text gives a text with a salt.
func text(value string) core.Text { return core.Text{Salt: [16]byte{1}, Value: value} }

// redact removes a member with its words, as a ledger does.
func (r *ring) redact(slug string) {
	before := len(r.records)
	r.add(coretest.NewStep(&core.Removed{Stamp: r.state.LastStamp(), Member: slug, Why: core.Why{Code: core.Spam}, Redacted: true}, nil))
	if len(r.records) == before {
		r.Fatalf("%s cannot be redacted", slug)
	}
	for i, record := range r.records {
		if e, err := core.DecodeEvent(record.Event); err == nil && core.MemberOf(e) == slug {
			r.records[i].Texts = nil
		}
	}
}

// A redaction makes no honest ring a liar, whatever it comes before and after, and hides no lie about a
// state whose words are all there. J joins another member, C changes its words, M moves it, H hides it
// for a reason in words, R redacts the member that has been longest in the ring without it, S is a
// snapshot, L a lying one, B a bid.
func TestRedactions(t *testing.T) {
	for ops, want := range map[string]struct {
		untold int
		lies   bool
	}{
		"JSR": {1, false}, "JSRB": {1, false}, "JRS": {0, false}, "JJSRSRS": {2, false}, "SJSRSJSR": {2, false}, "JSCSRS": {2, false},
		"JSMSRS": {2, false}, "JCMSBSR": {2, false}, "SJHSR": {1, false}, "JSRJCSRJS": {2, false}, "JSBSBS": {0, false},
		"L": {0, true}, "JRL": {0, true}, "JSRL": {0, true}, "LJSR": {0, true}, "JSRSLJSR": {0, true}, "JHSRBL": {0, true},
		"JLR": {1, false}, // which cannot be told without the words
	} {
		for _, saved := range []bool{false, true} {
			r := newRing(t, 9, 100)
			c := r.config(t.TempDir())
			if saved {
				c.Save = t.TempDir()
			}
			joined, redacted := 0, 0
			for _, op := range ops {
				slug, before := fmt.Sprint("redacted-", joined-1), len(r.records)
				at := r.state.LastStamp()
				step := func(e core.Event, texts core.Texts) { snap.Seal(e, &texts); r.add(coretest.NewStep(e, &texts)) }
				switch op {
				case 'J':
					slug = fmt.Sprint("redacted-", joined)
					joined++
					step(&core.Joined{Stamp: at, Slug: slug, Kind: core.Agent, Category: "general", Fee: 100}, core.Texts{Name: text(slug), URL: text("https://" + slug + ".test/")})
				case 'C':
					step(&core.Changed{Stamp: at, Member: slug}, core.Texts{Name: text("changed")})
				case 'M':
					step(&core.Moved{Stamp: at, Member: slug}, core.Texts{URL: text("https://moved-" + slug + ".test/")})
				case 'H':
					step(&core.Hidden{Stamp: at, Member: slug, Why: core.Why{Code: core.Spam}}, core.Texts{Words: text("it is no site")})
				case 'R':
					r.redact(fmt.Sprint("redacted-", redacted))
					redacted++
				case 'S':
					r.say(0)
				case 'L':
					r.say(1)
				case 'B':
					r.bid(100)
				}
				if len(r.records) == before {
					t.Fatalf("%s: %c does not apply", ops, op)
				}
				if saved && !strings.Contains(ops, "L") { // each time again, on what was saved before
					r.verify(c)
				}
			}
			report, err := Verify(t.Context(), c)
			switch lie := errors.Is(err, ErrWrong) && strings.Contains(err.Error(), "the snapshot is a lie"); {
			case lie != want.lies || !lie && err != nil:
				t.Errorf("%s, saved %v: %v", ops, saved, err)
			case err == nil && report.Untold != want.untold:
				t.Errorf("%s, saved %v: %d snapshots could not be compared, not %d", ops, saved, report.Untold, want.untold)
			}
		}
	}
}

// What was shown or signed just before a redaction cannot be compared without the words. That is no
// lie, and the next verification shows what is there. What a ring withholds without a redaction is
// never verified.
func TestARedactionMeanwhile(t *testing.T) {
	for _, paths := range [][]string{{"/sync/checkpoint", "/api/leaderboard"}, {"/sync/checkpoint"}, nil} {
		r := newRing(t, 9, 100)
		c := r.config(t.TempDir())
		texts := core.Texts{Name: text("soon"), URL: text("https://soon.test/")}
		e := &core.Joined{Stamp: r.state.LastStamp(), Slug: "soon", Kind: core.Agent, Category: "general", Fee: 100}
		snap.Seal(e, &texts)
		r.add(coretest.NewStep(e, &texts))
		r.fixed = map[string]fixed{}
		for _, path := range paths {
			header := http.Header{}
			body, err := r.answer(header, path)
			if err != nil {
				t.Fatal(err)
			}
			r.fixed[path] = fixed{body, header}
		}
		if withheld := paths == nil; withheld {
			r.records[len(r.records)-1].Texts = nil
		} else {
			r.redact("soon")
		}
		if _, err := Verify(t.Context(), c); err == nil || errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "verify again") {
			t.Errorf("%q: %v", paths, err)
		}
		if r.fixed = nil; paths != nil {
			r.verify(c)
		}
	}
}

// flip flips a bit in the middle.
func flip(b []byte) []byte {
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
	return b
}

// Whatever a ring alters, it is found, and nothing is remembered of it.
func TestAltered(t *testing.T) {
	const seed = 4
	other := newRing(t, seed+1, 400)
	for name, c := range map[string]struct {
		alter map[string]func([]byte) []byte
		says  string
	}{
		"an event":             {map[string]func([]byte) []byte{"/log/tile/entries/000": flip}, ""},
		"an event is left out": {map[string]func([]byte) []byte{"/log/tile/entries/000": func(b []byte) []byte { return b[2+binary.BigEndian.Uint16(b):] }}, "entries"},
		"a text":               {map[string]func([]byte) []byte{"/log/texts/000": flip}, ""},
		"the checkpoint":       {map[string]func([]byte) []byte{"/log/checkpoint": flip}, ""},
		"another key":          {map[string]func([]byte) []byte{"/log/checkpoint": func([]byte) []byte { return other.checkpoint() }}, "verif"},
		"the leaderboard":      {map[string]func([]byte) []byte{"/api/leaderboard": flip}, "/api/leaderboard is not what the events lead to"},
		"too long":             {map[string]func([]byte) []byte{"/log/checkpoint": func(b []byte) []byte { return append(b, make([]byte, maxNote)...) }}, "may have"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, seed, 300)
			r.alter = c.alter
			memory := t.TempDir()
			_, err := Verify(t.Context(), r.config(memory))
			if err == nil || name != "too long" && !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if left, _ := os.ReadDir(memory); len(left) > 0 {
				t.Errorf("it is remembered: %v", left)
			}
		})
	}
}

// A ring that shows another history than the one it had signed before, or fewer events, is found
// by what was remembered. The evidence can be checked alone.
func TestContradiction(t *testing.T) {
	for _, more := range []int{0, 1, 300} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			r := newRing(t, 6, 400)
			fork := newRing(t, 6, 400)
			r.bid(101)
			fork.bid(102)
			for range more {
				fork.bid(100)
			}
			c := r.config(t.TempDir())
			r.verify(c)
			c.Site = fork.url
			_, err := Verify(t.Context(), c)
			found, ok := errors.AsType[*log.Contradiction](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			path, err := c.Memory.Evidence(found)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			keys, _ := log.Keys(r.key)
			checkEvidence(t, text, keys)
			c.Site = r.url
			r.verify(c) // it is remembered as it was
		})
	}
	r := newRing(t, 6, 400)
	r.bid(101)
	c := r.config(t.TempDir())
	r.verify(c)
	c.Site = newRing(t, 6, 400).url
	if _, err := Verify(t.Context(), c); !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "an older checkpoint") || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("a withheld tail: %v", err)
	}
}

// A ring that shows fewer events than before shows an older checkpoint, or another history. That is
// told apart where the tiles of the longer one can be had.
func TestShorter(t *testing.T) {
	for _, forked := range []bool{false, true} {
		r, fork := newRing(t, 6, 400), newRing(t, 6, 400)
		r.bid(101)
		if fork.bid(101); forked {
			fork = newRing(t, 6, 400)
			fork.bid(102)
		}
		r.bid(100)
		c := r.config(t.TempDir())
		r.verify(c)
		tiles := func(path string) {
			body, err := r.answer(http.Header{}, path)
			if err != nil {
				t.Fatal(err)
			}
			fork.paths[path] = func() ([]byte, error) { return body, nil }
		}
		if _, err := fork.answer(http.Header{}, "/"); err == nil {
			t.Fatal("no paths are mapped")
		}
		for path := range r.paths {
			if strings.HasPrefix(path, "/log/tile/0/") || strings.HasPrefix(path, "/log/tile/1/") {
				tiles(path)
			}
		}
		c.Site = fork.url
		_, err := Verify(t.Context(), c)
		found, ok := errors.AsType[*log.Contradiction](err)
		if ok != forked {
			t.Fatalf("forked %v: %v", forked, err)
		}
		if !forked {
			if !errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "do not contradict") {
				t.Errorf("%v", err)
			}
			continue
		}
		keys, _ := log.Keys(r.key)
		checkEvidence(t, found.Text(), keys)
	}
}

// A ring that takes another name does not leave its past behind.
func TestAnotherName(t *testing.T) {
	r, renamed := newRing(t, 6, 100), newRing(t, 6, 100)
	renamed.name = "new.example"
	secret, key, err := note.GenerateKey(source{rand.New(rand.NewPCG(1, 1))}, renamed.name)
	if err != nil {
		t.Fatal(err)
	}
	renamed.key = key
	if renamed.signer, err = note.NewSigner(secret); err != nil {
		t.Fatal(err)
	}
	c := r.config(t.TempDir())
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.ServeHTTP(w, req) }))
	t.Cleanup(at.Close)
	c.Site = at.URL
	if first := r.verify(c); len(first.Others) > 0 {
		t.Errorf("%q", first.Others)
	}
	r = renamed
	for range 2 {
		if again := r.verify(c); len(again.Others) != 1 || again.Others[0] != origin {
			t.Errorf("%q", again.Others)
		}
		c.Site = at.URL + "/"
	}
}

// checkEvidence checks that evidence holds, and does not with a bit flipped in any byte.
func checkEvidence(t *testing.T, text []byte, keys note.Verifiers) {
	t.Helper()
	check := func(text []byte) error {
		e, err := log.ParseContradiction(text)
		if err == nil {
			_, _, err = e.Check(keys)
		}
		return err
	}
	if err := check(text); err != nil {
		t.Fatal(err)
	}
	key := bytes.Index(text, []byte("\nkey ")) // what the file says of keys is not believed
	end := key + 1 + bytes.IndexByte(text[key+1:], '\n')
	for i := range text {
		if i > key+4 && i < end {
			continue
		}
		altered := bytes.Clone(text)
		altered[i] ^= 1 << (i % 8)
		if err := check(altered); !errors.Is(err, log.ErrEvidence) {
			t.Fatalf("bit %d of byte %d: %v", i%8, i, err)
		}
	}
}

// proof gives the proof of an event.
func (r *ring) proof(index int) []byte {
	hashes, err := tlog.ProveRecord(int64(len(r.records)), int64(index), r)
	if err != nil {
		r.Fatal(err)
	}
	return (&log.Proof{Entry: r.records[index].Event, Index: int64(index), Hashes: hashes, Checkpoint: r.checkpoint()}).Text()
}

// A receipt names the event that is in the log, and no bit of it can be another.
func TestReceipt(t *testing.T) {
	r := newRing(t, 7, 300)
	r.bid(250)
	index := len(r.records) - 1
	for range 20 {
		r.bid(100)
	}
	keys, err := log.Keys(r.key)
	if err != nil {
		t.Fatal(err)
	}
	text := r.proof(index)
	read := func(text []byte) (*Receipt, error) {
		p, err := log.ParseProof(text)
		if err != nil {
			return nil, wrong("%w", err)
		}
		return CheckReceipt(p, keys, nil)
	}
	receipt, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	if bid, ok := receipt.Event.(*core.Bid); !ok || bid.Amount != 250 || receipt.Index != int64(index) || receipt.At.Origin != origin {
		t.Errorf("%+v", receipt)
	}
	for bit := range 8 * len(text) {
		altered := bytes.Clone(text)
		altered[bit/8] ^= 1 << (bit % 8)
		if _, err := read(altered); !errors.Is(err, ErrWrong) {
			t.Fatalf("bit %d of byte %d, %q: %v", bit%8, bit/8, text[bit/8], err)
		}
	}
}

var updateSaved = flag.Bool("update-saved", false, "make the files in testdata anew")

// testdata has a ring as --save keeps it, with its key, a receipt, and evidence of another history.
// They are verified without a network, here and by the tests of the command.
func TestSaved(t *testing.T) {
	at := func(name string) string { return filepath.Join("testdata", name) }
	if *updateSaved {
		if err := os.RemoveAll("testdata"); err != nil {
			t.Fatal(err)
		}
		r, fork := newRing(t, 3, 200), newRing(t, 3, 200)
		for len(r.records) <= log.TileWidth {
			r.bid(250)
			fork.bid(251)
		}
		c := r.config(t.TempDir())
		c.Save = at("ring")
		r.verify(c)
		c.Site, c.Save = fork.url, ""
		fork.bid(100)
		_, err := Verify(t.Context(), c)
		found, ok := errors.AsType[*log.Contradiction](err)
		if !ok {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"key": []byte(r.key), "bid.tlog-proof": r.proof(len(r.records) - 1), "contradiction": found.Text()} {
			if err := os.WriteFile(at(name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	key, err := os.ReadFile(at("key"))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Save: at("ring"), Keys: []string{string(key)}, Capacity: 10_000, Say: func(uint64, uint64) {}}
	if report, err := Verify(t.Context(), c); err != nil || report.At.N != log.TileWidth+1 || report.Trust != Given {
		t.Errorf("%v: %+v", err, report)
	}
	// A ring that runs another version of the core is not accused of what that computes otherwise.
	r := newRing(t, 3, 100)
	r.alter["/api/leaderboard"] = flip
	c = r.config(t.TempDir())
	c.Core[0], r.core[0] = 1, 2
	if _, err := Verify(t.Context(), c); err == nil || errors.Is(err, ErrWrong) || !strings.Contains(err.Error(), "another version of the core") {
		t.Errorf("another core: %v", err)
	}
}

// A bundle that was found to be wrong is not saved: the next verification asks for it again.
func TestAWrongBundleIsNotSaved(t *testing.T) {
	r := newRing(t, 3, 200)
	c := r.config(t.TempDir())
	c.Save = t.TempDir()
	path := log.EntriesPath(0, min(len(r.records), log.TileWidth))
	r.alter[path] = flip
	if _, err := Verify(t.Context(), c); !errors.Is(err, ErrWrong) {
		t.Fatal(err)
	}
	delete(r.alter, path)
	r.verify(c)
}

// The next verification removes a wrong bundle, too, that one which was killed had left unchecked.
// What was checked stays.
func TestAWrongBundleOfAKilledRunIsNotSaved(t *testing.T) {
	r := newRing(t, 3, 700)
	c := r.config(t.TempDir())
	c.Save = t.TempDir()
	r.verify(c)
	whole := folder(c.Save).file(log.EntriesPath(0, log.TileWidth))
	for len(r.records) < 4*log.TileWidth {
		r.bid(100)
	}
	killed, err := newSite(r.url, c.Save)
	if err != nil {
		t.Fatal(err)
	}
	path := log.EntriesPath(2, log.TileWidth)
	r.alter[path] = flip
	if _, err := killed.get(t.Context(), path, 1<<20); err != nil {
		t.Fatal(err)
	}
	delete(r.alter, path)
	if _, err := Verify(t.Context(), c); !errors.Is(err, ErrWrong) {
		t.Fatal(err)
	}
	if _, err := os.Stat(whole); err != nil {
		t.Errorf("what was checked is gone: %v", err)
	}
	r.verify(c)
	if _, err := os.Stat(folder(c.Save).file(uncheckedName)); err == nil {
		t.Error("something is left as unchecked")
	}
}

// What a verification costs, the first time and, from a folder that was saved, the second.
func BenchmarkVerify(b *testing.B) {
	for _, events := range []int{100_000, 1_000_000} {
		b.Run(strconv.Itoa(events), func(b *testing.B) {
			r := newRing(b, 3, 300)
			for len(r.records) < events {
				r.bid(100)
			}
			for b.Loop() {
				c := r.config(b.TempDir())
				c.Save = b.TempDir()
				first, second := time.Now(), time.Duration(0)
				report := r.verify(c)
				took := time.Since(first)
				r.bid(100)
				first = time.Now()
				again := r.verify(c)
				second = time.Since(first)
				b.ReportMetric(took.Seconds(), "s/first")
				b.ReportMetric(float64(report.Bytes), "B/first")
				b.ReportMetric(second.Seconds(), "s/second")
				b.ReportMetric(float64(again.Bytes), "B/second")
			}
		})
	}
}

func TestConcentration(t *testing.T) {
	for _, c := range []struct {
		payers Payers
		want   Concentration
	}{
		{Payers{}, Concentration{}},
		{Payers{"": 500, "a": 100, "b": 300, "c": 100}, Concentration{Accounts: 3, Total: 500, Largest: 300, Ten: 500, Half: 1}},
		{Payers{"a": 100, "b": 100, "c": 100, "d": 100}, Concentration{Accounts: 4, Total: 400, Largest: 100, Ten: 400, Half: 2}},
	} {
		if got := c.payers.Concentration(); got != c.want {
			t.Errorf("%v: %+v, not %+v", c.payers, got, c.want)
		}
	}
}
