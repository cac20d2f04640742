// Package module carries the core as WebAssembly in every binary: what `make
// wasm` builds into the folder built is embedded. The module is not kept in
// the repository, since it can be built again to the same bytes; a binary that
// was built without it works, and says what is missing when it is asked for.
package module

import (
	"crypto/sha256"
	"embed"
	"errors"
	"sync"
)

//go:embed built
var built embed.FS

// ErrMissing says that this binary was built without the module.
var ErrMissing = errors.New("module: this binary was built without core.wasm: build it with make")

var load = sync.OnceValues(func() ([]byte, error) {
	b, err := built.ReadFile("built/core.wasm")
	if err != nil {
		return nil, ErrMissing
	}
	return b, nil
})

// Core gives the module. The bytes are shared: nobody may change them.
func Core() ([]byte, error) { return load() }

var digest = sync.OnceValues(func() ([32]byte, error) {
	b, err := load()
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(b), nil
})

// Digest gives the SHA-256 of the module, by which checkpoints name it.
func Digest() ([32]byte, error) { return digest() }
