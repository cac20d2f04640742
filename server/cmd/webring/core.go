package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"webring/edge"
	"webring/wasm/host"
	"webring/wasm/module"
)

// reads is a core that answers reads; see [host.Native] and [host.Pool].
type reads interface {
	edge.Core
	Apply(records []host.Record) error
	Tick(now time.Time)
	Close() error
}

// coreFlags say which build of the core answers reads, and within which bounds.
type coreFlags struct {
	kind   string
	memory int // MiB
	keep   bool
	share  bool
}

// define defines the flags. Without --core, reads are answered by the build usual.
func (c *coreFlags) define(fs *flag.FlagSet, usual string) {
	fs.StringVar(&c.kind, "core", usual, "`build` of the core that answers reads: native or wasm")
	fs.IntVar(&c.memory, "memory-limit", 2048, "`MiB` that each instance of the core may take, one for each processor and two at least: 1024 suffice for some 2500000 members; wasm only")
	fs.BoolVar(&c.keep, "keep-answers", true, "keep answers that are asked for again until they change, in 32 MiB at most")
	fs.BoolVar(&c.share, "shared-memory", true, "have instances of the core share the memory that they have not written to, on Linux; wasm only")
}

func (c *coreFlags) validate() error {
	switch {
	case c.kind != "wasm" && c.kind != "native":
		return fmt.Errorf("--core %q: there are native and wasm", c.kind)
	case c.memory < 16 || c.memory > mostMemory:
		return fmt.Errorf("--memory-limit must be from 16 to %d MiB", mostMemory)
	}
	return nil
}

// explain adds to an error what the flags can do about it.
func (c *coreFlags) explain(err error) error {
	if errors.Is(err, host.ErrMemory) {
		return fmt.Errorf("%w: raise --memory-limit, which goes up to %d MiB, or use --core native", err, mostMemory)
	}
	return err
}

// mostSnapshot is the length of a snapshot, in bytes, from which on no core can be
// opened from it: it takes less than the ring in memory. 0 leaves the bound to
// [replica.Config.MaxSnapshot].
func (c *coreFlags) mostSnapshot() int64 {
	if c.kind == "native" {
		return 0
	}
	return int64(c.memory) << 20
}

// mostMemory is what 32 bits can tell apart, in MiB.
const mostMemory = 4096

// open gives a core with room for capacity members, at a snapshot or empty when
// there is none, and the name of the build that is part of every validator, which
// is [nativeBuild] for the native core, and for the module its digest.
// Compiled code is kept as [compiled] says.
func (c *coreFlags) open(capacity int, data string, snapshot []byte, log *slog.Logger) (core reads, build string, err error) {
	if c.kind == "native" {
		if build, err = nativeBuild(); err != nil {
			return nil, "", err
		}
		if snapshot == nil {
			return host.NewNative(capacity), build, nil
		}
		native, err := host.LoadNative(capacity, snapshot)
		return native, build, err
	}
	guest, err := module.Core()
	if err != nil {
		return nil, "", fmt.Errorf("%w, or use --core native", err)
	}
	digest, err := module.Digest()
	if err != nil {
		return nil, "", err
	}
	dropCompiled(data, digest)
	pool, err := host.NewPool(context.Background(), host.PoolConfig{Module: guest, CacheDir: compiled(data, digest),
		MemoryPages: uint32(c.memory) << 4, Copies: !c.share, Capacity: capacity, Snapshot: snapshot, Now: time.Now(), Log: log})
	if err != nil {
		return nil, "", c.explain(err)
	}
	return pool, hex.EncodeToString(digest[:]), nil
}

// nativeBuild names the native core. It is the digest of the module in this binary,
// which is made of the same sources and answers the same bytes: a client then gets
// the same validator from an origin that reads natively and from its edges. Without
// a module it is the digest of the binary.
func nativeBuild() (string, error) {
	digest, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		return buildDigest()
	}
	return hex.EncodeToString(digest[:]), err
}

// compiled is the folder in which the compiled code of a module is kept from start
// to start.
func compiled(data string, digest [32]byte) string {
	return filepath.Join(data, "core", hex.EncodeToString(digest[:]))
}

// dropCompiled removes the compiled code of all modules but this one, and nothing that
// has another name: the folder core may be somebody else's, too. What is left over
// costs room on disk alone.
func dropCompiled(data string, but [32]byte) {
	entries, _ := os.ReadDir(filepath.Join(data, "core"))
	for _, e := range entries {
		b, err := hex.DecodeString(e.Name())
		if err == nil && len(b) == 32 && [32]byte(b) != but {
			_ = os.RemoveAll(compiled(data, [32]byte(b)))
		}
	}
}

// printModule says which module this binary carries.
func printModule(out io.Writer) error {
	digest, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		_, err = fmt.Fprintln(out, "core.wasm is missing: this binary was built without it")
		return err
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "core.wasm sha256:%x\n", digest)
	return err
}
