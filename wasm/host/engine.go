package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// compile makes the runtime and compiles the module, with the cache if it
// works.
func (p *Pool) compile(ctx context.Context) (err error) {
	if p.config.CacheDir != "" && !p.config.Interpreter {
		if p.compilation, err = wazero.NewCompilationCacheWithDir(p.config.CacheDir); err == nil {
			if err = p.startRuntime(ctx); err == nil {
				return nil
			}
			_ = p.closeRuntime()
		}
		p.compilation = nil
		p.log.Warn("compiled code is not kept", "folder", p.config.CacheDir, "err", err)
	}
	if err = p.startRuntime(ctx); err != nil && p.runtime != nil {
		_ = p.closeRuntime()
	}
	return err
}

// startRuntime makes the runtime, with the cache that is set, and compiles.
func (p *Pool) startRuntime(ctx context.Context) (err error) {
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
	// Calls cannot be interrupted: checking for that slows every loop, and all of the
	// module's calls return.
	c = c.WithDebugInfoEnabled(false).WithCloseOnContextDone(false)
	if p.config.MemoryPages > 0 {
		c = c.WithMemoryLimitPages(p.config.MemoryPages)
	}
	if p.compilation != nil {
		c = c.WithCompilationCache(p.compilation)
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

func (p *Pool) closeRuntime() error {
	var err error
	if p.runtime != nil { // there is none where wazero cannot compile
		err = p.runtime.Close(background)
	}
	if p.compilation != nil {
		err = errors.Join(err, p.compilation.Close(background))
	}
	return err
}
