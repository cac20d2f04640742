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

// patience is how long a transfer may stand still.
const patience = 10 * time.Second

// errTooLong is what get gives instead of more bytes than asked for.
var errTooLong = errors.New("replica: longer than it may be")

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

// get fetches at most limit bytes.
func (r *Replica) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	res, err := r.request(ctx, path, patience, nil)
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

// heed has nothing asked for as long as an answer wanted.
func (r *Replica) heed(err error) error {
	if l := (*laterError)(nil); errors.As(err, &l) {
		r.pace.rest(l.after)
	}
	return err
}

// request asks for a path when it may, and fails unless the answer is 200 or when nothing
// comes for the time given, at any moment until its body is closed.
func (r *Replica) request(ctx context.Context, path string, stall time.Duration, header map[string]string) (*http.Response, error) {
	if err := r.pace.wait(ctx); err != nil {
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.cfg.Origin+path, nil)
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
		return nil, end(later(res.Header))
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, end(fmt.Errorf("%w %d", errStatus, res.StatusCode))
	}
	watch.Reset(stall)
	res.Body = &watched{res.Body, watch, stall, end}
	return res, nil
}

var (
	errStalled = errors.New("nothing came any more")
	errStatus  = errors.New("status")
)

// watched puts the end of patience off with each read.
type watched struct {
	io.ReadCloser
	watch *time.Timer
	stall time.Duration
	end   func(error) error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err == nil {
		w.watch.Reset(w.stall)
	} else if err != io.EOF {
		err = w.end(err)
	}
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	_ = w.end(nil)
	return err
}
