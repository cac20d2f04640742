package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"webring/core"
)

// BlockKind says what an entry of the blocklist keeps out.
type BlockKind string

// The kinds of entries.
const (
	BlockHost  BlockKind = "host"  // a host with all names below it
	BlockPayer BlockKind = "payer" // an account that pays
	BlockWord  BlockKind = "word"  // a word, or several in a row, of a name or description
)

// Block is one entry of the blocklist. It is in the store, but edges do not see it.
type Block struct {
	Kind BlockKind `json:"kind"`
	// Value is what requests are compared with, in the form that its kind has; Text is how
	// the operator wrote it.
	Value  string    `json:"value"`
	Text   string    `json:"text"`
	Reason string    `json:"reason"`
	By     string    `json:"by"` // the operator that added it, "" if unknown
	At     time.Time `json:"at"` // set by [Tx.Block]
}

// Bounds of the blocklist: how many entries it has, and how long their words are in
// bytes. A reason may have [core.MaxNote].
const (
	MaxBlocks    = 10_000
	MaxBlockText = 256
)

var (
	// ErrBlock says that an entry is malformed.
	ErrBlock = errors.New("ledger: invalid entry of the blocklist")
	// ErrBlocked says that the blocklist has the entry already, and ErrNotBlocked that
	// it does not have it.
	ErrBlocked    = errors.New("ledger: the entry is on the blocklist")
	ErrNotBlocked = errors.New("ledger: the entry is not on the blocklist")
	// ErrBlocklistFull says that there are [MaxBlocks] entries.
	ErrBlocklistFull = errors.New("ledger: the blocklist is full")
)

func (b *Block) check() error {
	switch {
	case b.Kind != BlockHost && b.Kind != BlockPayer && b.Kind != BlockWord:
		return fmt.Errorf("%w: kind", ErrBlock)
	case b.Value == "" || len(b.Value) > MaxBlockText || len(b.Text) > MaxBlockText || strings.Contains(b.Value, "\x00"):
		return fmt.Errorf("%w: value", ErrBlock)
	case len(b.Reason) > core.MaxNote || len(b.By) > MaxBlockText:
		return fmt.Errorf("%w: reason or operator", ErrBlock)
	}
	return nil
}

// blocks are the entries by kind and value.
type blocks map[BlockKind]map[string]Block

func (all blocks) put(b Block) {
	if all[b.Kind] == nil {
		all[b.Kind] = map[string]Block{}
	}
	all[b.Kind][b.Value] = b
}

func (all blocks) count() (n int) {
	for _, some := range all {
		n += len(some)
	}
	return n
}

// Block adds an entry to the blocklist, and sets its instant. It fails with [ErrBlock], [ErrBlocked],
// [ErrBlocklistFull] or [ErrNotNow].
func (tx *Tx) Block(b *Block) error {
	all := tx.l.index.blocks
	b.At = time.UnixMilli(tx.stamp).UTC()
	if err := b.check(); err != nil {
		return err
	}
	if _, there := all[b.Kind][b.Value]; there {
		return ErrBlocked
	}
	if all.count() >= MaxBlocks {
		return ErrBlocklistFull
	}
	if tx.refused != nil {
		return tx.refused
	}
	row, err := json.Marshal(b)
	if err != nil {
		return err
	}
	tx.rows[string(rowKey(prefixBlock, string(b.Kind), b.Value))] = row
	all.put(*b)
	kind, value := b.Kind, b.Value
	tx.undos = append(tx.undos, func() { delete(all[kind], value) })
	return nil
}

// Unblock takes an entry off the blocklist. It fails with [ErrNotBlocked] or
// [ErrNotNow].
func (tx *Tx) Unblock(kind BlockKind, value string) error {
	all := tx.l.index.blocks
	b, there := all[kind][value]
	switch {
	case !there:
		return ErrNotBlocked
	case tx.refused != nil:
		return tx.refused
	}
	tx.rows[string(rowKey(prefixBlock, string(kind), value))] = nil
	delete(all[kind], value)
	tx.undos = append(tx.undos, func() { all.put(b) })
	return nil
}

// Blocked says whether the blocklist has the entry with this value.
func (v *View) Blocked(kind BlockKind, value string) bool {
	_, there := v.l.index.blocks[kind][value]
	return there
}

// BlocksOf is how many entries of a kind the blocklist has.
func (v *View) BlocksOf(kind BlockKind) int { return len(v.l.index.blocks[kind]) }

// Blocks gives the blocklist, by kind and value.
func (v *View) Blocks() []Block {
	all := []Block{}
	for _, some := range v.l.index.blocks {
		all = slices.AppendSeq(all, maps.Values(some))
	}
	slices.SortFunc(all, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Value, b.Value))
	})
	return all
}

// parseBlock reads an 'l' row.
func parseBlock(key string, value []byte) (b Block, err error) {
	if err := json.Unmarshal(value, &b); err != nil {
		return b, err
	}
	if string(rowKey(prefixBlock, string(b.Kind), b.Value)) != key {
		return b, errors.New("an entry stands under another key")
	}
	return b, b.check()
}
