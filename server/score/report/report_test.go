package report

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
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
	s, err := Open(t.TempDir(), nil)
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
	wanted := func(*Report) bool { return false }
	open := func() *Store {
		s, err := Open(dir, func(r *Report) bool { return wanted(r) })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	put := func() string {
		r := example()
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	member, other := put(), put()
	wanted = func(r *Report) bool { return r.ID == member }
	sweep := func(after time.Duration, all bool) {
		t.Helper()
		if err := s.Sweep(time.Now().Add(after), all); err != nil {
			t.Fatal(err)
		}
	}
	there := func(id string) bool { _, err := s.Get(id); return err == nil }

	sweep(InChallenges/2, true)
	sweep(draftTime-time.Minute, true)
	if !there(member) || !there(other) || s.count.Load() != 1 {
		t.Errorf("too early: %v %v, %d drafts", there(member), there(other), s.count.Load())
	}
	sweep(draftTime+time.Minute, true)
	sweep(1000*time.Hour, true)
	if !there(member) || there(other) || s.count.Load() != 0 {
		t.Errorf("after a day: %v %v, %d drafts", there(member), there(other), s.count.Load())
	}
	if s = open(); !there(member) {
		t.Error("gone after a restart")
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

// TestAFullStoreMakesRoomForTheNextReport holds that drafts of earlier, however many,
// refuse nobody a scan: the oldest go, but none that a challenge may name, nor one that
// a score or an open payment rests on.
func TestAFullStoreMakesRoomForTheNextReport(t *testing.T) {
	const most = 60
	dir, wanted := t.TempDir(), ""
	open := func() *Store {
		s, err := Open(dir, func(r *Report) bool { return r.ID == wanted })
		if err != nil || s.most != MaxDrafts {
			t.Fatal(err)
		}
		s.most = most
		return s
	}
	s, now := open(), time.Now()
	put := func(age time.Duration) string {
		t.Helper()
		r := example()
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		at := now.Add(-age)
		if err := os.Chtimes(filepath.Join(s.drafts, r.ID), at, at); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	there := func(id string) bool { _, err := s.Get(id); return err == nil }

	var old []string // the oldest first
	for i := range most / 2 {
		old = append(old, put(InChallenges+time.Duration(most-i)*time.Second))
	}
	wanted = old[0]
	var young []string
	for range most / 2 {
		young = append(young, put(InChallenges-time.Minute))
	}
	s = open() // a restart makes no room
	newest := put(0)
	if n := s.count.Load(); n > most {
		t.Errorf("%d drafts are stored, of %d", n, most)
	}
	for i, id := range old {
		if want := i == 0; there(id) != want {
			t.Errorf("old draft %d is there: %t, want %t", i, !want, want)
		}
	}
	for _, id := range append(young, newest) {
		if !there(id) {
			t.Error("a draft that a challenge may name is gone")
		}
	}
	// As many at the same time as are scanned at the same time.
	var scans sync.WaitGroup
	for range 4 * most {
		scans.Go(func() {
			if err := s.Put(example()); err != nil {
				t.Error(err)
			}
		})
	}
	scans.Wait()
	if err := s.Sweep(time.Now().Add(2*InChallenges), false); err != nil || s.count.Load() != most/2 {
		t.Errorf("%v, %d drafts are left", err, s.count.Load())
	}
}

// TestKeptReportsComeBack holds that what members rest on goes into another
// folder, from the first second on, and nothing else does.
func TestKeptReportsComeBack(t *testing.T) {
	wanted := map[string]bool{}
	open := func() *Store {
		s, err := Open(t.TempDir(), func(r *Report) bool { return wanted[r.ID] })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	from, to := open(), open()
	reports := map[string]*Report{}
	for i := range 6 {
		r := example()
		r.Score = i
		if err := from.Put(r); err != nil {
			t.Fatal(err)
		}
		wanted[r.ID] = i%2 == 0
		reports[r.ID] = r
		if i == 2 { // those before it are held, those after it drafts
			if err := from.Sweep(time.Now().Add(InChallenges), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(from.drafts, strings.Repeat("b", idLength)+".new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := from.Kept(to.Restore); err != nil {
		t.Fatal(err)
	}
	for id, r := range reports {
		got, err := to.Get(id)
		if wanted[id] && (err != nil || !reflect.DeepEqual(got, r)) || !wanted[id] && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s, wanted %t: %+v, %v", id, wanted[id], got, err)
		}
	}
	for id, text := range map[string]string{"../" + strings.Repeat("a", idLength-3): "{}", strings.Repeat("a", idLength): `{"id":"x"}`, strings.Repeat("c", idLength): ""} {
		if err := to.Restore(id, []byte(text)); err == nil {
			t.Errorf("%q was restored as %s", text, id)
		}
	}
}

func TestRemovedReportsAreGone(t *testing.T) {
	s, err := Open(t.TempDir(), func(*Report) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range []bool{false, true} {
		r := example()
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
		if held {
			if err := s.Sweep(time.Now().Add(InChallenges), false); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.Remove(r.ID); err != nil || s.count.Load() != 0 {
				t.Errorf("%v, %d drafts", err, s.count.Load())
			}
		}
		if _, err := s.Get(r.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("held %t: %v", held, err)
		}
	}
	if err := s.Remove("../held"); err != nil {
		t.Error(err)
	}
}
