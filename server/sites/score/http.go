package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/net/http/httpguts"
)

const (
	maxAnswer       = 2 << 20  // bytes, decoded
	maxAnswerHeader = 64 << 10 // bytes
	// tries bounds how often one question is sent.
	tries = 3
)

// Config names a scorer as the operator's settings do.
type Config struct {
	// Spec is "fixed:N" or "http".
	Spec string
	// URL is the template of the question to a service, which is a GET. "{url}" and
	// "{host}" in its path or query stand for the site's URL and host name, escaped.
	URL string
	// Pointer and ReportPointer are JSON pointers (RFC 6901) to the score, a number from 0
	// to 100, and to the report's address in the answer. The second may be empty. Reports
	// lie on the host of URL.
	Pointer, ReportPointer string
	// Header is sent with each question: see [HeaderFromEnviron].
	Header http.Header
}

// New makes the scorer that cfg names.
func New(cfg Config) (Scorer, error) {
	if n, ok := strings.CutPrefix(cfg.Spec, "fixed:"); ok {
		return parseFixed(n)
	}
	if cfg.Spec != "http" {
		return nil, fmt.Errorf("score: unknown scorer %q", cfg.Spec)
	}
	origin, err := checkTemplate(cfg.URL)
	if err != nil {
		return nil, err
	}
	r := &remote{url: cfg.URL, origin: origin, header: cfg.Header.Clone(), client: newClient(), timing: defaultTiming}
	if r.score, err = parsePointer(cfg.Pointer); err != nil {
		return nil, err
	}
	if r.score == nil { // the whole answer is an object or list
		return nil, errors.New("score: no pointer to the score")
	}
	r.report, err = parsePointer(cfg.ReportPointer)
	return r, err
}

// timing bounds one question. It differs from [defaultTiming] in tests only.
type timing struct {
	attempt, all time.Duration
	wait         time.Duration // before the second try, give or take half
}

var defaultTiming = timing{attempt: 5 * time.Second, all: 10 * time.Second, wait: 250 * time.Millisecond}

// remote asks a scoring service over HTTP.
type remote struct {
	url           string
	origin        *url.URL
	score, report pointer
	header        http.Header
	client        *http.Client
	timing        timing
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

// Score asks the service for a score, and again when an answer may come a moment later.
func (r *remote) Score(ctx context.Context, site string) (Result, error) {
	bounded, cancel := context.WithTimeout(ctx, r.timing.all)
	defer cancel()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval = r.timing.wait
	result, err := backoff.Retry(bounded, func() (Result, error) {
		result, err := r.ask(bounded, site)
		if err != nil && !errors.As(err, new(*retry)) {
			err = backoff.Permanent(err)
		}
		return result, err
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(r.timing.all))
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok { // still wrapped if it was the last try
		err = permanent.Err
	}
	var again *retry
	switch {
	case err == nil:
		return result, nil
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

// ask sends one question. Errors are *retry or final.
func (r *remote) ask(ctx context.Context, site string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timing.attempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, expand(r.url, site), nil)
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
	return r.read(req.URL, resp, text)
}

// read makes sense of a whole answer.
func (r *remote) read(asked *url.URL, resp *http.Response, body []byte) (Result, error) {
	after := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusOK:
		return r.result(asked, body)
	case http.StatusAccepted:
		return Result{}, &Pending{RetryAfter: max(after, 5*time.Second)}
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Result{}, fmt.Errorf("%w: the service answered %s", ErrBadTarget, resp.Status)
	case http.StatusNotFound:
		return Result{}, &NotScorable{Never: true, Where: r.where()}
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Result{}, &retry{after: after, err: fmt.Errorf("the service answered %s", resp.Status)}
	}
	return Result{}, broken(fmt.Errorf("the service answered %s", resp.Status))
}

// where is the page of the service.
func (r *remote) where() string { return r.origin.Scheme + "://" + r.origin.Host + "/" }

// result reads the document of a successful answer.
func (r *remote) result(asked *url.URL, body []byte) (Result, error) {
	document, err := decodeJSON(body)
	if err != nil {
		return Result{}, broken(fmt.Errorf("the answer is not JSON: %w", err))
	}
	value, ok := r.score.find(document)
	if !ok {
		return Result{}, broken(errors.New("the answer has no score where it should"))
	}
	if value == nil {
		return Result{}, &NotScorable{Where: r.where()}
	}
	result := Result{Provider: r.origin.Hostname()}
	if result.Score, err = readScore(value); err != nil {
		return Result{}, broken(err)
	}
	if value, ok = r.report.find(document); ok && value != nil {
		if result.Report, err = readReport(value, asked, r.origin.Hostname()); err != nil {
			return Result{}, broken(err)
		}
	}
	return result, nil
}

// broken is the error for an answer that breaks the contract. It may be asked for again
// in a minute, and not at once.
func broken(err error) error { return unavailable(time.Minute, err) }

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

// Address gives host and port of the service that a scorer from [New] asks, "" for one
// that asks none.
func Address(s Scorer) string {
	r, ok := s.(*remote)
	if !ok {
		return ""
	}
	port := "443"
	if r.origin.Scheme == "http" {
		port = "80"
	}
	return net.JoinHostPort(r.origin.Hostname(), cmp.Or(r.origin.Port(), port))
}

// checkTemplate refuses a template that would give the same question for every site, and
// one in which a site's URL could change the
// service's scheme, host or port. It returns the URL of the service.
func checkTemplate(template string) (*url.URL, error) {
	if !strings.Contains(template, "{url}") && !strings.Contains(template, "{host}") {
		return nil, fmt.Errorf("score: the URL %q contains neither {url} nor {host}", template)
	}
	u, err := url.Parse(expand(template, "https://a.example/"))
	if err != nil {
		return nil, fmt.Errorf("score: the URL %q: %w", template, err)
	}
	other, err := url.Parse(expand(template, "http://b.example/"))
	if err != nil || other.Scheme != u.Scheme || other.Host != u.Host || u.User != nil || other.Fragment != u.Fragment {
		return nil, fmt.Errorf("score: in the URL %q, {url} and {host} may stand in path and query only, without user name", template)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return nil, fmt.Errorf("score: the URL %q is not an absolute http or https URL", template)
	}
	return u, nil
}

// expand fills in a template. QueryEscape suits paths too: it leaves letters,
// digits and "-_.~" only, and canonical URLs have no spaces.
func expand(template, site string) string {
	host := ""
	if u, err := url.Parse(site); err == nil {
		host = u.Hostname()
	}
	return strings.NewReplacer("{url}", url.QueryEscape(site), "{host}", url.QueryEscape(host)).Replace(template)
}

// headerPrefix begins the names of environment variables that are header
// fields; secrets stand nowhere else.
const headerPrefix = "WEBRING_SCORE_HEADER_"

// HeaderFromEnviron gives the header fields that environ, in the form of
// [os.Environ], sets for the scorer: WEBRING_SCORE_HEADER_X_API_KEY=k is the
// field X-Api-Key with the value k. Errors do not repeat values.
func HeaderFromEnviron(environ []string) (http.Header, error) {
	header := http.Header{}
	for _, variable := range environ {
		assignment, ok := strings.CutPrefix(variable, headerPrefix)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(assignment, "=")
		field := strings.ReplaceAll(name, "_", "-")
		if !httpguts.ValidHeaderFieldName(field) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("score: %s%s is not a header field", headerPrefix, name)
		}
		header.Set(field, value)
	}
	return header, nil
}
