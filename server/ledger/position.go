package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Position is a point in the history of a store: after how many transactions it is, and
// the tree that they left.
type Position struct {
	Serial uint64   // transactions
	Size   uint64   // events
	Root   [32]byte // of the RFC 6962 tree over the events
}

// Position gives where a store is after the batch of one transaction, which has exactly one
// row that says so.
func (b Batch) Position() (p Position, err error) {
	found := false
	for key, value := range b {
		if key == "" || key[0] != prefixTransaction {
			continue
		}
		if found {
			return p, errors.New("ledger: a batch of several transactions")
		}
		if p, err = parseTransaction([]byte(key), value); err != nil {
			return p, fmt.Errorf("ledger: %w", err)
		}
		found = true
	}
	if !found {
		return p, errors.New("ledger: a batch without the row of its transaction")
	}
	return p, nil
}

// beginning is where a ledger is without transactions.
func beginning() (p Position) {
	p.Root, _ = tlog.TreeHash(0, nil)
	return p
}

func (p Position) appendRow(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, p.Size), p.Root[:]...)
}

// parseTransaction reads a 't' row.
func parseTransaction(key, value []byte) (p Position, err error) {
	if len(key) != 1+8 || len(value) != 8+tlog.HashSize {
		return p, errors.New("a transaction row is malformed")
	}
	p.Serial = binary.BigEndian.Uint64(key[1:])
	p.Size = binary.BigEndian.Uint64(value)
	copy(p.Root[:], value[8:])
	return p, nil
}
