package core_test

import (
	"fmt"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

func named(name string) *core.Texts { return &core.Texts{Name: core.Text{Value: name}} }

func at(url string) *core.Texts { return &core.Texts{URL: core.Text{Value: url}} }

// owning is a step with the commitments to its texts, unless they are lies.
func owning(e core.Event, t *core.Texts) coretest.Step {
	if t != nil {
		c := core.CommitmentsOf(e).All()
		for i, text := range [...]core.Text{t.Name, t.URL, t.Description, t.Report} {
			if c[i] != nil && text.Value != "" {
				*c[i] = coretest.Commit(text)
			}
		}
	}
	return coretest.NewStep(e, t)
}

// Words that do not fit their event are refused. The model of package coretest does not cover
// them.
func TestWordsThatDoNotFitTheirEventAreRefused(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	now, st := r.Stamp, r.State
	for rule, step := range map[string]coretest.Step{
		"a URL is canonical":            owning(&core.Moved{Stamp: now, Member: "one"}, at("https://ONE.example/")),
		"a name has 80 at most":         owning(&core.Changed{Stamp: now, Member: "one"}, named(strings.Repeat("ü", core.MaxName+1))),
		"a description has 300 at most": owning(&core.Changed{Stamp: now, Member: "one"}, &core.Texts{Description: core.Text{Value: strings.Repeat("ü", core.MaxDescription+1)}}),
		"a report has 2048 at most":     owning(&core.Moved{Stamp: now, Member: "one"}, &core.Texts{URL: core.Text{Value: "https://a.example/"}, Report: core.Text{Value: note(core.MaxReport + 1)}}),
		"a change has no URL":           owning(&core.Changed{Stamp: now, Member: "one"}, &core.Texts{Name: core.Text{Value: "n"}, URL: core.Text{Value: "https://a.example/"}}),
		"a move has no name":            owning(&core.Moved{Stamp: now, Member: "one"}, &core.Texts{Name: core.Text{Value: "n"}, URL: core.Text{Value: "https://a.example/"}}),
		"what is committed to is there": owning(&core.Changed{Stamp: now, Member: "one", Description: core.Commitment{1}}, named("n")),
		"a change of no words has none": owning(&core.Changed{Stamp: now, Member: "one", Kind: core.Agent}, &core.Texts{}),
		"a claim has no words":          owning(&core.Claimed{Stamp: now, Member: "one", Owner: core.Account{1}, Proof: core.ByDNS}, named("n")),
	} {
		refuse(t, st, rule, step, core.ErrTexts)
	}
}

// However often a member changes, the rows do not grow without end, although its row moves about
// in memory.
func TestChangesTakeNoMemoryForEver(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	r.Join("two", "https://two.example/")
	var scratch []byte
	for i := range 300 {
		r.Do(&core.Changed{Member: "two"}, named(strings.Repeat("x", 1+i%80)))
		if o, ok := r.Resolve([]byte("https://two.example/page"), &scratch); !ok || o != 1 {
			t.Fatalf("found %d %t", o, ok)
		}
	}
	if size := r.RowsSize(); size > 3<<10 {
		t.Errorf("the rows of two members take %d bytes", size)
	}
}

// As many categories as there can be stop a change into a further one, but not a change
// that opens none.
func TestAChangeNeedsRoomForItsCategory(t *testing.T) {
	r := coretest.NewRing(t)
	for i := range 4 * core.MaxCategories {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://h%d.example/", i), func(e *core.Joined, _ *core.Texts) { e.Category = fmt.Sprint("c", i) })
	}
	refuse(t, r.State, "there is no room", owning(&core.Changed{Stamp: r.Stamp, Member: "m1", Category: "new"}, nil), core.ErrCategories)
	r.Do(&core.Changed{Member: "m1", Category: "c2"}, nil)
	r.Do(&core.Changed{Member: "m3", Category: "new"}, nil)
	if r.Select(0, []byte("c2")).Len() != 2 || r.Select(0, []byte("c1")).Len() != 0 {
		t.Error("the change is not in the lists")
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
