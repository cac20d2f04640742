package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/core/api"
)

const (
	// relayBytes is how many bytes of documents are cached, and failureBytes how many of
	// questions that have failed.
	relayBytes, failureBytes = 8 << 20, 1 << 20
	// askTime bounds one question to the origin.
	askTime = 5 * time.Second
	// askAgainTime is how long a reader waits for the answer to a question that has failed
	// before.
	askAgainTime = 250 * time.Millisecond
	// refusedAge is for how many seconds a refusal is cached, and what is shown while the
	// origin cannot be reached before it is asked again.
	refusedAge = 5
	// askAgain is how long after a failure the same question is asked again, and failingFor
	// how long a failure is remembered. The next reader after that waits as if there had been
	// none.
	askAgain, failingFor = refusedAge * time.Second, time.Minute
	// staleFor is for how long a document is shown that the origin cannot be asked for anew.
	staleFor = 24 * time.Hour
)

// Ask sends a GET for a target to the origin.
type Ask func(ctx context.Context, target string) (status int, header http.Header, body []byte, err error)

// Relay passes documents on. Its functions may be called concurrently.
type Relay struct {
	ask       Ask
	baseURL   func() string
	withdrawn func() uint64
	now       func() time.Time
	documents *Cache // of *held
	failures  *Cache // of *atomic.Int64: when a question was asked last or failed, in nanoseconds
	asking    singleflight.Group
}

// NewRelay prepares a relay. baseURL is what links begin with. withdrawn gives the ledger position
// from which on no words are shown that were withdrawn: of an earlier one no document is
// shown that has words of members.
func NewRelay(ask Ask, baseURL func() string, withdrawn func() uint64, now func() time.Time) *Relay {
	return &Relay{ask: ask, baseURL: baseURL, withdrawn: withdrawn, now: now, documents: New(relayBytes), failures: New(failureBytes)}
}

// held is a document with when it came, and until when it is fresh.
type held struct {
	api.Document
	at, until time.Time
}

// Document gives what the origin has answered, or answers to a GET for path and query. When
// ctx ends before there is an answer, it gives a problem, and the answer will be cached.
func (r *Relay) Document(ctx context.Context, path, query string) api.Document {
	target := path
	if query != "" {
		target += "?" + query
	}
	now := r.now()
	h := r.find(target, now)
	if h != nil && now.Before(h.until) {
		return h.left(now)
	}
	failing, ask := r.failing(target, now)
	if !ask {
		return r.without(h)
	}
	var late <-chan time.Time
	if failing {
		late = time.After(askAgainTime)
	}
	select {
	case got := <-r.asking.DoChan(target, func() (any, error) { return r.fetch(target) }):
		if got.Err == nil {
			return got.Val.(*held).Document
		}
	case <-ctx.Done():
	case <-late:
	}
	return r.without(h)
}

// find gives the document that is cached for a target, if it may be shown.
func (r *Relay) find(target string, now time.Time) *held {
	e := r.documents.Get(r.documents.Key([]byte(target)))
	if e == nil {
		return nil
	}
	h := e.Value.(*held)
	if now.Sub(h.at) >= staleFor || r.hasWithdrawn(&h.Document) {
		return nil
	}
	return h
}

// hasWithdrawn says whether a document may have words of members that were withdrawn.
func (r *Relay) hasWithdrawn(d *api.Document) bool { return d.Seq > 0 && d.Seq < r.withdrawn() }

// left gives the document with the time for which it may still be kept.
func (h *held) left(now time.Time) api.Document {
	d := h.Document
	d.MaxAge = max(0, d.MaxAge-int(now.Sub(h.at)/time.Second))
	return d
}

// without gives what is shown while the origin does not answer: the last document, or a
// problem if there is none.
func (r *Relay) without(last *held) api.Document {
	if last != nil && !r.hasWithdrawn(&last.Document) {
		d := last.Document
		d.MaxAge = refusedAge
		return d
	}
	return api.Refusal(r.baseURL(), api.OriginUnavailable, "Only the origin of this ring has what is at this address, and it cannot be reached. Other reads go on.", "")
}

// fetch asks the origin, and caches what it answers.
func (r *Relay) fetch(target string) (h *held, err error) {
	defer func() { r.ended(target, err) }()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	status, header, body, err := r.ask(ctx, target)
	if err != nil {
		return nil, err
	}
	if status >= 500 || status == http.StatusTooManyRequests {
		return nil, fmt.Errorf("cache: status %d", status)
	}
	d := api.Document{Status: status, Media: header.Get("Content-Type"), Body: body}
	if d.Seq, err = position(header.Get("Webring-Seq")); err != nil {
		return nil, err
	}
	if r.hasWithdrawn(&d) {
		return nil, errBehind
	}
	age := refusedAge
	if status == http.StatusOK {
		d.MaxAge = maxAge(header.Get("Cache-Control"))
		age = d.MaxAge
	}
	now := r.now()
	h = &held{d, now, now.Add(time.Duration(age) * time.Second)}
	r.documents.Put(r.documents.Key([]byte(target)), &Entry{Value: h}, len(body)+len(h.Media))
	return h, nil
}

// ended notes how a question ended.
func (r *Relay) ended(target string, err error) {
	key := r.failures.Key([]byte(target))
	if err == nil && r.failures.Get(key) == nil {
		return
	}
	at := new(atomic.Int64) // 0: it has not failed
	if err != nil {
		at.Store(r.now().UnixNano())
	}
	r.failures.Put(key, &Entry{Value: at}, 0)
}

// failing says whether a question failed when it was asked last, and whether the caller is
// to ask it again.
func (r *Relay) failing(target string, now time.Time) (failing, ask bool) {
	e := r.failures.Get(r.failures.Key([]byte(target)))
	if e == nil {
		return false, true
	}
	at := e.Value.(*atomic.Int64)
	last := at.Load()
	since := time.Duration(now.UnixNano() - last)
	if last == 0 || since >= failingFor {
		return false, true
	}
	return true, since >= askAgain && at.CompareAndSwap(last, now.UnixNano())
}

// errBehind says that the answer comes from a node that is behind this edge: a follower in a
// cluster.
var errBehind = errors.New("cache: the answer may have words that were withdrawn since")

// position reads a Webring-Seq field, 0 without one.
func position(field string) (uint64, error) {
	if field == "" {
		return 0, nil
	}
	return strconv.ParseUint(field, 10, 64)
}

// maxAge reads max-age of a Cache-Control field, 0 without one.
func maxAge(field string) int {
	for directive := range strings.SplitSeq(field, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(directive), "max-age="); ok {
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				return n
			}
		}
	}
	return 0
}
