package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"webring/core/abi"
)

// compile makes the runtime and compiles the module, with the cache if it
// works.
func (p *Pool) compile(ctx context.Context) (err error) {
	if p.config.CacheDir != "" && !p.config.Interpreter {
		if p.cache, err = wazero.NewCompilationCacheWithDir(p.config.CacheDir); err == nil {
			if err = p.start(ctx); err == nil {
				return nil
			}
			_ = p.release()
		}
		p.cache = nil
		p.log.Warn("compiled code is not kept", "folder", p.config.CacheDir, "err", err)
	}
	if err = p.start(ctx); err != nil && p.runtime != nil {
		_ = p.release()
	}
	return err
}

// start makes the runtime, with the cache that is set, and compiles.
func (p *Pool) start(ctx context.Context) (err error) {
	// wazero panics where it has no compiler.
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("host: no compiler engine for this platform: use the native core: %v", v)
		}
	}()
	c := wazero.NewRuntimeConfigCompiler()
	if p.config.Interpreter {
		c = wazero.NewRuntimeConfigInterpreter()
	}
	// Nothing else can end a call that loops, nor can Go stop the world for its
	// collector meanwhile. Our module has none that could, and checking for it
	// slows every loop.
	c = c.WithDebugInfoEnabled(false).WithCloseOnContextDone(p.config.Patience > 0)
	if p.config.MemoryPages > 0 {
		c = c.WithMemoryLimitPages(p.config.MemoryPages)
	}
	if p.cache != nil {
		c = c.WithCompilationCache(p.cache)
	}
	p.runtime = nil
	p.runtime = wazero.NewRuntimeWithConfig(ctx, c)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
		return fmt.Errorf("host: WASI: %w", err)
	}
	if p.compiled, err = p.runtime.CompileModule(ctx, p.config.Module); err != nil {
		return fmt.Errorf("host: compiling the module: %w", err)
	}
	return nil
}

// launch starts the module.
func (p *Pool) launch(place int) (*instance, error) {
	in := &instance{place: place, patience: p.config.Patience}
	// The clock stays wazero's false one: the core gets time and random bits as
	// arguments. The random source is real, because the guest's runtime seeds
	// its hash tables from it, and nobody may know how to make keys collide.
	limited, cancel := in.limited()
	defer cancel()
	ctx, made := withMemory(limited, p.notShared)
	module, err := p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().WithName("").
		WithStartFunctions("_initialize").WithRandSource(rand.Reader).WithStderr(&in.said))
	in.linear = *made
	if err == nil {
		err = in.bind(module)
	} else {
		err = fmt.Errorf("host: starting the module: %w", in.late(limited, err))
	}
	if err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// build makes an instance from the kept image, of which it gets a copy when it
// cannot share it.
func (p *Pool) build(place int) (*instance, error) {
	for {
		in, err := p.launch(place)
		if err != nil {
			return nil, err
		}
		from := p.kept.start()
		if most, has := p.mostMemory(), uint64(in.memory.Size()); has+uint64(from.memory.len()) > most {
			in.close()
			return nil, fmt.Errorf("%w: it takes %d MiB beside %d of the module's own, and an instance may have %d",
				ErrMemory, from.memory.len()>>20+1, has>>20+1, most>>20)
		}
		if err = in.attach(from, p.config.Capacity); err == nil {
			// Its first answer takes memory for all that follow. Where there is
			// not as much, that shows here and not to who asks first.
			_, err = in.must(abi.OpServe, 0, []byte("/api"))
		}
		if err == nil {
			return in, nil
		}
		in.close()
		if !errors.Is(err, errNotShared) {
			return nil, err
		}
		p.notShared(err)
		p.kept.replace(from.copied())
	}
}

// mostMemory is how many bytes an instance may have.
func (p *Pool) mostMemory() uint64 {
	const page, pages = 64 << 10, 1 << 16 // all that 32 bits can tell apart
	if p.config.MemoryPages > 0 {
		return page * uint64(min(p.config.MemoryPages, pages))
	}
	return page * pages
}
