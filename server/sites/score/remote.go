package score

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v5"
)

const (
	maxAnswer       = 2 << 20  // bytes, decoded
	maxAnswerHeader = 64 << 10 // bytes
	// tries bounds how often one request is sent.
	tries = 3
	// maxCalls is how many requests one score may cost: three tries of the
	// question, three to start a scan, and looks at how it goes.
	maxCalls = 12
	// pollFor is for how long the address of a scan that did not end in time is
	// kept, so that the next question can ask there.
	pollFor = 10 * time.Minute
	// maxVersion is the longest name of a rubric, in bytes.
	maxVersion = 64
)

// timing bounds one question. It differs from [defaultTiming] in tests only.
type timing struct {
	attempt, all time.Duration
	wait         time.Duration // before the second try, give or take half
	poll         time.Duration // between two looks at a scan, at least
}

var defaultTiming = timing{attempt: 5 * time.Second, all: 10 * time.Second, wait: 250 * time.Millisecond, poll: time.Second}

// timing bounds questions to a service.
func (p *preset) timing() timing {
	t := defaultTiming
	if p.slow {
		t.all = 14 * time.Second // less than a Guard waits
		t.attempt = t.all
	}
	return t
}

// remote asks a scoring service over HTTP.
type remote struct {
	preset
	provider string
	origin   *url.URL // all requests go to its scheme, host and port
	at       struct{ score, report, scanned, rubric, state, poll pointer }
	header   http.Header
	client   *http.Client
	timing   timing
	polls    *cache[string] // where scans can be looked at, by site
}

// newClient gives a client that does not follow redirects: the operator's key goes only
// where the operator sends it.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerHeader
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Score asks the service for a score. If there is none, and scans are configured, it
// starts one, and asks on until there is a score or the time is over.
func (r *remote) Score(ctx context.Context, site string) (Result, error) {
	bounded, cancel := context.WithTimeout(ctx, r.timing.all)
	defer cancel()
	e := &exchange{remote: r, ctx: bounded, site: site, left: maxCalls}
	result, err := e.run()
	var pending *atWork
	switch {
	case err == nil:
		r.polls.forget(site)
		return result, nil
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("score: %w", context.Cause(ctx))
	case errors.As(err, &pending):
		if pending.look != "" {
			r.polls.put(site, pending.look, time.Now().Add(pollFor))
		}
		return Result{}, &Pending{RetryAfter: max(pending.after, 5*time.Second)}
	}
	r.polls.forget(site)
	var again *retry
	switch {
	case errors.As(err, &again):
		err = unavailable(again.after, again.err)
	case errors.Is(err, context.DeadlineExceeded):
		err = unavailable(0, errors.New("no answer in time"))
	}
	return Result{}, err
}

// exchange is the requests for one score.
type exchange struct {
	*remote
	ctx     context.Context
	site    string
	left    int // requests
	started bool
}

// atWork is the outcome of a request for a scan that is under way.
type atWork struct {
	look  string        // where to look on, or ""
	after time.Duration // what the service asks for, or 0
}

func (e *atWork) Error() string { return "score: a scan is under way" }

func (e *exchange) run() (Result, error) {
	method, address := e.method, expand(e.url, e.site)
	if look, ok := e.polls.get(e.site, time.Now()); ok {
		method, address = http.MethodGet, look
	}
	for {
		result, err := e.try(method, address)
		var pending *atWork
		var not *NotScorable
		switch {
		case errors.As(err, &not) && not.Never && e.start != "" && !e.started:
			e.started = true
			method, address = http.MethodPost, expand(e.start, e.site)
		case errors.As(err, &pending) && pending.look != "":
			deadline, _ := e.ctx.Deadline()
			wait := max(pending.after, e.timing.poll)
			if e.left == 0 || time.Until(deadline) <= wait {
				return Result{}, err
			}
			select {
			case <-time.After(wait):
			case <-e.ctx.Done():
				return Result{}, err
			}
			method, address = http.MethodGet, pending.look
		default:
			return result, err
		}
	}
}

// try sends one request, and again when an answer may be had a moment later.
func (e *exchange) try(method, address string) (Result, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = e.timing.wait
	result, err := backoff.Retry(e.ctx, func() (Result, error) {
		if e.left == 0 {
			return Result{}, backoff.Permanent(unavailable(0, errors.New("too many requests for one score")))
		}
		e.left--
		result, err := e.ask(e.ctx, method, address, e.site)
		if err != nil && !errors.As(err, new(*retry)) {
			err = backoff.Permanent(err)
		}
		return result, err
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(e.timing.all))
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok { // still wrapped if it was the last try
		err = permanent.Err
	}
	return result, err
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

// ask sends one request. Errors are *retry, *atWork, or final.
func (r *remote) ask(ctx context.Context, method, address, site string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timing.attempt)
	defer cancel()
	var body io.Reader
	if method == http.MethodPost {
		text, err := json.Marshal(map[string]string{"url": site})
		if err != nil {
			return Result{}, fmt.Errorf("%w: %w", ErrBadTarget, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrBadTarget, err)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", "webring")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return Result{}, &retry{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Its body is a bare connection that no context ends.
		return Result{}, broken(fmt.Errorf("the service answered %s", resp.Status))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return Result{}, &retry{err: err}
	}
	if len(text) > maxAnswer {
		return Result{}, broken(errors.New("the answer is longer than 2 MiB"))
	}
	return r.read(req.URL, resp, text, site)
}

// read makes sense of a whole answer.
func (r *remote) read(asked *url.URL, resp *http.Response, body []byte, site string) (Result, error) {
	after := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusOK:
		done, err := r.finished(body, site)
		switch {
		case err != nil:
			return Result{}, err
		case done:
			return r.result(asked, body, site)
		}
		look, err := r.look(asked, "", body)
		if err != nil {
			return Result{}, broken(err)
		}
		if look == "" && resp.Request.Method == http.MethodGet {
			look = asked.String()
		}
		return Result{}, &atWork{look: look, after: after}
	case http.StatusAccepted:
		look, err := r.look(asked, resp.Header.Get("Location"), body)
		if err != nil {
			return Result{}, broken(err)
		}
		return Result{}, &atWork{look: look, after: after}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Result{}, fmt.Errorf("%w: the service answered %s", ErrBadTarget, resp.Status)
	case http.StatusNotFound:
		if r.never == "" || problemCode(body) == r.never {
			return Result{}, &NotScorable{Never: true, Visit: r.visited, Where: expand(r.where, site)}
		}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Result{}, &retry{after: after, err: fmt.Errorf("the service answered %s", resp.Status)}
	}
	return Result{}, broken(fmt.Errorf("the service answered %s", resp.Status))
}

// look gives the address at which the state of an accepted scan can be asked for, or ""
// if it is not of this service, which alone gets the operator's key.
func (r *remote) look(asked *url.URL, location string, body []byte) (string, error) {
	if location == "" && r.at.poll != nil {
		if document, err := decodeJSON(body); err == nil {
			value, _ := r.at.poll.find(document)
			location, _ = value.(string)
		}
	}
	if location == "" {
		return "", nil
	}
	ref, err := url.Parse(location)
	if err != nil || len(location) > maxReport {
		return "", errors.New("where the scan can be looked at is no URL")
	}
	u := asked.ResolveReference(ref)
	if u.Scheme != r.origin.Scheme || u.Host != r.origin.Host || u.User != nil {
		return "", errors.New("the scan is to be looked at on another host")
	}
	return u.String(), nil
}

// finished reports whether a successful answer is that of a scan that has ended.
func (r *remote) finished(body []byte, site string) (bool, error) {
	if r.at.state == nil {
		return true, nil
	}
	document, err := decodeJSON(body)
	if err != nil {
		return false, broken(fmt.Errorf("the answer is not JSON: %w", err))
	}
	state, said := r.at.state.find(document)
	switch {
	case state == r.done, !said && r.stateless:
		return true, nil
	case !said || state == nil:
		return false, broken(errors.New("the answer does not say what the scan is at"))
	case state == r.failed:
		return false, &NotScorable{Where: expand(r.where, site)}
	}
	return false, nil
}

// result reads the document of a successful answer.
func (r *remote) result(asked *url.URL, body []byte, site string) (Result, error) {
	document, err := decodeJSON(body)
	if err != nil {
		return Result{}, broken(fmt.Errorf("the answer is not JSON: %w", err))
	}
	value, ok := r.at.score.find(document)
	if !ok {
		return Result{}, broken(errors.New("the answer has no score where it should"))
	}
	if value == nil {
		return Result{}, &NotScorable{Where: expand(r.where, site)}
	}
	result := Result{Provider: r.provider}
	if r.visited {
		result.Visit = expand(r.where, site)
	}
	if result.Score, err = readScore(value, cmp.Or(r.levels, 100)); err != nil {
		return Result{}, broken(err)
	}
	value, ok = r.at.report.find(document)
	if r.reportAt != "" {
		token, _ := value.(string)
		ok = ok && token != "" || r.at.report == nil
		value = strings.ReplaceAll(expand(r.reportAt, site), "{report}", url.PathEscape(token))
	}
	if ok && value != nil {
		if result.Report, err = readReport(value, asked, r.hosts); err != nil {
			return Result{}, broken(err)
		}
	}
	// Nothing is decided by the rest, so what cannot be read counts as absent.
	if value, ok := r.at.scanned.find(document); ok {
		text, _ := value.(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			result.ScannedAt = at
		}
	}
	if value, ok := r.at.rubric.find(document); ok {
		if text, _ := value.(string); len(text) <= maxVersion && utf8.ValidString(text) {
			result.Version = text
		}
	}
	return result, nil
}

// broken is the error for an answer that breaks the contract. It may be asked for again
// in a minute, and not at once.
func broken(err error) error { return unavailable(time.Minute, err) }

// problemCode gives the "code" member of a problem document (RFC 9457), or "".
func problemCode(body []byte) string {
	document, _ := decodeJSON(body)
	value, _ := pointer{"code"}.find(document)
	code, _ := value.(string)
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
