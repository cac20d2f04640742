package main

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// failpoints ends the process, as a power cut would, when it comes to the step
// that WEBRING_FAILPOINT names for the n-th time: "head:2", or "head" for the
// first. It is for the project's own tests and needs --dev.
func failpoints(o *options, log *slog.Logger) func(string) {
	step, count, _ := strings.Cut(os.Getenv("WEBRING_FAILPOINT"), ":")
	if step == "" || !o.sites.dev {
		return func(string) {}
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		n = 1
	}
	var seen atomic.Int64
	return func(at string) {
		if at == step && seen.Add(1) == int64(n) {
			log.Warn("failpoint reached; this process ends now", "step", at)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

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
