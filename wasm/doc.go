// Package wasm is where the core becomes a guest: what it answers natively at
// the origin, it answers in a sandbox at the edges, byte for byte.
//
// Its folder host holds what drives a core on either side; today that is the
// core compiled in ([webring/wasm/host.Native]).
package wasm
