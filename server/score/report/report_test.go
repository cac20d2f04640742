package report

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func example() *Report {
	return &Report{ID: strings.Repeat("a", idLength), URL: "https://acme.com/<b>", Score: 5, Rubric: "webring-1",
		ScannedAt: time.Date(2026, 8, 23, 10, 23, 7, 0, time.UTC), Requests: 21, Note: Note,
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

func TestReportsAreStoredUnderIdsNobodyCanGuess(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 50 {
		r := example()
		if err := s.Put(r); err != nil || !validID(r.ID) || seen[r.ID] {
			t.Fatalf("%q, %v", r.ID, err)
		}
		seen[r.ID] = true
		if got, err := s.Get(r.ID); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, id := range []string{"", "..", "../held", strings.Repeat("a", idLength), strings.Repeat("A", idLength), strings.Repeat(".", idLength), strings.Repeat("/", idLength)} {
		if r, err := s.Get(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %+v, %v", id, r, err)
		}
	}
}

func TestWhatIsWantedStaysAndTheRestGoes(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func() string {
		r := example()
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	member, other := put(), put()
	wanted := func(r *Report) bool { return r.ID == member }
	sweep := func(after time.Duration, all bool) {
		t.Helper()
		if err := s.Sweep(time.Now().Add(after), all, wanted); err != nil {
			t.Fatal(err)
		}
	}
	there := func(id string) bool { _, err := s.Get(id); return err == nil }

	sweep(safeTime/2, true)
	sweep(draftTime-time.Minute, true)
	if !there(member) || !there(other) || s.count.Load() != 1 {
		t.Errorf("too early: %v %v, %d drafts", there(member), there(other), s.count.Load())
	}
	sweep(draftTime+time.Minute, true)
	sweep(1000*time.Hour, true)
	if !there(member) || there(other) || s.count.Load() != 0 {
		t.Errorf("after a day: %v %v, %d drafts", there(member), there(other), s.count.Load())
	}
	if s, err = Open(dir); err != nil || !there(member) {
		t.Errorf("after a restart: %v", err)
	}
	wanted = func(*Report) bool { return false }
	sweep(0, false)
	if !there(member) {
		t.Error("held reports are looked through each time")
	}
	sweep(0, true)
	if there(member) {
		t.Error("a member's report outlives the member")
	}
}

func TestDraftsAreBounded(t *testing.T) {
	const most = 60
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(dir)
		if err != nil || s.most != maxDrafts {
			t.Fatal(err)
		}
		s.most = most
		return s
	}
	s := open()
	for range most {
		if err := s.Put(example()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(example()); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	if s = open(); !errors.Is(s.Put(example()), ErrFull) {
		t.Error("after a restart there is room")
	}
	none := func(*Report) bool { return false }
	if err := s.Sweep(time.Now(), false, none); err != nil || s.count.Load() != most {
		t.Errorf("what may be in a challenge went: %v, %d left", err, s.count.Load())
	}
	if err := s.Sweep(time.Now().Add(2*safeTime), false, none); err != nil || s.count.Load() != most/2 {
		t.Errorf("%v, %d left", err, s.count.Load())
	}
}
