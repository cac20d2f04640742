package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"webring/core"
)

// TestListsOfToolsCostWhatTheySend has a program read a ring of 250 members by tools. A page is
// as long as it was asked for, at most 100 members, and all pages together are the ring. A long
// answer counts as several requests, and so does each message of a batch; whoever has used up
// its requests is refused, and another client is answered.
func TestListsOfToolsCostWhatTheySend(t *testing.T) {
	t.Parallel()
	const members, most, counted = 250, 1000, 64 << 10 // bytes that count as a request
	o := prepare(t, nil, "--core", "native", "--trusted-proxy", "127.0.0.1", "--rate-limit", fmt.Sprint(most))
	o.write(func(f *founding) {
		events := []core.Event{&core.Rules{Name: "Ring", BaseURL: o.base, Fee: 100, MinBid: 100, Decay: 7 * 24 * 3600, Scorer: "none"}}
		texts := []*core.Texts{nil}
		for i := range members {
			events = append(events, &core.Joined{Slug: fmt.Sprint("m", i), Kind: core.Agent, Category: fmt.Sprint("c-", i), Fee: 100})
			texts = append(texts, &core.Texts{Name: core.Text{Value: fmt.Sprint("Member ", i)}, URL: core.Text{Value: fmt.Sprintf("https://m%d.dev/", i)},
				Description: core.Text{Value: strings.Repeat("long ", 50)}})
		}
		f.append(texts, events...)
	})
	o.launch()
	t.Cleanup(o.kill)
	left := most
	asks := func(body []byte, header []string, client string) (reply, int) {
		t.Helper()
		r := o.send(http.MethodPost, "/mcp", body, append(header, "X-Forwarded-For", client, "X-Forwarded-Proto", "https")...)
		return r, number(r.Header.Get("RateLimit-Remaining"))
	}
	list := func(tool, arguments string) toolResult {
		t.Helper()
		body, header := message(tool, arguments, nil)
		r, remain := asks(body, header, "192.0.2.1")
		if cost, want := left-remain, 1+len(r.Body)/counted; cost != want {
			t.Errorf("%s %s: %d bytes count as %d requests, want %d", tool, arguments, len(r.Body), cost, want)
		}
		left = remain
		coded, _ := asks(body, append(header, "Accept-Encoding", "gzip"), "192.0.2.2")
		t.Logf("%s %s: %d bytes, %d in gzip, %d requests", tool, arguments, len(r.Body), len(coded.Body), 1+len(r.Body)/counted)
		if len(r.Body) > 4*counted || len(r.Body) > 8<<10 && 3*len(coded.Body) > len(r.Body) {
			t.Errorf("%s %s: %d bytes, %d in gzip", tool, arguments, len(r.Body), len(coded.Body))
		}
		var answer struct{ Result toolResult }
		if err := json.Unmarshal(r.Body, &answer); err != nil || r.Status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", tool, arguments, r.Status, r.Body)
		}
		return answer.Result
	}
	slugs := func(r toolResult) (all []string) {
		var doc struct{ Members []struct{ Slug string } }
		if err := json.Unmarshal(r.StructuredContent, &doc); err != nil {
			t.Fatal(err)
		}
		for _, m := range doc.Members {
			all = append(all, m.Slug)
		}
		return all
	}
	if n := len(slugs(list("ring_list", `{}`))); n != 20 {
		t.Errorf("%d members without being asked", n)
	}
	seen := map[string]bool{}
	for offset := 0; ; offset += 100 {
		page := slugs(list("ring_list", fmt.Sprintf(`{"limit":100,"offset":%d}`, offset)))
		for _, s := range page {
			seen[s] = true
		}
		if len(page) < 100 {
			break
		}
	}
	if len(seen) != members {
		t.Errorf("%d members on all pages", len(seen))
	}
	if r := list("ring_list", `{"limit":101}`); !r.IsError {
		t.Error("101 members are given")
	}
	for _, tool := range []string{"ring_leaderboard", "ring_categories", "ring_hops", "ring_events"} {
		list(tool, `{}`)
	}

	// A batch, in the revision that has them, counts each message.
	var batch []string
	for i := range 10 {
		batch = append(batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ring_list","arguments":{"limit":100}}}`, i))
	}
	json := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	r, remain := asks([]byte("["+strings.Join(batch, ",")+"]"), json, "192.0.2.1")
	if cost := left - remain; cost < 10 || cost < 10+len(r.Body)/counted-1 || len(r.Body) > 17*counted {
		t.Errorf("a batch of ten: %d bytes count as %d requests: %d", len(r.Body), cost, r.Status)
	}
	t.Logf("a batch of ten: %d, %d bytes, %d requests", r.Status, len(r.Body), left-remain)
	body, header := message("ring_list", `{"limit":100}`, nil)
	for sent := 0; ; sent++ {
		if r, _ = asks(body, header, "192.0.2.1"); r.Status == http.StatusTooManyRequests {
			break
		}
		if sent > most/2 {
			t.Fatalf("%d lists, and no end", sent)
		}
	}
	if r, _ := asks(body, header, "192.0.2.9"); r.Status != http.StatusOK {
		t.Errorf("another client: %d", r.Status)
	}
}
