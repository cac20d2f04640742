package fetch

import (
	"errors"
	"fmt"
	"time"
)

// Errors of [Client.Get]. Each of its errors matches one of these, is a *[Busy], or
// wraps the cause of the end of the caller's context.
var (
	// ErrTarget: a URL of this form is never fetched. Nothing was sent.
	ErrTarget = errors.New("fetch: not a public http or https URL")
	// ErrUnreachable: there was no whole answer, for whatever reason.
	ErrUnreachable = errors.New("fetch: the site could not be reached")
	// ErrNoConnection: the name has no address that accepts connections. It is an
	// [ErrUnreachable]. Nothing was sent, and no limit was charged.
	ErrNoConnection = fmt.Errorf("%w: no connection", ErrUnreachable)
	// ErrTooSlow: the answer was not there within the time for one fetch.
	ErrTooSlow = errors.New("fetch: the site took too long")
	// ErrRedirect: the answer is a redirect that is not followed; the text says why.
	ErrRedirect = errors.New("fetch: the redirect is not followed")
)

// errNoAnswer is for this package alone: callers get [ErrUnreachable].
var errNoAnswer = errors.New("fetch: the answer is none over HTTP")

// Busy says that nothing was sent because a limit of this process was reached.
// RetryAfter is how long to wait before the next try.
type Busy struct{ RetryAfter time.Duration }

// Error gives the time to wait.
func (e *Busy) Error() string { return fmt.Sprintf("fetch: busy for another %s", e.RetryAfter) }
