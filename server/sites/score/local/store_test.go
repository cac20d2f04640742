package local

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// shelf is a store of reports over a ledger in memory, with a clock of its own.
type shelf struct {
	*testing.T
	*Store
	books  *ledger.Ledger
	wanted map[string]bool

	mu  sync.Mutex
	now time.Time
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{T: t, wanted: map[string]bool{}, now: time.Now()}
	var err error
	s.books, err = ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 1, Now: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.books.Close() })
	s.reopen()
	return s
}

// reopen makes the store anew, as a restart does.
func (s *shelf) reopen() {
	s.Store = Open(s.books, func(v *ledger.View, id, url string) bool {
		if url != example().URL || v.State() == nil {
			s.Errorf("asked for %q at %q", id, url)
		}
		return s.wanted[id]
	})
}

func (s *shelf) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shelf) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *shelf) put() (id string) {
	s.Helper()
	s.pass(time.Millisecond) // the age orders them
	r := example()
	r.ScannedAt = s.clock()
	if err := s.Put(r); err != nil {
		s.Fatal(err)
	}
	return r.ID
}

func (s *shelf) sweep(all bool) {
	s.Helper()
	if err := s.Sweep(s.Context(), all); err != nil {
		s.Fatal(err)
	}
}

func (s *shelf) there(id string) bool {
	s.Helper()
	_, err := s.Get(id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.Fatal(err)
	}
	return err == nil
}

// drafts is how many there are.
func (s *shelf) drafts() int {
	s.Helper()
	s.oldest = ""
	n, err := s.countDrafts()
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func TestReportsAreStoredUnderIdsNobodyCanGuess(t *testing.T) {
	s := newShelf(t)
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
	for _, id := range []string{"", "..", strings.Repeat("a", idLength), strings.Repeat("A", idLength), strings.Repeat(".", idLength), strings.Repeat("\x00", idLength)} {
		if r, err := s.Get(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %+v, %v", id, r, err)
		}
	}
}

func TestWhatIsWantedStaysAndTheRestGoes(t *testing.T) {
	s := newShelf(t)
	member, other := s.put(), s.put()
	s.wanted[member] = true

	s.pass(InChallenges / 2)
	s.sweep(true)
	if n := s.drafts(); n != 2 {
		t.Errorf("%d drafts, want both", n)
	}
	s.pass(draftTime - time.Minute - InChallenges/2)
	s.sweep(true)
	if n := s.drafts(); !s.there(member) || !s.there(other) || n != 1 {
		t.Errorf("too early: %v %v, %d drafts", s.there(member), s.there(other), n)
	}
	s.pass(2 * time.Minute)
	s.sweep(false)
	if n := s.drafts(); !s.there(member) || s.there(other) || n != 0 {
		t.Errorf("after a day: %v %v, %d drafts", s.there(member), s.there(other), n)
	}
	s.pass(time.Hour)
	s.reopen()
	delete(s.wanted, member)
	s.sweep(false)
	if !s.there(member) {
		t.Error("held reports are looked through each time")
	}
	s.sweep(true)
	if s.there(member) {
		t.Error("a member's report outlives the member")
	}
}

// The oldest drafts go while there are too many, but none that a challenge may name, nor
// one that a score or an open payment rests on.
func TestDraftsAreBounded(t *testing.T) {
	s := newShelf(t)
	s.most = draftsPage + 44
	var old, young []string
	for range s.most + 100 {
		old = append(old, s.put())
	}
	s.wanted[old[0]] = true
	s.pass(InChallenges)
	for range 20 {
		young = append(young, s.put())
	}
	for range 2 {
		s.sweep(false)
		// With the one that is held there are as many as were put.
		gone := 120
		for i, id := range old {
			if want := i == 0 || i >= gone; s.there(id) != want {
				t.Fatalf("old draft %d is there: %t, want %t", i, !want, want)
			}
		}
	}
	for _, id := range young {
		if !s.there(id) {
			t.Error("a draft that a challenge may name is gone")
		}
	}
	if n := s.drafts(); n != s.most {
		t.Errorf("%d drafts, want %d", n, s.most)
	}
	s.pass(draftTime)
	s.sweep(false)
	if n := s.drafts(); n != 0 || !s.there(old[0]) {
		t.Errorf("%d drafts are left after a day", n)
	}
}

func TestRemovedReportsAreGone(t *testing.T) {
	s := newShelf(t)
	for _, held := range []bool{false, true} {
		id := s.put()
		s.wanted[id] = true
		if held {
			s.pass(InChallenges)
			s.sweep(false)
		}
		for range 2 {
			if err := s.books.Do(t.Context(), func(tx *ledger.Tx) error { return Remove(tx, id) }); err != nil {
				t.Error(err)
			}
		}
		if n := s.drafts(); s.there(id) || n != 0 {
			t.Errorf("held %t: there %t, %d drafts", held, s.there(id), n)
		}
	}
	if err := s.books.Do(t.Context(), func(tx *ledger.Tx) error { return Remove(tx, "..") }); err != nil {
		t.Error(err)
	}
}
