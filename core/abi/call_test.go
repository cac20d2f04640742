package abi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/api"
	"webring/core/coretest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// opened gives a core with a small ring, driven by calls alone.
func opened(t testing.TB) *abi.Core {
	t.Helper()
	c := abi.New(0, 1)
	do(t, c, abi.OpOpen, 10, nil)
	for _, s := range coretest.Generate(1, 40) {
		if s.Event != nil {
			c.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
		}
	}
	return c
}

// do performs an operation that must not be refused. The rest is the caller's.
func do(t testing.TB, c *abi.Core, op uint32, arg uint64, in []byte) abi.Reply {
	t.Helper()
	r, ok := abi.DecodeReply(c.Call(op, arg, in))
	if !ok || r.Refused {
		t.Fatalf("operation %d: %t %q", op, ok, r.Rest)
	}
	r.Rest = bytes.Clone(r.Rest)
	return r
}

// load loads a snapshot in pieces of a number of bytes.
func load(t testing.TB, c *abi.Core, snapshot []byte, piece int) {
	t.Helper()
	do(t, c, abi.OpLoad, uint64(len(snapshot)), nil)
	for next := range slices.Chunk(snapshot, piece) {
		do(t, c, abi.OpPiece, 0, next)
	}
	do(t, c, abi.OpLoaded, 0, nil)
}

// The entry adds nothing of its own: a history leads to the same answers by calls, by the
// functions that they stand for, in a state alone, and from a snapshot.
func TestCallsDoWhatTheFunctionsDo(t *testing.T) {
	if base := abi.New(1, 1).BaseURL(); base != "" {
		t.Errorf("an empty ledger has the base URL %q", base)
	}
	for seed := range uint64(20) {
		calls, direct, st := abi.New(0, 1), abi.New(24, 1), core.NewState(24, 1)
		do(t, calls, abi.OpOpen, 24, nil)
		for _, s := range coretest.Generate(seed, 60) {
			if s.Event == nil {
				do(t, calls, abi.OpAdvance, uint64(s.Now), nil)
				direct.Advance(s.Now)
				st.Advance(s.Now)
				continue
			}
			r, _ := abi.DecodeReply(calls.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes})))
			err := direct.Apply(s.EventBytes, s.TextBytes)
			if alone := st.Apply(s.EventBytes, s.TextBytes); !errors.Is(err, alone) || r.Refused != (err != nil) || err != nil && string(r.Rest) != err.Error() {
				t.Fatalf("seed %d: refused %t %q, directly %v", seed, r.Refused, r.Rest, err)
			}
		}
		now := direct.Second() - 5
		head := do(t, calls, abi.OpRewind, uint64(now), nil)
		direct.Rewind(now)
		st.Rewind(now)
		if head.Seq != direct.Seq() || head.Second != direct.Second() || head.Last > head.Second {
			t.Errorf("seed %d: head %+v", seed, head)
		}
		if r := do(t, calls, abi.OpBaseURL, 0, nil); string(r.Rest) != direct.BaseURL() {
			t.Errorf("seed %d: base URL %q", seed, r.Rest)
		}
		if _, digest := direct.Digest(); !bytes.Equal(do(t, calls, abi.OpDigest, 0, nil).Rest, digest[:]) {
			t.Errorf("seed %d: other digests", seed)
		}
		snapshot := do(t, calls, abi.OpSnapshot, 0, nil).Rest
		if !bytes.Equal(snapshot, direct.AppendSnapshot(nil)) {
			t.Errorf("seed %d: other snapshots", seed)
		}
		restored := abi.New(0, 1)
		do(t, restored, abi.OpOpen, 24, nil)
		load(t, restored, snapshot, 100)
		do(t, restored, abi.OpRewind, uint64(now), nil)
		for _, target := range []string{"/api", "/api/ring", "/api/leaderboard", "/random", "/next?from=x", "/nowhere"} {
			var want, got api.Response
			direct.Serve([]byte(target), 1<<62, &want)
			if api.Serve(st, []byte(target), 1<<62, &got); fmt.Sprint(shown(&got)) != fmt.Sprint(shown(&want)) {
				t.Errorf("seed %d: %s: %v, of the state alone %v", seed, target, shown(&want), shown(&got))
			}
			for _, c := range []*abi.Core{calls, restored} {
				r := do(t, c, abi.OpServe, 1<<62, []byte(target))
				if !abi.DecodeResponse(r.Rest, &got) {
					t.Fatalf("%s: no response", target)
				}
				got.Seq = r.Seq
				if fmt.Sprint(shown(&got)) != fmt.Sprint(shown(&want)) {
					t.Errorf("seed %d: %s: %v, want %v", seed, target, shown(&got), shown(&want))
				}
			}
		}
	}
}

// shown is all that a host sees of a response.
func shown(r *api.Response) []any {
	return []any{r.Status, r.Media, r.Validity, r.Seq, r.Since, r.Until, r.Unknown, r.Drawn, r.From, r.To, string(r.Location), string(r.Next), string(r.Prev), string(r.Body)}
}

func TestWhatCannotBeDoneIsRefusedAndChangesNothing(t *testing.T) {
	c := opened(t)
	snapshot := do(t, c, abi.OpSnapshot, 0, nil).Rest
	for name, q := range map[string]struct {
		op  uint32
		arg uint64
		in  []byte
	}{
		"no such operation":        {op: 77},
		"a second beyond all":      {op: abi.OpAdvance, arg: 1 << 63},
		"a rewind beyond all":      {op: abi.OpRewind, arg: core.MaxStamp},
		"a capacity beyond all":    {op: abi.OpOpen, arg: 1 << 33},
		"a size beyond all":        {op: abi.OpLoad, arg: 1 << 33},
		"a piece of nothing":       {op: abi.OpPiece, in: snapshot},
		"the end of nothing":       {op: abi.OpLoaded},
		"records cut short":        {op: abi.OpApply, in: abi.AppendRecord(nil, abi.Record{Event: []byte("x")})[:6]},
		"an event that is none":    {op: abi.OpApply, in: abi.AppendRecord(nil, abi.Record{Event: []byte("x")})},
		"a target cut short":       {op: abi.OpServeAll, in: []byte{3, 0, '/', 'a'}},
		"a length cut short":       {op: abi.OpServeAll, in: []byte{1}},
		"too many targets":         {op: abi.OpServeAll, in: make([]byte, 2*(abi.MaxTargets+1))},
		"more records than one op": {op: abi.OpApply, in: bytes.Repeat(abi.AppendRecord(nil, abi.Record{Event: []byte("x")}), abi.MaxRecords+1)},
	} {
		r, ok := abi.DecodeReply(c.Call(q.op, q.arg, q.in))
		if !ok || !r.Refused || len(r.Rest) == 0 {
			t.Errorf("%s: %t %+v", name, ok, r)
		}
		if !bytes.Equal(do(t, c, abi.OpSnapshot, 0, nil).Rest, snapshot) {
			t.Fatalf("%s changed the core", name)
		}
	}
}

// A snapshot that is refused, at whichever of its pieces, leaves a core that answers as before
// and can load another.
func TestASnapshotThatIsRefusedChangesNothing(t *testing.T) {
	c := opened(t)
	before := do(t, c, abi.OpSnapshot, 0, nil).Rest
	other := abi.New(0, 1)
	do(t, other, abi.OpOpen, 10, nil)
	for _, s := range coretest.Generate(2, 40) {
		if s.Event != nil {
			other.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
		}
	}
	snapshot := do(t, other, abi.OpSnapshot, 0, nil).Rest
	altered := bytes.Clone(snapshot)
	altered[len(altered)-1] ^= 1
	unmoved := func(what string) {
		t.Helper()
		if !bytes.Equal(do(t, c, abi.OpSnapshot, 0, nil).Rest, before) {
			t.Fatalf("%s changed the core", what)
		}
	}
	for what, in := range map[string]struct {
		size   int
		pieces [][]byte
	}{
		"garbage":         {7, [][]byte{[]byte("garbage")}},
		"one cut short":   {len(snapshot), [][]byte{snapshot[:100], snapshot[100 : len(snapshot)-1]}},
		"one too long":    {len(snapshot), [][]byte{snapshot, {0}}},
		"one too short":   {len(snapshot) + 1, [][]byte{snapshot}},
		"an altered one":  {len(snapshot), [][]byte{altered[:len(altered)-1], altered[len(altered)-1:]}},
		"one out of turn": {len(snapshot), [][]byte{snapshot[100:], snapshot[:100]}},
		"no piece":        {len(snapshot), nil},
	} {
		do(t, c, abi.OpLoad, uint64(in.size), nil)
		for _, piece := range in.pieces {
			c.Call(abi.OpPiece, 0, piece)
			unmoved(what)
		}
		for range 2 {
			if r, ok := abi.DecodeReply(c.Call(abi.OpLoaded, 0, nil)); !ok || !r.Refused {
				t.Errorf("%s is taken", what)
			}
			unmoved(what)
		}
	}
	do(t, c, abi.OpOpen, 1, nil)
	do(t, c, abi.OpLoad, uint64(len(snapshot)), nil)
	if r, _ := abi.DecodeReply(c.Call(abi.OpPiece, 0, snapshot)); !r.Refused {
		t.Error("a ring that is larger than the capacity is taken")
	}
	do(t, c, abi.OpOpen, 10, nil)
	do(t, c, abi.OpLoad, 1, nil) // and is given up for the next
	load(t, c, snapshot, len(snapshot))
	if !bytes.Equal(do(t, c, abi.OpSnapshot, 0, nil).Rest, snapshot) {
		t.Error("another state")
	}
}

// What the guest would have to make anew for a document is never collected: so room
// for the longest one is kept, too.
func TestDocumentsOfAllLengthsAllocateNothing(t *testing.T) {
	const members, page = 501, 500
	c := abi.New(0, 1)
	do(t, c, abi.OpOpen, members, nil)
	apply := func(e core.Event, texts *core.Texts) {
		step := coretest.NewStep(e, texts)
		do(t, c, abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: step.EventBytes, Texts: step.TextBytes}))
	}
	base := "https://" + strings.Repeat("ring.", 40) + "example"
	base += "/" + strings.Repeat("r", 1024-len(base)-1)
	apply(&core.Rules{Stamp: 1, Name: "Ring", BaseURL: base, Fee: 100, MinBid: 100, Decay: 1000, Scorer: "fixed"}, nil)
	for i := range members {
		host := fmt.Sprintf("https://h%d.example/", i)
		texts := &core.Texts{Name: core.Text{Value: strings.Repeat("<", core.MaxName)}, Description: core.Text{Value: strings.Repeat("<", core.MaxDescription)},
			URL:    core.Text{Value: host + strings.Repeat("u", core.MaxURL-len(host))},
			Report: core.Text{Value: "https://" + strings.Repeat("r", core.MaxReport-8)}}
		apply(&core.Joined{Stamp: 2, Slug: fmt.Sprint("m", i), Kind: core.Agent, Category: "general", Fee: 100, Bid: 900_000_00 + int64(i),
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Description: coretest.Commit(texts.Description), Report: coretest.Commit(texts.Report)}, texts)
	}
	for _, target := range []string{"/next", "/api/widget", "/nowhere"} {
		raw := []byte(target)
		c.Call(abi.OpServe, 7, raw)
		if n := testing.AllocsPerRun(100, func() { c.Call(abi.OpServe, 7, raw) }); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
	for _, list := range []string{"ring", "leaderboard"} {
		raw := fmt.Appendf(nil, "/api/%s?limit=%d", list, page)
		length := len(c.Call(abi.OpServe, 7, raw))
		if n := testing.AllocsPerRun(5, func() { c.Call(abi.OpServe, 7, raw) }); n != 0 || length < page*(6*core.MaxDescription+core.MaxReport+3*1024) {
			t.Errorf("%s: %v allocations for %d bytes", raw, n, length)
		}
	}
}

// encoded is a response as [abi.DecodeResponse] says that it is spelt, with a
// location that stands in the very memory of the body told by its place.
func encoded(r *api.Response) []byte {
	texts, at := slices.Concat(r.Body, r.Next, r.Prev), 0
	if len(r.Location) > 0 {
		if at = slices.IndexFunc(pointers(r.Body), func(p *byte) bool { return p == &r.Location[0] }); at < 0 {
			texts, at = slices.Concat(r.Body, r.Location, r.Next, r.Prev), len(r.Body)
		}
	}
	flags := 0
	if r.Unknown {
		flags |= 1
	}
	if r.Drawn {
		flags |= 2
	}
	b := binary.LittleEndian.AppendUint16(nil, uint16(r.Status))
	b = append(b, byte(r.Media), byte(r.Validity))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Since))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Until))
	for _, n := range []int{int(r.From), int(r.To), len(r.Body), at, len(r.Location), len(r.Next), len(r.Prev), flags} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return append(b, texts...)
}

// pointers are those to all bytes of b.
func pointers(b []byte) (to []*byte) {
	for i := range b {
		to = append(to, &b[i])
	}
	return to
}

// The encoding is what modules and hosts of one version agree on: if this
// changes, so must [abi.Version].
func TestTheEncodingBelongsToTheVersion(t *testing.T) {
	r := api.Response{Status: 302, Media: api.HTML, Validity: api.Timed, Since: 1, Until: -2, From: 3, To: 4, Unknown: true, Drawn: true,
		Location: []byte("location"), Next: []byte("next"), Prev: []byte("prev"), Body: []byte("body")}
	c := opened(t)
	target, _ := abi.AppendTarget(nil, []byte("/nothing"))
	got := fmt.Sprintf("version %d\nresponse %x\nreply %x\nrefusal %x\nrecord %x\ntarget %x\nresponses %x\n", abi.Version, encoded(&r),
		bytes.Clone(c.Call(abi.OpBaseURL, 0, nil)), bytes.Clone(c.Call(77, 0, nil)),
		abi.AppendRecord(nil, abi.Record{Event: []byte("event"), Texts: []byte("texts")}),
		target, do(t, c, abi.OpServeAll, 0, slices.Concat(target, target)).Rest)
	path := filepath.Join("testdata", "encoding.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	var back api.Response
	if !abi.DecodeResponse(encoded(&r), &back) || !reflect.DeepEqual(shown(&back), shown(&r)) {
		t.Errorf("%v comes back as %v", shown(&r), shown(&back))
	}
}

func TestFail(t *testing.T) {
	r := api.Response{Location: []byte("x"), Body: []byte("longer than it should be"), Unknown: true, Drawn: true, Until: 9}
	abi.Fail(7, "https://ring.example", &r)
	if r.Status != 500 || r.Media != api.Problem || r.Validity != api.Never || len(r.Location) != 0 || r.Unknown || r.Drawn || r.Seq != 7 || r.Until != 0 ||
		!bytes.HasSuffix(r.Body, []byte(`"code":"internal"}`)) {
		t.Errorf("%v", shown(&r))
	}
}

// Whatever a host passes, the entry answers, and so it does afterwards.
func FuzzCall(f *testing.F) {
	c := opened(f)
	f.Add(abi.OpServe, uint64(1), []byte("/api/ring?limit=2&from=%41"))
	f.Add(abi.OpServeAll, uint64(1), []byte("\x04\x00/api\x05\x00/next"))
	f.Add(abi.OpPiece, uint64(0), bytes.Clone(do(f, c, abi.OpSnapshot, 0, nil).Rest))
	f.Add(abi.OpAdvance, uint64(core.MaxStamp/1000), []byte(nil))
	for _, s := range coretest.Generate(1, 10) {
		if s.Event != nil {
			f.Add(abi.OpApply, uint64(0), abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
		}
	}
	f.Fuzz(func(t *testing.T, op uint32, arg uint64, in []byte) {
		c := opened(t)
		before := bytes.Clone(in)
		do(t, c, abi.OpLoad, uint64(len(in)), nil) // so that a piece is one of a snapshot
		if _, ok := abi.DecodeReply(c.Call(op, arg, in)); !ok || !bytes.Equal(before, in) {
			t.Fatal("no reply, or the input was changed")
		}
		r := do(t, c, abi.OpServe, 1, []byte("/api/leaderboard"))
		if !abi.DecodeResponse(r.Rest, new(api.Response)) {
			t.Fatal("no response afterwards")
		}
	})
}

// A location that is a part of the body travels with it, and is one afterwards.
func TestALocationInTheBodyIsNotSentTwice(t *testing.T) {
	body := []byte("go to https://a.example/ then")
	r, back := api.Response{Status: 302, Body: body, Location: body[6:24]}, api.Response{}
	b := encoded(&r)
	if bytes.Count(b, r.Location) != 1 || !abi.DecodeResponse(b, &back) || !reflect.DeepEqual(shown(&back), shown(&r)) {
		t.Errorf("%q comes back as %v", b, shown(&back))
	}
	for _, other := range []int{7, len(body) - 1, len(body), len(body) + 1, 1<<32 - 1} {
		again := bytes.Clone(b)
		binary.LittleEndian.PutUint32(again[32:], uint32(other))
		if ok := abi.DecodeResponse(again, &back); ok != (other == 7) {
			t.Errorf("at %d: %t, %s", other, ok, back.Location)
		}
	}
}

// Whether the answer before was served or decoded, long or short, with an address
// within its body or beside it: nothing of it is left.
func TestAResponseIsTheSameWhateverItHeld(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	r := coretest.NewRing(t)
	r.Join("plain", "https://plain.example/")
	r.Join("odd", "https://odd.example/?a=1&b=2", func(_ *core.Joined, texts *core.Texts) { texts.Name.Value = "<Odd> & \"Sons\"" })
	r.Join("third", "https://third.example/")
	c := abi.New(10, 1)
	for _, s := range r.Steps {
		if err := c.Apply(s.EventBytes, s.TextBytes); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(r.Clock())
	targets := []string{"/next?from=plain", "/next?from=odd", "/prev?from=odd", "/prev?from=nobody", "/random?from=plain", "/api/ring/next?from=odd",
		"/api/widget?from=plain", "/api/ring/odd", "/api/ring?limit=1&offset=1", "/api/leaderboard", "/nosuch", "/api", "/api/categories", "/api/ring?limit=0"}
	var held api.Response
	for range 2000 {
		target, bits := []byte(targets[random.IntN(len(targets))]), random.Uint64()
		var want api.Response
		c.Serve(target, bits, &want)
		if random.IntN(2) == 0 {
			c.Serve(target, bits, &held)
		} else if reply, _ := abi.DecodeReply(c.Call(abi.OpServe, bits, target)); !abi.DecodeResponse(reply.Rest, &held) {
			t.Fatalf("%s: no response", target)
		}
		held.Seq = want.Seq
		if !reflect.DeepEqual(shown(&held), shown(&want)) {
			t.Fatalf("%s: %q, want %q", target, shown(&held), shown(&want))
		}
	}
}

// Every length, as an allocation may end where a response does: the race detector's
// build checks that nothing points behind it.
func TestResponsesOfAllLengths(t *testing.T) {
	for n := range 200 {
		r, back := abi.Response{Status: 302, Location: bytes.Repeat([]byte("l"), n/2), Next: []byte("n")[:n%2]}, abi.Response{}
		if b := encoded(&r); !abi.DecodeResponse(b, &back) || !bytes.Equal(back.Location, r.Location) || !bytes.Equal(back.Next, r.Next) {
			t.Errorf("%d bytes: %x", n, b)
		}
	}
}
