package main

import (
	"errors"
	"log/slog"
	"time"

	"webring/edge"
)

// drainTime is --drain: for how long a process that was told to stop goes on accepting
// connections. A balancer that asks for readiness every few seconds has taken the node
// out by then.
type drainTime struct {
	time  time.Duration
	given bool
}

const usualDrain = 10 * time.Second

// String is the time as Set reads it.
func (d *drainTime) String() string { return (*duration)(&d.time).String() }

// Set reads what [parseDuration] reads.
func (d *drainTime) Set(v string) (err error) {
	d.time, err = parseDuration(v)
	d.given = true
	return err
}

func (d *drainTime) validate() error {
	if d.time < 0 {
		return errors.New("--drain must not be negative")
	}
	return nil
}

// inDevelopment sets the time to 0 unless it was given.
func (d *drainTime) inDevelopment() {
	if !d.given {
		d.time = 0
	}
}

// run is the first part of a stop. It calls the functions first, which say that the node is
// not ready any more. Then everything goes on as before, except that connections end with
// their next answer.
//
// Payments are taken, too. One that is taken now has all of [stopTime] left once the drain
// is over, which is longer than a transaction is valid; to refuse it would fail payers
// that a balancer still sends here. What takes longer stays reserved for the next start,
// as ever.
func (d *drainTime) run(shell *edge.Shell, log *slog.Logger, first ...func()) {
	for _, tell := range first {
		tell()
	}
	shell.Drain()
	if d.time == 0 {
		return
	}
	log.Info("stopping: this node is not ready any more, and answers for as long as balancers may take to notice", "drain", d.time)
	time.Sleep(d.time)
}
