package abi

import "webring/core/snap"

// Load gives the core that a snapshot was taken of, after checking it whole;
// see [snap.Open], and [New] for secret. Nothing may be served until the next
// Advance or Rewind.
func Load(capacity int, secret uint64, snapshot []byte) (*Core, error) {
	st, err := snap.Open(capacity, secret, snapshot)
	if err != nil {
		return nil, err
	}
	return &Core{state: st, secret: secret}, nil
}

// AppendSnapshot appends a snapshot of the state; see [snap.Append].
func (c *Core) AppendSnapshot(dst []byte) []byte { return snap.Append(dst, c.state) }
