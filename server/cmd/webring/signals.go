package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopSignals gives a context that ends with the first SIGTERM, which asks for a stop
// that loses nothing. SIGINT, and any signal after the first SIGTERM, end the process at
// once, as a crash would: what it had promised is on the disk. release ends the watch.
func stopSignals(log *slog.Logger) (ctx context.Context, release func()) {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	released := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM && ctx.Err() == nil {
					stop()
					continue
				}
				log.Warn("this process ends at once; payments in flight stay reserved, the next start goes on with them, and who sends the same credential again gets the outcome", "signal", s.String())
				signal.Reset(s)
				_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
				// A process can have been started to ignore it, as shells start those in
				// the background.
				time.Sleep(time.Second)
				os.Exit(128 + int(s.(syscall.Signal)))
			case <-released:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(released)
		stop()
	}
}
