package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/core/api"
	"webring/edge/follow"
	"webring/edge/front"
	"webring/edge/share"
)

// attempt is what came of sending a request to an origin: an answer, or an error.
type attempt struct {
	res  *http.Response
	body []byte
	err  error
	sent bool // the origin may have got the request, and may have done what it asks for
}

var (
	// errNotLeader: the origin answered not_leader, so it did nothing with the request, and
	// nor did any node behind it.
	errNotLeader = errors.New("forward: the origin does not lead")
	// errNoOrigin: there is nowhere to send a request to.
	errNoOrigin = fmt.Errorf("%w: none is known", errNotLeader)
	// errReplaced ends a request at an origin that is none any more.
	errReplaced = errors.New("forward: this origin is not to be asked any more")
	// errGateway: a proxy before the origin answered in its place.
	errGateway = errors.New("forward: a proxy answers for the origin")
)

// send sends a request to the origins one after the other, until one of them answers. A
// payment that an origin may have got is sent to no other: only that origin, or one that
// has its books, can say what became of it.
func (f *Forwarder) send(ctx context.Context, r *outgoing) attempt {
	none := attempt{err: errNoOrigin}
	for i, o := range f.origins.Round() {
		now := f.sendTo(ctx, o, r)
		if now.err == nil {
			// An answer of 500 or more may come from a proxy of an origin that is down.
			if now.res.StatusCode < 500 {
				f.refused.Store(nil)
				if f.cfg.Answered != nil {
					f.cfg.Answered()
				}
			}
			return now
		}
		if ctx.Err() != nil {
			return now
		}
		f.skip(o, now.err)
		if now.sent && r.payment {
			none = now
			break
		}
		// That an origin does not lead says more than that another cannot be reached.
		if sent := none.sent || now.sent; i == 0 || !errors.Is(none.err, errNotLeader) {
			none = attempt{err: now.err, sent: sent}
		} else {
			none.sent = sent
		}
	}
	f.refused.Store(&none.err)
	return none
}

// sendTo sends a request to an origin. An error closes idle connections: after a restart of
// the origin, its old ones must not be used.
func (f *Forwarder) sendTo(ctx context.Context, o *follow.Origin, r *outgoing) (a attempt) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(o.Gone(), func() { end(errReplaced) })()
	if f.origins.Several() {
		go f.life.watch(ctx, o, func() { end(errSilent) })
	}
	// Once there is a connection, the request may have been sent.
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent = true }})
	a.res, a.err = f.transport.RoundTrip(f.to(traced, o, r))
	if a.err == nil {
		a.body, a.err = io.ReadAll(http.MaxBytesReader(nil, a.res.Body, maxAnswer))
		a.res.Body.Close()
	}
	if a.err != nil {
		if why := context.Cause(ctx); errors.Is(why, errSilent) || errors.Is(why, errReplaced) {
			a.err = why
		}
		f.transport.CloseIdleConnections()
		return attempt{err: a.err, sent: a.sent}
	}
	f.life.heard(o)
	switch code, problem := problemOf(a.res, a.body); {
	case problem && code == api.NotLeader && a.res.StatusCode == api.NotLeader.Status():
		return attempt{err: errNotLeader}
	case !problem && a.res.StatusCode >= 500 && f.origins.Several():
		return attempt{err: fmt.Errorf("%w: %s", errGateway, a.res.Status), sent: true}
	}
	return a
}

// problemOf gives the code of an answer that is a problem document.
func problemOf(res *http.Response, body []byte) (code api.Code, problem bool) {
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "application/problem+json" {
		return "", false
	}
	var p struct {
		Code api.Code `json:"code"`
	}
	return p.Code, json.Unmarshal(body, &p) == nil && p.Code != ""
}

// skip asks the next origin from now on.
func (f *Forwarder) skip(o *follow.Origin, why error) {
	if next := f.origins.Skip(o); next != nil && mayLog(&f.moves) {
		f.log.Warn("forward: the next origin is asked", "origin", next.URL, "instead_of", o.URL, "err", why)
	}
}

const (
	// quietTime is how long an origin may hold a request before it is asked whether it is
	// there, and lifeTime how long it may take to say so. An origin holds a payment for
	// minutes, so that it has not answered yet says nothing; and a process that is stopped
	// goes on holding its connections.
	quietTime, lifeTime = 5 * time.Second, 8 * time.Second
)

// errSilent ends a request at an origin that answers nothing at all any more.
var errSilent = errors.New("forward: the origin is silent")

// life knows which origins still answer something.
type life struct {
	transport *http.Transport
	questions singleflight.Group // one at a time for each origin
	mu        sync.Mutex
	last      map[*follow.Origin]time.Time // when it answered anything
}

// heard notes that an origin has answered something.
func (l *life) heard(o *follow.Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.last[o]; !known {
		for other := range l.last {
			if other.Gone().Err() != nil {
				delete(l.last, other)
			}
		}
	}
	l.last[o] = time.Now()
}

// watch calls silent if an origin stops answering before ctx ends.
func (l *life) watch(ctx context.Context, o *follow.Origin, silent func()) {
	again := time.NewTicker(quietTime)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if !l.there(o) {
				silent()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// there reports whether an origin has answered something within [quietTime], or does so
// now. Callers at the same time share one question.
func (l *life) there(o *follow.Origin) bool {
	l.mu.Lock()
	last := l.last[o]
	l.mu.Unlock()
	if time.Since(last) < quietTime {
		return true
	}
	is, _, _ := l.questions.Do(o.URL, func() (any, error) {
		ctx, cancel := context.WithTimeout(o.Gone(), lifeTime)
		defer cancel()
		// The answer is small, and the origin has it in memory.
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+"/sync/checkpoint", nil)
		if err != nil {
			return false, err
		}
		res, err := l.transport.RoundTrip(req)
		if err != nil {
			return false, err
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // so that the connection can be used again
		res.Body.Close()
		l.heard(o)
		return true, nil
	})
	return is.(bool)
}

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
	a := f.send(ctx, r)
	if a.err != nil {
		return nil, a.err
	}
	return &Answer{Status: a.res.StatusCode, Header: a.res.Header, Body: a.body}, nil
}
