package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// stillFor is how long a transfer may go without a byte.
	stillFor = 10 * time.Second
	// A transfer may take its length divided by slowest, in bytes a second, and slack
	// more. Origins allow the same.
	slack   = 30 * time.Second
	slowest = 16 << 10
)

var (
	// errTooLong is what get gives instead of more bytes than asked for.
	errTooLong = errors.New("replica: longer than it may be")
	// errAltered: a file does not have the digest that was signed.
	errAltered = errors.New("not the one that was signed")
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

// get fetches at most limit bytes. With again, caches on the way are bypassed: what came
// before was wrong, and may have come from one.
func (r *Replica) get(ctx context.Context, path string, limit int64, again bool) ([]byte, error) {
	var header map[string]string
	if again {
		header = map[string]string{"Cache-Control": "no-cache"}
	}
	res, err := r.request(ctx, path, stillFor, slack, header)
	if err != nil {
		return nil, r.heed(err)
	}
	defer res.Body.Close()
	if res.ContentLength > limit {
		return nil, errTooLong
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("replica: %s: %w", path, err)
	case int64(len(b)) > limit:
		return nil, errTooLong
	}
	return b, nil
}

// heed makes the pace rest for as long as an answer with 429 asks.
func (r *Replica) heed(err error) error {
	if l, ok := errors.AsType[*laterError](err); ok {
		l.pace.rest(l.after)
	}
	return err
}

// request sends a GET to the current origin as soon as its pace allows. It fails unless the status is 200, and
// when nothing comes for as long as stall, until the body is closed. The body may take its
// length divided by slowest, and slack more; with a slack of 0 it may take any time.
func (r *Replica) request(ctx context.Context, path string, stall, slack time.Duration, header map[string]string) (*http.Response, error) {
	from := r.origin()
	if from == nil {
		return nil, errNoOrigin
	}
	if err := from.pace.wait(ctx); err != nil {
		return nil, fmt.Errorf("replica: %s: %w", path, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(stall, func() { cancel(errStalled) })
	end := func(err error) error {
		watch.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		cancel(nil)
		return fmt.Errorf("replica: %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.URL+path, nil)
	if err != nil {
		return nil, end(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if r.cfg.Vouch != nil {
		r.cfg.Vouch(req)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, end(err)
	}
	if res.StatusCode == http.StatusTooManyRequests {
		res.Body.Close()
		return nil, end(later(from.pace, res.Header))
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, end(fmt.Errorf("%w %d", errStatus, res.StatusCode))
	}
	watch.Reset(stall)
	res.Body = &watched{ReadCloser: res.Body, watch: watch, stall: stall, slack: slack, began: time.Now(), end: end}
	return res, nil
}

var (
	errStalled = errors.New("nothing came any more, or too little")
	errStatus  = errors.New("status")
)

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
