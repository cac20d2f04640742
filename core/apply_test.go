package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

// everything is all that a state shows, what is derived included.
func everything(st *core.State) string {
	st.Advance(0)
	var s strings.Builder
	fmt.Fprintln(&s, st.Seq(), st.Clock(), st.LastStamp(), st.Rows(), st.Len(), st.Categories(), st.Rules())
	paid, voided := st.Books()
	fmt.Fprintln(&s, paid, voided, st.AppendRanked(nil, 0, st.Len()), st.ChangedAt(), st.NextChange(), st.Digest())
	for kind := range core.Website + 1 {
		for _, category := range append([]string{"", "unused"}, st.Categories()...) {
			l := st.Select(kind, []byte(category))
			fmt.Fprintln(&s, l.Append(nil, 0, l.Len()))
		}
	}
	for o := range core.Ordinal(st.Rows()) {
		m := st.Member(o)
		at, ok := st.BySlug([]byte(m.Slug))
		site, lives := st.ByKey(core.AppendKey(nil, []byte(m.URL)))
		fmt.Fprintf(&s, "%+v %x %d %t %d %t %d %d\n", m, st.AppendRow(nil, o), at, ok, site, lives, st.Rank(o), st.Standing(o))
	}
	return s.String()
}

// refuse applies what must not apply, and checks that nothing changed.
func refuse(t *testing.T, st *core.State, rule string, step coretest.Step, want error) {
	t.Helper()
	before := everything(st)
	if err := st.Apply(step.EventBytes, step.TextBytes); !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", rule, err, want)
	}
	if after := everything(st); after != before {
		t.Errorf("%s: the state was %s, and is %s", rule, before, after)
	}
}

// joining is a registration that fits its texts.
func joining(stamp int64, slug, url string, edit ...func(*core.Joined, *core.Texts)) coretest.Step {
	e := &core.Joined{Stamp: stamp, Slug: slug, Kind: core.Agent, Category: "general", Fee: 100}
	texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: url}}
	for _, f := range edit {
		f(e, texts)
	}
	e.Name, e.URL = coretest.Commit(texts.Name), coretest.Commit(texts.URL)
	return coretest.NewStep(e, texts)
}

func TestWhatCannotApplyIsRefusedAndChangesNothing(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	now, st := r.Stamp, r.State
	refuse(t, st, "rules do not go back", coretest.NewStep(&core.Rules{Stamp: 1, Name: "n", BaseURL: "b", MinBid: 1, Decay: 1}, nil), core.ErrStampOrder)
	refuse(t, st, "only a registration has texts", coretest.Step{EventBytes: coretest.NewStep(&core.Bid{Stamp: now, Member: "one", Amount: 100}, nil).EventBytes, TextBytes: []byte{0}}, core.ErrTexts)
	refuse(t, st, "no bytes are no event", coretest.Step{}, core.ErrEvent)

	long := strings.Repeat("ü", core.MaxDescription)
	for rule, edit := range map[string]func(*core.Joined, *core.Texts){
		"a name":                      func(_ *core.Joined, texts *core.Texts) { texts.Name.Value = "" },
		"a name of 80 at most":        func(_ *core.Joined, texts *core.Texts) { texts.Name.Value = strings.Repeat("ü", core.MaxName+1) },
		"a URL":                       func(_ *core.Joined, texts *core.Texts) { texts.URL.Value = "" },
		"a URL that is one":           func(_ *core.Joined, texts *core.Texts) { texts.URL.Value = "two.example" },
		"a canonical URL":             func(_ *core.Joined, texts *core.Texts) { texts.URL.Value = "https://TWO.example/" },
		"a canonical URL, unescaped":  func(_ *core.Joined, texts *core.Texts) { texts.URL.Value = "https://two.example/%61" },
		"a URL of 300 at most":        func(_ *core.Joined, texts *core.Texts) { texts.URL.Value = "https://two.example/" + note(300) },
		"a description that is there": func(e *core.Joined, _ *core.Texts) { e.Description = core.Commitment{1} },
		"a description committed to":  func(_ *core.Joined, texts *core.Texts) { texts.Description.Value = "d" },
		"a description of 300 at most": func(e *core.Joined, texts *core.Texts) {
			texts.Description.Value = long + "ü"
			e.Description = core.Commitment{1}
		},
		"a report that is there": func(e *core.Joined, _ *core.Texts) { e.Report = core.Commitment{1} },
		"a report committed to":  func(_ *core.Joined, texts *core.Texts) { texts.Report.Value = "r" },
		"a report of 2048 at most": func(e *core.Joined, texts *core.Texts) {
			texts.Report.Value = note(core.MaxReport + 1)
			e.Report = core.Commitment{1}
		},
	} {
		refuse(t, st, "a registration needs "+rule, joining(now, "two", "https://two.example/", edit), core.ErrTexts)
	}
	broken := joining(now, "two", "https://two.example/")
	broken.TextBytes = broken.TextBytes[:len(broken.TextBytes)-1]
	refuse(t, st, "texts are whole", broken, core.ErrTexts)

	// At the limits it joins.
	r.Join("two", "https://two.example/"+note(300-len("https://two.example/")), func(_ *core.Joined, texts *core.Texts) {
		texts.Name.Value, texts.Description.Value, texts.Report.Value = strings.Repeat("ü", core.MaxName), long, note(core.MaxReport)
	})
}

func TestATotalStaysWithinItsLimit(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/", func(e *core.Joined, _ *core.Texts) { e.Fee, e.Bid = core.MaxAmount, core.MaxAmount })
	for r.Member(0).Total()+core.MaxAmount <= core.MaxTotal {
		r.Bid("one", core.MaxAmount)
	}
	left := core.MaxTotal - r.Member(0).Total()
	refuse(t, r.State, "total", coretest.NewStep(&core.Bid{Stamp: r.Stamp, Member: "one", Amount: left + 1}, nil), core.ErrTotal)
	refuse(t, r.State, "total by credit", coretest.NewStep(&core.Adjusted{Stamp: r.Stamp, Adjustment: core.Credit, Member: "one", Amount: left + 1}, nil), core.ErrTotal)
	r.Bid("one", left)
	// The highest total decays without overflow.
	r.Wait(30*86400 + 45*86400 - 1)
	if got := r.Standing(0); got != core.MaxTotal/2 {
		t.Errorf("half way down it stands at %d", got)
	}
}

func TestCategoriesFoldBeyondTheLimitThatIsPromised(t *testing.T) {
	r := coretest.NewRing(t)
	for i := range core.MaxCategories {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/", i), func(e *core.Joined, _ *core.Texts) { e.Category = fmt.Sprint("c", i) })
	}
	// A registration that was promised under the limit still applies.
	r.Join("promised", "https://promised.example/", func(e *core.Joined, _ *core.Texts) { e.Category = "new" })
	r.Remove("promised", false)
	r.Remove("m0", false)
	if len(r.Categories()) != core.MaxCategories-1 || r.Select(0, []byte("c0")).Len() != 0 {
		t.Error("a category in which nobody is left is in use")
	}
}

func TestStampsRaiseTheClockAndEarlierOnesAreTaken(t *testing.T) {
	r := coretest.NewRing(t)
	if r.Clock() != coretest.Start || r.LastStamp() != coretest.Start*1000 || r.Seq() != 1 {
		t.Errorf("clock %d stamp %d seq %d", r.Clock(), r.LastStamp(), r.Seq())
	}
	r.Advance(coretest.Start + 100)
	r.Join("one", "https://one.example/")
	if r.Clock() != coretest.Start+100 || r.LastStamp() != coretest.Start*1000+1000 {
		t.Errorf("an earlier stamp: clock %d stamp %d", r.Clock(), r.LastStamp())
	}
	r.Stamp = (coretest.Start+200)*1000 + 999
	r.Bid("one", 100)
	if r.Clock() != coretest.Start+200 {
		t.Errorf("a later stamp: clock %d", r.Clock())
	}
	r.Advance(coretest.Start)
	if r.Clock() != coretest.Start+200 {
		t.Errorf("the clock went back to %d", r.Clock())
	}
	r.Rewind(0)
	if r.Clock() != coretest.Start+200 {
		t.Errorf("the clock went back before the last event, to %d", r.Clock())
	}
}

// What was applied is the caller's again, whatever becomes of it.
func TestNothingInAStateAliasesWhatWasApplied(t *testing.T) {
	r := coretest.NewRing(t)
	for i := range 3 {
		r.Join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://%d.example/", i), func(e *core.Joined, texts *core.Texts) {
			e.Category, e.Bid = fmt.Sprintf("category-%d", i), 100
			e.Payment = core.Payment{Method: "tempo", Network: "tempo", Transaction: "0x1", Payer: "0x2"}
			e.Score = core.Score{Given: true, Value: 50, Provider: "provider", Version: "1", ScannedAt: 1}
			texts.Description.Value, texts.Report.Value = "what it is for", "https://report.example/"
		})
	}
	r.Bid("member-1", 200)
	r.Remove("member-2", false)
	st := core.NewState(10, 1)
	for i, step := range r.Steps {
		event, texts := slices.Clone(step.EventBytes), slices.Clone(step.TextBytes)
		if err := st.Apply(event, texts); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{event, texts} {
			for at := range b {
				b[at] = 'x'
			}
		}
		if i == 1 {
			refuse(t, st, "a slug is given once", step, core.ErrSlugTaken)
		}
	}
	st.Advance(r.Clock())
	if got, want := everything(st), everything(r.State); got != want {
		t.Errorf("the state is %s, want %s", got, want)
	}
}

// Registrations and bids leave nothing for the collector: in the module there is no other
// work for it.
func TestJoinsAndBidsAllocateNothing(t *testing.T) {
	const runs = 100
	st := core.NewState(3*runs, 1)
	st.Expect(3*runs, 300*3*runs)
	opened := coretest.NewRing(t).Steps[0]
	if err := st.Apply(opened.EventBytes, nil); err != nil {
		t.Fatal(err)
	}
	st.Advance(coretest.Start)
	n := 0
	var steps []coretest.Step
	for i := range 2*runs + 2 {
		slug := fmt.Sprintf("member-%d", i)
		steps = append(steps, joining(coretest.Start*1000, slug, "https://"+slug+".example/path", func(e *core.Joined, texts *core.Texts) {
			texts.Description.Value, e.Description = "ü", coretest.Commit(core.Text{Value: "ü"})
		}),
			coretest.NewStep(&core.Bid{Stamp: coretest.Start * 1000, Member: slug, Amount: 100}, nil))
	}
	apply := func() {
		for _, step := range steps[2*n : 2*n+2] {
			if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
				t.Fatal(err)
			}
			st.Advance(coretest.Start)
		}
		n++
	}
	for range runs { // what is kept from event to event has its size by then
		apply()
	}
	if allocs := testing.AllocsPerRun(runs, apply); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
