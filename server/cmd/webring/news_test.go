package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestAPollerSeesAllNewsOnce polls the news of the ring through an edge while the origin is
// killed and started again between what happens.
func TestAPollerSeesAllNewsOnce(t *testing.T) {
	t.Parallel()
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
	var list struct{ Members []struct{ Slug string } }
	if err := json.Unmarshal(o.get("/api/ring?limit=12").Body, &list); err != nil {
		t.Fatal(err)
	}
	for i, m := range list.Members[:4] {
		poll()
		if out, err := o.operate("members", "remove", m.Slug, "--reason", "asked for"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if i%2 == 0 {
			o.kill()
			poll()
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
}
