package report

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webring/server/durable"
)

// Which reports are kept. A report that the score of a member or of an open payment
// rests on is held for as long as that is so. All others are drafts:
//
//   - A draft younger than InChallenges stays: a challenge that is about to be paid
//     may name it. InChallenges is longer than a score is cached and a challenge is
//     then valid.
//   - A draft older than draftTime goes.
//   - Of those between, the oldest go while there are more than half of MaxDrafts: at
//     the next sweep, or at once when a report beyond MaxDrafts comes.
//
// Fewer than half of MaxDrafts sites can be scanned within InChallenges, which a test in
// server/cmd/webring checks. So there is always a draft that may go, and the disk space
// is bounded: a report has a few kilobytes.
const (
	MaxDrafts    = 12288
	InChallenges = 20 * time.Minute
	draftTime    = 24 * time.Hour

	idLength = 26 // characters of base32, 128 bits
)

// ErrNotFound says that there is no report with an id.
var ErrNotFound = errors.New("report: not found")

// Store keeps reports in a folder, drafts in one below it and those that are
// held in another. It is safe for concurrent use, but not by two processes.
type Store struct {
	drafts, held string
	wanted       func(*Report) bool
	most         int64
	count        atomic.Int64 // of drafts
	sweeping     sync.Mutex   // one sweep of the drafts at a time
}

// Open opens the store in folder, which is made if absent. wanted reports whether the
// score of a member or of an open payment rests on a report.
func Open(folder string, wanted func(*Report) bool) (*Store, error) {
	s := &Store{drafts: filepath.Join(folder, "drafts"), held: filepath.Join(folder, "held"), wanted: wanted, most: MaxDrafts}
	for _, dir := range []string{s.drafts, s.held} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(s.drafts)
	s.count.Store(int64(len(entries)))
	return s, err
}

// Put gives the report an id and stores it as a draft. If there are too many drafts,
// the oldest ones are removed.
func (s *Store) Put(r *Report) error {
	if s.count.Add(1) > s.most {
		s.makeRoom()
	}
	r.ID = newID()
	text, err := json.Marshal(r)
	if err == nil {
		err = write(s.drafts, r.ID, text)
	}
	if err != nil {
		s.count.Add(-1)
	}
	return err
}

// makeRoom sweeps the drafts, unless another has just done so.
func (s *Store) makeRoom() {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if s.count.Load() > s.most {
		// No reason to refuse a report: the next [Store.Sweep] meets the same error.
		_ = s.sweepDrafts(time.Now())
	}
}

// Restore stores a report of [Store.Kept] as held.
func (s *Store) Restore(id string, text []byte) error {
	r := new(Report)
	if !validID(id) || json.Unmarshal(text, r) != nil || r.ID != id {
		return fmt.Errorf("report: %q is not a report", id)
	}
	return write(s.held, id, text)
}

// newID makes an id.
func newID() string { return strings.ToLower(rand.Text()) }

// write stores a report durably: a payment may rest on it a moment later.
func write(dir, id string, text []byte) error {
	return durable.Write(filepath.Join(dir, id), text, 0o600)
}

// Get reads a report. It fails with [ErrNotFound] if there is none.
func (s *Store) Get(id string) (*Report, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	for _, dir := range []string{s.held, s.drafts, s.held} { // it may move meanwhile
		r, err := read(filepath.Join(dir, id))
		if !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return nil, ErrNotFound
}

func read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	return r, json.Unmarshal(text, r)
}

// Kept calls f with id and text of each report that is held or will be, until f fails.
func (s *Store) Kept(f func(id string, text []byte) error) error {
	// In this order, a report that moves meanwhile may come twice.
	for _, dir := range []string{s.drafts, s.held} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !validID(e.Name()) {
				continue // being written
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // moved or removed meanwhile
			}
			if err != nil {
				return err
			}
			r := new(Report)
			if err := json.Unmarshal(text, r); err != nil || !s.wanted(r) {
				continue
			}
			if err := f(e.Name(), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes a report for good. There may be none with that id.
func (s *Store) Remove(id string) error {
	if !validID(id) {
		return nil
	}
	for _, dir := range []string{s.drafts, s.held} { // it may move meanwhile
		err := os.Remove(filepath.Join(dir, id))
		if err == nil && dir == s.drafts {
			s.count.Add(-1)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Sweep holds drafts that are wanted, and removes old ones. With all it also removes
// held reports that are no longer wanted.
func (s *Store) Sweep(now time.Time, all bool) error {
	if all {
		if err := s.release(); err != nil {
			return err
		}
	}
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	return s.sweepDrafts(now)
}

// sweepDrafts is Sweep for drafts alone. The caller holds sweeping.
func (s *Store) sweepDrafts(now time.Time) error {
	entries, err := os.ReadDir(s.drafts)
	if err != nil {
		return err
	}
	type draft struct {
		path string
		at   time.Time
	}
	var old []draft
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		if now.Sub(info.ModTime()) >= InChallenges {
			old = append(old, draft{filepath.Join(s.drafts, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(old, func(a, b draft) int { return a.at.Compare(b.at) })
	left := int64(len(entries))
	for _, d := range old {
		r, err := read(d.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed meanwhile
		case errors.As(err, new(*fs.PathError)):
			return err // it may be wanted
		case err == nil && s.wanted(r):
			err = os.Rename(d.path, filepath.Join(s.held, r.ID))
		case left > s.most/2 || now.Sub(d.at) >= draftTime || err != nil:
			err = os.Remove(d.path)
		default:
			continue
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // [Store.Remove] was first, and counted it
		case err != nil:
			return err
		default:
			s.count.Add(-1)
		}
		left--
	}
	return nil
}

func (s *Store) release() error {
	entries, err := os.ReadDir(s.held)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.held, e.Name())
		if r, err := read(path); err == nil && !s.wanted(r) {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
