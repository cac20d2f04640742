package core_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// Whatever sleeps, one member here and there or most of the ring in a row, traversal leads
// to the nearest that is awake and matches, from sleeping members, too, and to each with
// the same probability.
func TestTraversalPassesOverSleepingMembers(t *testing.T) {
	const seed, members = 53, 3000
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	r := coretest.NewRing(t)
	for i := range members {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/", i), func(e *core.Joined, _ *core.Texts) {
			e.Kind, e.Category = core.Kind(1+random.IntN(3)), fmt.Sprint("c", random.IntN(3))
		})
	}
	fall := func(from, to int) {
		for i := from; i < to; i++ {
			if m := r.Member(core.Ordinal(i)); !m.Asleep && !m.Removed {
				r.Do(&core.Asleep{Member: fmt.Sprint("m", i)}, nil)
			}
		}
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"nobody sleeps", func() {}},
		{"some sleep", func() {
			for range 200 {
				i := random.IntN(members)
				fall(i, i+1)
			}
		}},
		{"some are hidden, and others removed", func() {
			for i := 5; i < members; i += 97 {
				r.Hide(fmt.Sprint("m", i))
				r.Remove(fmt.Sprint("m", i+3), false)
			}
		}},
		{"a long row sleeps", func() { fall(500, 510); fall(700, 1900) }},
		{"both ends sleep", func() { fall(0, 70); fall(2950, members) }},
		{"two are awake", func() { fall(70, 1000); fall(1001, 2000); fall(2001, 2950) }},
		{"one is awake", func() { fall(2000, 2001) }},
		{"all sleep", func() { fall(1000, 1001) }},
		{"one has woken", func() { r.Do(&core.Awake{Member: "m42"}, nil) }},
		{"the rules lead to all", func() { r.Rules(func(e *core.Rules) { e.VisitAsleep = true }) }},
	} {
		for i := 5; i < members && step.what == "a long row sleeps"; i += 97 {
			r.Show(fmt.Sprint("m", i)) // some of those that sleep now were hidden before
		}
		step.do()
		restored, err := snap.Open(members, 1, snap.Append(nil, r.State), core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range []*core.State{r.State, restored} {
			walkEverywhere(t, step.what, st, random)
		}
	}
}

// walkEverywhere compares all traversal with what its definition says.
func walkEverywhere(t *testing.T, what string, st *core.State, random *rand.Rand) {
	t.Helper()
	for kind := range core.Kind(4) {
		for _, category := range []string{"", "c0", "c2", "unused"} {
			l, w := st.Select(kind, []byte(category)), st.Walk(kind, []byte(category))
			all := l.Append(nil, 0, l.Len())
			awake := slices.DeleteFunc(slices.Clone(all), func(o core.Ordinal) bool { return st.Member(o).Asleep })
			if len(awake) == 0 || st.Rules().VisitAsleep {
				awake = all
			}
			if w.Len() != len(awake) {
				t.Fatalf("%s, kind %d in %q: %d to go to, want %d", what, kind, category, w.Len(), len(awake))
			}
			if len(awake) == 0 {
				continue
			}
			for i := range min(len(awake), 50) {
				i = i * len(awake) / min(len(awake), 50)
				if w.At(i) != awake[i] {
					t.Fatalf("%s, kind %d in %q: place %d is %d, want %d", what, kind, category, i, w.At(i), awake[i])
				}
			}
			for at := range st.Rows() + 2 {
				if category != "" && at%7 > 0 {
					continue
				}
				o := core.Ordinal(at)
				i, in := slices.BinarySearch(awake, o)
				prev := awake[(i+len(awake)-1)%len(awake)]
				if in {
					i++
				}
				next := awake[i%len(awake)]
				if got, ok := w.After(o); !ok || got != next {
					t.Fatalf("%s, kind %d in %q: after %d is %d, want %d", what, kind, category, o, got, next)
				}
				if got, ok := w.Before(o); !ok || got != prev {
					t.Fatalf("%s, kind %d in %q: before %d is %d, want %d", what, kind, category, o, got, prev)
				}
				if kind == 0 && category == "" && at < st.Rows() && (st.Next(o) != next || st.Prev(o) != prev) {
					t.Fatalf("%s: around %d are %d and %d, want %d and %d", what, o, st.Prev(o), st.Next(o), prev, next)
				}
				if at%31 == 0 {
					drawn := random.Uint64()
					others := slices.DeleteFunc(slices.Clone(awake), func(other core.Ordinal) bool { return other == o && len(awake) > 1 })
					got, _ := w.RandomOther(drawn, o)
					if i, _ := bits.Mul64(drawn, uint64(len(others))); got != others[i] {
						t.Fatalf("%s, kind %d in %q: %x draws %d, want %d", what, kind, category, drawn, got, others[i])
					}
				}
			}
		}
	}
}
