package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"webring/core/abi"
)

// errDigest says that records lead to another digest than they should.
var errDigest = errors.New("host: the records lead to another state")

// ApplyTo folds records, which follow the ones applied before, in one instance, and
// publishes them if that leads to the digest. Otherwise refusal says why, that instance
// is replaced, and readers go on seeing what they saw. After a refusal or
// a trap a second instance is asked, since the first may be damaged. Other errors are those of
// [Pool.Apply]; nothing has been applied then. The pool goes back by itself: it never
// calls last.
func (p *Pool) ApplyTo(records []Record, digest [16]byte, _ func() ([]byte, []Record, error)) (refusal, err error) {
	encoded := encodeRecords(records)
	p.writing.Lock()
	defer p.writing.Unlock()
	p.boundRecords()
	if n := p.fallback.Load(); n != nil {
		return p.applyFallbackTo(n, records, encoded, digest)
	}
	for range 2 {
		p.keepOneNear()
		in := p.acquire(&p.free.writers, waitApply)
		if in == nil {
			err = ErrNoInstance
			break
		}
		if err = p.fold(in, encoded, &digest); err == nil {
			p.free.put(in)
			return nil, nil
		}
		p.replace(in, err)
		if refusal = nil; !errors.Is(err, errTrap) {
			refusal, err = err, nil
		}
		p.awaitWorking()
	}
	if err == nil || p.closed.Load() {
		return refusal, err
	}
	n, err := p.startFallback()
	if err != nil {
		return nil, err
	}
	return p.applyFallbackTo(n, records, encoded, digest)
}

// awaitWorking waits until no instance is being built, for as long as a request would
// wait: records that are refused cost two instances, and readers need one meanwhile.
func (p *Pool) awaitWorking() {
	for began := time.Now(); p.working.Load() < int64(p.config.Instances) && p.ctx.Err() == nil && time.Since(began) < waitServe; {
		time.Sleep(nearPause)
	}
}

// applyFallbackTo is [Pool.applyFallback] to a digest.
func (p *Pool) applyFallbackTo(n *Native, records []Record, encoded [][]byte, digest [16]byte) (refusal, err error) {
	began := time.Now()
	refusal, err = n.ApplyTo(records, digest, func() ([]byte, []Record, error) {
		if snapshot := p.Snapshot(); snapshot != nil {
			return snapshot, nil, nil
		}
		return nil, nil, errors.New("no snapshot can be made")
	})
	if refusal == nil && err == nil {
		p.publishFallback(n, encoded, began)
	}
	return refusal, err
}

// ApplyTo folds records, which follow the ones applied before, and publishes them if that
// leads to the digest. Otherwise refusal says why, and the core is loaded anew from
// what last gives: a snapshot, and the records from there to where the core stood.
// Readers wait meanwhile. If that fails, which err says, they get the problem internal
// until it succeeds in a later call.
func (n *Native) ApplyTo(records []Record, digest [16]byte, last func() (snapshot []byte, records []Record, err error)) (refusal, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.astray {
		if err := n.goBack(last); err != nil {
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
		n.astray = true
		return refusal, n.goBack(last)
	}
	n.core.Advance(n.clock.second)
	return nil, nil
}

// goBack puts a core of the last good state in place of one that went astray. The
// caller holds the lock.
func (n *Native) goBack(last func() ([]byte, []Record, error)) error {
	snapshot, records, err := last()
	if err != nil {
		return fmt.Errorf("host: going back: %w", err)
	}
	c := abi.New(n.capacity, rand.Uint64())
	if snapshot != nil {
		if c, err = abi.Load(n.capacity, rand.Uint64(), snapshot, abi.Means{Beside: beside}); err != nil {
			return fmt.Errorf("host: going back: %w", err)
		}
	}
	if err := fold(c, records); err != nil {
		return fmt.Errorf("host: going back: %w", err)
	}
	c.Advance(max(n.clock.second, n.second)) // records that were refused may be stamped at any time
	n.core, n.astray = c, false
	return nil
}
