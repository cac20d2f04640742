package main

import (
	"log/slog"
	"testing"
	"time"
)

// TestHooksOfTestsNeedDev: no environment sets the clock of a real ring, or takes its
// safety away.
func TestHooksOfTestsNeedDev(t *testing.T) {
	t.Setenv("WEBRING_TEST_CLOCK", "-1h")
	t.Setenv("WEBRING_TEST_UNFENCED", "yes")
	for _, dev := range []bool{false, true} {
		o := &options{}
		o.sites.dev = dev
		behind := time.Since(testClock(o, slog.New(slog.DiscardHandler))()) > 30*time.Minute
		if behind != dev || testUnfenced(o) != dev {
			t.Errorf("--dev=%v: behind %v, unfenced %v", dev, behind, testUnfenced(o))
		}
	}
}
