package templates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"webring/core/api"
	"webring/edge/describe"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a page with its file, in which every tag has a line of its own.
func golden(t *testing.T, name, page string) string {
	t.Helper()
	lines := strings.ReplaceAll(page, "><", ">\n<") + "\n"
	file := filepath.Join("testdata", name+".html")
	if *update {
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines != string(want) {
		t.Errorf("%s differs; look at the change, then run with -update:\n%s", file, lines)
	}
	return page
}

// textOf is a page as text.
func textOf(page templ.Component) string { return string(Render(page)) }

var page = Page{Title: "Ring", Ring: "Ring", Path: "/", Style: "/static/s.css", Script: "/static/p.js", Icon: "/static/i.svg"}

func below(path string) Page {
	p := page
	p.Path, p.Root = path, "../"
	return p
}

// wallet is of a ring that browsers can pay.
var wallet = Wallet{Base: "https://ring.example", Script: "/static/w.js", Networks: []string{"eip155:4217", "eip155:8453"}, Methods: []string{"tempo", "evm"}}

func hostile() []Row {
	joined := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	return []Row{
		{Member: describe.Member{Slug: "first", Rank: 1, Position: 2, Name: "First & Co", URL: "https://first.example/", Description: `Says "hello" <b>`, Kind: "agent", Category: "general",
			Standing: "12.00", Paid: "51.00", Bids: "50.00", Joined: joined, Score: "72", Report: "https://reports.example/first",
			Verified: "dns", VerifiedAt: joined.AddDate(0, 2, 0), Health: "asleep", HealthSince: joined.AddDate(0, 3, 0), Changed: joined.AddDate(0, 1, 0)},
			Bar: 100, Faded: "39.00", Fresh: Freshness{State: Fading, Until: When{joined.AddDate(0, 4, 0), "31 May"}},
			LastBid: When{joined.AddDate(0, 3, 0), "3 days ago"}, Bid: Bid{Amount: "1.00", Rank: 1, Then: "52.00"}},
		{Member: describe.Member{Slug: "second", Rank: 2, Position: 1, Name: "<script>alert(1)</script>", URL: `https://second.example/?q="a"&b='c'`, Kind: "website", Category: "news",
			Standing: "1.00", Paid: "1.00", Bids: "0.00", Joined: joined, TakeFirst: "11.01", HealthSince: joined},
			Bar: 8, Bid: Bid{Amount: "11.01", Rank: 1, Above: 1, Then: "12.01"}},
		{Member: describe.Member{Slug: "third", Rank: 3, Position: 3, Name: "<img src=x onerror=alert(1)>", URL: "https://third.example/", Description: "\u05e9\u05dc\u05d5\u05dd \u202e", Kind: "mcp", Category: "news",
			Standing: "0.00", Paid: "7.00", Bids: "6.00", Joined: joined, TakeFirst: "5.01", HealthSince: joined},
			Tail: 58, Faded: "7.00", Fresh: Freshness{State: Faded, Until: When{joined, "31 January"}}, LastBid: When{joined, "on 1 January"}, Bid: Bid{Amount: "1.00", Rank: 2, Above: 2, Then: "8.00"}},
	}
}

func drawing(rows []Row) Picture {
	p := Picture{Members: len(rows)}
	for i, r := range rows {
		p.Marks = append(p.Marks, Mark{Slug: r.Slug, Name: r.Name, URL: r.URL, Kind: r.Kind, Position: i + 1, Total: 100 * int64(i+1), Standing: 25 * int64(i+1)})
	}
	p.Top = p.Marks
	return p
}

// ranked is a leaderboard of rows alone.
func ranked(rows []Row) Board {
	return Board{Members: len(rows), From: 1, To: len(rows), Rows: rows, Fee: "1.00", MinBid: "1.00", Grace: "7 days", Decay: "30 days"}
}

func TestHomeOfAFilledRing(t *testing.T) {
	rows := hostile()
	p := drawing(rows)
	p.Kinds = []Kind{{"agent", 1}, {"mcp", 1}, {"website", 1}}
	front := page
	front.Ring, front.Description, front.Canonical, front.Icons = `</script><b>"`, "A ring & its <members>.", "https://ring.example/", true
	front.Operator = Operator{Name: "Ada & <Co>.", Contact: "mailto:ada@ring.example", Payee: "Ada's shop"}
	golden(t, "home", textOf(Home{Page: front, Base: "https://ring.example", Members: 4, Leader: &rows[0], Dollar: &ranked(rows).Rows[1], Board: ranked(rows), Fee: "1.00", JoinAtFirst: "11.01",
		Categories: []Category{{"news", 2}, {"general", 1}}, Picture: p,
		News: []News{{Member: rows[0].Member, Amount: "50.00", Was: 5, Rank: 1, Passed: rows[1].Member, At: rows[1].LastBid}, {Joined: true, Member: rows[1].Member, Rank: 2}}}.HTML()))
}

func TestHomeOfAnEmptyRing(t *testing.T) {
	golden(t, "empty", textOf(Home{Page: page, Fee: "1.00", JoinAtFirst: "0.00"}.HTML()))
}

func TestThePagesOfARing(t *testing.T) {
	rows := hostile()
	began := rows[0].Joined
	golden(t, "ring", textOf(Ring{Page: page, Members: 300, From: 101, To: 103, Rows: rows, Next: "ring?page=4", Prev: "ring?page=2", Picture: drawing(rows)}.HTML()))
	// The page of a category, most of whose members are far from the first, so that one has no ray.
	within := drawing(rows)
	within.Category, within.Matching, within.Top = "news", 3, within.Top[1:2]
	within.Members = 300
	golden(t, "category", textOf(Ring{Page: below("/categories/news"), Category: "news", Members: 3, InAll: 300, Best: rows[1:2], Fee: "1.00", Lead: "12.01", From: 1, To: 3, Rows: rows, Picture: within}.HTML()))
	var brought Hops
	brought.Total.From, brought.Total.To = 1234, 5678
	for i := range uint64(30) {
		brought.Days = append(brought.Days, HopsDay{Day: rows[0].Joined.AddDate(0, 0, int(i)).Format(time.DateOnly), From: i % 7, To: 100 * (i % 5)})
	}
	slices.Reverse(brought.Days)
	owned, asleep := rows[1], rows[0]
	owned.Owner, asleep.Owner, asleep.Claimed = "0x00000000000000000000000000000000000000bb", "0x00000000000000000000000000000000000000aa", true
	golden(t, "member", textOf(Member{Page: below("/members/second"), Base: "https://ring.example", Row: owned, Members: 3, Prev: rows[2], Next: rows[0], MinBid: "1.00", Grace: "30 days", Wallet: wallet, Picture: drawing(rows),
		Buys: Buys{Amount: "11.01", Total: "12.01", Rank: 1, Members: 3, First: true, For: "30 days", Fades: When{began.AddDate(0, 0, 30), "2 March"}, Gone: When{began.AddDate(0, 0, 120), "31 May"}},
		Hops: &brought, Proofs: []Proof{{42, "bid", "7.25", When{rows[0].Joined, "31 January"}}, {7, "joined", "", When{rows[0].Joined, "30 January"}}}}.HTML()))
	golden(t, "member-asleep", textOf(Member{Page: below("/members/first"), Base: "https://ring.example", Row: asleep, Members: 3, Prev: rows[1], Next: rows[2], MinBid: "1.00", Wallet: Wallet{Base: "https://ring.example", Script: "/static/w.js", Networks: []string{"tempo:4217"}}, Picture: drawing(rows),
		Lost: &Lost{"0x00000000000000000000000000000000000000cc", When{rows[0].Joined, "6 February"}}}.HTML()))
	golden(t, "embed", textOf(Embed{Page: page, Base: "https://ring.example", From: "second", Member: &rows[1], Prev: rows[2], Next: rows[0], Widget: "/widget-1.js", Integrity: "sha384-x"}.HTML()))
}

func TestThePagesOfALeaderboard(t *testing.T) {
	rows := hostile()
	began := rows[0].Joined
	first := ranked(rows)
	first.Members = 120
	first.First = []describe.Forecast{{JoinFirst: "11.01"}, {Days: 7, At: began.AddDate(0, 0, 7), JoinFirst: "8.00"}, {Days: 30, At: began.AddDate(0, 0, 30), JoinFirst: "0.00"}}
	reign := func(slug, name string, days int64, until string) Reign {
		return Reign{Slug: slug, Name: name, URL: "https://" + slug + ".example/", From: When{began, "31 January"}, Until: When{began, until}, For: "some days", Seconds: days * 86_400}
	}
	page := func(from int) PageLink {
		return PageLink{Address: "leaderboard?page=" + strconv.Itoa(from), From: from, To: from + 49}
	}
	here := page(1)
	here.Here = true
	golden(t, "leaderboard", textOf(Leaderboard{Page: below("/leaderboard"), Board: first,
		Pages:  Pages{Next: page(51), Last: page(101), Near: []PageLink{here, page(51), page(101)}},
		Reigns: []Reign{reign("first", "First & Co", 3, ""), reign("second", "<script>alert(1)</script>", 30, "3 March"), reign("first", "First & Co", 0, "1 March"), reign("third", "Third", 1, "2 February"), reign("", "", 2, "15 January"), reign("fourth", "Fourth", 1, "1 February")},
	}.HTML()))
	later := ranked(rows[1:])
	later.From, later.Members = 201, 2000
	golden(t, "leaderboard-later", textOf(Leaderboard{Page: below("/leaderboard"), Board: later,
		Pages: Pages{First: page(1), Prev: page(151), Next: page(251), Last: page(1951), Near: []PageLink{page(151), page(201), page(251)}}}.HTML()))
	golden(t, "leaderboard-behind", textOf(Leaderboard{Page: below("/leaderboard"), Board: Board{Members: 3}, Pages: Pages{First: page(1), Prev: page(1)}}.HTML()))
}

// A strip fills its width, in the order of time, and the shortest reign can be seen.
func TestStrips(t *testing.T) {
	for n := range 20 {
		list := make([]Reign, n+1)
		for i := range list {
			list[i] = Reign{Slug: strconv.Itoa(i % 3), Seconds: int64(i*i) << 40}
		}
		before := 1000 + 3
		for i, s := range strip(list) {
			if end := s.at + s.width + 3; end != before && i > 0 || s.width < 5 || s.at < 0 || s.color != i%3 {
				t.Fatalf("%d reigns: %d is at %+v, and the one before begins at %d", n+1, i, s, before)
			}
			before = s.at
		}
		if before != 0 {
			t.Errorf("%d reigns begin at %d", n+1, before)
		}
	}
}

func TestWhatABidDoes(t *testing.T) {
	for want, row := range map[string]Row{
		"keeps it first, at $52": {Member: describe.Member{Rank: 1}, Bid: Bid{Rank: 1, Then: "52.00"}},
		"takes first place":      {Member: describe.Member{Rank: 2}, Bid: Bid{Rank: 1, Above: 1}},
		"passes number 19":       {Member: describe.Member{Rank: 20}, Bid: Bid{Rank: 19, Above: 19}},
		"passes 1\u202f100 members to number 7 and restores $1\u202f234.50": {Member: describe.Member{Rank: 1107}, Faded: "1234.50", Bid: Bid{Rank: 7, Above: 1106}},
		"takes first place and restores $3":                                 {Member: describe.Member{Rank: 9}, Faded: "3.00", Bid: Bid{Rank: 1, Above: 8}},
	} {
		if got := row.does(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	days := func(amounts ...string) (list []describe.Forecast) {
		for i, a := range amounts {
			list = append(list, describe.Forecast{Days: []int{0, 7, 30}[i], JoinFirst: a, TakeFirst: a})
		}
		return list
	}
	for want, prices := range map[string][]describe.Forecast{
		"": nil,
		"If nobody bids, first place costs $1\u202f009 in 7 days and $4 in 30 days.":       days("1010.00", "1009.00", "4.00"),
		"If nobody bids, first place costs $9 in 7 days and in 30 days.":                   days("10.00", "9.00", "9.00"),
		"If nobody bids, first place costs $9 in 7 days and it is first in 30 days.":       days("10.00", "9.00", ""),
		"If nobody bids, it is still first in 7 days and first place costs $9 in 30 days.": days("", "", "9.00"),
		"If nobody bids, it is still first in 7 days and in 30 days.":                      days("", "", ""),
		"If nobody bids, first place costs $2 in 7 days and it is still first in 30 days.": days("", "2.00", ""),
	} {
		if got := (Member{Row: Row{Member: describe.Member{Forecast: prices}}}).later(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, prices := range map[string][]describe.Forecast{
		"": nil,
		"First place costs $11.01 today, $1\u202f200 in 7 days and $0 in 30 days if nobody bids, fee included.": days("11.01", "1200.00", "0.00"),
		"First place costs $9.26 today, $7.26 in 7 days and $7.26 in 30 days if nobody bids, fee included.":     days("9.26", "7.26", "7.26"),
		"First place costs $7.26 today, $7.26 in 7 days and $7.26 in 30 days if nobody bids, fee included.":     days("7.26", "7.26", "7.26"),
		"The fee alone takes first place.": days("0.00", "0.00", "0.00"),
	} {
		if got := (Board{First: prices}).falls(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if where := atHost("https://" + strings.Repeat("bank.example.", 9) + "thief.example/"); len(where) > 36 || !strings.HasPrefix(where, "…") || !strings.HasSuffix(where, ".thief.example") {
		t.Errorf("a long host is cut to %q", where)
	}
}

// What an amount does is said with its total, its rank, for how long, and until when: also that
// from a first bid on all of it fades.
func TestWhatAnAmountBuys(t *testing.T) {
	on := func(day int, words string) When { return When{time.Date(2026, 12, day, 0, 0, 0, 0, time.UTC), words} }
	b := Buys{Amount: "7.26", Total: "8.26", Rank: 1, Members: 16, For: "30 days", Fades: on(27, "27 December"), Gone: on(31, "27 March")}
	first, fee, short := b, Buys{Amount: "0.00", Total: "1.00", Rank: 16, Members: 16, First: true, For: "30 days"}, b
	first.First = true
	short.For = "7 days"
	tags := regexp.MustCompile("<[^>]*>")
	for _, c := range []struct {
		joins  bool
		minBid string
		b      Buys
		want   string
	}{
		{false, "1.00", b, "$7.26 lifts it to $8.26 in total and rank 1 of 16. It counts in full for 30 days, until 27 December, then fades to $0 by 27 March. $1 a month keeps it."},
		{false, "1.00", first, "$7.26 lifts it to $8.26 in total and rank 1 of 16. It counts in full for 30 days, until 27 December. From its first bid on, the total fades unless it is renewed: $8.26 today, $0 on 27 March. $1 a month keeps it."},
		{true, "1.00", first, "$8.26, fee included, puts you at rank 1 of 16. It counts in full for 30 days, until 27 December. From your first bid on, the total fades unless it is renewed: $8.26 today, $0 on 27 March. $1 a month keeps it."},
		{true, "1.00", fee, "$1, the fee alone, puts you at rank 16 of 16. It fades only after a first bid."},
		{false, "0.50", short, "$7.26 lifts it to $8.26 in total and rank 1 of 16. It counts in full for 7 days, until 27 December, then fades to $0 by 27 March. $0.50 every 7 days keeps it."},
		{true, "", Buys{}, ""},
	} {
		if got := strings.Join(strings.Fields(tags.ReplaceAllString(textOf(buys(c.b, c.minBid, c.joins)), "")), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The operator's pages stand at the foot of every page, and a member's page leads to a
// report of it.
func TestThePagesOfTheOperator(t *testing.T) {
	rows := hostile()
	p := below("/members/second")
	p.Policies = Policies{Terms: "https://operator.example/terms?a=1&b=2", Privacy: "https://operator.example/privacy", Report: "mailto:abuse@operator.example"}
	golden(t, "member-policies", textOf(Member{Page: p, Base: "https://ring.example", Row: rows[1], Members: 3, Prev: rows[2], Next: rows[0], MinBid: "1.00", Picture: drawing(rows)}.HTML()))
	for address, want := range map[string]string{
		"mailto:abuse@operator.example":                  "mailto:abuse@operator.example?subject=Report%20of%20the%20member%20second",
		"mailto:a+b@operator.example?cc=c%2Bd@e.example": "mailto:a+b@operator.example?cc=c%2Bd%40e.example&subject=Report%20of%20the%20member%20second",
		"https://operator.example/report":                "https://operator.example/report?member=second",
		"http://operator.example/r?form=7&member=x#top":  "http://operator.example/r?form=7&member=second#top",
		"https://operator.example?q=a+b":                 "https://operator.example?member=second&q=a%20b",
	} {
		if got := (Member{Page: Page{Policies: Policies{Report: address}}, Row: rows[1]}).report(); got != want {
			t.Errorf("%s leads to %s, want %s", address, got, want)
		}
	}
	for _, part := range []Policies{{Terms: "https://operator.example/"}, {Privacy: "https://operator.example/"}, {Report: "https://operator.example/"}} {
		front := page
		front.Policies = part
		html := textOf(Home{Page: front, Fee: "1.00"}.HTML())
		if n := strings.Count(html, "https://operator.example/"); n != 1 {
			t.Errorf("%+v stands %d times on a page", part, n)
		}
	}
}

func TestJoin(t *testing.T) {
	below := page
	below.Title = "Join Ring"
	v := Join{Page: below, Fee: "1.00", MinBid: "1.00", JoinAtFirst: "11.01", JoinAtTen: "3.51", Rule: "A rule.", Payments: true, Wallet: wallet,
		Buys: Buys{Amount: "0.00", Total: "1.00", Rank: 3, Members: 4, First: true, For: "30 days"}}
	golden(t, "join", textOf(v.HTML()))
	v.Draft = Draft{Name: `"><script>`, Kind: "mcp", Description: "</textarea><b>", Bid: "2.00"}
	v.Checked = &Checked{Wrong: map[string]string{"url": "The address is required.", "kind": "Choose what it is.", "bid": "Too much."}}
	golden(t, "join-wrong", textOf(v.HTML()))
	v.Checked = &Checked{Readiness: ready(40), Price: "3.00", Rank: 1234, Slug: "x",
		Body: string(v.Draft.JSON()), Command: RegisterCommand("https://ring.example", "", v.Draft.JSON())}
	golden(t, "join-right", textOf(v.HTML()))
	v.Draft.Bid = "11.01"
	v.Checked = &Checked{Readiness: ready(34), Refusal: "For programs.", Code: "agentic_score_too_low"}
	golden(t, "join-low", textOf(v.HTML()))
	v.Checked = &Checked{Refusal: "This URL is already in the ring.", Code: "already_registered", Existing: "first"}
	golden(t, "join-taken", textOf(v.HTML()))
	// What is said of every other refusal, and of one that is new.
	for code, want := range map[string][]string{
		"not_admitted":          {"The operator does not admit this", "The detail.", "Not accepted", "icon bad"},
		"invalid_url":           {"This address cannot join", "The detail.", `href="#url"`},
		"agentic_score_too_low": {"We could not examine the site", "The detail."},
		"score_pending":         {"still running", "Not now", "icon wait", "Check again"},
		"payments_unavailable":  {"unavailable right now", "still filled in", "icon wait"},
		"origin_unavailable":    {"unavailable right now", "still filled in", "icon wait"},
		"another":               {"Not eligible right now", "The detail.", "icon bad"},
	} {
		v.Checked = &Checked{Refusal: "The detail.", Code: code}
		html := textOf(v.HTML())
		title := "<title>Not accepted: Join Ring</title>"
		if strings.Contains(html, "icon wait") {
			title = "<title>Not now: Join Ring</title>"
		}
		for _, w := range append(want, title, `id="result" tabindex="-1"`, `name="name" value="&#34;&gt;&lt;script&gt;"`) {
			if !strings.Contains(html, w) {
				t.Errorf("%s: no %s in %s", code, w, html)
			}
		}
	}
}

// ready is a score with checks, of which some passed.
func ready(score int) *Readiness {
	checks := []ReportCheck{
		{Title: "A heading", Evidence: "1 heading.", Earned: 10, Points: 10},
		{Title: "An AI catalog", Evidence: "Status 404.", Fix: "Publish <it>.", Points: 4, Effort: 1},
		{Title: "The MCP server introduces itself", Evidence: "There is no card.", Fix: "Have it answer.", Points: 7, Interface: true, Effort: 8},
		{Title: "A title", Evidence: "None.", Fix: "Add one.", Points: 1},
		{Title: "The card of an agent", Evidence: "Status 404.", Fix: "If there is one, publish it.", Points: 8, Optional: true},
		{Title: "llms.txt", Evidence: "Status 404.", Fix: "Publish /llms.txt.", Points: 6},
	}
	return &Readiness{Score: score, Required: 40, Scorer: "local", Report: "https://ring.example/reports/1", Site: "https://site.example/?a='b'",
		Base: "https://ring.example", Body: `{"name":"It's <b>"}`, Checks: checks}
}

func TestReadiness(t *testing.T) {
	for score, want := range map[int]string{0: "Together they bring 18 points. Other failed checks are below.", 23: "Together they bring 17 points: enough to join.",
		29: "Together they bring 11 points: enough to join.", 34: "It is enough to join."} {
		r := ready(score)
		r.Kind = "mcp"
		if got := r.enough(); got != want {
			t.Errorf("with %d points: %s", score, got)
		}
	}
	// A website gets the least work that is enough, and never an MCP server.
	for score, want := range map[int]string{0: "llms.txt, An AI catalog, A title", 34: "llms.txt", 36: "llms.txt", 39: "llms.txt", 30: "llms.txt, An AI catalog", 40: "llms.txt, An AI catalog, A title"} {
		var titles []string
		r := ready(score)
		for _, c := range r.fixes() {
			titles = append(titles, c.Title)
		}
		if got := strings.Join(titles, ", "); got != want {
			t.Errorf("with %d points a website is advised %s, want %s", score, got, want)
		}
		if strings.Contains(r.prompt(), "MCP server") {
			t.Errorf("with %d points a website is told to become an MCP server", score)
		}
	}
	// What only agents and MCP servers have a use for stands last for others, and is nothing to do for them.
	for kind, want := range map[string]string{"mcp": "The MCP server introduces itself", "agent": "The MCP server introduces itself", "website": "llms.txt", "": "llms.txt"} {
		r := ready(34)
		r.Kind = kind
		_, failed := r.split()
		html := textOf(r.checks(failed))
		last := failed[len(failed)-1].Interface && strings.Contains(html, "Nothing to do: only an agent") && !strings.Contains(html, "Have it answer.")
		if failed[0].Title != want || last != (want == "llms.txt") {
			t.Errorf("a site of kind %q failed %+v: %s", kind, failed, html)
		}
	}
	for score, want := range map[int]string{0: "0 of 100 points. Joining takes 40: 40 points missing.", 39: "39 of 100 points. Joining takes 40: 1 point missing.",
		40: "40 of 100 points. Joining takes 40: enough to join.", 100: "100 of 100 points. Joining takes 40: enough to join."} {
		if got := ready(score).spoken(); got != want {
			t.Errorf("with %d points: %s", score, got)
		}
	}
	r := ready(34)
	prompt := r.prompt()
	for _, w := range []string{"1. [6 points] llms.txt\n   Found: Status 404.\n   To do: Publish /llms.txt.\n2. [4 points] An AI catalog", "4. [8 points] The card", "34 of 100 points; joining takes 40",
		r.command(), "at least 40"} {
		if !strings.Contains(prompt, w) {
			t.Errorf("no %s in %s", w, prompt)
		}
	}
	if strings.Contains(prompt, "A heading") {
		t.Errorf("what passed is to be done: %s", prompt)
	}
	for _, words := range shells(t, r.command()) {
		if !slices.Equal(words, []string{"curl", "-s", "https://ring.example/api/check", "-H", "Content-Type: application/json", "-d", `{"name":"It\u0027s <b>"}`}) {
			t.Errorf("%q", words)
		}
	}
}

// A price beyond the highest amount is on no button.
func TestNoButtonHasAPriceThatNobodyCanPay(t *testing.T) {
	for price, shown := range map[string]bool{"0.00": true, "11.01": true, "999999.99": true, "1000000.00": true, "1000000.01": false, "68719476.36": false} {
		rows := hostile()
		home := textOf(Home{Page: page, Members: len(rows), Fee: "1.00", JoinAtFirst: price, Leader: &rows[0], Dollar: &rows[1], Board: ranked(rows), Picture: drawing(rows)}.HTML())
		if strings.Contains(home, "Take first place for") != shown {
			t.Errorf("%s is offered: %t", price, !shown)
		}
	}
}

// The bids that can be chosen, and which of them is in a draft.
func TestOpeningBids(t *testing.T) {
	for _, c := range []struct {
		ten, first, bid string
		ids             string
		chosen, own     string
	}{
		{"3.51", "11.01", "", "none ten first own", "none", ""},
		{"3.51", "11.01", "3.51", "none ten first own", "ten", ""},
		{"3.51", "11.01", "11.01", "none ten first own", "first", ""},
		{"3.51", "11.01", "5", "none ten first own", "own", "5"},
		{"11.01", "11.01", "", "none first own", "none", ""},
		{"", "0.00", "x", "none own", "own", "x"},
		{"1000000.00", "1000000.01", "", "none ten own", "none", ""}, // one payment is of a million at most
		{"1000000.01", "68719476.36", "", "none own", "none", ""},
	} {
		v, ids := Join{JoinAtTen: c.ten, JoinAtFirst: c.first, Draft: Draft{Bid: c.bid}}, []string{}
		for _, b := range v.bids() {
			ids = append(ids, b.ID)
		}
		if strings.Join(ids, " ") != c.ids || v.chosen() != c.chosen || v.ownBid() != c.own {
			t.Errorf("%+v: %q, chosen %s, typed %q", c, ids, v.chosen(), v.ownBid())
		}
	}
}

// Names are members' own words, so two may have one: wherever a page shows a name, it
// says right behind it where the member's site lies.
func TestAHostStandsBesideAMembersNameWhereverItIsShown(t *testing.T) {
	const name = "The Bank"
	rows := []Row{
		{Member: describe.Member{Slug: "the-bank", Rank: 1, Position: 1, Name: name, URL: "https://bank.example/", Description: "Trust us.", Kind: "website", Category: "general"}},
		{Member: describe.Member{Slug: "the-bank-2", Rank: 2, Position: 2, Name: name, URL: "http://www.hill.example/bank/?q=1", Kind: "website", Category: "general"}},
	}
	p := drawing(rows)
	p.Here = &p.Marks[1]
	markup := regexp.MustCompile(`<[^>]*>`)
	for of, page := range map[string]templ.Component{
		"home":        Home{Page: page, Members: 2, Leader: &rows[0], Board: ranked(rows), Picture: p}.HTML(),
		"leaderboard": Leaderboard{Page: page, Board: ranked(rows), Reigns: []Reign{{Slug: "the-bank", Name: name, URL: rows[0].URL}}}.HTML(),
		"ring":        Ring{Page: page, Members: 2, Rows: rows, Picture: p}.HTML(),
		"member":      Member{Page: below("/members/the-bank-2"), Row: rows[1], Prev: rows[0], Next: rows[0], Members: 2, Picture: p}.HTML(),
		"embed":       Embed{Page: page, From: "the-bank", Member: &rows[0], Prev: rows[1], Next: rows[1]}.HTML(),
	} {
		text := markup.ReplaceAllString(textOf(page), "")
		behind := strings.Split(text, name)[1:]
		if len(behind) < 3 {
			t.Errorf("%s shows %d names", of, len(behind))
		}
		for _, rest := range behind {
			rest = strings.TrimLeft(rest, " ,(\n")
			if !strings.HasPrefix(rest, "bank.example") && !strings.HasPrefix(rest, "www.hill.example/bank") {
				t.Errorf("%s shows a name with %.40q behind it", of, rest)
			}
		}
	}
}

func TestWhereASiteLies(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example"
	for url, want := range map[string]string{
		"https://bank.example":                             "bank.example",
		"https://bank.example/":                            "bank.example",
		"http://www.bank.example:443/?a=/b":                "www.bank.example:443",
		"https://hill.example/~ada/":                       "hill.example/~ada",
		"https://" + long + "/":                            long,
		"https://hill.example/" + strings.Repeat("a/", 20): "hill.example/…",
		"": "",
	} {
		if got := Where(url); got != want {
			t.Errorf("%s lies at %q, want %q", url, got, want)
		}
	}
}

// What members write stays text, wherever it is shown.
func TestMembersWordsAreNeverMarkup(t *testing.T) {
	files, err := filepath.Glob("testdata/*.html")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, bad := range []string{"<script>", "<img src=x", "<b>", "javascript:"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %s", file, bad)
			}
		}
		for _, site := range []string{"first", "second", "third"} {
			links := strings.Count(text, `href="https://`+site+".example/")
			if sponsored := strings.Count(text, `rel="sponsored noopener" href="https://`+site+".example/"); sponsored != links {
				t.Errorf("%s: %d links to %s, %d of them marked as paid", file, links, site, sponsored)
			}
		}
	}
}

func TestCommandLinesAreSafeInPOSIXShellsAndPowerShell(t *testing.T) {
	const base = "https://ring.example/o'er%20&$(id);x"
	url := strings.ReplaceAll(base, "'", "%27")
	// member decodes the last word of a command.
	member := func(words []string, into any) {
		if err := json.Unmarshal([]byte(words[len(words)-1]), into); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	}
	for _, text := range []string{"it's", "'; touch /tmp/x; '", "‘a’ ‚b‛", "’; Remove-Item x; ’", "“a” \"b\"", "$(id) $HOME", "`id`", "a\nb", `back\slash`, `\u0027`, "\u202e", "%PATH% !! # & | < >", "Zoë 目"} {
		d := Draft{Name: text, URL: "https://a.example/?a=b&c", Kind: "agent"}
		for _, words := range shells(t, RegisterCommand(base, "-r http://127.0.0.1:1", d.JSON())) {
			var got Draft
			if member(words, &got); got != d || !slices.Equal(words[:len(words)-1], append(strings.Fields(describe.Client), url+"/api/register", "-r", "http://127.0.0.1:1", "-J")) {
				t.Errorf("%q becomes %q", text, words)
			}
		}
	}
	for _, words := range shells(t, joinCommand(base)) {
		var got Draft
		if member(words, &got); got.Kind != "agent" || !slices.Contains(words, url+"/api/register") {
			t.Errorf("joining: %q", words)
		}
	}
	for _, words := range shells(t, bidCommand(Member{Base: base, Row: Row{Member: describe.Member{Slug: "a-2"}}, Buys: Buys{Amount: "1.00", Rank: 7}})) {
		var got struct {
			Member, Amount string
			OnlyIfRank     int `json:"only_if_rank"`
		}
		if member(words, &got); got.Member != "a-2" || got.Amount != "1.00" || got.OnlyIfRank != 7 || !slices.Contains(words, url+"/api/bid") {
			t.Errorf("bidding: %q", words)
		}
	}
	for line := range strings.Lines(Docs{About: describe.Ring{Base: base}}.examples()) {
		for _, words := range shells(t, strings.TrimSuffix(line, "\n")) {
			if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, url+"/api/") }) {
				t.Errorf("an example: %q", words)
			}
		}
	}
}

// shells gives the words of a command line as a POSIX shell has them, and as PowerShell.
func shells(t *testing.T, line string) [][]string {
	t.Helper()
	if strings.Contains(line, "\n") {
		t.Fatalf("%q goes on in another line, which is written differently in each", line)
	}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return [][]string{strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), powerShell(t, line)}
}

// powerShell splits a line as PowerShell's rules have it (about_Quoting_Rules): words
// end at spaces, single quotes and their typographic forms begin and end text that is
// taken as it is, and twice they are one in it. It fails at what has a meaning of its own.
func powerShell(t *testing.T, line string) (words []string) {
	t.Helper()
	const single = "'‘’‚‛"
	var word strings.Builder
	quoted := false
	rest := []rune(line + " ")
	for i, r := range rest {
		switch mark := strings.ContainsRune(single, r); {
		case mark && quoted && strings.ContainsRune(single, rest[i+1]):
			t.Fatalf("%s: two marks in text", line)
		case mark:
			quoted = !quoted
		case quoted:
			word.WriteRune(r)
		case r == ' ':
			words = append(words, word.String())
			word.Reset()
		case strings.ContainsRune("\"“”„`$&|;<>(){}#,", r), r == '@' && word.Len() == 0:
			t.Fatalf("%s: %c has a meaning of its own", line, r)
		default:
			word.WriteRune(r)
		}
	}
	if quoted {
		t.Fatalf("%s: text does not end", line)
	}
	return words
}

// Of every ring the first forty have their rays, and the first three their numerals and
// names; the picture stays small, however long names are.
func TestPictures(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, linked, linked + 1, 2000, 100_000} {
		p := Picture{Members: n}
		mark := func(i, standing int) Mark {
			return Mark{Slug: strings.Repeat("s", 48), Name: strings.Repeat("\u4e09", 80), URL: "https://" + strings.Repeat("h", 60) + ".example/",
				Kind: kinds[i%3], Position: i + 1, Total: int64(100 + i%997*10), Standing: int64(standing)}
		}
		for i := range min(n, 80) {
			p.Marks = append(p.Marks, mark(i*n/min(n, 80), 0))
		}
		for i := range min(n, 40) {
			p.Top = append(p.Top, mark((i*7919+n/2)%n, 100-i))
		}
		if n > 0 {
			p.Here, p.From, p.To = &p.Marks[n/2%len(p.Marks)], 1, 50
		}
		var b bytes.Buffer
		if err := picture(page, p).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		p = p.spread()
		drawn, _, _ := strings.Cut(b.String(), "<figcaption>")
		if strings.Contains(drawn, "NaN") || strings.Contains(drawn, "Inf") {
			t.Errorf("%d members: %s", n, drawn)
		}
		for _, m := range p.Top {
			if !strings.Contains(drawn, "M"+p.at(m.Position, foot)+"L") {
				t.Errorf("%d members: no ray at %d", n, m.Position)
			}
		}
		if got := strings.Count(drawn, `<text class="numeral`); got != min(n, numbered) {
			t.Errorf("%d members: %d numerals", n, got)
		}
		if links := strings.Count(drawn, `<a class="mark`); n <= linked && links != n || n > linked && links != linkedOfTop {
			t.Errorf("%d members: %d links", n, links)
		}
		if len(drawn) > 12<<10 && n > linked {
			t.Errorf("%d members: %d bytes", n, len(drawn))
		}
	}
}

// Pale is what has faded, and nothing else: members of whom the picture does not know how much
// counts have no ray, and the key says so.
func TestTheKeyOfAPictureIsTrue(t *testing.T) {
	mark := func(position int, total, standing int64) Mark {
		return Mark{Slug: "s", Kind: kinds[position%3], Position: position, Total: total, Standing: standing}
	}
	p := Picture{Members: 300}
	for i := range 40 {
		p.Top = append(p.Top, mark(2*i+1, 5000, 5000))
	}
	for i := range 80 {
		p.Marks = append(p.Marks, mark(3*i+1, 300, 0))
	}
	draw := func() (svg, caption string) {
		var b bytes.Buffer
		if err := picture(page, p).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		svg, caption, _ = strings.Cut(b.String(), "<figcaption>")
		return svg, caption
	}
	svg, caption := draw()
	pale := regexp.MustCompile(`<path class="ray pale" d="[^"]`)
	ray := regexp.MustCompile(`<path class="ray" d="([^"]+)"`)
	if pale.MatchString(svg) {
		t.Error("a ray is pale, and nothing has faded")
	}
	lines := 0
	for _, m := range ray.FindAllStringSubmatch(svg, -1) {
		lines += strings.Count(m[1], "M")
	}
	if lines != 40 {
		t.Errorf("%d rays, of 40 whose standing is known", lines)
	}
	if !strings.Contains(caption, "below rank 40") {
		t.Error("the key does not say what has no ray:", caption)
	}
	p.Top[20].Standing = 1000
	if svg, _ = draw(); !strings.Contains(svg, `<path class="ray pale" d="`+p.spread().faded(p.Top[20])) {
		t.Error("what has faded of a ray is not pale")
	}
	p.Members, p.Top, p.Marks = 10, p.Top[:5], nil
	if svg, caption = draw(); strings.Contains(svg+caption, "below rank") {
		t.Error("in a ring of ten some are below the first")
	}
}

// Of rings of all sizes no two rays lie over each other, wherever the first are, and no dot lies
// below one.
func TestRaysDoNotCollide(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 1))
	for _, n := range []int{linked + 1, 100, 300, 2000, 100_000} {
		for _, span := range []int{min(n, linked+1), n} { // one after another, or anywhere
			p := Picture{Members: n}
			for i, position := range random.Perm(span)[:40] {
				p.Top = append(p.Top, Mark{Slug: "s", Kind: kinds[i%3], Position: position + 1, Total: int64(5000 - i), Standing: int64(5000 - i)})
			}
			for i := range 80 {
				p.Marks = append(p.Marks, Mark{Position: i*n/80 + 1})
			}
			p.Here = &p.Marks[40]
			p = p.spread()
			for i, one := range p.Top {
				if l := p.end(one) - foot; i == 0 && l != longest || i > 0 && l >= p.end(p.Top[0])-foot {
					t.Errorf("%d members: the ray at rank %d has a length of %v", n, i+1, l)
				}
				for _, other := range append(slices.Clone(p.Top[:i]), p.Marks...) {
					if other.Position == one.Position {
						continue
					}
					if d := foot * math.Abs(math.Remainder(p.angle(one.Position)-p.angle(other.Position), 2*math.Pi)); d < 4 {
						t.Errorf("seed %d, %d members: %d and %d are %.2f apart", seed, n, one.Position, other.Position, d)
					}
				}
			}
		}
	}
}

// The numerals of the first three do not lie over each other, and stay in the picture.
func TestNumeralsStandApart(t *testing.T) {
	for _, positions := range [][]int{{1, 2, 3}, {2, 1, 3}, {1, 1000, 999}, {1000, 1, 2}, {500, 501, 250}, {1, 2}, {7}} {
		p := Picture{Members: 1000}
		for _, at := range positions {
			p.Top = append(p.Top, Mark{Kind: "agent", Position: at, Total: 100, Standing: 100})
		}
		all := p.numerals()
		spot := func(n numeral) (xy [2]float64) {
			for i, s := range []string{n.X, n.Y} {
				f, err := strconv.ParseFloat(s, 64)
				if err != nil || f < -10 || f > 410 {
					t.Errorf("%v: a numeral at %s", positions, s)
				}
				xy[i] = f
			}
			return xy
		}
		for i, one := range all {
			for _, other := range all[:i] {
				if a, b := spot(one), spot(other); math.Hypot(a[0]-b[0], a[1]-b[1]) < 24.5 {
					t.Errorf("%v: numerals at %v and %v", positions, a, b)
				}
			}
		}
	}
}

// A ray is the standing, and its tail what has faded: rank 1 has the longest, and nothing is longer.
func TestTheBrightPartOfARayStands(t *testing.T) {
	first, m := Mark{Kind: "agent", Position: 2, Total: 9000, Standing: 9000}, Mark{Kind: "agent", Position: 1, Total: 8000, Standing: 2500}
	p := Picture{Members: 4, Top: []Mark{first, m}}
	l, tail := p.length(2500), p.length(8000)
	if p.ray(m) != p.line(1, foot, foot+l) || p.faded(m) != p.line(1, foot+l, foot+tail) || p.length(9000) != longest {
		t.Errorf("%s, then %s", p.ray(m), p.faded(m))
	}
	if m.Standing = 0; p.ray(m) != "" || p.faded(m) != p.line(1, foot, foot+tail) {
		t.Error("a ray of which nothing stands is bright")
	}
	if m.Standing = m.Total; p.faded(m) != "" {
		t.Error("a ray that stands in full is pale")
	}
	if m.Total = 1_000_000; p.end(m) != foot+longest {
		t.Error("a tail is longer than the ray at rank 1")
	}
}

// Rays grow outwards with what counts, also where the fee is a cent.
func TestRaysPointOutwards(t *testing.T) {
	p := Picture{Members: 4, Marks: []Mark{{Standing: 5000}}}
	before := 0.0
	for _, cents := range []int64{1, 50, 100, 101, 5000} {
		if l := p.length(cents); l < max(before, shortest) || l > longest {
			t.Errorf("%d cents: a ray of %f after one of %f", cents, l, before)
		} else {
			before = l
		}
	}
}

// Pages say how to be told, and of a hub where feeds name one.
func TestPagesSayHowToBeTold(t *testing.T) {
	feeds := page
	feeds.Feeds = []Feed{{Type: "application/atom+xml", Title: "News as Atom", Path: "/feeds/members/a.atom"}}
	for _, hub := range []bool{false, true} {
		member, docs := textOf(Member{Page: feeds, Row: Row{Member: describe.Member{Slug: "a", Score: "1"}}, Hub: hub}.HTML()), textOf(Docs{Page: page, Hub: hub}.HTML())
		for _, want := range []string{`<p id="told">Get told when it is outbid`, "News as Atom", "a webhook</a>"} {
			if !strings.Contains(member, want) {
				t.Errorf("a member's page has no %s", want)
			}
		}
		for _, want := range []string{"/feeds/members/SLUG.atom", "<code>v1a</code> (ed25519)", "<code>webhook.key</code> in <code>/api/ring/SLUG/events</code>", "ten failed tries", "410", "set the URL again", "deletes it"} {
			if !strings.Contains(docs, want) {
				t.Errorf("the docs do not say %s", want)
			}
		}
		if strings.Contains(member, "WebSub hub") != hub || strings.Contains(docs, `<code>rel="hub"</code>`) != hub {
			t.Errorf("a hub is named: %t", !hub)
		}
	}
}

// The page says which links are in the footer, and no others.
func TestAboutPromisesWhatTheFooterHas(t *testing.T) {
	const terms, privacy, report = "https://operator.dev/terms", "https://operator.dev/privacy", "mailto:abuse@operator.dev"
	for said, p := range map[string]Policies{
		"":                                  {},
		"terms":                             {Terms: terms},
		"privacy policy":                    {Privacy: privacy},
		"report address":                    {Report: report},
		"terms and privacy policy":          {Terms: terms, Privacy: privacy},
		"terms and report address":          {Terms: terms, Report: report},
		"privacy policy and report address": {Privacy: privacy, Report: report},
		"terms, privacy policy and report address": {Terms: terms, Privacy: privacy, Report: report},
	} {
		v := About{Page: page}
		v.Policies = p
		got := textOf(v.HTML())
		if said != "" {
			said = "<h2>Contact</h2><p>The footer links to the operator&#39;s " + said + ".</p>"
		}
		if !strings.Contains(got, said) || strings.Contains(got, "The footer") != (said != "") {
			t.Errorf("with %+v there is no %q", p, said)
		}
		for address, promised := range map[string]bool{terms: p.Terms != "", privacy: p.Privacy != "", report: p.Report != ""} {
			if strings.Contains(got, `href="`+address+`"`) != promised {
				t.Errorf("with %+v: a link to %s", p, address)
			}
		}
	}
}

func TestASyntheticRingSaysSo(t *testing.T) {
	p := page
	p.Synthetic = true
	for name, body := range map[string]templ.Component{"home": Home{Page: p}.HTML(), "ring": Ring{Page: p}.HTML(), "join": Join{Page: p}.HTML(),
		"embed": Embed{Page: p}.HTML(), "docs": Docs{Page: p}.HTML(), "about": About{Page: p}.HTML(), "problem": Problem{Page: p}.HTML(), "member": Member{Page: p}.HTML(), "leaderboard": Leaderboard{Page: p}.HTML()} {
		if !strings.Contains(textOf(body), "This ring is synthetic.") {
			t.Errorf("%s does not", name)
		}
	}
}

func TestLinksThatAreNotHTTPAreNotDrawn(t *testing.T) {
	row := Row{Member: describe.Member{Rank: 1, Name: "x", URL: "javascript:alert(1)", Report: "javascript:alert(2)", Score: "1"}}
	pages := textOf(Home{Page: page, Members: 1, Leader: &row, Board: ranked([]Row{row})}.HTML()) + textOf(Member{Page: page, Row: row}.HTML())
	if strings.Contains(pages, `="javascript:`) {
		t.Error("a script became a link")
	}
}

func TestABadgeHoldsItsText(t *testing.T) {
	v := Badge{Ring: strings.Repeat("W<&", 30), Name: `"<b>"`, Position: 1_234_567}
	svg := string(v.SVG())
	if strings.Contains(svg, "<b>") || !strings.Contains(svg, "No. 1\u202f234\u202f567") || len(svg) > 2048 {
		t.Error(svg)
	}
	if err := xml.Unmarshal(v.SVG(), new(struct{})); err != nil {
		t.Error(err)
	}
}

func TestABadgeIsXMLWhateverTheNames(t *testing.T) {
	for _, c := range []string{"\x00", "\x1f", "\t", "\n", "\r", "\x7f", "\u0085", "\ud7ff", "\ue000", "\ufffd", "\ufffe", "\uffff", "\U0001ffff", "\U0010ffff", "\xff", "]]>"} {
		v := Badge{Ring: "Ring" + c + "s", Name: "Al" + c + "pha", Position: 1}
		var got struct {
			Title string `xml:"title"`
			Text  string `xml:"text"`
		}
		if err := xml.Unmarshal(v.SVG(), &got); err != nil || !strings.HasPrefix(got.Title, "Al") || !strings.Contains(got.Title, "pha, No. 1 in Ring") || !strings.Contains(got.Text, "s · No. 1") {
			t.Errorf("%q: %v, %+q", c, err, got)
		}
	}
}

func TestEveryProblemTypeIsExplained(t *testing.T) {
	seen := map[string]string{}
	for _, p := range Explain(api.Codes()...) {
		if !strings.HasSuffix(p.Meaning, ".") || !strings.HasSuffix(p.Remedy, ".") {
			t.Errorf("no explanation: %+v", p)
		}
		if other, ok := seen[p.Meaning]; ok {
			t.Errorf("%s and %s mean the same", p.Code, other)
		}
		seen[p.Meaning] = p.Code
	}
	if len(problemWords()) != len(api.Codes()) {
		t.Errorf("%d explanations of %d codes", len(problemWords()), len(api.Codes()))
	}
}

func TestProblem(t *testing.T) {
	golden(t, "problem", textOf(Problem{Page: below("/problems/unknown_member"),
		Code: "unknown_member", Status: 404, Summary: "No such member", Meaning: "It is not there.", Remedy: "Look elsewhere."}.HTML()))
}

func TestReport(t *testing.T) {
	page := golden(t, "report", textOf(Report{Page: Page{Title: "Agent readiness", Ring: "Ring", Root: "../", Style: "/static/s.css"},
		ID: "abc", Site: "https://acme.com/?<b>", Score: 5, Rubric: "webring-1", Note: "What it means.", Requests: 21,
		Scanned: time.Date(2026, 8, 23, 10, 23, 7, 0, time.UTC), Groups: []ReportGroup{{Name: "Reach", Earned: 5, Points: 9, Checks: []ReportCheck{
			{Title: "Home page", Evidence: "Status 200.", Earned: 5, Points: 5},
			{Title: "Honest 404", Evidence: "Status 200.", Fix: "Answer <404>.", Points: 4},
		}}}}.HTML()))
	if strings.Contains(page, "<b>") || strings.Contains(page, "<404>") {
		t.Error("words became markup")
	}
}

// looks is a page as the system's Chromium shows it, with rules at the end of the
// style sheet.
func looks(t *testing.T, page templ.Component, rules string) *image.RGBA {
	t.Helper()
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("needs Chromium: apt install chromium")
	}
	style, err := os.ReadFile("../static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	face, err := os.ReadFile("../static/face.woff2")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"page.html": Render(page), "s.css": append(style, rules...), "face.woff2": face} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	picture := filepath.Join(dir, "page.png")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1000,1400",
		"--screenshot="+picture, "file://"+filepath.Join(dir, "page.html"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	b, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	shot, err := png.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	drawn := image.NewRGBA(shot.Bounds())
	draw.Draw(drawn, drawn.Rect, shot, image.Point{}, draw.Src)
	return drawn
}

// differing is the part of two pictures of one size that is not alike.
func differing(a, b *image.RGBA) (r image.Rectangle) {
	for y := range a.Rect.Dy() {
		for x := range a.Rect.Dx() {
			if a.RGBAAt(x, y) != b.RGBAAt(x, y) {
				r = r.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return r
}

// differ is the part in which a page and another one, with rules, do not look alike. A
// browser that gets no processor may take its picture before all is drawn: so one part
// that is not as it is to be is none yet.
func differ(t *testing.T, one, other templ.Component, rules string, fits func(image.Rectangle) bool) (where image.Rectangle) {
	t.Helper()
	for range 3 {
		if where = differing(looks(t, one, ""), looks(t, other, rules)); fits(where) {
			break
		}
		t.Logf("differs at %v", where)
	}
	return where
}

// Marks that are stacked on a member's letters show on the member's own line alone;
// those that languages have are shown whole.
func TestWordsKeepToTheirPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a browser, which the short run does not")
	}
	at := page
	at.Style, at.Script, at.Icon = "/s.css", "", ""
	show := func(name string) (pages map[string]templ.Component) {
		rows := hostile()
		pages = map[string]templ.Component{"member": Member{Page: at, Row: rows[0], Prev: Row{Member: describe.Member{Name: name}}, Next: rows[1], Members: 3}.HTML()}
		rows[1].Name = name
		pages["ring"] = Ring{Page: at, Members: 3, From: 1, To: 3, Rows: rows}.HTML()
		led := rows[1]
		led.Description = name // in rows it ends where its line does
		pages["home"] = Home{Page: at, Members: 3, Leader: &led, Board: ranked(rows)}.HTML()
		return pages
	}
	stacked := strings.Repeat("\u0301\u0316\u030b\u0323\u0302", 5)
	plain, marked := show("Zal"), show("Z"+stacked+"a"+stacked+"l"+stacked)
	for _, name := range []string{"ring", "member"} {
		// As letters with marks may be broader, the host behind them may move.
		fits := func(where image.Rectangle) bool { return !where.Empty() && where.Dy() <= 40 && where.Dx() <= 160 }
		if where := differ(t, plain[name], marked[name], "", fits); !fits(where) {
			t.Errorf("%s: marks show at %v", name, where)
		}
	}
	home := show("\u1eac\u0301\u1ec7g \u01fajpqy \u0e17\u0e35\u0e48\u0e1b\u0e39\u0e48\u0e0e \u0915\u0942\u0901 \u0930\u094d\u0915\u094d\u0937\u094d\u092e\u094d\u092f")["home"]
	if cut := differ(t, home, home, "bdi { overflow: visible !important }", image.Rectangle.Empty); !cut.Empty() {
		t.Errorf("what is written so is cut at %v", cut)
	}
}

func TestPageOfAnError(t *testing.T) {
	p := below("")
	p.Script = ""
	golden(t, "error", textOf(Error{Page: p, Status: 503, Heading: "Out of <reach>", Reason: "A & B.", Hint: "Try again in 2 seconds.", Code: "not_leader",
		Explained: true, RequestID: "abcdefgh-1", Again: "Try again"}.HTML()))
	empty := textOf(Error{Page: p, Status: 404, Heading: "Nobody", Code: "another's", Empty: true}.HTML())
	for _, not := range []string{"random", "search", "problems/"} {
		if strings.Contains(empty, not) {
			t.Errorf("%s in %s", not, empty)
		}
	}
}

// The policy of each page has the hash of the one script that is in it, and no other.
func TestThePolicyNamesTheScriptOfTheTheme(t *testing.T) {
	script := regexp.MustCompile(`<script data-theme>([^<]*)</script>`).FindStringSubmatch(textOf(About{Page: below("/about")}.HTML()))
	if script == nil {
		t.Fatal("there is no such script")
	}
	sum := sha256.Sum256([]byte(script[1]))
	for _, policy := range []string{Policy, VerifyPolicy} {
		if !strings.Contains(policy, "script-src 'self' 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || strings.Count(policy, "sha256-") != 1 {
			t.Error(policy)
		}
	}
}
