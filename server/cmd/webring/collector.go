package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
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

// settle collects what was needed to open a ring, and gives it back to the system.
// Until ctx is done it has the collector go at a pace that goes with what is in use,
// and gives back again when that has come to be much less.
func settle(ctx context.Context) {
	debug.FreeOSMemory()
	again := time.NewTicker(10 * time.Second)
	defer again.Stop()
	for most, pace := uint64(0), 0; ; {
		use := inUse()
		if most > use+garbage/2 {
			debug.FreeOSMemory()
			most = 0
		}
		most = max(most, use)
		if p := int(100 * garbage / max(use, garbage)); p != pace {
			collectAt(p)
			pace = p
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// inUse gives the bytes that were in use when the collector last looked. To ask
// stops nobody.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// collectAt sets the percentage unless whoever runs the process has.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(percent, 1))
	}
}
