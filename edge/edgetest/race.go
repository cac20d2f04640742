//go:build race

package edgetest

import "runtime"

// Race says whether the race detector runs.
const Race = true

// All timers of a synctest bubble share one context of the race detector. Two of them
// that fire on two threads at once corrupt it, and the detector crashes
// (golang.org/issue/78156). Races are still found with one processor: the detector
// goes by what orders two accesses, not by when they happened.
func init() { runtime.GOMAXPROCS(1) }
