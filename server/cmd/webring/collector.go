package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// A ring is a few pieces of memory, as large as it is and without pointers: the
// collector passes over them at no cost, but lets as much garbage lie as there is
// memory in use, so that a large ring would take twice the memory that it needs.
const (
	// openingPercent is how much garbage may lie while a ring is opened, of the
	// memory in use: GOGC.
	openingPercent = 20
	// garbage is how much may lie while one is served, in bytes, unless the usual
	// percentage allows less.
	garbage = 256 << 20
)

// collectOften is for commands until they have opened what they serve, if they do.
func collectOften() { collectAt(openingPercent) }

// settle collects what was needed to open a ring, gives it back to the system,
// and has the collector go on at a pace that goes with what is left.
func settle() {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	collectAt(int(min(100*garbage/m.HeapAlloc, 100)))
}

// collectAt sets the percentage unless whoever runs the process has.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(percent, 1))
	}
}
