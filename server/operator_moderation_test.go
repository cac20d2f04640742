package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server"
	"webring/server/ledger"
	"webring/server/paid"
)

func TestOperatorHidesAndShowsMembers(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	o.pay(paid.OpRegister, ada, "")
	o.pay(paid.OpBid, fund, "")
	tooLong := strings.Repeat("x", core.MaxNote+1)
	size := o.books.Size()
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/members/ada/showing", `{"reason":"x"}`, 409, "ada is not hidden"},
		{"/members/ada/hiding", `{}`, 400, "a reason is required"},
		{"/members/ada/hiding", `{"code":"other"}`, 400, "a reason is required"},
		{"/members/ada/hiding", `{"code":"bored","reason":"x"}`, 400, "the code must be one of spam, deceptive, "},
		{"/members/ada/hiding", `{"reason":"` + tooLong + `"}`, 400, "1024 are kept"},
		{"/members/ada/hiding", `{"reason":"x","redact":true}`, 400, "unknown field"},
		{"/members/nobody/hiding", `{"reason":"x"}`, 404, "no member has the slug nobody"},
		{"/members/Ada%20!/showing", `{"reason":"x"}`, 404, "no member has the slug Ada !"},
	} {
		if status, text := ask("POST", c.path, c.body); status != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %.60s: %d %s", c.path, c.body, status, text)
		}
	}
	if o.books.Size() != size {
		t.Error("what was refused left an event")
	}
	log := new(bytes.Buffer)
	o.operator.Log = slog.New(slog.NewTextHandler(log, nil))
	status, text := ask("POST", "/members/ada/hiding", `{"code":"reviewing","reason":"reported","by":"olga"}`)
	if said := log.String(); !strings.Contains(said, `msg="member hidden" audit=moderation member=ada reason=reviewing by=olga`) {
		t.Errorf("the log says %q", said)
	}
	if row := read[server.Row](t, text); status != 200 || !row.Hidden || row.Removed || row.Rank != 0 || row.TotalCents != 250 || row.URL == "" {
		t.Errorf("hidden: %d %s", status, text)
	}
	if status, text := ask("POST", "/members/ada/hiding", `{"reason":"x"}`); status != 409 || !strings.Contains(string(text), "ada is hidden already") {
		t.Errorf("a second time: %d %s", status, text)
	}
	status, text = ask("POST", "/members/ada/showing", `{"code":"resolved"}`)
	if row := read[server.Row](t, text); status != 200 || row.Hidden || row.Rank != 1 || row.TotalCents != 250 {
		t.Errorf("shown: %d %s", status, text)
	}
	ask("POST", "/members/ada/hiding", `{"reason":"reported"}`)
	if status, text := ask("POST", "/members/ada/removal", `{"reason":"spam"}`); status != 200 || !read[server.Row](t, text).Removed || read[server.Row](t, text).Hidden {
		t.Errorf("removed while hidden: %d %s", status, text)
	}
	for _, path := range []string{"/members/ada/hiding", "/members/ada/showing"} {
		if status, text := ask("POST", path, `{"reason":"x"}`); status != 409 || !strings.Contains(string(text), "ada was removed before") {
			t.Errorf("%s after the removal: %d %s", path, status, text)
		}
	}
	// What was done and why stands in the ledger.
	records, err := o.books.Records(size, 10)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range records {
		e, _ := core.DecodeEvent(r.Event)
		words := core.Texts{}
		if len(r.Texts) > 0 {
			words, _ = core.DecodeTexts(r.Texts)
		}
		if why, _ := core.WhyOf(e); why.Code != core.Unstated {
			kinds = append(kinds, fmt.Sprintf("%T %s %s %q", e, core.MemberOf(e), why.Code, words.Words.Value))
		}
		if bytes.Contains(r.Event, []byte("reported")) {
			t.Errorf("the words of a reason are in the event %q", r.Event)
		}
	}
	if got := strings.Join(kinds, ", "); got != `*core.Hidden ada reviewing "reported", *core.Shown ada resolved "", *core.Hidden ada other "reported", *core.Removed ada other "spam"` {
		t.Errorf("events: %s", got)
	}
}

func TestOperatorKeepsABlocklist(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	before := time.Now().Truncate(time.Millisecond)
	order := func(kind, text string) string {
		b, err := json.Marshal(server.Blocking{Kind: ledger.BlockKind(kind), Text: text, Reason: "spam", By: "olga"})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if _, text := ask("GET", "/blocklist", ""); strings.TrimSpace(string(text)) != "[]" {
		t.Errorf("an empty list: %s", text)
	}
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/blocklist/additions", order("host", "WWW.Bad.dev"), 200, `"value": "bad.dev"`},
		{"/blocklist/additions", order("host", "bad.dev"), 409, "bad.dev is on the blocklist already"},
		{"/blocklist/additions", order("host", "https://bad.dev"), 400, "is no host name"},
		{"/blocklist/additions", order("payer", "olga"), 400, "is no account"},
		{"/blocklist/additions", order("name", "olga"), 400, "is no kind of entry"},
		{"/blocklist/additions", `{"kind":"word","text":"casino","since":1}`, 400, "unknown field"},
		{"/blocklist/additions", `{"kind":"word","text":"casino","reason":"x","by":"` + strings.Repeat("x", 300) + `"}`, 400, "reason or operator"},
		{"/blocklist/additions", `{"kind":"word","text":"casino"}`, 400, "a reason is required"},
		{"/blocklist/additions", order("word", "Casino"), 200, `"text": "Casino"`},
		{"/blocklist/removals", order("host", "other.dev"), 404, "other.dev is not on the blocklist"},
		{"/blocklist/removals", order("word", "cas1no"), 200, `"kind": "word"`},
	} {
		if status, text := ask("POST", c.path, c.body); status != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %.80s: %d %s", c.path, c.body, status, text)
		}
	}
	_, text := ask("GET", "/blocklist", "")
	all := read[[]ledger.Block](t, text)
	if len(all) != 1 || all[0].Kind != ledger.BlockHost || all[0].Value != "bad.dev" || all[0].Text != "WWW.Bad.dev" ||
		all[0].Reason != "spam" || all[0].By != "olga" || all[0].At.Before(before) || all[0].At.After(time.Now()) {
		t.Errorf("the list: %s", text)
	}
}

// A removal can keep the site out in the same go, also when the words go.
func TestRemovalCanBlockTheSite(t *testing.T) {
	for _, redact := range []string{"false", "true"} {
		o := newOrigin(t)
		ask := o.listen()
		o.pay(paid.OpRegister, ada, "")
		if status, text := ask("POST", "/members/ada/removal", `{"reason":"spam","block":true,"by":"`+strings.Repeat("x", 300)+`"}`); status != 400 {
			t.Errorf("by a name that is too long: %d %s", status, text)
		}
		if status, text := ask("POST", "/members/ada/removal", `{"reason":"spam","by":"olga","block":true,"redact":`+redact+`}`); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		_, text := ask("GET", "/blocklist", "")
		if all := read[[]ledger.Block](t, text); len(all) != 1 || all[0].Value != "ada.dev" || all[0].Reason != "spam" || all[0].By != "olga" {
			t.Errorf("the list: %s", text)
		}
		if a := o.service.Handle(context.Background(), paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Secure: true}); a.Status != 403 {
			t.Errorf("it comes again: %d %s", a.Status, a.Body)
		}
		// A removal that fails blocks nothing.
		if status, _ := ask("POST", "/members/ada/removal", `{"reason":"spam","block":true}`); status != 409 {
			t.Errorf("a second time: %d", status)
		}
		if status, text := ask("POST", "/blocklist/removals", `{"kind":"host","text":"ada.dev"}`); status != 200 {
			t.Errorf("%d %s", status, text)
		}
		if status, _ := ask("POST", "/members/ada/removal", `{"reason":"spam","block":true}`); status != 409 {
			t.Errorf("a third time: %d", status)
		}
		if _, text := ask("GET", "/blocklist", ""); strings.TrimSpace(string(text)) != "[]" {
			t.Errorf("a removal that failed left %s", text)
		}
	}
}
