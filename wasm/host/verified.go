package host

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"webring/core/abi"
)

// errDigest says that records lead to another digest than they should.
var errDigest = errors.New("host: the records lead to another state")

// ApplyTo folds records, which follow the ones applied before, and publishes them if they
// lead to the digest. Otherwise refusal says why, and the core is loaded anew from what
// last gives: a snapshot, and the records from there to where the core stood. Readers
// wait meanwhile. If the core cannot be loaded, err says why, and readers get the problem
// internal until a later call succeeds.
func (n *Native) ApplyTo(records []Record, digest [16]byte, last func() (snapshot []byte, records []Record, err error)) (refusal, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dirty {
		if err := n.rollBack(last); err != nil {
			return nil, err
		}
	}
	n.second = n.core.Second()
	refusal = fold(n.core, records)
	if refusal == nil {
		if _, got := n.core.Digest(); got != digest {
			refusal = errDigest
		}
	}
	if refusal != nil {
		n.dirty = true
		return refusal, n.rollBack(last)
	}
	n.core.Advance(n.clock.second)
	return nil, nil
}

// rollBack loads the core anew at the last good state. The caller holds the lock.
func (n *Native) rollBack(last func() ([]byte, []Record, error)) error {
	snapshot, records, err := last()
	if err != nil {
		return fmt.Errorf("host: rolling back: %w", err)
	}
	c := abi.New(n.capacity, rand.Uint64())
	if snapshot != nil {
		if c, err = abi.Load(n.capacity, rand.Uint64(), snapshot, abi.Means{Beside: beside}); err != nil {
			return fmt.Errorf("host: rolling back: %w", err)
		}
	}
	if err := fold(c, records); err != nil {
		return fmt.Errorf("host: rolling back: %w", err)
	}
	c.Advance(max(n.clock.second, n.second)) // records that were refused may be stamped at any time
	n.core, n.dirty = c, false
	return nil
}
