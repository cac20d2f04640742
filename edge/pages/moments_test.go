package pages

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/cache"
	"webring/edge/describe"
	"webring/edge/edgetest"
	"webring/wasm/host"
)

// past replays three moments.
func past(_ context.Context, path, _ string) api.Document {
	if path != describe.MomentsPath {
		return api.Refusal("https://ring.example", api.OriginUnavailable, "not here", "")
	}
	return api.Document{Status: 200, Media: "application/json", MaxAge: 60, Seq: 7, Body: []byte(`{"members":[{"slug":"alpha","name":"Alpha","url":"https://alpha.example/","kind":"agent"},{"slug":"","name":"A former member","url":"","kind":"mcp"}],
"moments":[{"seq":2,"at":"2025-10-01T10:00:00.000Z","members":1,"marks":[[0,1,100,100]]},
{"seq":5,"at":"2025-10-02T10:00:00.000Z","members":2,"marks":[[1,2,900,900],[0,1,100,100]]},
{"seq":6,"at":"2025-10-04T10:00:00.000Z","members":2,"marks":[[0,1,5000,5000],[1,2,900,900]]}],"complete":true}`)}
}

func TestPagesOfMoments(t *testing.T) {
	s, c := New(describe.Site{OriginData: past}, time.Now), newCore(t)
	for at, want := range map[string]uint64{"first": 2, "1": 2, "2": 2, "4": 2, "5": 5, "6": 6, "999": 6, "2025-10-03": 5, "2020-01-01": 2, "2025-10-04T12:00:00%2B02:00": 6, "2025-10-04T11:59:59%2B02:00": 5} {
		target, path, query := Target([]byte("/ring?at=" + at))
		p, failed := s.Get(c, drawRing, target, path, query)
		if failed != nil {
			t.Fatalf("%s: %d %s", at, failed.Status, failed.Body)
		}
		body := string(p.Content.Body())
		n := strconv.FormatUint(want, 10)
		for _, words := range []string{`data-seq="` + n + `" data-past`, `content="https://ring.example/card.png?at=` + n + `"`, `content="https://ring.example/ring?at=` + n + `"`} {
			if !strings.Contains(body, words) {
				t.Errorf("%s: no %s in %s", at, words, body)
			}
		}
		if strings.Contains(body, `/members/"`) {
			t.Errorf("%s: a link leads nowhere", at)
		}
		if strings.Contains(body, `rel="prev"`) != (want > 2) || strings.Contains(body, `rel="next"`) != (want < 6) {
			t.Errorf("%s: the neighbouring moments are not right", at)
		}
	}
	// What names no moment is the ring of now, and a part of none.
	for _, at := range []string{"", "x", "-1", "1e3", "9999999999999999999"} {
		if target, _, _ := Target([]byte("/ring?at=" + at)); target != "/ring" {
			t.Errorf("%q is %q", at, target)
		}
	}
}

func TestCardsOfMoments(t *testing.T) {
	s, c := New(describe.Site{OriginData: past}, time.Now), newCore(t)
	_, now, _ := cardOf(t, s, c, CardPath)
	seen := map[string]bool{string(now): true}
	for _, at := range []string{"2", "5", "6"} {
		p, busy, failed := s.Card(c, CardPath, at)
		if busy || failed != nil {
			t.Fatalf("%s: %v %v", at, busy, failed)
		}
		if body := string(p.Content.Body()); seen[body] || !strings.HasPrefix(body, "\x89PNG") {
			t.Errorf("%s has the card of another moment", at)
		} else {
			seen[body] = true
		}
	}
	// Others show the moment that they are nearest to, which is drawn once.
	for at, same := range map[string]string{"3": "2", "7": "6", "first": "2", "2025-10-02T10:00:00Z": "5"} {
		p, _, failed := s.Card(c, CardPath, at)
		want, _, _ := s.Card(c, CardPath, same)
		if failed != nil || p != want {
			t.Errorf("%s has not the card of %s: %v", at, same, failed)
		}
	}
	if _, _, failed := New(describe.Site{}, time.Now).Card(c, CardPath, "2"); failed == nil || failed.Status != 503 {
		t.Error("a node that has no moments draws one")
	}
}

// What is drawn already is not sent again, and what has faded by little is not, until it has by more.
func TestADrawingSaysWhatHasChanged(t *testing.T) {
	of := func(members int, marks ...DrawnMark) *Drawing {
		d := &Drawing{Seq: 7, Whole: true, Members: members, First: []string{}, Marks: marks}
		for _, m := range marks[:min(len(marks), 3)] {
			d.First = append(d.First, m.Slug)
		}
		return d
	}
	a, b := DrawnMark{Slug: "a", Position: 1, Paid: 10000, Counts: 10000}, DrawnMark{Slug: "b", Position: 2, Paid: 500, Counts: 500}
	faded := func(m DrawnMark, by int64) DrawnMark { m.Counts -= by; return m }
	more := DrawnMark{Slug: "b", Position: 2, Paid: 20500, Counts: 20500}
	for _, c := range []struct {
		before, now *Drawing
		marks, gone string
	}{
		{of(2, a, b), of(2, a, b), "none", ""},
		{of(2, a, b), of(2, faded(a, 99), b), "none", ""},
		{of(2, a, b), of(2, faded(a, 100), b), "a", ""},
		{of(2, a, b), of(2, more, a), "b", ""},
		{of(2, a, b), of(1, b), "", "a"},
		{of(50, a, b), of(51, a, b), "", ""},
		{of(0), of(1, a), "a", ""},
	} {
		change, marks := c.now.Since(c.before), "none"
		if change != nil {
			marks = ""
			for _, m := range change.Marks {
				marks += m.Slug
			}
			if change.Whole || change.Members != c.now.Members || strings.Join(change.Gone, "") != c.gone {
				t.Errorf("%+v", change)
			}
		}
		if marks != c.marks {
			t.Errorf("from %+v to %+v: %s, want %s", c.before, c.now, marks, c.marks)
		}
	}
	// Little by little it is told as well.
	shown, told := of(1, a), 0
	for i := int64(1); i <= 10; i++ {
		next := of(1, faded(a, 30*i))
		if next.Since(shown) != nil {
			told++
		}
		shown = next
	}
	if told != 2 {
		t.Errorf("told %d times of 300 cents", told)
	}
}

// The drawing has the first forty and the newest member.
func TestTheDrawingOfNow(t *testing.T) {
	n := edgetest.NewRing(t)
	for i := range 45 {
		edgetest.Join(t, n, int64(1000+i), "Member", core.Joined{Slug: fmt.Sprint("m", i+1)})
	}
	d := New(describe.Site{}, time.Now).Drawing(&ringCore{n, cache.New(1 << 20)})
	if d == nil || !d.Whole || d.Members != 45 || len(d.Marks) != 41 || strings.Join(d.First, " ") != "m1 m2 m3" {
		t.Fatalf("%+v", d)
	}
	if want := (DrawnMark{Slug: "m45", Name: "Member", Host: "m45.example", Kind: "agent", Position: 45, Paid: 100, Counts: 100}); d.Marks[40] != want {
		t.Errorf("the newest is %+v", d.Marks[40])
	}
}

func TestAnEmptyRingHasNoMoments(t *testing.T) {
	none := func(context.Context, string, string) api.Document {
		return api.Document{Status: 200, Media: "application/json", Body: []byte(`{"members":[],"moments":[],"complete":true}`)}
	}
	s, c := New(describe.Site{OriginData: none}, time.Now), newCore(t)
	target, path, query := Target([]byte("/ring?at=first"))
	if _, failed := s.Get(c, drawRing, target, path, query); failed == nil || failed.Status != api.NotFound.Status() {
		t.Errorf("a ring that has members but no moments: %+v", failed)
	}
	removed := coretest.NewStep(&core.Removed{Stamp: (epoch + 2) * 1000, Member: "alpha"}, nil)
	if err := c.Native.Apply([]host.Record{{Event: removed.EventBytes}}); err != nil {
		t.Fatal(err)
	}
	if _, failed := s.Get(c, drawRing, target, path, query); failed == nil || failed.Status != api.EmptyRing.Status() {
		t.Errorf("an empty ring: %+v", failed)
	}
}
