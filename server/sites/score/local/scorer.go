package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/edge/share"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
)

const (
	// ScanTime bounds one scan.
	ScanTime = 20 * time.Second
	// TurnTime bounds how long a scan waits for its turn to read. It may wait twice
	// after all its requests have ended.
	TurnTime = 2 * time.Second
	// busyRetry is when a client may try again if no scan could start.
	busyRetry = 10 * time.Second
)

// Provider is the name under which scores are given.
const Provider = "local"

// Scorer is the local scorer. It is a [score.Scorer], safe for concurrent use. Its
// limits are shared between askers; the asker of a scan is that of its context
// ([share.NewContext]).
type Scorer struct {
	cache *cache
	// keep stores a report and gives the address under which it is served. nil:
	// there are no reports to link to.
	keep  func(*Report) (string, error)
	scans *scans
	turns *turns        // of the scan that reads
	time  time.Duration // for one scan
}

// New makes a scorer that fetches with client. pass is the least passing score: the
// answers of a site are cached for as long as a [score.Guard] caches its score. past is
// where askers are charged for the time of their scans.
func New(client *fetch.Client, pass int, past *share.Past, keep func(*Report) (string, error)) *Scorer {
	return &Scorer{cache: newCache(client, pass), keep: keep, scans: newScans(past), turns: &turns{}, time: ScanTime}
}

// Score scans a site. A bad site has a low score, and one that does not answer at all
// is [*score.NotScorable]. The scorer is unavailable only for reasons of its own.
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

// Scan scans a site and gives the report, without storing it. Its errors are those of
// [Scorer.Score].
func (l *Scorer) Scan(ctx context.Context, url string) (*Report, error) {
	placed, leave, err := l.scans.enter(ctx, share.FromContext(ctx))
	if err != nil {
		return nil, busy(busyRetry, err)
	}
	defer leave()
	bounded, cancel := context.WithTimeoutCause(placed, l.time, fetch.ErrTooSlow)
	defer cancel()
	s := begin(bounded, l.cache, l.turns, url)
	switch err := s.home.err; {
	case s.busy != nil:
		return nil, busy(s.busy.RetryAfter, s.busy)
	case placed.Err() != nil:
		return nil, cutShort(placed)
	case errors.Is(err, fetch.ErrTarget):
		return nil, fmt.Errorf("%w: %w", score.ErrBadTarget, err)
	case errors.Is(err, fetch.ErrRedirect):
		// The site answers: the report says what is wrong with that.
	case err != nil:
		return nil, &score.NotScorable{Unreached: errors.Is(err, fetch.ErrNoConnection),
			Reason: "it could not be reached over the network, or did not answer in time; make its home page answer and send the request again"}
	}
	s.explore(bounded)
	var r *Report
	s.read(bounded, func() { r = grade(s) })
	switch {
	case s.busy != nil:
		// A limit of ours must not cost the site points, nor count as a failure.
		return nil, busy(s.busy.RetryAfter, s.busy)
	case placed.Err() != nil:
		return nil, cutShort(placed)
	}
	l.cache.scored(s.entry(), r.Score)
	l.cache.scored(s.at("/"), r.Score)
	r.ScannedAt = time.Now().UTC().Truncate(time.Millisecond)
	return r, nil
}

// cutShort says why a scan did not come to its end.
func cutShort(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, errGaveWay) {
		return fmt.Errorf("local: %w", err)
	}
	return busy(busyRetry, errGaveWay)
}

// busy is no failure of the service.
func busy(after time.Duration, err error) error {
	return &score.Unavailable{RetryAfter: max(time.Second, after.Truncate(time.Second)+time.Second), Err: err, Busy: true}
}
