package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A ring's state is a few large allocations without pointers. The collector scans them at no
// cost, but by default it lets garbage grow to the size of the live heap, so a large ring
// would take twice the memory that it needs.
const (
	// openingPercent is GOGC while a ring is opened: garbage as a percentage of the live
	// heap.
	openingPercent = 20
	// garbage bounds the garbage while a ring is served, in bytes, unless the usual
	// percentage allows less.
	garbage = 256 << 20
)

// collectOften sets the percentage for opening a ring.
func collectOften() { collectAt(openingPercent) }

// settle frees the memory that opening a ring has needed. Until ctx is done it adjusts the
// collector's percentage to the live heap, and frees memory again when that has shrunk by
// much.
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

// inUse gives the live heap of the last collection, in bytes. It stops no goroutine.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// collectAt sets the percentage unless GOGC is set.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(percent, 1))
	}
}
