package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"webring/edge/clientaddr"
)

// maxOwn is how many requests of this node's own are under way at a time.
const maxOwn = 16

// Answer is what the origin has answered to a request of this node's own.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// errOwn says that too many requests of this node's own are under way.
var errOwn = errors.New("forward: as many requests of this node's own are on their way as may be")

// Own sends a request of this node's own to the origin: a GET, or a POST of body. Its voucher
// names no client. The request is sent once; ctx bounds it, and Close ends it.
func (f *Forwarder) Own(ctx context.Context, method, target string, body []byte) (*Answer, error) {
	own := &holder{client: "own"}
	if !f.own.acquire(own) {
		return nil, errOwn
	}
	defer f.own.release(own)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.open, cancel)()
	scheme, host, _ := strings.Cut(f.cfg.Origin, "://")
	r := &outgoing{body: body, client: clientaddr.Client{}.String(), secure: scheme == "https"}
	req := (&http.Request{Method: method, Host: host, URL: &url.URL{Scheme: scheme, Host: host, Opaque: target},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"User-Agent": nil}}).WithContext(ctx)
	if len(body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	f.vouch(req, r)
	res, err := f.own.RoundTrip(req)
	if err != nil {
		f.own.CloseIdleConnections()
		return nil, err
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	if a.Body, err = io.ReadAll(http.MaxBytesReader(nil, res.Body, maxAnswer)); err != nil {
		return nil, err
	}
	return a, nil
}
