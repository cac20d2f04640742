package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// stillFor is how long a transfer may go without a byte.
	stillFor = 10 * time.Second
	// A transfer may take its length divided by slowest, in bytes a second, and slack
	// more. Origins allow the same.
	slack   = 30 * time.Second
	slowest = 16 << 10
	// answerTime is how long an origin may take to begin an answer if there are others to
	// ask instead.
	answerTime = 5 * time.Second
	// An origin answers one client 4 800 times a minute below /sync/ and /log/. A follower stays
	// within that whatever it has to catch up with.
	paceBurst, pacePerSecond = 2400, 32
	// restMin and restMax bound what an answer with 429 can ask for.
	restMin, restMax = time.Second, time.Minute
)

var (
	errNoOrigin = errors.New("follow: there is no origin to ask")
	// errTooLong is the error of an answer with more bytes than it may have.
	errTooLong = errors.New("follow: longer than it may be")
	errStalled = errors.New("nothing came any more, or too little")
	errStatus  = errors.New("status")
	errAbsent  = fmt.Errorf("%w %d", errStatus, http.StatusNotFound)
)

func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			IdleConnTimeout:     20 * time.Second,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Get fetches at most limit bytes from the current origin. With fresh, it bypasses caches.
func (l *Link) Get(ctx context.Context, path string, limit int64, fresh bool) ([]byte, error) {
	res, err := l.Open(ctx, path, fresh)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.ContentLength > limit {
		return nil, errTooLong
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("follow: %s: %w", path, err)
	case int64(len(b)) > limit:
		return nil, errTooLong
	}
	return b, nil
}

// Open begins to fetch something from the current origin. The caller closes the body.
func (l *Link) Open(ctx context.Context, path string, fresh bool) (*http.Response, error) {
	from := l.origins.Current()
	if from == nil {
		return nil, errNoOrigin
	}
	var header map[string]string
	if fresh {
		header = map[string]string{"Cache-Control": "no-cache"}
	}
	res, err := l.request(ctx, from, path, stillFor, slack, header)
	if busy, ok := errors.AsType[*busyError](err); ok {
		from.pace.rest(busy.after)
	}
	return res, err
}

// request sends a GET as soon as the pace of the origin allows. It fails unless the status
// is 200, and when nothing comes for as long as stall, until the body is closed. If there
// are other origins, this one must begin to answer within [answerTime]. The body may take
// its length divided by slowest, and slack more; with a slack of 0 it may take any time.
func (l *Link) request(ctx context.Context, from *Origin, path string, stall, slack time.Duration, header map[string]string) (*http.Response, error) {
	if err := from.pace.wait(ctx); err != nil {
		return nil, fmt.Errorf("follow: %s: %w", path, err)
	}
	first := stall
	if l.origins.Several() {
		first = min(stall, answerTime)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(first, func() { cancel(errStalled) })
	end := func(err error) error {
		watch.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		cancel(nil)
		return fmt.Errorf("follow: %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.URL+path, nil)
	if err != nil {
		return nil, end(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if l.cfg.Vouch != nil {
		l.cfg.Vouch(req)
	}
	res, err := l.cfg.Client.Do(req)
	if err != nil {
		return nil, end(err)
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		res.Body.Close()
		return nil, end(busy(res.Header))
	case http.StatusNotFound:
		res.Body.Close()
		return nil, end(errAbsent)
	default:
		res.Body.Close()
		return nil, end(fmt.Errorf("%w %d", errStatus, res.StatusCode))
	}
	watch.Reset(stall)
	res.Body = &watched{ReadCloser: res.Body, watch: watch, stall: stall, slack: slack, began: time.Now(), end: end}
	return res, nil
}

// watched is a body that moves the deadline of its transfer with each read.
type watched struct {
	io.ReadCloser
	watch        *time.Timer
	stall, slack time.Duration
	began        time.Time
	read         int64
	end          func(error) error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.read += int64(n)
	if err == nil {
		w.watch.Reset(w.wait())
	} else if err != io.EOF {
		err = w.end(err)
	}
	return n, err
}

// wait is how long the next read may take.
func (w *watched) wait() time.Duration {
	if w.slack == 0 {
		return w.stall
	}
	late := w.began.Add(w.slack + time.Duration(w.read/slowest)*time.Second)
	return min(w.stall, time.Until(late))
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	_ = w.end(nil)
	return err
}

// pace says when an origin may be asked again. It may be used concurrently.
type pace struct {
	rate *rate.Limiter

	mu    sync.Mutex
	until time.Time // the origin has asked for no request before this
}

func newPace() *pace { return &pace{rate: rate.NewLimiter(pacePerSecond, paceBurst)} }

// wait returns when the origin may be asked, or with the error of ctx.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	quiet := time.Until(p.until)
	p.mu.Unlock()
	if quiet > 0 {
		if err := Rest(ctx, quiet); err != nil {
			return err
		}
	}
	return p.rate.Wait(ctx)
}

// rest allows no request for a while.
func (p *pace) rest(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
}

// busyError is an answer with 429, and how long it asks to wait.
type busyError struct{ after time.Duration }

func (e *busyError) Error() string {
	return fmt.Sprintf("%v 429: asked to wait for %s", errStatus, e.after)
}

func (e *busyError) Unwrap() error { return errStatus }

func busy(h http.Header) error {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil {
		seconds = 0 // a date, or nothing
	}
	return &busyError{min(max(time.Duration(seconds)*time.Second, restMin), restMax)}
}

// Rest waits for a while, or returns the error of ctx.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
