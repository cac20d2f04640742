package templates

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func TestHomeOfAFilledRing(t *testing.T) {
	rows := []Row{
		{Rank: 1, Name: "First & Co", URL: "https://first.example/", Description: `Says "hello" <b>`, Kind: "agent", Category: "general",
			Standing: "12.00", Paid: "51.00"},
		{Rank: 2, Name: "<script>alert(1)</script>", URL: `https://second.example/?q="a"&b='c'`, Kind: "website", Category: "news",
			Standing: "1.00", Paid: "1.00", TakeFirst: "11.01"},
	}
	page := golden(t, "home", string(Home{Page: Page{Title: "Ring", Ring: "Ring", Style: "/static/s.css"},
		Members: 3, Leader: &rows[0], Rows: rows, Fee: "1.00", JoinAtFirst: "11.01"}.HTML()))
	if strings.Contains(page, "<script") {
		t.Error("a member's words became markup")
	}
	if links, sponsored := strings.Count(page, `href="https://`), strings.Count(page, `rel="sponsored noopener"`); links != 3 || sponsored != links {
		t.Errorf("%d links to members, %d of them marked as paid", links, sponsored)
	}
}

func TestHomeOfAnEmptyRing(t *testing.T) {
	golden(t, "empty", string(Home{Page: Page{Title: "Ring", Ring: "Ring", Style: "/static/s.css"}, Fee: "1.00", JoinAtFirst: "0.00"}.HTML()))
}

func TestHomeOfASyntheticRingSaysSo(t *testing.T) {
	v := Home{Page: Page{Title: "Ring", Ring: "Ring", Style: "/static/s.css"}, Synthetic: true, Fee: "1.00", JoinAtFirst: "0.00"}
	if page := string(v.HTML()); !strings.Contains(page, "This ring is synthetic.") {
		t.Error(page)
	}
}

func TestLinksThatAreNotHTTPAreNotDrawn(t *testing.T) {
	row := Row{Rank: 1, Name: "x", URL: "javascript:alert(1)"}
	page := Home{Page: Page{Style: "/s"}, Members: 1, Leader: &row, Rows: []Row{row}}.HTML()
	if strings.Contains(string(page), "javascript:") {
		t.Error("a script became a link")
	}
}

func TestProblem(t *testing.T) {
	golden(t, "problem", string(Problem{Page: Page{Title: "No such member", Root: "../", Style: "/static/s.css"},
		Code: "unknown_member", Status: 404, Meaning: "It is not there.", Remedy: "Look elsewhere."}.HTML()))
}
