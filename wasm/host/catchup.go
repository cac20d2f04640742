package host

import (
	"errors"
	"fmt"
	"time"

	"webring/core/abi"
)

// rebuildPause is how long the mender waits after building an instance failed.
const rebuildPause = time.Second

// take gives an instance at the head, for the caller alone, which puts it into
// free again or discards it. It gives nil when none comes within the time.
func (p *Pool) take(wait time.Duration) *instance {
	for {
		var in *instance
		select {
		case in = <-p.free:
		default:
			if in = p.wait(wait); in == nil {
				return nil
			}
		}
		if p.bring(in) {
			return in
		}
	}
}

// wait is for when no instance is free at once.
func (p *Pool) wait(most time.Duration) *instance {
	timer := p.timers.Get().(*time.Timer)
	defer p.timers.Put(timer)
	timer.Reset(most)
	defer timer.Stop()
	select {
	case in := <-p.free:
		return in
	case <-timer.C:
	case <-p.ctx.Done():
	}
	return nil
}

// bring takes an instance that is the caller's alone to the head. When it
// reports false the instance is no longer the caller's: it is too far behind,
// or it trapped.
func (p *Pool) bring(in *instance) bool {
	h := p.head.Load()
	if in.seq == h.seq && in.second == h.second && in.rewinds == h.rewinds {
		return true
	}
	if h.seq-in.seq > maxBehind {
		p.behind <- in
		return false
	}
	switch err := p.follow(in, h); {
	case errors.Is(err, errGone):
		p.behind <- in
		return false
	case err != nil:
		p.discard(in, err)
		return false
	}
	return true
}

// errGone says that records an instance lacks are no longer kept.
var errGone = errors.New("host: the records are gone")

// follow applies what an instance lacks of h.
func (p *Pool) follow(in *instance, h *head) error {
	for in.seq < h.seq {
		from := in.seq
		records, ok := p.kept.after(from, h.seq)
		if !ok {
			return errGone
		}
		reply, err := in.apply(records)
		if err != nil {
			return err
		}
		if reply.Refused || reply.Seq != from+uint64(len(records)) {
			return fmt.Errorf("%w: record %d was applied before, and is refused: %.200s", errTrap, reply.Seq, reply.Rest)
		}
	}
	if in.rewinds != h.rewinds {
		if _, err := in.must(abi.OpRewind, uint64(max(h.second, 0)), nil); err != nil {
			return err
		}
		in.rewinds = h.rewinds
	} else if err := in.advance(h.second); err != nil {
		return err
	}
	return nil
}

// discard gives up an instance that trapped; the mender builds another.
func (p *Pool) discard(in *instance, err error) {
	p.traps.Add(1)
	p.log.Error("an instance of the core is built anew", "err", err)
	in.close()
	p.behind <- &instance{}
}

// mend brings instances that are far behind near the head, and builds those
// that are missing, until the pool is closed.
func (p *Pool) mend() {
	defer close(p.mended)
	for {
		select {
		case in := <-p.behind:
			p.heal(in)
		case <-p.ctx.Done():
			return
		}
	}
}

// heal gives one instance back to the pool, or another in its place. When the
// pool is closed before, it puts it back among those to be healed.
func (p *Pool) heal(in *instance) {
	for p.ctx.Err() == nil {
		var err error
		if in.module == nil {
			var built *instance
			if built, err = p.build(); err == nil {
				in = built
			}
		}
		if err == nil {
			if err = p.follow(in, p.head.Load()); err == nil {
				p.free <- in
				return
			}
			in.close()
			in = &instance{}
			if errors.Is(err, errGone) {
				continue
			}
			p.traps.Add(1)
		}
		p.log.Error("an instance of the core cannot be built", "err", err)
		select {
		case <-time.After(rebuildPause):
		case <-p.ctx.Done():
		}
	}
	p.behind <- in
}
