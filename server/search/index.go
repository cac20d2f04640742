package search

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"

	"webring/core"
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

	mu      sync.Mutex
	begun   bool
	seq     uint64 // events that are worked in
	entries []entry
	changed map[core.Ordinal]struct{} // rows whose entries are not those of their present words
}

// New gives an index that is empty until the first search.
func New(books Books) *Index { return &Index{books: books} }

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
	// mostChanged is how many rows are looked at one by one, beside a part of all entries.
	mostChanged, part = 1 << 10, 64
)

// follow works in the events since the last time.
func (x *Index) follow() error {
	if !x.begun {
		rows := 0
		x.books.View(func(v *ledger.View) { x.seq, rows = v.State().Seq(), v.State().Rows() })
		all := make([]core.Ordinal, rows)
		for i := range all {
			all[i] = core.Ordinal(i)
		}
		x.changed = map[core.Ordinal]struct{}{}
		x.sortIn(all)
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
			case *core.Left, *core.Removed:
				forget = true
				slugs = append(slugs, core.MemberOf(e))
			case *core.Joined, *core.Changed, *core.Moved, *core.Hidden, *core.Shown:
				slugs = append(slugs, core.MemberOf(e))
			}
		}
		x.books.View(func(v *ledger.View) {
			for _, slug := range slugs {
				if o, known := v.State().BySlug([]byte(slug)); known {
					x.changed[o] = struct{}{}
				}
			}
		})
		x.seq += uint64(len(records))
	}
	if forget || len(x.changed) > mostChanged+len(x.entries)/part {
		x.sortIn(slices.Collect(maps.Keys(x.changed)))
	}
	return nil
}

// sortIn makes the entries of rows anew. What changes meanwhile is worked in later.
func (x *Index) sortIn(rows []core.Ordinal) {
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
	merged := make([]entry, 0, len(x.entries)+len(fresh))
	for _, e := range x.entries {
		if _, gone := x.changed[e.row]; gone {
			continue
		}
		for len(fresh) > 0 && fresh[0].compare(e) < 0 {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		merged = append(merged, e)
	}
	x.entries = append(merged, fresh...)
	clear(x.changed)
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
	for o := range x.changed {
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

// beginning gives the entries whose words begin with w, as far as an entry has them.
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
