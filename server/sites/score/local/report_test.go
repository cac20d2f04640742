package local

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example is a report of an earlier rubric, as it is stored: it keeps its words.
func example() *Report {
	const note = "Passing means declared and parseable: the scan reads what the site publishes about itself, without running scripts and without trying whether interfaces work."

	return &Report{ID: strings.Repeat("a", idLength), URL: "https://acme.com/<b>", Score: 5, Rubric: "webring-1",
		ScannedAt: time.Date(2026, 8, 23, 10, 23, 7, 0, time.UTC), Requests: 21, Note: note,
		Groups: []Group{{Name: "Reach", Points: 9, Earned: 5, Checks: []Check{
			{ID: "home", Title: "Home page", Points: 5, Earned: 5, Evidence: "Status 200."},
			{ID: "not-found", Title: "Honest 404", Points: 4, Evidence: "Status 200.", Fix: "Answer 404."},
		}}}}
}

func TestFormsOfAReport(t *testing.T) {
	for name, got := range map[string][]byte{"report.json": example().JSON(), "report.md": example().Markdown()} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v; look at the change, then run with -update:\n%s", file, err, got)
		}
	}
	var again Report
	if err := json.Unmarshal(example().JSON(), &again); err != nil || !reflect.DeepEqual(again, *example()) {
		t.Errorf("%+v, %v", again, err)
	}
}
