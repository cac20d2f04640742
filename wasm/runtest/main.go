// Command runtest runs a test binary that was built for wasip1, as go test
// -exec wants it: `make test-wasm` runs the tests of the core with it. The
// binary sees the file system, the environment and the true clock: it is the
// test, not the guest that ships.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

func main() {
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtest:", err)
	}
	os.Exit(code)
}

// run runs the module of the first argument with all of them, and gives its
// exit code.
func run(ctx context.Context, args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("usage: runtest MODULE [ARGUMENTS]")
	}
	module, err := os.ReadFile(args[0])
	if err != nil {
		return 1, err
	}
	r := wazero.NewRuntime(ctx)
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return 1, err
	}
	folder, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	c := wazero.NewModuleConfig().WithArgs(args...).WithEnv("PWD", folder).
		WithStdin(os.Stdin).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader).
		WithFSConfig(wazero.NewFSConfig().WithDirMount("/", "/"))
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok && name != "PWD" {
			c = c.WithEnv(name, value)
		}
	}
	_, err = r.InstantiateWithConfig(ctx, module, c)
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) {
		return int(exit.ExitCode()), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
