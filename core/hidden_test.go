package core_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// order gives the slugs of the ring in order.
func order(st *core.State) (slugs []string) {
	for _, o := range st.Select(0, nil).Append(nil, 0, st.Len()) {
		slugs = append(slugs, st.Member(o).Slug)
	}
	return slugs
}

func TestAHiddenMemberIsNowhereAndComesBackToItsPlace(t *testing.T) {
	r := coretest.NewRing(t)
	for _, slug := range []string{"a", "b", "c", "d"} {
		r.Join(slug, "https://"+slug+".example/", func(e *core.Joined, _ *core.Texts) { e.Category = "of-" + slug })
	}
	r.Bid("b", 500)
	b, _ := r.BySlug([]byte("b"))
	var scratch []byte
	before := snap.Append(nil, r.State)
	r.Hide("b")
	if got := order(r.State); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("the ring is %v", got)
	}
	c, _ := r.BySlug([]byte("c"))
	if r.Rank(b) != 0 || r.Standing(b) != 0 || r.Rank(c) != 2 || r.Position(c) != 2 || r.Len() != 3 {
		t.Errorf("rank %d standing %d; c has rank %d position %d", r.Rank(b), r.Standing(b), r.Rank(c), r.Position(c))
	}
	for _, from := range []string{"b", "b.example", "https://b.example/", "https://b.example/page"} {
		if o, ok := r.Resolve([]byte(from), &scratch); ok {
			t.Errorf("from %s is %s", from, r.Slug(o))
		}
	}
	if slices.Contains(r.Categories(), "of-b") {
		t.Errorf("categories %v", r.Categories())
	}
	if _, ok := r.ByKey([]byte("b.example")); ok {
		t.Error("its URL finds it")
	}
	if holder, ok := r.Holder([]byte("b.example")); !ok || holder != b {
		t.Error("its URL is free")
	}
	if paid, _ := r.Books(); paid != 900 || r.Member(b).Total() != 600 {
		t.Errorf("the books hold %d, it %d", paid, r.Member(b).Total())
	}
	hidden := snap.Append(nil, r.State)
	if restored, err := snap.Open(10, 1, hidden, core.Means{}); err != nil || !restored.Hidden(b) || restored.Digest() != r.Digest() {
		t.Errorf("restored: %v", err)
	}
	r.Show("b")
	if got := order(r.State); !slices.Equal(got, []string{"a", "b", "c", "d"}) || r.Rank(b) != 1 || r.Standing(b) != 600 {
		t.Errorf("the ring is %v, b has rank %d and %d", got, r.Rank(b), r.Standing(b))
	}
	// Nothing but the position and the stamp has changed.
	base := r.Base()
	if len(before) != len(snap.Append(nil, r.State)) || base.Paid != 900 {
		t.Error("another snapshot than before")
	}
	if row := r.AppendRow(nil, b); !bytes.Contains(before, row) {
		t.Errorf("its row is %x", row)
	}
}

// The clock of a hidden member's standing goes on.
func TestStandingDecaysWhileHidden(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) { e.Grace, e.Decay = 0, 1000 })
	r.Join("a", "https://a.example/")
	r.Bid("a", 900)
	r.Hide("a")
	r.Wait(498)
	r.Show("a")
	if got := r.Standing(0); got != 500 {
		t.Errorf("its standing is %d after half of the span, want 500", got)
	}
	r.Hide("a")
	r.Wait(1000)
	if r.NextChange() != 1<<63-1 {
		t.Errorf("the next change is at %d with nobody in the ring", r.NextChange())
	}
	r.Show("a")
	if r.Standing(0) != 0 || r.Rank(0) != 1 {
		t.Errorf("standing %d rank %d after the whole span", r.Standing(0), r.Rank(0))
	}
}

// What is paid for a hidden member counts: its payer has been charged.
func TestPaymentsForAHiddenMemberCount(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("a", "https://a.example/")
	r.Join("b", "https://b.example/")
	r.Hide("a")
	r.Bid("a", 700)
	if m := r.Member(0); m.Total() != 800 || r.Rank(0) != 0 || r.Rank(1) != 1 {
		t.Errorf("total %d, ranks %d and %d", m.Total(), r.Rank(0), r.Rank(1))
	}
	r.Show("a")
	if r.Standing(0) != 800 || r.Rank(0) != 1 {
		t.Errorf("standing %d rank %d", r.Standing(0), r.Rank(0))
	}
}

func TestAHiddenMemberCanBeRemoved(t *testing.T) {
	for _, redacted := range []bool{false, true} {
		r := coretest.NewRing(t)
		r.Join("a", "https://a.example/")
		r.Hide("a")
		r.Remove("a", redacted)
		if m := r.Member(0); !m.Removed || m.Hidden || m.Redacted != redacted {
			t.Errorf("%+v", m)
		}
		if _, held := r.Holder([]byte("a.example")); held {
			t.Error("its URL is not free")
		}
		r.Join("again", "https://a.example/")

		// The same with its words gone from the beginning.
		without := core.NewState(r.Capacity(), 1)
		for _, step := range r.Steps {
			if e, joined := step.Event.(*core.Joined); joined && e.Slug == "a" && redacted {
				step = step.Without()
			}
			if err := without.Apply(step.EventBytes, step.TextBytes); err != nil {
				t.Fatal(err)
			}
		}
		if without.Digest() != r.Digest() {
			t.Error("another digest")
		}
	}
}

// The bare host goes to the next in line when the member at the root is hidden, and
// back to it, in any order of hiding and showing.
func TestABareHostWithHiddenMembers(t *testing.T) {
	r := coretest.NewRing(t)
	slugs := []string{"root", "first", "second", "deep"}
	for i, path := range []string{"", "x", "y", "a/b"} {
		r.Join(slugs[i], "https://ada.dev/"+path)
	}
	var scratch []byte
	for hidden := range 1 << len(slugs) {
		for _, back := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
			for i, slug := range slugs {
				if hidden>>i&1 == 1 {
					r.Hide(slug)
				}
			}
			gone := hidden
			check := func() {
				t.Helper()
				want := ""
				for i, slug := range slugs {
					if want == "" && gone>>i&1 == 0 {
						want = slug
					}
				}
				o, ok := r.Resolve([]byte("ada.dev"), &scratch)
				if ok != (want != "") || ok && r.Slug(o) != want {
					t.Fatalf("with %04b hidden, ada.dev is %d %t, want %q", gone, o, ok, want)
				}
			}
			check()
			for _, i := range back {
				if gone>>i&1 == 1 {
					r.Show(slugs[i])
					gone &^= 1 << i
					check()
				}
			}
		}
	}
}

// A member cannot come back into a category that had to close for it, when as many
// others as there can be have opened.
func TestShowingNeedsRoomForItsCategory(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("a", "https://a.example/", func(e *core.Joined, _ *core.Texts) { e.Category = "lost" })
	r.Hide("a")
	for i := range 4 * core.MaxCategories {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://h%d.example/", i), func(e *core.Joined, _ *core.Texts) { e.Category = fmt.Sprint("c", i) })
	}
	refuse(t, r.State, "there is no room", coretest.NewStep(&core.Shown{Stamp: r.Stamp, Member: "a"}, nil), core.ErrCategories)
	r.Hide("m7")
	r.Show("a")
	if r.Len() != 4*core.MaxCategories {
		t.Errorf("%d members", r.Len())
	}
}
