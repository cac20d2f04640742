package core_test

import (
	"fmt"
	"time"

	"webring/core"
	"webring/core/snap"
)

// A ledger is folded event by event. The state then answers who is in the ring,
// in which order, and what each member is worth at an instant.
func Example() {
	start := time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)
	ring := core.NewState(1000, 1) // at most 1000 members; the second argument is random in a real host

	fold := func(e core.Event, texts *core.Texts) {
		var words []byte
		if joined, ok := e.(*core.Joined); ok {
			snap.Seal(joined, texts) // the event holds salted hashes of the texts
			words = core.AppendTexts(nil, texts)
		}
		event, err := core.AppendEvent(nil, e)
		if err != nil {
			panic(err)
		}
		if err := ring.Apply(event, words); err != nil {
			panic(err)
		}
	}
	const day = 24 * 60 * 60
	fold(&core.Rules{Stamp: start.UnixMilli(), Name: "Example Ring", BaseURL: "https://ring.example",
		Fee: 100, MinBid: 100, Grace: 30 * day, Decay: 90 * day}, nil)
	for i, slug := range []string{"ada", "bob"} {
		fold(&core.Joined{Stamp: start.UnixMilli(), Slug: slug, Kind: core.Agent, Category: "general", Fee: 100, Bid: int64(200 * i)},
			&core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".example/"}})
	}

	ask := func(at time.Time) {
		ring.Advance(at.Unix()) // ranks are only read after it
		for o := range core.Ordinal(ring.Rows()) {
			fmt.Printf("%s: rank %d, %d cents\n", ring.Slug(o), ring.Rank(o), ring.Standing(o))
		}
	}
	ask(start)
	// Bob's 3.00 have decayed for 60 of 90 days, after 30 days of grace. At equal
	// cents the earlier join ranks first.
	ask(start.AddDate(0, 0, 30+60))

	bob, _ := ring.BySlug([]byte("bob"))
	fmt.Println("after bob comes", ring.Slug(ring.Next(bob)))
	// Output:
	// ada: rank 2, 100 cents
	// bob: rank 1, 300 cents
	// ada: rank 1, 100 cents
	// bob: rank 2, 100 cents
	// after bob comes ada
}

// Input that names one site in several ways has one canonical spelling, and one
// identity key that drops the scheme and a leading www.
func ExampleAppendKey() {
	for _, raw := range []string{"HTTPS://WWW.Example.org:443/a/../index.html#top", "http://example.org"} {
		canonical, err := core.AppendURL(nil, []byte(raw))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s is %s\n", canonical, core.AppendKey(nil, canonical))
	}
	// Output:
	// https://www.example.org/index.html is example.org
	// http://example.org is example.org
}
