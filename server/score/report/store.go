package report

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Which reports are kept: one that a member's score rests on, or an open
// payment's, for as long as that is so. The others are drafts. A draft may be
// in a challenge that somebody is about to pay, so none goes before safeTime;
// all go after draftTime; and in between the oldest go while there are more
// than half of maxDrafts. At maxDrafts no scan is stored, so the disk is
// bounded: a report has a few kilobytes.
const (
	maxDrafts = 4096
	safeTime  = time.Hour
	draftTime = 24 * time.Hour

	idLength = 26 // characters of base32, 128 bits
)

var (
	// ErrNotFound: there is no report with that id.
	ErrNotFound = errors.New("report: not found")
	// ErrFull: as many drafts are stored as fit.
	ErrFull = errors.New("report: no room for more")
)

// Store keeps reports in a folder, drafts in one below it and those that are
// held in another. It is safe for concurrent use, but not by two processes.
type Store struct {
	drafts, held string
	most         int64
	count        atomic.Int64 // of drafts
}

// Open opens the store in folder, which is made if absent.
func Open(folder string) (*Store, error) {
	s := &Store{drafts: filepath.Join(folder, "drafts"), held: filepath.Join(folder, "held"), most: maxDrafts}
	for _, dir := range []string{s.drafts, s.held} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(s.drafts)
	s.count.Store(int64(len(entries)))
	return s, err
}

// Put gives the report an id and stores it as a draft.
func (s *Store) Put(r *Report) error {
	if s.count.Add(1) > s.most {
		s.count.Add(-1)
		return ErrFull
	}
	r.ID = newID()
	text, err := json.Marshal(r)
	if err == nil {
		err = s.write(r.ID, text)
	}
	if err != nil {
		s.count.Add(-1)
	}
	return err
}

// newID makes an id.
func newID() string { return strings.ToLower(rand.Text()) }

// write is whole or not at all for readers. A report that a power cut takes is
// made again by the next scan.
func (s *Store) write(id string, text []byte) error {
	temp := filepath.Join(s.drafts, id+".new")
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, filepath.Join(s.drafts, id))
}

// Get reads a report, or says [ErrNotFound].
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

// Sweep holds drafts that wanted says are needed, and removes those that are
// old. With all it also removes what is held and wanted no longer.
func (s *Store) Sweep(now time.Time, all bool, wanted func(*Report) bool) error {
	if all {
		if err := s.release(wanted); err != nil {
			return err
		}
	}
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
		if now.Sub(info.ModTime()) >= safeTime {
			old = append(old, draft{filepath.Join(s.drafts, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(old, func(a, b draft) int { return a.at.Compare(b.at) })
	left := int64(len(entries))
	for _, d := range old {
		r, err := read(d.path)
		switch {
		case err == nil && wanted(r):
			err = os.Rename(d.path, filepath.Join(s.held, r.ID))
		case left > s.most/2 || now.Sub(d.at) >= draftTime || err != nil:
			err = os.Remove(d.path)
		default:
			continue
		}
		if err != nil {
			return err
		}
		left--
		s.count.Add(-1)
	}
	return nil
}

func (s *Store) release(wanted func(*Report) bool) error {
	entries, err := os.ReadDir(s.held)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.held, e.Name())
		if r, err := read(path); err == nil && !wanted(r) {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}
