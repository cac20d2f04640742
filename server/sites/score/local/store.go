package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"webring/server/ledger"
)

// Reports are rows of the ledger's store, so that whatever holds a member or a payment
// also holds the report behind its score: backups, and other nodes of a cluster. One that no payment
// has come for yet is such a row, too: the node that is asked for payment may be lost
// before it is paid.
//
// A report that the score of a member or of an open payment rests on is held for as long
// as that is so. All others are drafts:
//
//   - A draft younger than InChallenges stays: a challenge that is about to be paid
//     may name it. InChallenges is longer than a score is cached and a challenge is
//     then valid.
//   - A draft older than draftTime goes.
//   - Of those between, the oldest go at the next sweep while there are more than
//     MaxDrafts.
//
// Fewer than MaxDrafts sites can be scanned within InChallenges, which a test in
// server/cmd/webring checks. So the space that drafts take is bounded: a report has a few
// kilobytes.
const (
	MaxDrafts    = 6144
	InChallenges = 20 * time.Minute
	draftTime    = 24 * time.Hour

	idLength = 26 // characters of base32, 128 bits
)

// How many rows are looked at in one turn of the writer, or under one view.
const (
	draftsPage = 256
	heldPage   = 64
)

// ErrNotFound says that there is no report with an id.
var ErrNotFound = errors.New("report: not found")

// Books is the ledger that stores the reports. Its Do fails where another node leads.
type Books interface {
	View(fn func(*ledger.View))
	Do(ctx context.Context, fn func(*ledger.Tx) error) error
}

// Store keeps reports. It is safe for concurrent use.
type Store struct {
	books  Books
	wanted func(v *ledger.View, id, url string) bool
	most   int

	sweeping sync.Mutex // one sweep at a time
	oldest   string     // no draft has a key before it
}

// Open gives the store. wanted reports whether the score of a member or of an open payment
// rests on the report with this id, which is of the site at url.
func Open(books Books, wanted func(v *ledger.View, id, url string) bool) *Store {
	return &Store{books: books, wanted: wanted, most: MaxDrafts}
}

// stored is a row of the table of reports.
type stored struct {
	Draft int64 `json:"draft,omitempty"` // since when, in Unix milliseconds; it may be held by now
	*Report
}

// draftKey orders drafts by their age. The row has the site's URL.
func draftKey(at int64, id string) string { return fmt.Sprintf("%016x", at) + id }

// cutDraft reads the key of a draft.
func cutDraft(key string) (at time.Time, id string, err error) {
	if len(key) != 16+idLength {
		return at, "", errors.New("report: the row of a draft is malformed")
	}
	var ms int64
	if _, err := fmt.Sscanf(key[:16], "%x", &ms); err != nil {
		return at, "", fmt.Errorf("report: the row of a draft: %w", err)
	}
	return time.UnixMilli(ms), key[16:], nil
}

// put stores a report as a draft that was made then.
func put(tx *ledger.Tx, at int64, r *Report) error {
	text, err := json.Marshal(stored{at, r})
	if err == nil {
		err = tx.Put(ledger.Reports, r.ID, text)
	}
	if err == nil {
		err = tx.Put(ledger.Drafts, draftKey(at, r.ID), []byte(r.URL))
	}
	return err
}

// Put gives the report an id and stores it as a draft. When it returns, a challenge may name it.
func (s *Store) Put(r *Report) error {
	r.ID = newID()
	return s.books.Do(context.Background(), func(tx *ledger.Tx) error { return put(tx, tx.Stamp(), r) })
}

// newID makes an id.
func newID() string { return strings.ToLower(rand.Text()) }

// Get reads a report. It fails with [ErrNotFound] if there is none.
func (s *Store) Get(id string) (r *Report, err error) {
	s.books.View(func(v *ledger.View) {
		var row stored
		if row, err = get(v, id); err == nil {
			r = row.Report
		}
	})
	return r, err
}

func get(v *ledger.View, id string) (row stored, err error) {
	if !validID(id) {
		return row, ErrNotFound
	}
	text, err := v.Value(ledger.Reports, id)
	if err == nil && text == nil {
		return row, ErrNotFound
	}
	if err == nil {
		row.Report = new(Report)
		err = json.Unmarshal(text, &row)
	}
	return row, err
}

// Remove deletes a report permanently, in the turn that deletes what it rests on. It does nothing
// if no report has that id.
func Remove(tx *ledger.Tx, id string) error {
	row, err := get(tx.View(), id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil && row.Draft > 0 {
		err = tx.Put(ledger.Drafts, draftKey(row.Draft, id), nil)
	}
	if err == nil {
		err = tx.Put(ledger.Reports, id, nil)
	}
	return err
}

// Sweep holds drafts that are wanted, and removes old ones. With all it also removes
// held reports that are no longer wanted.
func (s *Store) Sweep(ctx context.Context, all bool) error {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	err := s.sweepDrafts(ctx)
	if err == nil && all {
		err = s.release(ctx)
	}
	return err
}

func (s *Store) sweepDrafts(ctx context.Context) error {
	left, err := s.countDrafts()
	if err != nil {
		return err
	}
	first := "" // draft that stays
	for from, done := s.oldest, false; !done; {
		next, stay := from, ""
		swept := 0
		err := s.books.Do(ctx, func(tx *ledger.Tx) error {
			rows, err := tx.View().Scan(ledger.Drafts, "", from, draftsPage)
			done = err != nil || len(rows) < draftsPage
			for _, row := range rows {
				at, id, err := cutDraft(row.Key)
				if err != nil {
					return err
				}
				age := time.UnixMilli(tx.Stamp()).Sub(at)
				if next = row.Key + "\x00"; age < InChallenges {
					done = true // and so are all after it
					if stay == "" {
						stay = row.Key
					}
					break
				}
				wanted := s.wanted(tx.View(), id, string(row.Value))
				if !wanted && age < draftTime && left-swept <= s.most {
					if stay == "" {
						stay = row.Key
					}
					continue
				}
				if err := tx.Put(ledger.Drafts, row.Key, nil); err != nil {
					return err
				}
				if !wanted {
					if err := tx.Put(ledger.Reports, id, nil); err != nil {
						return err
					}
				}
				swept++
			}
			return err
		})
		if err != nil {
			return err
		}
		from, left, first = next, left-swept, cmp.Or(first, stay)
	}
	s.oldest = first
	return nil
}

// countDrafts says how many there are.
func (s *Store) countDrafts() (n int, err error) {
	for from, more := s.oldest, true; more; {
		s.books.View(func(v *ledger.View) {
			var rows []ledger.TableRow
			rows, err = v.Scan(ledger.Drafts, "", from, draftsPage)
			if n, more = n+len(rows), len(rows) == draftsPage; more {
				from = rows[len(rows)-1].Key + "\x00"
			}
		})
	}
	return n, err
}

// release removes reports that are no longer wanted. Those of the last day may be drafts.
func (s *Store) release(ctx context.Context) error {
	for from, more := "", true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var rows []ledger.TableRow
		var err error
		s.books.View(func(v *ledger.View) { rows, err = v.Scan(ledger.Reports, "", from, heldPage) })
		if err != nil {
			return err
		}
		if more = len(rows) == heldPage; more {
			from = rows[len(rows)-1].Key + "\x00"
		}
		var page []*Report
		for _, row := range rows {
			r := new(Report)
			if err := json.Unmarshal(row.Value, r); err != nil {
				return fmt.Errorf("report: the row %q: %w", row.Key, err)
			}
			page = append(page, r)
		}
		err = s.books.Do(ctx, func(tx *ledger.Tx) error {
			for _, r := range page {
				age := time.UnixMilli(tx.Stamp()).Sub(r.ScannedAt)
				if age < draftTime+InChallenges || s.wanted(tx.View(), r.ID, r.URL) {
					continue
				}
				if err := tx.Put(ledger.Reports, r.ID, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
