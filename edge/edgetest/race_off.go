//go:build !race

package edgetest

// Race says whether the race detector runs.
const Race = false
