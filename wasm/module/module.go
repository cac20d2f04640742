// Package module embeds the core as WebAssembly in every binary: the file that `make wasm`
// builds into the folder built. The file is not in the repository, since every build gives
// the same bytes. A binary that was built without it works, and gives [ErrMissing] when the
// module is needed.
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

// Core gives the module. The bytes are shared and must not be changed.
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
