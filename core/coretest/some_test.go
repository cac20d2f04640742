//go:build race || wasip1

package coretest

// histories is how many there are: fewer where each takes several times as long, under
// the race detector and as WebAssembly. Each runs on one goroutine, so more show no more
// races, and wasm/host holds the module to many more.
const histories = 100
