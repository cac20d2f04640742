// Package score finds out how ready a site is for agents.
//
// A [Scorer] answers with a score from 0 to 100, or says why there is none.
// [New] makes one from the operator's settings: a fixed number for development, or a service
// asked over HTTP.
// Package local is one more, which looks at sites itself.
// [Guard] wraps a scorer: it shares and caches answers, and shares the number of
// questions between clients by the rule of package share.
//
// A score decides whether a client is asked for money, so nothing here makes one up: a
// service that cannot be reached, or an answer that cannot be read, is an error.
//
// To read the package: score.go has the contract; guard.go and breaker.go wrap it with limits
// and a cache; http.go and answer.go ask a service over HTTP.
package score

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scorer gives the agent-readiness score of the site at a canonical URL.
// Implementations are safe for concurrent use and return soon after ctx ends.
// Their errors match [ErrBadTarget] or are *[NotScorable], *[Pending] or
// *[Unavailable]; a caller treats any other as the last.
type Scorer interface {
	Score(ctx context.Context, url string) (Result, error)
}

// Result is a score, and where it came from: scores of one site differ between
// services by tens of points.
type Result struct {
	Score     int       // 0 to 100
	Report    string    // absolute URL of at most 2048 bytes, or ""
	Provider  string    // the service's name
	Version   string    // of its rubric, or "" when it does not say
	ScannedAt time.Time // zero when it does not say
}

// ErrBadTarget says that the service will not examine this URL.
var ErrBadTarget = errors.New("score: bad target")

// NotScorable says that the service has no score for this site, and what the
// site's owner can do.
type NotScorable struct {
	Never bool // whether the site was never scanned, rather than found unfit for a score
	// Unreached is whether nothing was sent to the site, as its name has no address
	// or none that takes connections: the question is not charged to all.
	Unreached bool
	Where     string // a page on which the site can be scanned
	Reason    string // the rest of a sentence about the site, instead of one made of the others
}

// Error is fit for callers: the rest of a sentence about the site.
func (e *NotScorable) Error() string {
	if e.Reason != "" {
		return e.Reason
	}
	if e.Never {
		return "it was not scanned yet; have it scanned at " + e.Where + " and send the request again"
	}
	return "the scan ended without one; see " + e.Where
}

// Pending says that the service is at work on it. RetryAfter, in whole seconds,
// is when to ask again.
type Pending struct{ RetryAfter time.Duration }

// Error says so.
func (e *Pending) Error() string { return "score: pending" }

// Unavailable says that the service gave no usable answer. RetryAfter, in whole
// seconds and at least one, is when to ask again. Err is for the operator's log
// and not for callers.
type Unavailable struct {
	RetryAfter time.Duration
	Err        error
	// Busy says that a limit ended the question, or refused it, for this client. It is no
	// failure of the service.
	Busy bool
}

// Error gives the cause.
func (e *Unavailable) Error() string { return fmt.Sprintf("score: unavailable: %v", e.Err) }

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Err }

// unavailable makes the error, with wait rounded up to whole seconds.
func unavailable(wait time.Duration, err error) *Unavailable {
	return &Unavailable{RetryAfter: max(time.Second, (wait + time.Second - 1).Truncate(time.Second)), Err: err}
}

// fixed scores every site alike. Development only.
type fixed int

func (f fixed) Score(context.Context, string) (Result, error) {
	return Result{Score: int(f), Provider: "fixed", ScannedAt: time.Now()}, nil
}

// parseFixed reads the N of "fixed:N".
func parseFixed(n string) (Scorer, error) {
	score, err := strconv.Atoi(n)
	if err != nil || score < 0 || score > 100 || strings.HasPrefix(n, "+") {
		return nil, fmt.Errorf("score: fixed:%s is not a score from 0 to 100", n)
	}
	return fixed(score), nil
}
