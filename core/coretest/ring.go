package coretest

import (
	"reflect"
	"testing"

	"webring/core"
)

// Ring is a state built by hand, one event a second from [Start] on. The state
// is advanced after each. Any event that does not apply fails the test.
type Ring struct {
	*core.State
	t     testing.TB
	Stamp int64  // of the next event, milliseconds
	Steps []Step // all events so far
}

// Start is the second of a Ring's first event: 2026-01-31T08:00:00Z.
const Start = 1769846400

// NewRing opens a ring with the default rules: a fee and a minimum
// of 1.00, grace of 30 days, decay over 90. edit may change the rules.
func NewRing(t testing.TB, edit ...func(*core.Rules)) *Ring {
	r := &Ring{State: core.NewState(1<<20, 1), t: t, Stamp: Start * 1000}
	r.Rules(edit...)
	return r
}

// Rules sets the rules: the defaults, edited.
func (r *Ring) Rules(edit ...func(*core.Rules)) {
	r.t.Helper()
	e := &core.Rules{Stamp: r.Stamp, Name: "Example Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Grace: 30 * 86400, Decay: 90 * 86400, Networks: []core.Network{{Name: "tempo", Method: "tempo", Currency: "usd"}}, Scorer: "is-agentic", RequiredScore: 40}
	for _, f := range edit {
		f(e)
	}
	r.apply(e, nil)
}

// Join adds a website in the category general with a fee of 1.00 and no bid.
// edit may change the event and the texts; commitments are made after it.
func (r *Ring) Join(slug, url string, edit ...func(*core.Joined, *core.Texts)) {
	r.t.Helper()
	e := &core.Joined{Stamp: r.Stamp, Slug: slug, Kind: core.Website, Category: "general", Fee: 100}
	texts := &core.Texts{}
	texts.Name.Value, texts.URL.Value = "The "+slug, url
	for _, f := range edit {
		f(e, texts)
	}
	e.Name, e.URL = Commit(texts.Name), Commit(texts.URL)
	if texts.Description.Value != "" {
		e.Description = Commit(texts.Description)
	}
	if texts.Report.Value != "" {
		e.Report = Commit(texts.Report)
	}
	r.apply(e, texts)
}

// Bid pays cents for a member.
func (r *Ring) Bid(slug string, cents int64) {
	r.t.Helper()
	r.apply(&core.Bid{Stamp: r.Stamp, Member: slug, Amount: cents}, nil)
}

// Remove takes a member out.
func (r *Ring) Remove(slug string, redacted bool) {
	r.t.Helper()
	r.apply(&core.Removed{Stamp: r.Stamp, Member: slug, Reason: "asked for", Redacted: redacted}, nil)
}

// Hide takes a member out until it is shown.
func (r *Ring) Hide(slug string) {
	r.t.Helper()
	r.apply(&core.Hidden{Stamp: r.Stamp, Member: slug, Reason: "reported"}, nil)
}

// Show puts a hidden member back.
func (r *Ring) Show(slug string) {
	r.t.Helper()
	r.apply(&core.Shown{Stamp: r.Stamp, Member: slug, Reason: "answered"}, nil)
}

// Do adds any other event, which edit may give texts. Its stamp is set, and commitments
// are made, here.
func (r *Ring) Do(e core.Event, texts *core.Texts) {
	r.t.Helper()
	reflect.ValueOf(e).Elem().FieldByName("Stamp").SetInt(r.Stamp)
	if texts != nil {
		c, words := core.CommitmentsOf(e).All(), [...]core.Text{texts.Name, texts.URL, texts.Description, texts.Report, texts.Words}
		for i, word := range words {
			if word.Value != "" {
				*c[i] = Commit(word)
			}
		}
	}
	r.apply(e, texts)
}

// Wait lets seconds pass, for the state and for the stamps to come.
func (r *Ring) Wait(seconds int64) {
	r.Stamp += seconds * 1000
	r.Advance(r.Stamp / 1000)
}

func (r *Ring) apply(e core.Event, texts *core.Texts) {
	r.t.Helper()
	step := NewStep(e, texts)
	if err := r.Apply(step.EventBytes, step.TextBytes); err != nil {
		r.t.Fatalf("%#v: %v", e, err)
	}
	r.Steps = append(r.Steps, step)
	r.Stamp += 1000
	r.Advance(e.When() / 1000)
}
