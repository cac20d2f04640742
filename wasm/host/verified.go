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
// shows them if that leads to the digest. Otherwise refusal says why, that instance is
// built anew, and readers go on seeing what they saw. A second instance is asked
// before records are refused, since the first may have been ill. Other errors are
// those of [Pool.Apply]; nothing has been applied then. The pool goes back by itself:
// it never calls last.
func (p *Pool) ApplyTo(records []Record, digest [16]byte, _ func() ([]byte, []Record, error)) (refusal, err error) {
	encoded := make([][]byte, len(records))
	for i, r := range records {
		encoded[i] = abi.AppendRecord(nil, r)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if n := p.native.Load(); n != nil {
		return p.writeNativeTo(n, records, encoded, digest)
	}
	wait := waitWrite
	if p.config.Native {
		wait = waitServe
	}
	for range 2 {
		p.leaveOne()
		in := p.take(&p.rack.movers, wait)
		if in == nil {
			err = ErrNoInstance
			break
		}
		if refusal, err = p.write(in, encoded, &digest); err == nil && refusal == nil {
			p.rack.put(in)
			return nil, nil
		}
		p.discard(in, errors.Join(err, refusal))
		p.awaitWhole()
	}
	if err == nil || !p.config.Native || p.closed.Load() {
		return refusal, err
	}
	n, err := p.standIn()
	if err != nil {
		return nil, err
	}
	return p.writeNativeTo(n, records, encoded, digest)
}

// awaitWhole waits until no instance is being built, for as long as a request would
// wait: records that are refused cost two instances, and readers need one meanwhile.
func (p *Pool) awaitWhole() {
	for began := time.Now(); p.whole.Load() < int64(p.config.Instances) && p.ctx.Err() == nil && time.Since(began) < waitServe; {
		time.Sleep(leavePause)
	}
}

// writeNativeTo is [Pool.writeNative] to a digest.
func (p *Pool) writeNativeTo(n *Native, records []Record, encoded [][]byte, digest [16]byte) (refusal, err error) {
	h, began := p.head.Load(), time.Now()
	refusal, err = n.ApplyTo(records, digest, func() ([]byte, []Record, error) {
		snapshot, err := p.kept.snapshot(p.config.Capacity, h)
		return snapshot, nil, err
	})
	if refusal == nil && err == nil {
		p.moveNative(n, encoded, began)
	}
	return refusal, err
}

// ApplyTo folds records, which follow the ones applied before, and shows them if that
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
	c.Advance(max(n.clock.second, n.core.Second()))
	n.core, n.astray = c, false
	return nil
}
