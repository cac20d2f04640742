package pages

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/describe"
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
	for _, at := range []string{"3", "7", "first", "2025-10-02T10:00:00Z"} {
		if _, _, failed := s.Card(c, CardPath, at); failed == nil || failed.Status != 404 {
			t.Errorf("%s has a card", at)
		}
	}
	if _, _, failed := New(describe.Site{}, time.Now).Card(c, CardPath, "2"); failed == nil || failed.Status != 503 {
		t.Error("a node that has no moments draws one")
	}
}
