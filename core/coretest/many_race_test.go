//go:build race

package coretest

// histories is how many there are: fewer than without the race detector, which makes
// each take ten times as long. A fold has no goroutines, so more would show no more.
const histories = 250
