package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
)

// Rows of the store. Numbers are 8 bytes, big endian, so that they sort.
//
//	'e' seq 0                 event bytes, for ever
//	'e' seq 1                 texts of the event, until redacted
//	'h' index                 tlog stored hash
//	't' serial                tree size and root after this transaction
//	'r' id                    reservation, JSON
//	'q' slug 0 id             nothing; the reservation is a proof about this member
//	'k' replay key            id of the reservation that claimed it, as long as that is kept
//	'i' hash 0 payer          id of the latest reservation that a payer made under this hash of an
//	                          idempotency key
//	'o' id                    nothing; the reservation is open
//	'f' failed-at(ms) id      nothing; the reservation failed then
//	'j' slug                  seq of the event with which the member joined
//	'w' slug 0 seq            nothing; the event changes the member's words, moves it, or has words of its own
//	'p' slug 0 id             nothing; the reservation paid for this member
//	'c' id                    nothing; applied, and not confirmed at depth yet
//	'x' network 0 tx 0 seq    cents that the event gave (void: took, negative) for a payment;
//	                          tx is the one that it names or that moved the money in the end
//	'b' network 0 payer 0 binding 0 seq
//	                          nothing; the event came back from an edge, about a payment that has
//	                          no reservation yet
//	'y' payer                 nothing; an event names a payment by this account, in lower case
//	's' network               Unix time in ms up to which its transfers were looked through
//	'a' network 0 payee       nothing; an earlier version took payments there to this payee; see [Tx.AnnouncePayees]
//	'g' network 0 tx          gas that was wasted on a payment, JSON; for some days
//	'l' kind 0 value          entry of the blocklist, JSON
//	'd' table 0 key           row of a table; see table.go
const (
	prefixEvent       = 'e'
	prefixHash        = 'h'
	prefixTransaction = 't'
	prefixReservation = 'r'
	prefixProof       = 'q'
	prefixReplay      = 'k'
	prefixIdempotency = 'i'
	prefixOpen        = 'o'
	prefixFailed      = 'f'
	prefixJoin        = 'j'
	prefixChange      = 'w'
	prefixPaid        = 'p'
	prefixConfirm     = 'c'
	prefixPayment     = 'x'
	prefixRestored    = 'b'
	prefixPayer       = 'y'
	prefixScanned     = 's'
	prefixPayee       = 'a'
	prefixWaste       = 'g'
	prefixBlock       = 'l'
	prefixTable       = 'd'

	// prefixes are all of them.
	prefixes = "ehtrqkiofjwpcxbysagld"

	rowEvent = 0
	rowTexts = 1
)

func numberKey(prefix byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, n)
}

func eventKey(seq uint64, row byte) []byte { return append(numberKey(prefixEvent, seq), row) }

// rowKey joins names by zero bytes, which only the last may hold.
func rowKey(prefix byte, names ...string) []byte {
	return append([]byte{prefix}, strings.Join(names, "\x00")...)
}

// numbered is a key of names and a number; without the number, it begins all of them.
func numbered(key []byte, seq []uint64) []byte {
	for _, n := range seq {
		key = binary.BigEndian.AppendUint64(key, n)
	}
	return key
}

func failedKey(ms int64, id string) []byte {
	return append(numberKey(prefixFailed, uint64(ms)), id...)
}

func changeKey(slug string, seq ...uint64) []byte {
	return numbered(rowKey(prefixChange, slug, ""), seq)
}

func restoredKey(p core.Payment, seq ...uint64) []byte {
	return numbered(rowKey(prefixRestored, p.Network, p.Payer, p.Binding, ""), seq)
}

func paymentKey(network, transaction string, seq ...uint64) []byte {
	return numbered(rowKey(prefixPayment, network, strings.ToLower(transaction), ""), seq)
}

func payerKey(payer string) []byte { return rowKey(prefixPayer, strings.ToLower(payer)) }

// treeReader reads stored hashes by get, which may also give rows that are not stored yet.
func treeReader(get func(key []byte) ([]byte, error)) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			b, err := get(numberKey(prefixHash, uint64(x)))
			if err != nil {
				return nil, fmt.Errorf("tree hash %d: %w", x, err)
			}
			if len(b) != tlog.HashSize {
				return nil, fmt.Errorf("tree hash %d has %d bytes", x, len(b))
			}
			copy(hashes[i][:], b)
		}
		return hashes, nil
	})
}

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
