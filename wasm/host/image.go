package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"webring/core/abi"
	"webring/wasm/host/sharedmem"
)

// image is what instances begin from: a ring in memory with all that is derived from it.
// The native core makes and verifies it, several times as fast as an instance could.
// Instances take it over without loading a row.
type image struct {
	header  []byte
	memory  memory
	lasting int    // length of the beginning of memory that bids and seconds never change
	at      uint64 // its position
	rewinds uint64 // how often the second had been set back
}

// memory is the memory of an image: [sharedmem.Image], or copies where none can be
// shared. It never changes.
type memory interface {
	// Place puts all of it into room, which is as long and all zeros, in the memory of
	// an instance. shared is how many bytes from the beginning of room are shared.
	Place(room []byte, of *sharedmem.Memory, lasting int) (shared int, err error)
	AppendTo(dst []byte) []byte
	// View calls f with all of it in memory that f may write to until it returns.
	View(f func(b []byte) error) error
	Len() int
}

// copies is memory that every instance gets a copy of.
type copies []byte

func (c copies) Place(room []byte, _ *sharedmem.Memory, _ int) (int, error) {
	copy(room, c)
	return 0, nil
}

func (c copies) AppendTo(dst []byte) []byte        { return append(dst, c...) }
func (c copies) View(f func(b []byte) error) error { return f(c.AppendTo(nil)) }
func (c copies) Len() int                          { return len(c) }

// firstImage verifies the snapshot at which the pool begins, and makes an image of it.
// The core is loaded where the image is to lie, so that it need not be copied.
func (p *Pool) firstImage() (*image, error) {
	snapshot := p.config.Snapshot
	p.config.Snapshot = nil // it is long, and not needed again
	var draft *sharedmem.Draft
	defer func() { draft.Discard() }()
	reserve := func(size int) []byte {
		var err error
		if draft, err = sharedmem.NewDraft(size); err != nil {
			p.notShared(err)
			return nil
		}
		return draft.Bytes()
	}
	if p.config.Copies {
		reserve = nil
	}
	c := abi.New(p.config.Capacity, rand.Uint64())
	if len(snapshot) > 0 {
		n, err := loadNative(p.config.Capacity, snapshot, p.clock.second, reserve)
		if err != nil {
			return nil, err
		}
		c = n.core
	}
	header, ring := c.Image(nil)
	made := &image{header: header, lasting: c.Lasting(), at: c.Seq()}
	if b := draft.Bytes(); len(b) == 0 || len(ring) != len(b) || &ring[0] != &b[0] {
		made.memory = p.share(ring)
		return made, nil
	}
	sealed, err := draft.Seal()
	if made.memory = sealed; err != nil {
		p.notShared(err)
		made.memory = copies(sealed.AppendTo(nil))
	}
	return made, nil
}

// imageOf makes an image of a native core.
func (p *Pool) imageOf(c *abi.Core, rewinds uint64) *image {
	header, ring := c.Image(nil)
	return &image{header: header, memory: p.share(ring), lasting: c.Lasting(), at: c.Seq(), rewinds: rewinds}
}

// share gives memory that holds what b does.
func (p *Pool) share(b []byte) memory {
	if !p.config.Copies {
		m, err := sharedmem.New(b)
		if err == nil {
			return m
		}
		p.notShared(err)
	}
	return append(copies(nil), b...)
}

// notShared logs once why instances get copies, unless the platform has nothing else.
func (p *Pool) notShared(why error) {
	if !errors.Is(why, errors.ErrUnsupported) {
		p.unshared.Do(func() { p.log.Warn("instances of the core do not share memory", "err", why) })
	}
}

// errPlace is wrapped by the errors of attach about an image that cannot be mapped.
var errPlace = errors.New("host: the image cannot be placed")

// attach has the instance go on from an image.
func (in *instance) attach(from *image, capacity int) error {
	length := from.memory.Len()
	reply, err := in.must(abi.OpRoom, uint64(length), nil)
	if err != nil {
		return err
	}
	if len(reply.Rest) != 8 {
		return fmt.Errorf("%w: it has no room", errTrap)
	}
	at := binary.LittleEndian.Uint64(reply.Rest)
	room, ok := in.memory.Read(uint32(at), uint32(length))
	if !ok || max(at, uint64(length)) > math.MaxUint32 {
		return fmt.Errorf("%w: its room lies outside its memory", errTrap)
	}
	shared, err := from.memory.Place(room, in.linear, from.lasting)
	if err != nil {
		return fmt.Errorf("%w: %w", errPlace, err)
	}
	if _, err := in.must(abi.OpAttach, uint64(capacity), from.header); err != nil {
		return err
	}
	in.from, in.shared, in.rewinds = from, room[:shared], from.rewinds
	return nil
}
