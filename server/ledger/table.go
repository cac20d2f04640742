package ledger

import (
	"bytes"
	"errors"
	"fmt"
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
	Proofs  Table = "proofs"  // spent proofs of owners, by member and challenge: see server/paid
	Drafts  Table = "drafts"  // reports that nothing may rest on, by age
	Hops    Table = "hops"    // hops by days and members: see server/aside
	Visits  Table = "visits"  // visits to members: see server/sites/visits
	News    Table = "news"    // what has happened to members: see server/aside
)

// tables are all of them.
var tables = []Table{Reports, Drafts, Proofs, Hops, Visits, News}

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

// tableKey needs no escape: the name of a table holds no zero byte.
func tableKey(t Table, key string) []byte {
	return append(append(stringKey(prefixTable, string(t)), 0), key...)
}

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
	if err := tx.set(tableKey(t, key), value); err != nil {
		return err
	}
	tx.tableRows, tx.tableBytes = tx.tableRows+1, tx.tableBytes+len(key)+len(value)
	return nil
}

// Value gives the value of a row, nil if there is none. The caller must not change it.
func (v *View) Value(t Table, key string) ([]byte, error) {
	value, err := v.get(tableKey(t, key))
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
	under, start := tableKey(t, prefix), tableKey(t, from)
	over := v.unstored(under, start)
	rows := []TableRow{}
	name := len(tableKey(t, ""))
	err := v.l.store().Scan(under, start, func(key, value []byte) error {
		if len(rows) >= n {
			return ErrStop
		}
		if _, changed := over[string(key)]; !changed {
			rows = append(rows, TableRow{string(key[name:]), bytes.Clone(value)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for key, value := range over {
		if value != nil {
			rows = append(rows, TableRow{key[name:], value})
		}
	}
	slices.SortFunc(rows, func(a, b TableRow) int { return strings.Compare(a.Key, b.Key) })
	return rows[:min(len(rows), max(n, 0))], nil
}
