package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core/abi"
	"webring/core/coretest"
)

// repeated are targets that are asked again and again: documents of all kinds
// of validity, several spellings of one, and what is not kept.
var repeated = []string{"/api", "/api/ring", "/api/categories", "/random", "/api/ring/%72andom", "/api/ring/random?format=redirect", "/next", "/nosuch", "",
	"/next?from=alpha-1", "/api/widget?from=a.com", "/api/ring/alpha-0", "/api/ring/beta-1", "/api/ring/beta-2?", "/api/ring/next?from=beta-2",
	"/api/ring/" + strings.Repeat("y", 200), "/api/leaderboard", "/api/leaderboard?limit=3", "/api/leaderboard?limit=03", "/api/leaderboard?limit=3&offset=2",
	"/api/leaderboard?page=2&limit=2", "/api/leaderboard?limit=0", "/api/leaderboards"}

// shown is all that an answer says.
func shown(r *Response) string {
	return fmt.Sprintf("%d %d %d %d %d..%d %t %t %q %q %q %s", r.Status, r.Media, r.Validity, r.Seq, r.Since, r.Until, r.Unknown, r.Drawn,
		r.Location, r.Next, r.Prev, r.Body)
}

// Whatever happens between two questions in the same words, the second is
// answered as by a core that keeps nothing.
func TestKeptAnswersAreNeverStale(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 24, Instances: 1})
	in, err := p.launch(0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	var want, got Response
	kept, elsewhere := 0, 0
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		direct := NewNative(24)
		if err := in.attach(nativeImage(p, direct), 24); err != nil {
			t.Fatal(err)
		}
		in.answers = newAnswers()
		ask := func() {
			t.Helper()
			target := []byte(repeated[random.IntN(len(repeated))])
			for range 3 {
				bits := random.Uint64()
				direct.core.Serve(target, bits, &want)
				if err := in.serve(target, bits, &got); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if shown(&got) != shown(&want) {
					t.Fatalf("seed %d: %s at %d, second %d:\n got %d %s\nwant %d %s", seed, target, got.Seq, in.second, got.Seq, got.Body, want.Seq, want.Body)
				}
			}
			if found, _, _ := in.answers.find(target, in.seq, in.second, new(Response)); found {
				kept++
			}
		}
		apply := func(n *Native, s coretest.Step) bool {
			return n.core.Apply(s.EventBytes, s.TextBytes) == nil
		}
		for _, s := range coretest.Generate(seed, 60) {
			switch {
			case s.Event != nil:
				reply, err := in.apply([][]byte{abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes})})
				if err != nil || apply(direct, s) == reply.Refused {
					t.Fatalf("seed %d: %v %s", seed, err, reply.Rest)
				}
				if direct.core.Seq() == 0 {
					continue
				}
				direct.core.Advance(0)
			case random.IntN(6) == 0:
				now := direct.core.Second() - random.Int64N(60)
				if _, err := in.must(abi.OpRewind, uint64(now), nil); err != nil {
					t.Fatal(err)
				}
				direct.core.Rewind(now)
			default:
				if err := in.advance(s.Now); err != nil {
					t.Fatal(err)
				}
				direct.core.Advance(s.Now)
			}
			for range random.IntN(8) {
				ask()
			}
		}
		// The image of another ledger, at the same position and second.
		seq, now := direct.core.Seq(), direct.core.Second()
		direct = NewNative(24)
		for _, s := range coretest.Generate(seed+1000, 120) {
			if s.Event != nil && direct.core.Seq() < seq {
				apply(direct, s)
			}
		}
		direct.core.Advance(now)
		if err := in.attach(nativeImage(p, direct), 24); err != nil {
			t.Fatal(err)
		}
		in.answers = newAnswers()
		if err := in.advance(now); err != nil {
			t.Fatal(err)
		}
		if in.seq == seq && in.second == now {
			elsewhere++
		}
		for range 20 {
			ask()
		}
	}
	if kept < 1000 || elsewhere < 10 {
		t.Errorf("only %d answers were kept, and only %d ledgers at one position", kept, elsewhere)
	}
}

// A pool answers as a core that keeps nothing does, whichever instance does,
// through records, a clock that goes forwards and back, traps, and instances
// that begin anew from another image.
func TestAPoolThatKeepsAnswersIsNeverStale(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	const instances = 3
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
	native := NewNative(1000)
	both := func(do func(n tested) error) {
		t.Helper()
		for _, n := range []tested{native, p} {
			if err := do(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	now, members := int64(epoch+100), 0
	tick := func(by int64) {
		now = max(now+by, epoch+50)
		both(func(n tested) error { n.Tick(time.Unix(now, 0)); return nil })
	}
	both(func(n tested) error { return n.Apply([]Record{rules(), join("alpha-0", 5_000_000, epoch*1000)}) })
	traps := uint64(0)
	for range 200 {
		switch random.IntN(12) {
		case 0, 1, 2:
			members++
			record := join(fmt.Sprint("beta-", members), random.Int64N(3)*100, epoch*1000)
			both(func(n tested) error { return n.Apply([]Record{record}) })
		case 3:
			tick(-6 - random.Int64N(30))
		case 4:
			traps++
			losesOne(t, p, func() { tick(1) })
		case 5:
			if _, err := p.newImage(); err != nil {
				t.Fatal(err)
			}
			if err := p.renewInstance(random.IntN(instances)); err != nil {
				t.Fatal(err)
			}
		default:
			tick(random.Int64N(3))
		}
		for range random.IntN(10) {
			target := []byte(repeated[random.IntN(len(repeated))])
			var want, got Response
			native.Serve(target, &want)
			p.Serve(target, &got)
			if want.Drawn {
				if !got.Drawn || got.Status != want.Status {
					t.Fatalf("%s: %d, drawn %t", target, got.Status, got.Drawn)
				}
				continue
			}
			if shown(&got) != shown(&want) {
				t.Fatalf("%s at %d, epoch%+d:\n got %d %s\nwant %d %s", target, want.Seq, now-epoch, got.Seq, got.Body, want.Seq, want.Body)
			}
		}
	}
	if p.Traps() != traps || traps == 0 {
		t.Errorf("%d traps of %d", p.Traps(), traps)
	}
}

// nativeImage is an image of another core than the pool's.
func nativeImage(p *Pool, n *Native) *image {
	head, ring := n.core.Image(nil)
	return &image{head: head, memory: p.share(ring), lasting: n.core.Lasting(), at: n.core.Seq()}
}

// losesOne has one instance trap, which whoever ticks finds out and not who asks, and
// waits until it is there again.
func losesOne(t *testing.T, p *Pool, tick func()) {
	t.Helper()
	// One that is replaced by an instance of a newer image never traps.
	p.renewing.Lock()
	defer p.renewing.Unlock()
	put(p, all(t, p))
	in := p.free.get()
	if in == nil {
		t.Fatal("no instance in the rack")
	}
	before := p.Traps()
	broken(t, p, in)
	until(t, "the instance traps", func() bool { tick(); return p.Traps() > before })
	until(t, "all are there again", func() bool { return p.working.Load() == int64(p.config.Instances) })
}

// encoded is a response that says no more than the ones here, as the guest spells it.
func encoded(r *Response) []byte {
	b := append(binary.LittleEndian.AppendUint16(nil, uint16(r.Status)), make([]byte, 18)...)
	at := 0
	if len(r.Location) > 0 {
		at = len(r.Body)
	}
	for _, n := range []int{len(r.Body), at, len(r.Location), len(r.Next), 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return slices.Concat(b, r.Body, r.Location, r.Next)
}

// given makes the answer to a target at a position: any, but always the same.
func given(target string, seq uint64, r *Response) {
	random := rand.New(rand.NewPCG(uint64(len(target))<<32|seq, uint64(target[len(target)-1])))
	*r = Response{Status: 200, Seq: seq, Location: []byte(target + "!"), Next: []byte(target[:random.IntN(len(target))]),
		Body: bytes.Repeat([]byte(fmt.Sprint(target, "@", seq)), random.IntN(1<<random.IntN(15)))}
}

// The memory is bounded: when the log begins anew, nothing of what came over an
// answer is taken for it.
func TestTheLogOfAnswersBeginsAnew(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	k := newAnswers()
	var want, got Response
	found, long := 0, 0
	for i := range 8000 {
		seq := uint64(i / 2000)
		target := fmt.Sprint("/", random.IntN(1<<random.IntN(12)), strings.Repeat("x", random.IntN(longestTarget+8)))
		given(target, seq, &want)
		for range 2 {
			was, hash, place := k.find([]byte(target), seq, 0, &got)
			if !was {
				k.keep([]byte(target), hash, place, encoded(&want), &want)
				continue
			}
			found++
			if shown(&got) != shown(&want) {
				t.Fatalf("%s: %.200q, want %.200q", target, got.Body, want.Body)
			}
			if len(target) > longestTarget || len(encoded(&got)) > longestAnswer {
				t.Fatalf("%d bytes for a target of %d", len(got.Body), len(target))
			}
		}
		if len(target) > longestTarget || len(want.Body) > longestAnswer {
			long++
		}
	}
	if turns := k.end / logSize; found < 1000 || long < 100 || turns < 3 {
		t.Errorf("%d found, %d too long, the log began anew %d times", found, long, turns)
	}
	if len(k.log) != logSize {
		t.Errorf("the log has %d bytes", len(k.log))
	}
}

// Bytes that came over an answer do not pass for it, even when the target can be
// read in them where it stood.
func TestOverwrittenAnswersAreGone(t *testing.T) {
	k := newAnswers()
	r := Response{Body: append(bytes.Repeat([]byte("a"), 1000), 'b')}
	first := []byte("aaaa")
	for range 2 {
		_, hash, place := k.find(first, 0, 0, &r)
		k.keep(first, hash, place, encoded(&r), &r)
	}
	if found, _, _ := k.find(first, 0, 0, &r); !found || r.Body[1000] != 'b' {
		t.Fatal("it is not kept")
	}
	other := Response{Body: bytes.Repeat([]byte("a"), 1000)}
	bytes := encoded(&other)
	for k.end <= logSize {
		k.keep([]byte("a"), 1, 0, bytes, &other)
	}
	if found, _, _ := k.find(first, 0, 0, &r); found {
		t.Errorf("found %.20s…", r.Body)
	}
}

// Two targets may have one hash: neither is given the other's answer.
func TestATargetOfTheSameHashIsAnother(t *testing.T) {
	k := newAnswers()
	var r Response
	k.find([]byte("/a"), 0, 0, &r)
	_, hash, place := k.find([]byte("/a"), 0, 0, &r)
	b := Response{Body: []byte("b")}
	k.keep([]byte("/b"), hash, place, encoded(&b), &b)
	if found, _, _ := k.find([]byte("/a"), 0, 0, &r); found {
		t.Errorf("found %s", r.Body)
	}
}

// What is asked for once, as on a walk through a large ring, disslots nothing;
// and what is asked for again, the widgets of some thousand pages, has room.
func TestAWalkDisslotsNoAnswers(t *testing.T) {
	k := newAnswers()
	r := Response{Status: 200, Seq: 1, Body: bytes.Repeat([]byte("x"), 2500)}
	ask := func(target string) bool {
		found, hash, place := k.find([]byte(target), 1, 0, &r)
		if !found {
			k.keep([]byte(target), hash, place, encoded(&r), &r)
		}
		return found
	}
	const pages = 2048
	for range 2 {
		for i := range pages {
			ask(fmt.Sprint("/api/widget?from=m", i))
		}
	}
	for i := range 200_000 {
		ask(fmt.Sprint("/next?from=m", i))
	}
	found := 0
	for i := range pages {
		if ask(fmt.Sprint("/api/widget?from=m", i)) {
			found++
		}
	}
	// Of five whose hashes end alike one has no place, which is rare.
	if found < pages*98/100 {
		t.Errorf("only %d of %d are kept", found, pages)
	}
}

// A pool that keeps none answers what one does that keeps them.
func TestAPoolThatKeepsNoAnswersGivesTheSame(t *testing.T) {
	keeps, forgets := newPool(t, PoolConfig{Capacity: 24, Instances: 1}), newPool(t, PoolConfig{Capacity: 24, Instances: 1, Forgetful: true})
	for _, p := range []*Pool{keeps, forgets} {
		if err := p.Apply([]Record{rules(), join("alpha-0", 5_000_000, epoch*1000), join("alpha-1", 0, epoch*1000)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range repeated {
		for range 3 {
			var want, got Response
			keeps.Serve([]byte(target), &want)
			forgets.Serve([]byte(target), &got)
			if !want.Drawn && shown(&got) != shown(&want) {
				t.Errorf("%s: %s, and %s", target, want.Body, got.Body)
			}
		}
	}
	in := anyOf(forgets)
	defer forgets.free.put(in)
	if in.answers != nil {
		t.Error("it has room for answers")
	}
}
