package main

import (
	"log/slog"
	"os"
	"time"
)

// testClock is the clock of the process. It is ahead by the duration that
// WEBRING_TEST_CLOCK names, or behind if that is negative: "7s", "-3s". As
// [failpoints], it is for the project's own tests and needs --dev.
func testClock(o *options, log *slog.Logger) func() time.Time {
	ahead, err := time.ParseDuration(os.Getenv("WEBRING_TEST_CLOCK"))
	if err != nil || !o.sites.dev {
		return time.Now
	}
	log.Warn("the clock of this process is set wrong for a test", "ahead", ahead)
	return func() time.Time { return time.Now().Add(ahead) }
}

// testUnfenced says whether transactions of a cluster leave out what makes them safe, so
// that a test which finds nothing otherwise must find something now. It needs
// WEBRING_TEST_UNFENCED=yes, and --dev.
func testUnfenced(o *options) bool {
	return o.sites.dev && os.Getenv("WEBRING_TEST_UNFENCED") == "yes"
}
