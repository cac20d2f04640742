package score

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	maxAnswer       = 2 << 20  // bytes, decoded
	maxAnswerHeader = 64 << 10 // bytes
	tries           = 3
)

// timing bounds one question. It differs from [defaultTiming] in tests only.
type timing struct {
	attempt, all time.Duration
	wait         time.Duration // before the second try, give or take half
}

var defaultTiming = timing{attempt: 5 * time.Second, all: 10 * time.Second, wait: 250 * time.Millisecond}

// remote asks a scoring service over HTTP.
type remote struct {
	provider, template     string
	score, report, scanned pointer
	never, where           string
	hosts                  []string
	header                 http.Header
	client                 *http.Client
	timing                 timing
}

// newClient gives a client that does not follow redirects: where the operator's
// key goes is the operator's choice.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Score asks, and asks again when an answer may be had a moment later.
func (r *remote) Score(ctx context.Context, site string) (Result, error) {
	bounded, cancel := context.WithTimeout(ctx, r.timing.all)
	defer cancel()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = r.timing.wait
	result, err := backoff.Retry(bounded, func() (Result, error) {
		result, err := r.ask(bounded, site)
		var again *retry
		if err != nil && !errors.As(err, &again) {
			err = backoff.Permanent(err)
		}
		return result, err
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(r.timing.all))
	if err == nil {
		return result, nil
	}

	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) { // still wrapped if it was the last try
		err = permanent.Err
	}
	var again *retry
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("score: %w", context.Cause(ctx))
	case errors.As(err, &again):
		err = unavailable(again.after, again.err)
	case errors.Is(err, context.DeadlineExceeded):
		err = unavailable(0, errors.New("no answer in time"))
	}
	return Result{}, err
}

// retry is an outcome that another try may change.
type retry struct {
	after time.Duration // what the service asks for, or 0
	err   error
}

func (e *retry) Error() string { return e.err.Error() }

// As lets [backoff.Retry] wait for as long as the service asks, and give up at
// once when that is too long.
func (e *retry) As(target any) bool {
	if t, ok := target.(**backoff.RetryAfterError); ok && e.after > 0 {
		*t = &backoff.RetryAfterError{Duration: e.after}
		return true
	}
	return false
}

// ask puts the question once. Errors are *retry, or final.
func (r *remote) ask(ctx context.Context, site string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timing.attempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, expand(r.template, site), nil)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrBadTarget, err)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", "webring")
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return Result{}, &retry{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return Result{}, &retry{err: err}
	}
	if len(body) > maxAnswer {
		return Result{}, broken(errors.New("the answer is longer than 2 MiB"))
	}
	return r.read(req.URL, resp, body, site)
}

// read makes sense of a whole answer.
func (r *remote) read(asked *url.URL, resp *http.Response, body []byte, site string) (Result, error) {
	after := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusOK:
		return r.result(asked, body, site)
	case http.StatusAccepted:
		return Result{}, &Pending{RetryAfter: max(after, 5*time.Second)}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Result{}, fmt.Errorf("%w: the service answered %s", ErrBadTarget, resp.Status)
	case http.StatusNotFound:
		if r.never == "" || problemCode(body) == r.never {
			return Result{}, &NotScorable{Never: true, Where: expand(r.where, site)}
		}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Result{}, &retry{after: after, err: fmt.Errorf("the service answered %s", resp.Status)}
	}
	return Result{}, broken(fmt.Errorf("the service answered %s", resp.Status))
}

// result reads the document of a successful answer.
func (r *remote) result(asked *url.URL, body []byte, site string) (Result, error) {
	document, err := decodeJSON(body)
	if err != nil {
		return Result{}, broken(fmt.Errorf("the answer is not JSON: %w", err))
	}
	value, ok := r.score.find(document)
	if !ok {
		return Result{}, broken(errors.New("the answer has no score where it should"))
	}
	if value == nil {
		return Result{}, &NotScorable{Where: expand(r.where, site)}
	}
	result := Result{Provider: r.provider}
	if result.Score, err = readScore(value); err != nil {
		return Result{}, broken(err)
	}
	if value, ok := r.report.find(document); ok && value != nil {
		if result.Report, err = readReport(value, asked, r.hosts); err != nil {
			return Result{}, broken(err)
		}
	}
	if value, ok := r.scanned.find(document); ok {
		// Only told, never decided by: one that cannot be read is as none.
		text, _ := value.(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			result.ScannedAt = at
		}
	}
	return result, nil
}

// broken is an answer that breaks the contract. Asking again at once would not
// mend it; a minute later it may be mended.
func broken(err error) error { return unavailable(time.Minute, err) }

// problemCode gives the "code" member of a problem document (RFC 9457), or "".
func problemCode(body []byte) string {
	document, err := decodeJSON(body)
	if err != nil {
		return ""
	}
	members, _ := document.(map[string]any)
	code, _ := members["code"].(string)
	return code
}

// maxRetryAfter is the longest that callers are ever told to wait.
const maxRetryAfter = time.Hour

// retryAfter reads a Retry-After field, seconds or a date; 0 is none.
func retryAfter(field string) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(field, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(field); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}
