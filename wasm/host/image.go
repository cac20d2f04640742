package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"webring/core/abi"
)

// image is what instances begin from: a ring in memory with all that is derived
// from it, verified once. They take it over without loading a row, and where
// the platform has it, they share its memory until they write to it.
type image struct {
	head    []byte
	memory  memory
	lasting int    // of the memory, from the beginning on: what bids and seconds do not change
	at      uint64 // its position
	rewinds uint64 // of the pool's, that it has followed
}

// memory is what an image's lies in while no instance has it. It is never
// changed.
type memory interface {
	// lay puts all of it where an instance has made room, which is as long and
	// nothing but zeros, and says how much of that is shared, from the beginning
	// on: no more than lasting.
	lay(room []byte, lasting int, in *linear) (shared int, err error)
	// private gives how much of what was shared is the instance's own by now, in
	// bytes, and 0 when that cannot be told.
	private(shared []byte) int
	// append appends all of it.
	append(dst []byte) []byte
	// with gives f all of it as memory that f may write to, for as long as f runs.
	with(f func(b []byte) error) error
	len() int
}

// copies is memory that every instance gets a copy of.
type copies []byte

func (c copies) lay(room []byte, _ int, _ *linear) (int, error) {
	copy(room, c)
	return 0, nil
}

func (copies) private([]byte) int { return 0 }

func (c copies) append(dst []byte) []byte { return append(dst, c...) }

func (c copies) with(f func(b []byte) error) error { return f(c.append(nil)) }

func (c copies) len() int { return len(c) }

// errNotShared says that here memory is not to be shared: copies are.
var errNotShared = errors.New("host: memory cannot be shared here")

// keep makes memory that holds what b does now.
func (p *Pool) keep(b []byte) memory {
	if !p.config.Copies {
		m, err := share(b)
		if err == nil {
			return m
		}
		if err != errNotShared {
			p.notShared(err)
		}
	}
	return append(copies(nil), b...)
}

// notShared says so once: an instance with a copy answers no worse.
func (p *Pool) notShared(why error) {
	p.unshared.Do(func() { p.log.Warn("instances of the core do not share memory", "err", why) })
}

// prime verifies the snapshot that the pool begins at, derives what goes with it,
// and gives the image that instances begin from. It is done once, by the native
// core where that is the same, because it is several times as fast, and otherwise
// by an instance that serves for nothing else.
func (p *Pool) prime() (*image, error) {
	snapshot := p.config.Snapshot
	p.config.Snapshot = nil // long, and not needed again
	if p.config.Native {
		return p.primeNative(snapshot)
	}
	in, err := p.launch(0)
	if err != nil {
		return nil, err
	}
	defer in.close()
	reply, err := in.do(abi.OpOpen, uint64(p.config.Capacity), snapshot)
	if err != nil {
		return nil, err
	}
	if reply.Refused {
		return nil, fmt.Errorf("host: %s", reply.Rest)
	}
	if err := in.advance(p.clock.second); err != nil {
		return nil, err
	}
	return p.image(in)
}

// primeNative loads the core that is compiled in where its image is to lie. It has
// no other use: its memory is gone with it.
func (p *Pool) primeNative(snapshot []byte) (*image, error) {
	if len(snapshot) == 0 {
		return p.nativeImage(NewNative(p.config.Capacity), 0), nil
	}
	d := new(draft)
	defer d.drop()
	lend := d.lend
	if p.config.Copies {
		lend = nil
	}
	n, err := loadNative(p.config.Capacity, snapshot, p.clock.second, lend)
	if err != nil {
		return nil, err
	}
	head, lies := n.core.Image(nil)
	from := &image{head: head, lasting: n.core.Lasting(), at: n.core.Seq()}
	if from.memory, err = d.seal(lies); err != nil {
		p.notShared(err)
	}
	if from.memory == nil {
		from.memory = p.keep(lies)
	}
	return from, nil
}

// nativeImage takes an image of the core that stands in.
func (p *Pool) nativeImage(n *Native, rewinds uint64) *image {
	n.mu.Lock()
	defer n.mu.Unlock()
	head, lies := n.core.Image(nil)
	return &image{head: head, memory: p.keep(lies), lasting: n.core.Lasting(), at: n.core.Seq(), rewinds: rewinds}
}

// image takes an image of an instance.
func (p *Pool) image(in *instance) (*image, error) {
	head, lies, lasting, err := in.image()
	if err != nil {
		return nil, err
	}
	return &image{head: append([]byte(nil), head...), memory: p.keep(lies), lasting: lasting, at: in.seq, rewinds: in.rewinds}, nil
}

// image gives the state of the instance as it lies in memory, and how much of
// that lasts. It holds until the next operation.
func (in *instance) image() (head, lies []byte, lasting int, err error) {
	reply, err := in.must(abi.OpImage, 0, nil)
	if err != nil {
		return nil, nil, 0, err
	}
	const fixed = 8 + 8 + 8
	if len(reply.Rest) < fixed {
		return nil, nil, 0, fmt.Errorf("%w: its image is none", errTrap)
	}
	at, length, lasts := binary.LittleEndian.Uint64(reply.Rest), binary.LittleEndian.Uint64(reply.Rest[8:]), binary.LittleEndian.Uint64(reply.Rest[16:])
	if lies, err = in.lies(at, length); err != nil {
		return nil, nil, 0, err
	}
	return reply.Rest[fixed:], lies, int(min(lasts, length)), nil
}

// attach has the instance go on from an image. When its memory cannot be shared,
// which [errNotShared] says, nobody knows what lies in the room by then.
func (in *instance) attach(from *image, capacity int) error {
	reply, err := in.must(abi.OpRoom, uint64(from.memory.len()), nil)
	if err != nil {
		return err
	}
	if len(reply.Rest) != 8 {
		return fmt.Errorf("%w: it has no room", errTrap)
	}
	room, err := in.lies(binary.LittleEndian.Uint64(reply.Rest), uint64(from.memory.len()))
	if err != nil {
		return err
	}
	shared, err := from.memory.lay(room, from.lasting, in.linear)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotShared, err)
	}
	if _, err := in.must(abi.OpAttach, uint64(capacity), from.head); err != nil {
		return err
	}
	in.from, in.shared, in.rewinds = from, room[:shared], from.rewinds
	return nil
}

// outgrown says that the ring of an instance no longer lies where it began to
// share memory.
func (in *instance) outgrown() (bool, error) {
	if len(in.shared) < leastShared {
		return false, nil
	}
	_, lies, _, err := in.image()
	return err == nil && (len(lies) == 0 || &lies[0] != &in.shared[0]), err
}

// private gives how much of what an instance began to share it no longer does, in
// percent. To ask takes milliseconds, and not the instance.
func (from *image) private(shared []byte) int {
	if len(shared) < leastShared {
		return 0
	}
	return int(uint64(from.memory.private(shared)) * 100 / uint64(len(shared)))
}

// copied is the same image, of which every instance gets a copy.
func (from *image) copied() *image {
	with := *from
	with.memory = copies(from.memory.append(nil))
	return &with
}

// lies gives a part of the instance's memory.
func (in *instance) lies(at, length uint64) ([]byte, error) {
	if at <= math.MaxUint32 && length <= math.MaxUint32 {
		if b, ok := in.memory.Read(uint32(at), uint32(length)); ok {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: what it speaks of lies outside its memory", errTrap)
}
