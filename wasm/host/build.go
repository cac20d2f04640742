package host

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"webring/core/abi"
	"webring/wasm/host/sharedmem"
)

const pageSize = 64 << 10 // of a module's memory

// build makes an instance at the position of the newest image.
func (p *Pool) build() (*instance, error) { return p.buildFrom(p.base.newest()) }

// buildFrom makes an instance at the position of an image. If the image cannot be mapped,
// the instance begins from a copy of it, and so do those that are built later.
func (p *Pool) buildFrom(from *image) (*instance, error) {
	in, err := p.launch()
	if err != nil {
		return nil, err
	}
	if most, has := p.mostMemory(), uint64(in.memory.Size()); has+uint64(from.memory.Len()) > most {
		in.close()
		return nil, fmt.Errorf("%w: it takes %d MiB beside %d of the module's own, and an instance may have %d",
			ErrMemory, from.memory.Len()>>20+1, has>>20+1, most>>20)
	}
	if err = in.attach(from, p.config.Capacity); err == nil {
		// The first answer allocates what later answers use. A lack of memory must
		// show here and not in a request.
		_, err = in.must(abi.OpServe, 0, []byte("/api"))
	}
	if err == nil {
		return in, nil
	}
	in.close()
	if !errors.Is(err, errPlace) {
		return nil, err
	}
	p.notShared(err)
	copied := *from
	copied.memory = copies(from.memory.AppendTo(nil))
	p.base.swap(from, &copied)
	return p.buildFrom(&copied)
}

// launch starts the module, with an empty ring.
func (p *Pool) launch() (*instance, error) {
	in, ctx := &instance{}, background
	if own := p.compiled.ExportedMemories()["memory"]; own != nil {
		var err error
		if in.linear, err = sharedmem.Reserve(uint64(own.Min())*pageSize, p.mostMemory()); err == nil {
			ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return in.linear }))
		} else {
			p.notShared(err)
		}
	}
	// The clock stays wazero's fake one: the core gets time and random bits as
	// arguments. The random source is real, because the guest's runtime seeds its hash
	// tables from it: clients must not be able to make keys collide.
	module, err := p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().WithName("").
		WithStartFunctions("_initialize").WithRandSource(rand.Reader).WithStderr(&in.stderr))
	if err == nil {
		err = in.bind(module)
	} else {
		err = fmt.Errorf("host: starting the module: %w", err)
	}
	if err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// mostMemory is how many bytes an instance may have.
func (p *Pool) mostMemory() uint64 {
	const pages = 1 << 16 // all that 32 bits can address
	if p.config.MemoryPages > 0 {
		return pageSize * uint64(min(p.config.MemoryPages, pages))
	}
	return pageSize * pages
}
