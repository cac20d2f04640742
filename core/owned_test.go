package core_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// ownedRing has members of which one is removed and one hidden.
func ownedRing(t *testing.T) *coretest.Ring {
	r := coretest.NewRing(t)
	for _, slug := range []string{"one", "two", "gone", "hidden"} {
		r.Join(slug, "https://"+slug+".example/", func(e *core.Joined, texts *core.Texts) {
			e.Payment.Payer, texts.Description.Value = "0x00000000000000000000000000000000000000aa", "What it is for"
		})
	}
	r.Remove("gone", false)
	r.Hide("hidden")
	return r
}

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

func TestWhatAnOwnerCannotDoIsRefusedAndChangesNothing(t *testing.T) {
	r := ownedRing(t)
	r.Do(&core.Asleep{Member: "two"}, nil)
	r.Do(&core.Verified{Member: "two", Proof: core.ByLink}, nil)
	now, st := r.Stamp, r.State
	for _, e := range []core.Event{
		&core.Claimed{Stamp: now, Owner: core.Account{1}, Proof: core.ByFile}, &core.Changed{Stamp: now, Kind: core.Agent}, &core.Moved{Stamp: now, URL: core.Commitment{1}},
		&core.Left{Stamp: now}, &core.Departed{Stamp: now}, &core.Verified{Stamp: now, Proof: core.ByLink}, &core.Unverified{Stamp: now}, &core.Asleep{Stamp: now}, &core.Awake{Stamp: now},
	} {
		for slug, want := range map[string]error{"nobody": core.ErrUnknown, "gone": core.ErrRemoved} {
			refuse(t, st, fmt.Sprintf("%T of %s", e, slug), coretest.NewStep(about(e, slug), nil), want)
		}
	}
	for rule, c := range map[string]struct {
		step coretest.Step
		want error
	}{
		"a proof is noted once":            {owning(&core.Verified{Stamp: now, Member: "two", Proof: core.ByLink}, nil), core.ErrVerified},
		"what was not verified cannot end": {owning(&core.Unverified{Stamp: now, Member: "one"}, nil), core.ErrUnverified},
		"nobody falls asleep twice":        {owning(&core.Asleep{Stamp: now, Member: "two"}, nil), core.ErrAsleep},
		"only sleeping members wake":       {owning(&core.Awake{Stamp: now, Member: "one"}, nil), core.ErrAwake},
		"only free URLs are moved to":      {owning(&core.Moved{Stamp: now, Member: "one"}, at("http://www.two.example/index.html")), core.ErrURLTaken},
		"hidden members keep theirs":       {owning(&core.Moved{Stamp: now, Member: "one"}, at("https://hidden.example")), core.ErrURLTaken},
		"a URL is canonical":               {owning(&core.Moved{Stamp: now, Member: "one"}, at("https://ONE.example/")), core.ErrTexts},
		"a name has 80 at most":            {owning(&core.Changed{Stamp: now, Member: "one"}, named(strings.Repeat("ü", core.MaxName+1))), core.ErrTexts},
		"a description has 300 at most":    {owning(&core.Changed{Stamp: now, Member: "one"}, &core.Texts{Description: core.Text{Value: strings.Repeat("ü", core.MaxDescription+1)}}), core.ErrTexts},
		"a report has 2048 at most":        {owning(&core.Moved{Stamp: now, Member: "one"}, &core.Texts{URL: core.Text{Value: "https://a.example/"}, Report: core.Text{Value: note(core.MaxReport + 1)}}), core.ErrTexts},
		"a change has no URL":              {owning(&core.Changed{Stamp: now, Member: "one"}, &core.Texts{Name: core.Text{Value: "n"}, URL: core.Text{Value: "https://a.example/"}}), core.ErrTexts},
		"a move has no name":               {owning(&core.Moved{Stamp: now, Member: "one"}, &core.Texts{Name: core.Text{Value: "n"}, URL: core.Text{Value: "https://a.example/"}}), core.ErrTexts},
		"what is committed to is there":    {owning(&core.Changed{Stamp: now, Member: "one", Description: core.Commitment{1}}, named("n")), core.ErrTexts},
		"a change of no words has none":    {owning(&core.Changed{Stamp: now, Member: "one", Kind: core.Agent}, &core.Texts{}), core.ErrTexts},
		"a claim has no words":             {owning(&core.Claimed{Stamp: now, Member: "one", Owner: core.Account{1}, Proof: core.ByDNS}, named("n")), core.ErrTexts},
		"stamps do not go back for owners": {owning(&core.Left{Stamp: now - 1001, Member: "one"}, nil), core.ErrStampOrder},
	} {
		refuse(t, st, rule, c.step, c.want)
	}
	empty := core.NewState(10, 1)
	refuse(t, empty, "rules come first", owning(&core.Left{Member: "one"}, nil), core.ErrNotOpened)
}

// about gives an event of owned.go a member.
func about(e core.Event, slug string) core.Event {
	reflect.ValueOf(e).Elem().FieldByName("Member").SetString(slug)
	return e
}

// A change keeps all that it does not name; the categories follow, and hidden members are
// changed out of sight.
func TestAChangeKeepsWhatItDoesNotName(t *testing.T) {
	r := ownedRing(t)
	r.Bid("two", 500)
	two, _ := r.BySlug([]byte("two"))
	before := r.Member(two)
	before.Name, before.Description = strings.Clone(before.Name), strings.Clone(before.Description)
	r.Do(&core.Changed{Member: "two", Category: "tools"}, nil)
	want := before
	want.Category, want.Changed = "tools", r.Stamp-1000
	if got := r.Member(two); got.Name != before.Name || got.Description != before.Description || got.Category != "tools" || got.Changed != want.Changed || got.Total() != before.Total() {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.Categories(); !slices.Equal(got, []string{"general", "tools"}) || r.Rank(two) != 1 || r.Position(two) != 2 {
		t.Errorf("categories %v, rank %d, position %d", got, r.Rank(two), r.Position(two))
	}
	r.Do(&core.Changed{Member: "two", Kind: core.MCP}, &core.Texts{Name: core.Text{Value: "A much longer name than that with which it joined"}})
	r.Do(&core.Changed{Member: "two", Cleared: true}, nil)
	r.Do(&core.Changed{Member: "hidden", Category: "unseen"}, named("H"))
	if m := r.Member(two); m.Description != "" || m.Kind != core.MCP || !strings.HasPrefix(m.Name, "A much") || m.URL != "https://two.example/" {
		t.Errorf("%+v", m)
	}
	if l := r.Select(core.MCP, []byte("tools")); l.Len() != 1 || l.At(0) != two || slices.Contains(r.Categories(), "unseen") {
		t.Errorf("%d MCP servers among the tools; categories %v", l.Len(), r.Categories())
	}
	r.Show("hidden")
	if hidden, _ := r.BySlug([]byte("hidden")); r.Member(hidden).Name != "H" || r.Select(0, []byte("unseen")).Len() != 1 {
		t.Errorf("%+v", r.Member(hidden))
	}
	var scratch []byte
	for i := range 300 { // the row moves about in memory, which must not grow without end
		r.Do(&core.Changed{Member: "two"}, named(strings.Repeat("x", 1+i%80)))
		if o, ok := r.Resolve([]byte("https://two.example/page"), &scratch); !ok || o != two {
			t.Fatalf("found %d %t", o, ok)
		}
	}
	if size := r.RowsSize(); size > 6<<10 {
		t.Errorf("the rows of four members take %d bytes", size)
	}
}

// A member that moves keeps slug, money and rank, and nothing proves or disproves its new
// site. Its old URL is free.
func TestAMoveKeepsEverythingButTheURL(t *testing.T) {
	r := ownedRing(t)
	r.Join("below", "https://two.example/~one", func(e *core.Joined, _ *core.Texts) { e.Payment.Payer = "0x00000000000000000000000000000000000000bb" })
	r.Bid("two", 500)
	two, _ := r.BySlug([]byte("two"))
	below, _ := r.BySlug([]byte("below"))
	r.Do(&core.Claimed{Member: "two", Owner: core.Account{7: 7, 19: 1}, Proof: core.ByDNS}, nil)
	r.Do(&core.Asleep{Member: "two"}, nil)
	finds := func(from string) string {
		var scratch []byte
		o, ok := r.Resolve([]byte(from), &scratch)
		if !ok {
			return ""
		}
		return r.Slug(o)
	}
	// The host of the one below is the same as the other's; the account differs.
	if finds("two.example") != "two" || finds("https://two.example/~one/page") != "two" {
		t.Errorf("two.example is %q, the page %q", finds("two.example"), finds("https://two.example/~one/page"))
	}
	r.Do(&core.Moved{Member: "two", Score: core.Score{Given: true, Value: 77, Provider: "p"}}, &core.Texts{URL: core.Text{Value: "https://new.example/a"}, Report: core.Text{Value: "https://scores.example/2"}})
	m := r.Member(two)
	if m.URL != "https://new.example/a" || m.Score.Value != 77 || m.Report != "https://scores.example/2" || m.Proof != 0 || m.Asleep || m.HealthSince != r.Stamp-1000 ||
		m.Changed != r.Stamp-1000 || m.Owner != (core.Account{7: 7, 19: 1}) || !m.Claimed || r.Rank(two) != 1 || m.Total() != 600 || r.Position(two) != 2 {
		t.Errorf("%+v", m)
	}
	if finds("two.example") != "below" || finds("https://two.example/~one/page") != "below" || finds("https://two.example/") != "" || finds("new.example") != "two" {
		t.Errorf("two.example is %q, its root %q, new.example %q", finds("two.example"), finds("https://two.example/"), finds("new.example"))
	}
	r.Join("again", "https://two.example/")
	if finds("https://two.example/~one/page") != "again" {
		t.Error("another account's member at the root does not name its pages")
	}
	r.Do(&core.Verified{Member: "below", Proof: core.ByLink}, nil)
	if finds("https://two.example/~one/page") != "below" || finds("https://two.example/else") != "again" {
		t.Error("a site that has proved itself does not name its pages")
	}
	// To another spelling of the same URL, and with a hidden member.
	r.Do(&core.Moved{Member: "below"}, at("http://www.two.example/~one/"))
	r.Do(&core.Moved{Member: "hidden"}, at("https://elsewhere.example/"))
	if finds("elsewhere.example") != "" || r.Member(below).URL != "http://www.two.example/~one/" {
		t.Error("a hidden member is found, or a spelling is not taken")
	}
	r.Join("took", "https://hidden.example/")
	r.Show("hidden")
	if finds("elsewhere.example") != "hidden" || finds("hidden.example") != "took" {
		t.Errorf("elsewhere is %q, its old URL %q", finds("elsewhere.example"), finds("hidden.example"))
	}
	b := snap.Append(nil, r.State)
	restored, err := snap.Open(100, 1, b, core.Means{})
	if err != nil {
		t.Fatal(err)
	}
	restored.Advance(r.Clock())
	alike(t, "restored", r.State, restored)
	if restored.Digest() != r.Digest() || !slices.Equal(snap.Append(nil, restored), b) {
		t.Error("another state")
	}
}

// Who leaves is removed: slug and money stay, and the words go when they are redacted.
func TestALeaveIsARemovalThatKeepsTheWords(t *testing.T) {
	r := ownedRing(t)
	r.Do(&core.Left{Member: "one"}, nil)
	r.Do(&core.Left{Member: "hidden"}, nil)
	if m := r.Member(0); !m.Removed || m.Name == "" || r.Len() != 1 {
		t.Errorf("%+v", m)
	}
	if paid, _ := r.Books(); paid != 400 {
		t.Errorf("the books hold %d", paid)
	}
	r.Join("again", "https://one.example/")
	r.Remove("one", true)
	if m := r.Member(0); m.Name+m.URL+m.Description != "" {
		t.Errorf("%+v", m)
	}
}

// An owner that has left can come back to everything, as long as that has not ended.
func TestAnOwnerTakesBackThatItLeft(t *testing.T) {
	r := ownedRing(t)
	before := r.Member(0)
	before.Slug, before.URL, before.Name = strings.Clone(before.Slug), strings.Clone(before.URL), strings.Clone(before.Name)
	left := r.Stamp
	r.Do(&core.Departed{Member: "one"}, nil)
	until, departed := r.Departed(0)
	if m := r.Member(0); !m.Removed || !m.Departed || m.Hidden || m.URL == "" || r.Stands(0) || r.Rank(0) != 0 || !departed || until != left+core.ReturnSpan {
		t.Errorf("departed: %+v until %d, %v", m, until, departed)
	}
	key := core.AppendKey(nil, []byte(before.URL))
	if o, held := r.Holder(key); !held || o != 0 {
		t.Error("its URL is free")
	}
	now := r.Stamp
	for what, c := range map[string]struct {
		step coretest.Step
		want error
	}{
		"a bid":                {coretest.NewStep(&core.Bid{Stamp: now, Member: "one", Amount: 100}, nil), core.ErrRemoved},
		"a change":             {owning(&core.Changed{Stamp: now, Member: "one", Kind: core.Agent}, nil), core.ErrRemoved},
		"another departure":    {owning(&core.Departed{Stamp: now, Member: "one"}, nil), core.ErrRemoved},
		"a stranger moving in": {owning(&core.Moved{Stamp: now, Member: "two"}, at(before.URL)), core.ErrURLTaken},
		"hiding it":            {coretest.NewStep(&core.Hidden{Stamp: now, Member: "one"}, nil), core.ErrRemoved},
		"of a hidden one":      {owning(&core.Departed{Stamp: now, Member: "hidden"}, nil), core.ErrHidden},
		"back from hiding":     {owning(&core.Returned{Stamp: now, Member: "hidden"}, nil), core.ErrNotDeparted},
		"back from removal":    {owning(&core.Returned{Stamp: now, Member: "gone"}, nil), core.ErrNotDeparted},
		"back from nowhere":    {owning(&core.Returned{Stamp: now, Member: "nobody"}, nil), core.ErrUnknown},
		"the end of a stay":    {owning(&core.Lapsed{Stamp: now, Member: "two"}, nil), core.ErrNotDeparted},
		"the end of nothing":   {owning(&core.Lapsed{Stamp: now, Member: "nobody"}, nil), core.ErrUnknown},
	} {
		refuse(t, r.State, what, c.step, c.want)
	}
	restored, err := snap.Open(100, 1, snap.Append(nil, r.State), core.Means{})
	if err != nil || restored.Digest() != r.Digest() {
		t.Fatalf("a snapshot with a departed member: %v", err)
	}
	if o, held := restored.Holder(key); !held || o != 0 || restored.Stands(0) {
		t.Error("the snapshot frees the URL, or has the member in the ring")
	}

	back := r.Stamp
	r.Do(&core.Returned{Member: "one"}, nil)
	after := r.Member(0)
	if after.Changed != back || !r.Stands(0) || r.Rank(0) == 0 {
		t.Errorf("returned: %+v with the rank %d", after, r.Rank(0))
	}
	before.Changed = after.Changed
	if after != before {
		t.Errorf("returned as %+v, left as %+v", after, before)
	}
	refuse(t, r.State, "back once more", owning(&core.Returned{Stamp: r.Stamp, Member: "one"}, nil), core.ErrNotDeparted)

	r.Do(&core.Departed{Member: "one"}, nil)
	r.Do(&core.Lapsed{Member: "one"}, nil)
	r.Do(&core.Departed{Member: "two"}, nil)
	r.Remove("two", false) // by the operator
	for _, slug := range []string{"one", "two"} {
		refuse(t, r.State, "too late for "+slug, owning(&core.Returned{Stamp: r.Stamp, Member: slug}, nil), core.ErrNotDeparted)
	}
	r.Join("again", before.URL)
	r.Remove("one", true)
	if m := r.Member(0); m.Name+m.URL != "" || m.Departed {
		t.Errorf("redacted: %+v", m)
	}
}

// A change with redacted words takes the member out of the ring, as a registration
// without words does not put it in. The removal that follows ends in the same state.
func TestWordsOfChangesThatWereRedacted(t *testing.T) {
	r := ownedRing(t)
	r.Do(&core.Changed{Member: "two", Category: "tools"}, named("Second"))
	r.Do(&core.Moved{Member: "two"}, at("https://second.example/"))
	r.Do(&core.Changed{Member: "two", Kind: core.Agent, Cleared: true}, nil)
	r.Do(&core.Asleep{Member: "two"}, nil)
	r.Do(&core.Claimed{Member: "two", Owner: core.Account{1}, Proof: core.ByFile}, nil)
	r.Remove("two", true)
	var worded []int
	for i, step := range r.Steps {
		if core.MemberOf(step.Event) == "two" && step.Texts != nil {
			worded = append(worded, i)
		}
	}
	for kept := range 1 << len(worded) {
		st := core.NewState(100, 1)
		for i, step := range r.Steps {
			if at := slices.Index(worded, i); at >= 0 && kept>>at&1 == 0 {
				step = step.Without()
			}
			if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
				t.Fatalf("with the words %b: %T: %v", kept, step.Event, err)
			}
			st.Advance(0)
			if o, ok := st.BySlug([]byte("two")); ok && (st.Rank(o) != 0) != (st.Member(o).URL != "") && !st.Member(o).Removed {
				t.Fatalf("with the words %b, after %T: %+v has the rank %d", kept, step.Event, st.Member(o), st.Rank(o))
			}
		}
		if st.Digest() != r.Digest() || !slices.Equal(snap.Append(nil, st), snap.Append(nil, r.State)) {
			t.Errorf("with the words %b: another state", kept)
		}
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
