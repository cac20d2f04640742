package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"webring/server/fetch"
	"webring/server/score"
	"webring/server/score/report"
)

const (
	// ScanTime bounds one scan.
	ScanTime = 20 * time.Second
	// WaitTime bounds how long a scan waits for its turn.
	WaitTime = 3 * time.Second
	// TurnTime bounds how long it waits for its turn to read what was sent. It
	// may wait twice when all else has ended.
	TurnTime = 2 * time.Second
	// maxScans is how many scans are under way at a time. With it and the
	// client's limits, sockets and memory are bounded: a scan holds a few
	// megabytes of what it read.
	maxScans = 16
	// busyRetry is when to come back when all are.
	busyRetry = 10 * time.Second
)

// Provider is the name under which scores are given.
const Provider = "local"

// Scorer is the local scorer. It is a [score.Scorer], safe for concurrent use.
type Scorer struct {
	client *fetch.Client
	// keep stores a report and gives the address under which it is served. nil:
	// there are no reports to link to.
	keep  func(*report.Report) (string, error)
	scans *semaphore.Weighted
	turn  *semaphore.Weighted // of the scan that reads
	time  time.Duration       // for one scan
}

// New makes a scorer that fetches with client.
func New(client *fetch.Client, keep func(*report.Report) (string, error)) *Scorer {
	return &Scorer{client: client, keep: keep, scans: semaphore.NewWeighted(maxScans), turn: semaphore.NewWeighted(1), time: ScanTime}
}

// Score scans a site. What is wrong with the site is a low score, or, when it
// does not answer at all, [*score.NotScorable]; only what is wrong here makes
// the scorer unavailable.
func (l *Scorer) Score(ctx context.Context, url string) (score.Result, error) {
	r, err := l.Scan(ctx, url)
	if err != nil {
		return score.Result{}, err
	}
	result := score.Result{Score: r.Score, Provider: Provider, Version: r.Rubric, ScannedAt: r.ScannedAt}
	if l.keep != nil {
		if result.Report, err = l.keep(r); err != nil {
			return score.Result{}, &score.Unavailable{RetryAfter: time.Minute, Err: err}
		}
	}
	return result, nil
}

// Scan examines a site and reports, without storing anything. The errors are
// those of Score.
func (l *Scorer) Scan(ctx context.Context, url string) (*report.Report, error) {
	waiting, cancel := context.WithTimeout(ctx, WaitTime)
	err := l.scans.Acquire(waiting, 1)
	cancel()
	if err != nil {
		return nil, busy(busyRetry, errors.New("local: all scans are taken"))
	}
	defer l.scans.Release(1)
	bounded, cancel := context.WithTimeoutCause(ctx, l.time, fetch.ErrTooSlow)
	defer cancel()
	s := begin(bounded, l.client, l.turn, url)
	switch err := s.home.err; {
	case s.busy != nil:
		return nil, busy(s.busy.RetryAfter, s.busy)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("local: %w", context.Cause(ctx))
	case errors.Is(err, fetch.ErrTarget):
		return nil, fmt.Errorf("%w: %w", score.ErrBadTarget, err)
	case errors.Is(err, fetch.ErrRedirect):
		// The site answers: the report says what is wrong with that.
	case err != nil:
		return nil, &score.NotScorable{Reason: "it could not be reached over the network, or did not answer in time; make its home page answer and send the request again"}
	}
	s.explore(bounded)
	var r *report.Report
	s.read(bounded, func() { r = grade(s) })
	switch {
	case s.busy != nil:
		// A limit of ours must not cost the site points, nor count as a failure.
		return nil, busy(s.busy.RetryAfter, s.busy)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("local: %w", context.Cause(ctx))
	}
	r.ScannedAt = time.Now().UTC().Truncate(time.Millisecond)
	return r, nil
}

// busy is no failure of the service.
func busy(after time.Duration, err error) error {
	return &score.Unavailable{RetryAfter: max(time.Second, after.Truncate(time.Second)+time.Second), Err: err, Busy: true}
}
