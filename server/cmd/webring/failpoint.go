package main

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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
