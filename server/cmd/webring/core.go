package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"webring/edge/follow"
	"webring/wasm/host"
	"webring/wasm/module"
)

// coreFlags say which build of the core answers reads, and within which bounds.
type coreFlags struct {
	kind   string
	memory int // MiB
	share  bool
}

// define defines the flags. Without --core, reads are answered by the build usual.
func (c *coreFlags) define(fs *flag.FlagSet, usual string) {
	fs.StringVar(&c.kind, "core", usual, "`build` of the core that answers reads: native or wasm")
	fs.IntVar(&c.memory, "memory-limit", 2048, fileOnly+"`MiB` for each instance of the core; wasm only")
	fs.BoolVar(&c.share, "shared-memory", true, fileOnly+"let instances of the core share memory that they have not written to, on Linux; wasm only")
}

func (c *coreFlags) validate() error {
	switch {
	case c.kind != "wasm" && c.kind != "native":
		return fmt.Errorf("--core %q: there are native and wasm", c.kind)
	case c.memory < 16 || c.memory > mostMemory:
		return fmt.Errorf("memory-limit must be from 16 to %d MiB", mostMemory)
	}
	return nil
}

// explain adds to an error what the flags can do about it.
func (c *coreFlags) explain(err error) error {
	if errors.Is(err, host.ErrMemory) {
		return fmt.Errorf("%w: raise memory-limit, which goes up to %d MiB, or use --core native", err, mostMemory)
	}
	return err
}

// mostSnapshot is the longest snapshot, in bytes, that can fit into a core's memory. 0
// leaves the bound to [follow.Config.MaxSnapshot].
func (c *coreFlags) mostSnapshot() int64 {
	if c.kind == "native" {
		return 0
	}
	return int64(c.memory) << 20
}

// mostMemory is the memory that 32 bits can address, in MiB.
const mostMemory = 4096

// open gives a core with room for capacity members, at a snapshot or, without one, empty.
// Compiled code is stored below data as [compiled] says.
func (c *coreFlags) open(ctx context.Context, capacity int, data string, snapshot []byte, log *slog.Logger) (follow.Core, error) {
	if c.kind == "native" {
		if snapshot == nil {
			return host.NewNative(capacity), nil
		}
		native, err := host.LoadNative(capacity, snapshot)
		if err != nil {
			return nil, err
		}
		return native, nil
	}
	guest, err := module.Core()
	if err != nil {
		return nil, fmt.Errorf("%w, or use --core native", err)
	}
	digest, err := module.Digest()
	if err != nil {
		return nil, err
	}
	dropCompiled(data, digest)
	pool, err := host.NewPool(ctx, host.PoolConfig{Module: guest, CacheDir: compiled(data, digest),
		MemoryPages: uint32(c.memory) << 4, Copies: !c.share, Capacity: capacity, Snapshot: snapshot, Now: time.Now(), Log: log})
	if err != nil {
		return nil, c.explain(err)
	}
	return pool, nil
}

// buildName names the core, as part of every validator: by the digest of the module in this
// binary, also for the native core. That is made of the same sources and answers the same
// bytes, so a client gets the same validators from an origin that reads natively and from
// its edges. Without a module the name is the digest of the binary.
func buildName() (string, error) {
	digest, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		return buildDigest()
	}
	return hex.EncodeToString(digest[:]), err
}

// buildDigest is the SHA-256 of this binary, in hexadecimal.
func buildDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// compiled is the folder of a module's compiled code, which later starts use again.
func compiled(data string, digest [32]byte) string {
	return filepath.Join(data, "core", hex.EncodeToString(digest[:]))
}

// dropCompiled removes the compiled code of all other modules. It removes nothing with
// another form of name, because other programs may use the folder core too. It ignores
// errors: what remains costs only disk space.
func dropCompiled(data string, but [32]byte) {
	entries, _ := os.ReadDir(filepath.Join(data, "core"))
	for _, e := range entries {
		b, err := hex.DecodeString(e.Name())
		if err == nil && len(b) == 32 && [32]byte(b) != but {
			_ = os.RemoveAll(compiled(data, [32]byte(b)))
		}
	}
}

// The linker sets these, as the Makefile says. They are empty in a binary of a bare
// go build.
var (
	buildVersion  string // newest heading of CHANGELOG.md
	buildRevision string // commit, with -modified behind it when the tree was not that of the commit
	buildDate     string // of the commit, RFC 3339
)

// build is what a binary knows of its sources.
type build struct{ version, revision, date string }

// thisBuild says what this binary was built from: what make set, and else what the go
// command saw.
func thisBuild() build {
	b, seen := build{buildVersion, buildRevision, buildDate}, map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			seen[s.Key] = s.Value
		}
	}
	if b.revision == "" {
		b.revision, b.date = seen["vcs.revision"], seen["vcs.time"]
		if seen["vcs.modified"] == "true" {
			b.revision += "-modified"
		}
	}
	for _, field := range []struct {
		of    *string
		usual string
	}{{&b.version, "0.0.0-devel"}, {&b.revision, "unknown"}, {&b.date, "unknown"}} {
		if *field.of == "" {
			*field.of = field.usual
		}
	}
	return b
}

// print writes one line about the binary.
func (b build) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "webring %s, commit %s of %s, %s %s/%s\n", b.version, b.revision, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
