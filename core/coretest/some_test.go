//go:build race || wasip1

package coretest

// usual is how many histories there are without the flag: fewer where each takes several
// times as long, under the race detector and as WebAssembly. Each runs on one goroutine, so
// more show no more races.
const usual = 100
