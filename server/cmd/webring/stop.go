package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"webring/edge"
	"webring/edge/forward"
)

// stopTime bounds how long a stop waits for payments in flight: a Tempo transaction
// is valid for at most 90 seconds, and its request is held 10 more. What takes
// longer, as an authorisation may, stays reserved for the next start.
const stopTime = 110 * time.Second

// answerTime is how long a stop then has to answer the requests that still wait: their
// clients are told to ask again.
const answerTime = 5 * time.Second

// stopOrigin closes payments, and then shell, which answers reads until then.
func stopOrigin(closePayments func(context.Context) error, shell *edge.Shell, patience time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience+answerTime)
	defer cancel()
	settled, enough := context.WithTimeout(ctx, patience)
	defer enough()
	if err := closePayments(settled); err != nil {
		log.Warn("payments in flight stay reserved for the next start", "err", err)
	}
	return shut(ctx, shell, log)
}

// stopEdge closes shell, and has forwarder wait no longer for the origin when
// patience has ended.
func stopEdge(forwarder *forward.Forwarder, shell *edge.Shell, patience time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience+answerTime)
	defer cancel()
	enough := time.AfterFunc(patience, func() {
		log.Warn("what the origin has not answered is given up; payers are told to send their payment again")
		forwarder.Close()
	})
	defer enough.Stop()
	return shut(ctx, shell, log)
}

// shut closes shell. A client that is too slow to take its answer before ctx ends is no
// error.
func shut(ctx context.Context, shell *edge.Shell, log *slog.Logger) error {
	err := shell.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("not everybody has taken an answer; the connections end")
		return nil
	}
	return err
}
