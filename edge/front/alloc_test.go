//go:build !race

package front

import (
	"log/slog"
	"testing"
)

// The race detector allocates, so that this is no part of its build.
func TestALineCostsNoMemory(t *testing.T) {
	l := newAccessLog(AccessConfig{Log: slog.New(slog.DiscardHandler)})
	l.pending = make([]byte, 0, maxPending)
	one := line("203.0.113.77")
	l.Add(one)
	if n := testing.AllocsPerRun(500, func() { l.Add(one) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
