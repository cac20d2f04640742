package core_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// A ring that grows through many sizes of its memory, with members that share
// hosts, leave and decay, is at any time what its definition says, and what its
// own snapshot restores.
func TestAGrowingRingIsWhatItsRowsSay(t *testing.T) {
	const seed = 41
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	r := coretest.NewRing(t, func(e *core.Rules) { e.Grace, e.Decay = 300, 4000 })
	var slugs []string
	hidden, asleep := map[string]bool{}, map[string]bool{}
	check := func() {
		t.Helper()
		b := snap.Append(nil, r.State)
		restored, err := snap.Open(1<<20, random.Uint64(), b, core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		restored.Advance(r.Clock())
		for _, st := range []*core.State{r.State, restored} {
			sound(t, st)
			if st.ChangedAt() != r.ChangedAt() || st.NextChange() != r.NextChange() || st.Digest() != r.Digest() {
				t.Fatalf("holds from %d until %d, want %d until %d", st.ChangedAt(), st.NextChange(), r.ChangedAt(), r.NextChange())
			}
		}
		if !slices.Equal(snap.Append(nil, restored), b) {
			t.Fatal("another snapshot")
		}
	}
	for i := range 2500 {
		slug := fmt.Sprint("m", i)
		r.Join(slug, fmt.Sprintf("https://h%d.example/%s%d", random.IntN(1+i/3), strings.Repeat("x/", random.IntN(3)), i), func(e *core.Joined, texts *core.Texts) {
			e.Kind, e.Category = core.Kind(1+random.IntN(3)), fmt.Sprint("c", random.IntN(40))
			e.Bid = random.Int64N(3) * 250
			if i%7 == 0 {
				texts.Description.Value = "A description that makes rows long, here and there."
			}
		})
		slugs = append(slugs, slug)
		if at := random.IntN(len(slugs)); random.IntN(3) == 0 {
			r.Bid(slugs[at], 100+random.Int64N(900))
		} else if random.IntN(8) == 0 {
			r.Remove(slugs[at], random.IntN(2) == 0)
			slugs = slices.Delete(slugs, at, at+1)
		}
		if len(slugs) > 0 && random.IntN(2) == 0 {
			slug := slugs[random.IntN(len(slugs))]
			switch random.IntN(4) {
			case 0:
				r.Do(&core.Changed{Member: slug, Category: fmt.Sprint("c", random.IntN(40)), Kind: core.Kind(1 + random.IntN(3))},
					&core.Texts{Description: core.Text{Value: strings.Repeat("changed ", 1+random.IntN(20))}})
			case 1:
				asleep[slug] = false
				r.Do(&core.Moved{Member: slug}, &core.Texts{URL: core.Text{Value: fmt.Sprintf("https://h%d.example/moved/%d", random.IntN(1+i/3), i)}})
			case 2:
				r.Do(&core.Verified{Member: slug, Proof: core.ByLink}, nil)
				r.Do(&core.Claimed{Member: slug, Owner: core.Account{1, 19: byte(i)}, Proof: core.ByFile}, nil)
			case 3:
				if asleep[slug] = !asleep[slug]; asleep[slug] {
					r.Do(&core.Asleep{Member: slug}, nil)
				} else {
					r.Do(&core.Awake{Member: slug}, nil)
				}
			}
		}
		if len(slugs) > 0 && random.IntN(3) == 0 {
			slug := slugs[random.IntN(len(slugs))]
			if hidden[slug] {
				r.Show(slug)
			} else {
				r.Hide(slug)
			}
			hidden[slug] = !hidden[slug]
		}
		if random.IntN(50) == 0 {
			r.Wait(random.Int64N(100))
		}
		if i < 3 || i%499 == 0 {
			check()
		}
	}
	check()
	// Bid on the member that changed last, until no standing has decayed: the
	// seconds of changes that are known run out, and are found anew.
	for range 3 {
		for r.ChangedAt() > 0 {
			stamp := r.Clock() * 1000
			changed := r.ChangedAt()
			for _, slug := range slugs {
				o, _ := r.BySlug([]byte(slug))
				if m := r.Member(o); !m.Hidden && m.Bids > 0 && r.Standing(o) < m.Total() {
					r.Stamp = stamp
					step := coretest.NewStep(&core.Bid{Stamp: stamp, Member: slug, Amount: 1}, nil)
					if err := r.Apply(step.EventBytes, nil); err != nil {
						t.Fatal(err)
					}
					if r.Advance(0); r.ChangedAt() != changed {
						changed = r.ChangedAt()
						if restored, err := snap.Open(1<<20, 1, snap.Append(nil, r.State), core.Means{}); err != nil {
							t.Fatal(err)
						} else if restored.Advance(r.Clock()); restored.ChangedAt() != changed {
							t.Fatalf("changed at %d, want %d", changed, restored.ChangedAt())
						}
					}
				}
			}
		}
		r.Wait(700)
		check()
	}
}

// sound checks all that a state finds, lists and ranks against what its rows say.
func sound(t *testing.T, st *core.State) {
	t.Helper()
	type list struct {
		kind     core.Kind
		category string
	}
	var ring []core.Ordinal
	lists := map[list][]core.Ordinal{}
	hosts, depths := map[string]core.Ordinal{}, map[string]int{}
	for o := range core.Ordinal(st.Rows()) {
		m := st.Member(o)
		if at, ok := st.BySlug([]byte(m.Slug)); !ok || at != o {
			t.Fatalf("%s is not found", m.Slug)
		}
		if m.URL != "" && !m.Removed {
			if holder, ok := st.Holder(core.AppendKey(nil, []byte(m.URL))); !ok || holder != o {
				t.Fatalf("%s is not held", m.URL)
			}
		}
		if m.Removed || m.Hidden {
			if _, ok := st.ByKey(core.AppendKey(nil, []byte(m.URL))); m.Hidden && ok || st.Rank(o) != 0 {
				t.Fatalf("%s is in the ring", m.Slug)
			}
			continue
		}
		if ring = append(ring, o); st.Position(o) != len(ring) {
			t.Fatalf("%s has the position %d, want %d", m.Slug, st.Position(o), len(ring))
		}
		for _, in := range []list{{0, ""}, {m.Kind, ""}, {0, m.Category}, {m.Kind, m.Category}} {
			lists[in] = append(lists[in], o)
		}
		key := core.AppendKey(nil, []byte(m.URL))
		if at, ok := st.ByKey(key); !ok || at != o {
			t.Fatalf("%s is not found", m.URL)
		}
		host, depth := string(core.KeyHost(key)), bytes.Count(key, []byte("/"))
		if _, in := hosts[host]; !in || depth < depths[host] {
			hosts[host], depths[host] = o, depth
		}
	}
	var scratch []byte
	for host, want := range hosts {
		if o, ok := st.Resolve([]byte(host), &scratch); !ok || o != want {
			t.Fatalf("%s is %d %t, want %d", host, o, ok, want)
		}
	}
	for _, category := range append([]string{""}, st.Categories()...) {
		for kind := range core.Kind(4) {
			if l := st.Select(kind, []byte(category)); !slices.Equal(l.Append(nil, 0, l.Len()), lists[list{kind, category}]) {
				t.Fatalf("another list of kind %d in %q", kind, category)
			}
		}
	}
	walk := st.Walk(0, nil)
	awake := slices.DeleteFunc(slices.Clone(ring), func(o core.Ordinal) bool { return st.Member(o).Asleep })
	if len(awake) == 0 {
		awake = ring
	}
	for _, o := range ring {
		i, _ := slices.BinarySearch(awake, o+1)
		if next, _ := walk.After(o); next != awake[i%len(awake)] || st.Next(o) != next {
			t.Fatalf("after %d is %d", o, next)
		}
	}
	slices.SortFunc(ring, func(a, b core.Ordinal) int {
		return cmp.Or(cmp.Compare(st.Standing(b), st.Standing(a)), cmp.Compare(a, b))
	})
	if got := st.AppendRanked(nil, 0, st.Len()); !slices.Equal(got, ring) {
		t.Fatal("another order")
	}
	for i, o := range ring {
		if st.Rank(o) != i+1 {
			t.Fatalf("%d has the rank %d, want %d", o, st.Rank(o), i+1)
		}
	}
}
