//go:build race

package coretest

// histories is how many there are: fewer than without the race detector, which makes
// each take ten times as long. Each runs on one goroutine, so more show no more races.
const histories = 250
