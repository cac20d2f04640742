package abi

import (
	"slices"

	"webring/core"
	"webring/core/snap"
)

// Load gives the core that a snapshot was taken of, after checking it whole;
// see [snap.Open]. Nothing may be served until the next Advance or Rewind.
func Load(capacity int, snapshot []byte) (*Core, error) {
	st, err := snap.Open(capacity, snapshot)
	if err != nil {
		return nil, err
	}
	return &Core{state: st}, nil
}

// AppendSnapshot appends a snapshot of the state; see [snap.Append].
func (c *Core) AppendSnapshot(dst []byte) []byte {
	return snap.Append(slices.Grow(dst, c.snapshotBound()), c.state)
}

// snapshotBound is no less than the length of a snapshot, and not much more:
// growing towards it by doubling would take up to three times the memory, and a
// guest never gives memory back.
func (c *Core) snapshotBound() int {
	const fixed, each = 64 << 10, 128 // lengths and numbers, at their longest
	n := fixed
	for o := range c.state.Rows() {
		m := c.state.Member(core.Ordinal(o))
		n += each + len(m.Slug) + len(m.Category) + len(m.Name) + len(m.URL) + len(m.Description) + len(m.Report) + len(m.Score.Provider) + len(m.Score.Version)
	}
	return n
}
