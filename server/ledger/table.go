package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Table names rows that other packages keep in the store. The ledger does not read them: the package
// that writes them defines their keys and values. They are part of the transaction of their turn, and
// backups, copies and standbys have them. Edges do not see them, and no tree covers them.
type Table string

// The tables. A name is a part of each stored key, so it never changes.
const (
	Reports Table = "reports" // readiness reports, by id: see server/sites/score/local
	Drafts  Table = "drafts"  // reports that nothing may rest on, by age
	Hops    Table = "hops"    // hops by days and members: see server/aside
	Visits  Table = "visits"  // visits to members: see server/sites/visits
	News    Table = "news"    // what has happened to members: see server/aside
)

// tables are all of them.
var tables = []Table{Reports, Drafts, Hops, Visits, News}

// Bounds of tables: the bytes of a key, the bytes of a value, and what one turn may change, in
// rows and in bytes. A turn that has more to change leaves the rest to the next one.
const (
	MaxTableKey   = 512
	MaxTableValue = 256 << 10
	MaxTurnRows   = 1024
	MaxTurnBytes  = 1 << 20
)

var (
	// ErrTable says that a row is none that a table may have.
	ErrTable = errors.New("ledger: invalid row of a table")
	// ErrTurn says that a turn has changed as many rows of tables as it may.
	ErrTurn = errors.New("ledger: too many rows of tables in one turn")
)

// Put makes value the value of a row, or deletes the row if value is nil. It fails with [ErrTable]
// beyond the bounds, with [ErrTurn], or with [ErrNotNow]; then it has done nothing. A row that was
// deleted may slow down later scans over its place. The caller must not change value afterwards.
func (tx *Tx) Put(t Table, key string, value []byte) error {
	if !slices.Contains(tables, t) || len(key) > MaxTableKey || len(value) > MaxTableValue {
		return fmt.Errorf("%w: a key of %d bytes and a value of %d in %q", ErrTable, len(key), len(value), t)
	}
	if tx.tableRows == MaxTurnRows || tx.tableBytes+len(key)+len(value) > MaxTurnBytes {
		return ErrTurn
	}
	if err := tx.set(rowKey(prefixTable, string(t), key), value); err != nil {
		return err
	}
	tx.tableRows, tx.tableBytes = tx.tableRows+1, tx.tableBytes+len(key)+len(value)
	return nil
}

// Value gives the value of a row, nil if there is none. The caller must not change it.
func (v *View) Value(t Table, key string) ([]byte, error) {
	value, err := v.get(rowKey(prefixTable, string(t), key))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// TableRow is a row of a table. Its value must not be changed.
type TableRow struct {
	Key   string
	Value []byte
}

// Scan gives up to n rows of a table in the order of their keys, from the key from on, if their keys
// begin with prefix. The writer waits while a view is in use, so n should be small.
func (v *View) Scan(t Table, prefix, from string, n int) ([]TableRow, error) {
	rows, err := v.rows(rowKey(prefixTable, string(t), prefix), rowKey(prefixTable, string(t), from), n)
	for i := range rows {
		rows[i].Key = rows[i].Key[len(rowKey(prefixTable, string(t), "")):]
	}
	return rows, err
}

// rows gives up to n rows with keys that begin with prefix and are not before from, in the order of
// their keys, as they will be after the group in work.
func (v *View) rows(prefix, from []byte, n int) ([]TableRow, error) {
	changed, within, first := Batch{}, string(prefix), string(from)
	for _, later := range []Batch{v.l.staged, v.own} {
		for key, value := range later {
			if strings.HasPrefix(key, within) && key >= first {
				changed[key] = value
			}
		}
	}
	rows := []TableRow{}
	err := v.l.store().Scan(prefix, from, func(key, value []byte) error {
		if len(rows) >= n {
			return ErrStop
		}
		if _, stale := changed[string(key)]; !stale {
			rows = append(rows, TableRow{string(key), append([]byte{}, value...)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key, value := range changed {
		if value != nil {
			rows = append(rows, TableRow{key, value})
		}
	}
	slices.SortFunc(rows, func(a, b TableRow) int { return strings.Compare(a.Key, b.Key) })
	return rows[:min(len(rows), max(n, 0))], nil
}

// under gives all rows with keys that begin with prefix.
func (v *View) under(prefix []byte) ([]TableRow, error) { return v.rows(prefix, prefix, math.MaxInt) }
