package replica

import (
	"bytes"
	"strconv"

	"webring/core/snap"
)

// maxCarried is how many bytes of records may come with a checkpoint.
const maxCarried = 1 << 20

// carried are records that came with a checkpoint, for which nobody vouches, from
// event number from on: where they lead from the tree at hand to what was signed, they
// need not be asked for.
type carried struct {
	from    uint64
	records []snap.Record
}

// decodeCarried gives none where there are none, or no such ones.
func decodeCarried(from, events []byte) carried {
	at, err := strconv.ParseUint(string(from), 10, 63)
	if err != nil {
		return carried{}
	}
	records, err := snap.DecodeRecords(events)
	if err != nil {
		return carried{}
	}
	return carried{at, records}
}

// then gives all of two, if the second begins where the first ends, and otherwise the
// second, if there is one.
func (c carried) then(next carried) carried {
	switch {
	case len(next.records) == 0:
		return c
	case len(c.records) == 0 || len(c.records) > snap.BlockEvents || c.from+uint64(len(c.records)) != next.from:
		return next
	}
	return carried{c.from, append(c.records, next.records...)}
}

// lead adds the records to a tree that they lead from to a checkpoint, and gives
// those; otherwise it gives none and leaves the tree alone.
func (c carried) lead(tree *snap.Tree, to snap.Checkpoint) []snap.Record {
	at, end := tree.Size(), c.from+uint64(len(c.records))
	if at < c.from || at >= end || end != to.Size {
		return nil
	}
	records, ahead := c.records[at-c.from:], *tree
	if add(&ahead, records) != nil || ahead.Root() != to.Root {
		return nil
	}
	*tree = ahead
	if at > c.from {
		records = apart(records)
	}
	return records
}

// apart gives records with memory of their own. Those that are decoded alias all that
// they came with: where some of it is left out, it would be held for as long as they are.
func apart(records []snap.Record) []snap.Record {
	own := make([]snap.Record, len(records))
	for i, r := range records {
		own[i] = snap.Record{Event: bytes.Clone(r.Event), Texts: bytes.Clone(r.Texts)}
	}
	return own
}
