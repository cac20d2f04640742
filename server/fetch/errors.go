package fetch

import (
	"errors"
	"fmt"
	"time"
)

// What callers tell apart. All errors of [Client.Get] match one of these, a
// *[Busy], or are the end of the caller's context.
var (
	// ErrTarget: the URL is none that is ever fetched. Nothing was sent.
	ErrTarget = errors.New("fetch: not a public http or https URL")
	// ErrUnreachable: there was no whole answer. It does not say why.
	ErrUnreachable = errors.New("fetch: the site could not be reached")
	// ErrNoConnection is the [ErrUnreachable] of a name without an address, or with
	// none that takes connections. Nothing was sent, and no limit was charged.
	ErrNoConnection = fmt.Errorf("%w: no connection", ErrUnreachable)
	// ErrTooSlow: the answer was not there within the time for one fetch.
	ErrTooSlow = errors.New("fetch: the site took too long")
	// ErrRedirect: the answer leads where it is not followed; see the text.
	ErrRedirect = errors.New("fetch: the redirect is not followed")
)

// errNoAnswer stays inside: to callers it is [ErrUnreachable].
var errNoAnswer = errors.New("fetch: the answer is none over HTTP")

// Busy says that nothing was sent because a limit of this process was met.
// RetryAfter is when to try again.
type Busy struct{ RetryAfter time.Duration }

// Error says so.
func (e *Busy) Error() string { return fmt.Sprintf("fetch: busy for another %s", e.RetryAfter) }
