package aside

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// Books are the ledger that an index follows.
type Books interface {
	View(fn func(v *ledger.View))
	Records(from uint64, n int) ([]ledger.Record, error)
}

// Index finds members. Its functions may be called concurrently; one search runs at a time.
type Index struct {
	books Books
	most  int // mostChanged, except in tests

	mu      sync.Mutex
	begun   bool
	seq     uint64 // events that are worked in
	entries []entry
	changed rowSet // rows that have changed since their entries were made; they may have none yet
	changes int    // how many rows changed has
}

// NewIndex gives an index that is empty until the first search.
func NewIndex(books Books) *Index { return &Index{books: books, most: mostChanged} }

// keySize is how many bytes of a word stand in an entry.
const keySize = 16

// key is the beginning of a word, and zeros behind a shorter one: no word has any.
type key [keySize]byte

// entry says that a row has a word. Entries are sorted by word, and then by row.
type entry struct {
	word key
	row  core.Ordinal
}

func (e entry) compare(other entry) int {
	return cmp.Or(bytes.Compare(e.word[:], other.word[:]), cmp.Compare(e.row, other.row))
}

const (
	// atOnce bounds how long the writer waits for a view of the ledger, in rows.
	atOnce = 1 << 10
	// mostChanged is how many changed rows a search looks at one by one, at a few microseconds
	// each. To sort them in costs tens of milliseconds for each million of entries, however
	// few they are.
	mostChanged = 1 << 10
)

// follow works in the events since the last time.
func (x *Index) follow() error {
	if !x.begun {
		rows := 0
		x.books.View(func(v *ledger.View) { x.seq, rows = v.State().Seq(), v.State().Rows() })
		for o := range rows {
			x.change(core.Ordinal(o))
		}
		x.sortIn()
		x.begun = true
	}
	forget := false
	for {
		records, err := x.books.Records(x.seq, atOnce)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			break
		}
		var slugs []string
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return err
			}
			switch e.(type) {
			case *core.Left, *core.Departed, *core.Removed:
				forget = true
				slugs = append(slugs, core.MemberOf(e))
			case *core.Joined, *core.Changed, *core.Moved, *core.Hidden, *core.Shown, *core.Returned:
				slugs = append(slugs, core.MemberOf(e))
			}
		}
		x.books.View(func(v *ledger.View) {
			for _, slug := range slugs {
				if o, known := v.State().BySlug([]byte(slug)); known {
					x.change(o)
				}
			}
		})
		x.seq += uint64(len(records))
	}
	if forget || x.changes > x.most {
		x.sortIn()
	}
	return nil
}

// change notes that a row has changed.
func (x *Index) change(o core.Ordinal) {
	if x.changed = x.changed.reach(o); !x.changed.has(o) {
		x.changed.add(o)
		x.changes++
	}
}

// sortIn makes the entries of the changed rows anew. What changes meanwhile is worked in later.
func (x *Index) sortIn() {
	rows := make([]core.Ordinal, 0, x.changes)
	for o := range x.changed.rows {
		rows = append(rows, o)
	}
	var fresh []entry
	for some := range slices.Chunk(rows, atOnce) {
		x.books.View(func(v *ledger.View) {
			for _, o := range some {
				if !v.State().Stands(o) {
					continue
				}
				m := v.State().Member(o)
				for _, w := range wordsOf(&m) {
					e := entry{row: o}
					copy(e.word[:], w)
					fresh = append(fresh, e)
				}
			}
		})
	}
	slices.SortFunc(fresh, entry.compare)
	fresh = slices.Compact(fresh) // words may have the same beginning
	kept := slices.DeleteFunc(x.entries, func(e entry) bool { return x.changed.has(e.row) })
	x.entries = merge(kept, fresh)
	clear(x.changed)
	x.changes = 0
}

// merge gives the entries of two sorted lists as one, in the memory of the first if they fit.
func merge(long, short []entry) []entry {
	i, j := len(long), len(short)
	merged := long
	if cap(long) < i+j {
		merged = make([]entry, i+j)
		copy(merged, long)
	}
	merged = merged[:i+j]
	// From the end, where there is room: no entry is overwritten before it has moved.
	for j > 0 {
		if i > 0 && merged[i-1].compare(short[j-1]) > 0 {
			i--
			merged[i+j] = merged[i]
		} else {
			j--
			merged[i+j] = short[j]
		}
	}
	return merged
}

// find gives the rows of the members in the ring that have words beginning with those asked
// for, in ring order.
func (x *Index) find(st *core.State, asked []string) (found []core.Ordinal) {
	var all rowSet
	long := false
	for _, w := range asked {
		these := newRowSet(st.Rows())
		for _, e := range x.beginning(w) {
			these.add(e.row)
		}
		if all == nil {
			all = these
		} else {
			all.keep(these)
		}
		long = long || len(w) > keySize
	}
	meets := func(o core.Ordinal) bool {
		m := st.Member(o)
		return meet(asked, wordsOf(&m))
	}
	for o := range x.changed.rows {
		if all.drop(o); st.Stands(o) && meets(o) {
			all.add(o)
		}
	}
	for o := range all.rows {
		if st.Stands(o) && (!long || meets(o)) {
			found = append(found, o)
		}
	}
	return found
}

// beginning returns the entries with words that begin with w, as far as an entry has them.
func (x *Index) beginning(w string) []entry {
	w = w[:min(len(w), keySize)]
	var least key
	copy(least[:], w)
	from, _ := slices.BinarySearchFunc(x.entries, least, func(e entry, k key) int { return bytes.Compare(e.word[:], k[:]) })
	rest := x.entries[from:]
	n, _ := slices.BinarySearchFunc(rest, w, func(e entry, w string) int {
		if string(e.word[:len(w)]) == w {
			return -1
		}
		return 1
	})
	return rest[:n]
}

// searchAge is for how many seconds the answer to a search may be kept.
const searchAge = 10

// Document answers a GET for /api/ring with this query, which asks for words.
func (x *Index) Document(query string) (d api.Document) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.follow()
	x.books.View(func(v *ledger.View) {
		st := v.State()
		if err != nil {
			d = refuse(st, api.Internal, "The ledger cannot be read.")
			return
		}
		var r api.Response
		api.Search(st, []byte(query), func(q []byte) ([]core.Ordinal, bool) {
			words, ok := asked(string(q))
			if !ok {
				return nil, false
			}
			return x.find(st, words), true
		}, &r)
		d = api.Document{Status: r.Status, Media: "application/json", Body: r.Body, MaxAge: searchAge, Seq: r.Seq}
		if r.Media == api.Problem {
			d.Media = "application/problem+json"
		}
	})
	return d
}
