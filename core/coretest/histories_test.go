package coretest

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"webring/core"
	"webring/core/api"
)

var (
	update    = flag.Bool("update", false, "write the golden files anew")
	histories = flag.Int("histories", usual, "how many random `histories` each test goes through")
)

// golden compares with a file under testdata, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; if that is meant, run with -update.\ngot  %s\nwant %s", path, got, want)
	}
}

const (
	length   = 70
	capacity = 24
)

// each runs a test on every seed, and says which one fails.
func each(t *testing.T, f func(t *testing.T, seed uint64)) {
	for seed := range uint64(*histories) {
		if t.Failed() {
			return
		}
		if seed%3 == 2 {
			seed += Matched
		}
		f(t, seed)
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}
}

// accepted gives the steps of a history that apply, clock included, and the
// state they lead to.
func accepted(seed uint64) (steps []Step, st *core.State) {
	st = core.NewState(capacity, seed)
	for _, step := range Generate(seed, length) {
		if step.Event == nil {
			st.Advance(step.Now)
		} else if st.Apply(step.EventBytes, step.TextBytes) != nil {
			continue
		}
		steps = append(steps, step)
	}
	st.Advance(0)
	return steps, st
}

// TestMain goes through a few histories in a short run.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		*histories = min(*histories, 100)
	}
	os.Exit(m.Run())
}

func TestAnyInterleavingOfEventsAndClockGivesIdenticalAnswers(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 2))
		steps, st := accepted(seed)
		final := st.Clock()
		want := served(st)
		play := func(before, after func(*core.State)) []byte {
			st := core.NewState(capacity, seed)
			for _, step := range steps {
				if step.Event == nil {
					continue
				}
				before(st)
				if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
					t.Fatal(err)
				}
				after(st)
			}
			st.Advance(final)
			return served(st)
		}
		nothing := func(*core.State) {}
		room := func(st *core.State) { st.Expect(random.IntN(2*capacity), random.IntN(1<<16)) }
		now := func(st *core.State) { st.Advance(st.Clock()) }
		late := func(st *core.State) {
			if random.IntN(3) == 0 && st.Rules() != nil {
				st.Advance(st.Clock() + random.Int64N(max(final-st.Clock(), 0)+1))
			}
		}
		wrong := func(st *core.State) {
			if random.IntN(8) == 0 && st.Rules() != nil {
				st.Advance(final + 1000)
				st.Rewind(st.LastStamp()/1000 + random.Int64N(max(final-st.LastStamp()/1000, 0)+1))
			}
		}
		differ(t, "events, then the clock", play(nothing, nothing), want)
		differ(t, "the clock at every event", play(nothing, now), want)
		differ(t, "the clock ahead of events", play(late, late), want)
		differ(t, "the clock at the end, then events", play(func(st *core.State) { st.Advance(max(final, st.Clock())) }, nothing), want)
		differ(t, "room for any number of rows at the beginning", play(room, nothing), want)
		differ(t, "a clock that was wrong", play(nothing, wrong), want)
	})
}

// The fold takes a registration without texts when they were redacted later,
// and ends where it would have with them.
func TestRedactedTextsEndInTheSameAnswers(t *testing.T) {
	redactions := 0
	each(t, func(t *testing.T, seed uint64) {
		steps, st := accepted(seed)
		redacted := map[string]bool{}
		for _, step := range steps {
			if e, ok := step.Event.(*core.Removed); ok && e.Redacted {
				redacted[e.Member] = true
			}
		}
		redactions += len(redacted)
		without, random := core.NewState(capacity, seed), rand.New(rand.NewPCG(seed, 4))
		for _, step := range steps {
			// An edge may have read some of the texts before they were deleted.
			if step.Event != nil && redacted[core.MemberOf(step.Event)] && random.IntN(5) > 0 {
				step = step.Without()
			}
			if step.Event == nil {
				without.Advance(step.Now)
			} else if err := without.Apply(step.EventBytes, step.TextBytes); err != nil {
				t.Fatalf("%#v: %v", step.Event, err)
			}
			// A redacted member is in no document, at no position.
			if without.Rules() != nil {
				without.Advance(0)
				for o := range without.Rows() {
					m := without.Member(core.Ordinal(o))
					if m.URL == "" && without.Rank(core.Ordinal(o)) != 0 {
						t.Fatalf("%s has no texts and is ranked", m.Slug)
					}
				}
			}
		}
		differ(t, "without redacted texts", served(without), served(st))
		if without.Digest() != st.Digest() {
			t.Error("without redacted texts: another digest")
		}
	})
	if redactions < *histories {
		t.Errorf("only %d redactions in %d histories", redactions, *histories)
	}
}

// Since and Until are the truth, by serving every second around them.
func TestTimedAnswersHoldFromSinceUntilUntil(t *testing.T) {
	const look = 150 // seconds
	bounds := 0
	each(t, func(t *testing.T, seed uint64) {
		_, st := accepted(seed)
		var r api.Response
		serve := func(target string) string {
			api.Serve(st, []byte(target), 0, &r)
			return string(r.Body)
		}
		timed := []string{"/api/leaderboard?limit=500"}
		for o := range st.Rows() {
			if st.Rank(core.Ordinal(o)) > 0 {
				timed = append(timed, "/api/ring/"+st.Member(core.Ordinal(o)).Slug)
			}
		}
		now, stamp := st.Clock(), st.LastStamp()/1000
		bodies := map[string]string{}
		for _, target := range timed {
			bodies[target] = serve(target)
			if r.Validity != api.Timed || r.Since > now || r.Until <= now {
				t.Fatalf("%s at %d holds from %d until %d", target, now, r.Since, r.Until)
			}
		}
		since, until := r.Since, r.Until
		holds := func(second int64) {
			t.Helper()
			for _, target := range timed {
				if serve(target) != bodies[target] {
					t.Fatalf("%s changed at %d, within %d until %d", target, second, since, until)
				}
				if r.Since != since || r.Until != until {
					t.Fatalf("%s at %d: holds from %d until %d, at %d from %d until %d", target, second, r.Since, r.Until, now, since, until)
				}
			}
		}
		for second := now; second < until && second <= now+look; second++ {
			st.Advance(second)
			holds(second)
		}
		if until != 1<<63-1 {
			st.Advance(until - 1)
			holds(until - 1)
			st.Advance(until)
			if bounds++; serve(timed[0]) == bodies[timed[0]] || r.Since != until {
				t.Fatalf("nothing changed at until, %d (since %d)", until, r.Since)
			}
		}
		for second := now; second >= max(since, stamp) && second >= now-look; second-- {
			st.Rewind(second)
			holds(second)
		}
		if since > stamp {
			st.Rewind(since)
			holds(since)
			st.Rewind(since - 1)
			if bounds++; serve(timed[0]) == bodies[timed[0]] || r.Until != since {
				t.Fatalf("nothing changed at since, %d (until %d)", since, r.Until)
			}
		}
	})
	if bounds < *histories {
		t.Errorf("only %d bounds were met", bounds)
	}
}

func TestExactlyToTakeFirstTakesRankOneAndACentLessDoesNot(t *testing.T) {
	quotes, joins := 0, 0
	each(t, func(t *testing.T, seed uint64) {
		steps, st := accepted(seed)
		if seed%2 == 1 && st.Rules() != nil { // also where the leader's standing has decayed
			st.Advance(st.Clock() + 86400*int64(seed%100))
		}
		// The payment is stamped now, as the writer would.
		pay := func(e core.Event, texts *core.Texts) *core.State {
			after := replay(t, steps, st.Clock())
			step := NewStep(e, texts)
			if err := after.Apply(step.EventBytes, step.TextBytes); err != nil {
				t.Fatal(err)
			}
			after.Advance(0)
			return after
		}
		stamp := max(st.Clock()*1000, st.LastStamp())
		for o := range st.Rows() {
			o := core.Ordinal(o)
			cents, ok := st.ToTakeFirst(o)
			if !ok || cents > core.MaxAmount || st.Member(o).Total()+cents > core.MaxTotal {
				continue
			}
			quotes++
			bid := &core.Bid{Stamp: stamp, Member: st.Member(o).Slug, Amount: cents}
			if pay(bid, nil).Rank(o) != 1 {
				t.Fatalf("%d cents do not put %s first", cents, bid.Member)
			}
			if bid.Amount--; bid.Amount >= st.Rules().MinBid && pay(bid, nil).Rank(o) == 1 {
				t.Fatalf("%d cents would have put %s first, %d were asked", bid.Amount, bid.Member, cents)
			}
		}
		if st.Rules() == nil || st.Rows() >= capacity || st.JoinAtFirst() > core.MaxAmount {
			return
		}
		joins++
		texts := &core.Texts{Name: core.Text{Value: "New"}, URL: core.Text{Value: "https://new.example/"}}
		e := &core.Joined{Stamp: stamp, Slug: "new", Kind: core.Agent, Category: "general", Fee: st.Rules().Fee,
			Bid: st.JoinAtFirst(), Name: Commit(texts.Name), URL: Commit(texts.URL)}
		o := core.Ordinal(st.Rows())
		if pay(e, texts).Rank(o) != 1 {
			t.Fatalf("an opening bid of %d cents does not join at rank 1", e.Bid)
		}
		if e.Bid--; e.Bid >= st.Rules().MinBid && pay(e, texts).Rank(o) == 1 {
			t.Fatalf("an opening bid of %d cents would have joined at rank 1, %d were asked", e.Bid, e.Bid+1)
		}
	})
	if quotes < *histories || joins < *histories/10 {
		t.Errorf("only %d quotes and %d opening bids were tried", quotes, joins)
	}
}

func replay(t *testing.T, steps []Step, now int64) *core.State {
	t.Helper()
	st := core.NewState(capacity, 1)
	for _, step := range steps {
		if step.Event == nil {
			continue
		}
		if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
			t.Fatal(err)
		}
	}
	st.Advance(now)
	return st
}

// Whatever the bytes, Apply neither panics nor changes anything on an error.
func TestAFailedApplyLeavesTheStateAsItWas(t *testing.T) {
	failures, luck := 0, 0
	each(t, func(t *testing.T, seed uint64) {
		if seed >= uint64(*histories)/5 {
			return
		}
		asker := Asker{Rand: rand.New(rand.NewPCG(seed, 3))}
		steps, st := accepted(seed)
		before := served(st)
		for range 60 {
			step := steps[asker.IntN(len(steps))]
			event, texts := step.EventBytes, step.TextBytes // out of order, or met before
			for range asker.IntN(4) {
				switch asker.IntN(3) {
				case 0:
					event = asker.Damage(event)
				case 1:
					texts = asker.Damage(texts)
				default:
					event, texts = asker.Damage(event), asker.Damage(texts)
				}
			}
			if asker.IntN(5) == 0 {
				event = []byte(asker.garbage())
			}
			if st.Apply(event, texts) == nil {
				luck++
				st.Advance(0)
				before = served(st)
				continue
			}
			failures++
			differ(t, fmt.Sprintf("after the failed event %x with %x", event, texts), served(st), before)
		}
	})
	if failures == 0 || luck == 0 {
		t.Errorf("%d failures, %d that applied", failures, luck)
	}
}
