package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Report is one scan of one site. It is stored under an id that cannot be guessed, and never
// changes.
//
// All words in a report are this project's own. Of the site it holds only the URL,
// status codes and counts, so it can be shown without showing what a stranger wrote.
type Report struct {
	ID        string    `json:"id,omitempty"` // "" when it is not stored
	URL       string    `json:"url"`          // canonical, of the site
	Score     int       `json:"score"`
	Rubric    string    `json:"rubric"` // name and version
	ScannedAt time.Time `json:"scanned_at"`
	Requests  int       `json:"requests"` // that the scan sent
	Note      string    `json:"note"`
	Groups    []Group   `json:"groups"`
}

// Group is a part of the rubric. Points are the same for every site.
type Group struct {
	Name   string  `json:"name"`
	Points int     `json:"points"`
	Earned int     `json:"earned"`
	Checks []Check `json:"checks"`
}

// Check is one question about the site. Earned is all of its points or none.
type Check struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Points   int    `json:"points"`
	Earned   int    `json:"earned"`
	Evidence string `json:"evidence"`      // what was found
	Fix      string `json:"fix,omitempty"` // what to do, when it failed
}

// Passed says whether the check earned its points.
func (c Check) Passed() bool { return c.Earned == c.Points }

// Bonus is the name of the group of checks that count on top of the 100 points.
const Bonus = "Bonus"

// Note says what a report means, and stands in each.
const Note = "Passing means declared and parseable: the scan reads what the site publishes about itself, without running scripts. Of interfaces it tries one: an MCP server is asked to introduce itself. No tool is called."

// JSON is the report as a document.
func (r *Report) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		panic(err) // a report is strings, numbers and an instant
	}
	return b.Bytes()
}

// Markdown is the report as text.
func (r *Report) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Agent readiness: %d of 100\n\n", r.Score)
	fmt.Fprintf(&b, "- Site: <%s>\n- Scanned: %s, %d requests\n- Rubric: %s\n",
		inAngles.Replace(r.URL), r.ScannedAt.UTC().Format(time.RFC3339), r.Requests, r.Rubric)
	if r.ID != "" {
		fmt.Fprintf(&b, "- Report: %s\n", r.ID)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Note)
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "\n## %s: %d of %d\n\n", g.Name, g.Earned, g.Points)
		for _, c := range g.Checks {
			mark := "x"
			if !c.Passed() {
				mark = " "
			}
			fmt.Fprintf(&b, "- [%s] %s (%d of %d). %s\n", mark, c.Title, c.Earned, c.Points, c.Evidence)
			if c.Fix != "" {
				fmt.Fprintf(&b, "  Fix: %s\n", c.Fix)
			}
		}
	}
	return b.Bytes()
}

// inAngles spells a URL so that it cannot end a Markdown link.
var inAngles = strings.NewReplacer("<", "%3C", ">", "%3E", "\n", "%0A")

// validID says whether s has the form of an id.
func validID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
