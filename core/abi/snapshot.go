package abi

import (
	"webring/core"
	"webring/core/snap"
)

// Means is what a host may lend to [Load]; see [core.Means].
type Means = core.Means

// Load gives the core that a snapshot was taken of, after checking it whole;
// see [snap.Open], and [New] for secret. Nothing may be served until the next
// Advance or Rewind.
func Load(capacity int, secret uint64, snapshot []byte, means Means) (*Core, error) {
	st, err := snap.Open(capacity, secret, snapshot, means)
	if err != nil {
		return nil, err
	}
	return &Core{state: st}, nil
}

// AppendSnapshot appends a snapshot of the state; see [snap.Append].
func (c *Core) AppendSnapshot(dst []byte) []byte { return snap.Append(dst, c.state) }

// Image gives the state as it lies in memory; see [core.State.Image].
func (c *Core) Image(dst []byte) (header, memory []byte) { return c.state.Image(dst) }

// Lasting is how much of an image's memory bids and seconds leave as it is; see
// [core.State.Lasting].
func (c *Core) Lasting() int { return c.state.Lasting() }

// Attach gives the core that an image was taken of; see [core.Attach].
func Attach(capacity int, header, memory []byte) (*Core, error) {
	st, err := core.Attach(capacity, header, memory)
	if err != nil {
		return nil, err
	}
	return &Core{state: st}, nil
}
