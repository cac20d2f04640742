package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAPollerSeesAllNewsOnce polls the news of the ring through an edge, and reads the feeds of
// a member with a reader by others, while the origin is killed and started again between what
// happens.
func TestAPollerSeesAllNewsOnce(t *testing.T) {
	t.Parallel()
	dir := agents(t)
	secret := secretFile(t)
	o := prepare(t, nil, "--edge-secret-file", secret)
	o.populate(12)
	o.launch()
	t.Cleanup(o.kill)
	near := o.follow(t, o.verifier(), "--edge-secret-file", secret)
	type page struct {
		Events []struct {
			ID           uint64
			Type, Member string
		}
		Next           uint64
		More, Complete bool
	}
	var next uint64
	var seen []string
	poll := func() {
		for more := true; more; {
			var d page
			r := near.get(fmt.Sprintf("/api/events?since=%d&limit=7", next))
			if r.Status != 200 {
				return // the origin has not answered yet
			}
			if err := json.Unmarshal(r.Body, &d); err != nil || !d.Complete || len(d.Events) > 7 {
				t.Fatalf("%v: %s", err, r.Body)
			}
			for _, e := range d.Events {
				if e.ID <= next {
					t.Fatalf("%+v comes after %d", e, next)
				}
				seen = append(seen, fmt.Sprint(e.ID, e.Type, e.Member))
			}
			next, more = d.Next, d.More
		}
	}
	all := func() (all []string) {
		var d page
		if err := json.Unmarshal(o.get("/api/events?since=0&limit=500").Body, &d); err != nil || d.More {
			t.Fatal(err)
		}
		for _, e := range d.Events {
			all = append(all, fmt.Sprint(e.ID, e.Type, e.Member))
		}
		return all
	}
	var list struct{ Leaderboard []struct{ Slug string } }
	if err := json.Unmarshal(o.get("/api/leaderboard?limit=12").Body, &list); err != nil || len(list.Leaderboard) != 12 {
		t.Fatalf("%v: %+v", err, list)
	}
	// A feed reader keeps each entry by its id.
	type entry struct{ ID, Title string }
	reader := map[string]string{}
	last := list.Leaderboard[11].Slug
	readFeeds := func() (entries int) {
		var feeds struct {
			Status     int
			Atom, JSON []entry
		}
		if err := json.Unmarshal([]byte(runNode(t, dir, "news.mjs", near.base, last)), &feeds); err != nil {
			t.Fatal(err)
		}
		if feeds.Status != 200 && (feeds.Status != 503 || len(reader) > 0) {
			t.Fatalf("a feed that was shown before: %d", feeds.Status)
		}
		if fmt.Sprint(feeds.Atom) != fmt.Sprint(feeds.JSON) {
			// The member's news came between the two.
			t.Logf("Atom has %q, and JSON %q", feeds.Atom, feeds.JSON)
		}
		for _, e := range append(feeds.Atom, feeds.JSON...) {
			if was, known := reader[e.ID]; known && was != e.Title {
				t.Fatalf("the entry %s was %q and is %q", e.ID, was, e.Title)
			}
			reader[e.ID] = e.Title
		}
		return len(feeds.Atom)
	}
	for i, first := range list.Leaderboard[:4] {
		poll()
		if out, err := o.operate("members", "remove", first.Slug, "--reason", "asked for"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if i%2 == 0 {
			o.kill()
			poll()
			readFeeds()
			o.launch()
		}
	}
	want := all()
	if len(want) < 12+4 {
		t.Fatalf("too few news: %q", want)
	}
	eventually(t, "the last news through the edge", 2*time.Minute, func() bool { poll(); return len(seen) >= len(want) })
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("a poller has seen\n%q, want\n%q", seen, want)
	}
	var of page
	if err := json.Unmarshal(o.get("/api/ring/"+last+"/events").Body, &of); err != nil || len(of.Events) < 1+4 {
		t.Fatalf("the last member has joined, and moved up four times: %+v, %v", of, err)
	}
	eventually(t, "the last news in the feed", 2*time.Minute, func() bool { return readFeeds() == len(of.Events) })
	if len(reader) != len(of.Events) {
		t.Errorf("a reader of the feeds has %q, want the entries of %+v", reader, of.Events)
	}
}

// TestMomentsEndWithTheRingAsItIs has an owner leave and the operator hide a member. The last moment
// has neither, at the origin and at an edge, in the document and on the page.
func TestMomentsEndWithTheRingAsItIs(t *testing.T) {
	t.Parallel()
	secret, owner := secretFile(t), wallet(t)
	o := ring(t, "--edge-secret-file", secret)
	e := o.follow(t, o.verifier(), "--edge-secret-file", secret)
	for _, name := range []string{"stays", "leaves", "hides"} {
		if p := o.pay(owner, "/api/register", fmt.Sprintf(`{"name":%q,"url":"https://%s.dev/","kind":"agent"}`, name, name)); p.Status != 201 {
			t.Fatalf("%d %s", p.Status, p.Body)
		}
	}
	o.prove(owner, "DELETE", "/api/ring/leaves", "").does(t, 200, "")
	if out, err := o.operate("members", "hide", "hides", "--reason", "reported"); err != nil {
		t.Fatal(err, out)
	}
	alike(t, o, e)
	for _, n := range []*origin{o, e} {
		moments := at(t, n.get("/ring/moments").document(t), "moments").([]any)
		last := moments[len(moments)-1]
		if len(moments) != 5 || at(t, last, "members") != 1. || len(at(t, last, "marks").([]any)) != 1 {
			t.Errorf("%d moments, the last is %v", len(moments), last)
		}
		page := string(n.get("/ring?at=9999", "Accept", "text/html").Body)
		if main := page[strings.Index(page, "<main"):]; !strings.Contains(main, "members/stays") || strings.Contains(main, "members/leaves") || strings.Contains(main, "members/hides") {
			t.Errorf("the page of the last moment: %s", main)
		}
	}
}
