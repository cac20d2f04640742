package forward

import (
	"context"
	"errors"
	"net/http"

	"webring/edge/front"
	"webring/edge/share"
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

// Own sends a request of this node's own: a GET, or a POST of body that may arrive twice. It
// goes to the origins as other requests without payment do. Its voucher names no client. ctx
// bounds it, and Close ends it.
func (f *Forwarder) Own(ctx context.Context, method, target string, body []byte) (*Answer, error) {
	own := &holder{asker: share.AskerOf("own")}
	if !f.own.acquire(own) {
		return nil, errOwn
	}
	defer f.own.release(own)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.open, cancel)()
	r := &outgoing{method: method, target: target, header: http.Header{"User-Agent": nil}, body: body, client: front.Client{}.String()}
	if len(body) > 0 {
		r.header.Set("Content-Type", "application/octet-stream")
	}
	a := f.send(ctx, f.own, r)
	if a.err != nil {
		return nil, a.err
	}
	return &Answer{Status: a.res.StatusCode, Header: a.res.Header, Body: a.body}, nil
}
