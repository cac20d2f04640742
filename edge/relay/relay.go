package relay

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/core/api"
	"webring/edge/cache"
)

const (
	// cacheBytes is how many bytes of documents are cached.
	cacheBytes = 8 << 20
	// askTime bounds one question to the origin.
	askTime = 5 * time.Second
	// refusedAge is for how many seconds a refusal is cached, and what is shown while the
	// origin cannot be reached before it is asked again.
	refusedAge = 5
	// staleFor is for how long a document is shown that the origin cannot be asked for anew.
	staleFor = 24 * time.Hour
)

// Ask sends a GET for a target to the origin.
type Ask func(ctx context.Context, target string) (status int, header http.Header, body []byte, err error)

// Relay passes documents on. Its functions may be called concurrently.
type Relay struct {
	ask     Ask
	baseURL func() string
	now     func() time.Time
	held    *cache.Cache
	asking  singleflight.Group
}

// New prepares a relay. baseURL is what links begin with.
func New(ask Ask, baseURL func() string, now func() time.Time) *Relay {
	return &Relay{ask: ask, baseURL: baseURL, now: now, held: cache.New(cacheBytes)}
}

// held is a document with when it came.
type held struct {
	api.Document
	at time.Time
}

// Document gives what the origin has answered, or answers to a GET for path and query. When
// ctx ends before there is an answer, it gives a problem, and the answer will be cached.
func (r *Relay) Document(ctx context.Context, path, query string) api.Document {
	target := path
	if query != "" {
		target += "?" + query
	}
	key := r.held.Key([]byte(target))
	e := r.held.Get(key)
	if e != nil && e.Holds("", 0, r.now().Unix()) {
		return e.Value.(*held).left(r.now())
	}
	result := r.asking.DoChan(target, func() (any, error) { return r.fetch(target) })
	select {
	case got := <-result:
		if got.Err == nil {
			return got.Val.(*held).Document
		}
	case <-ctx.Done():
	}
	if e != nil && r.now().Sub(e.Value.(*held).at) < staleFor {
		d := e.Value.(*held).Document
		d.MaxAge = refusedAge
		return d
	}
	return api.Refusal(r.baseURL(), api.PaymentsUnavailable, "Only the origin of this ring has what is at this address, and it cannot be reached. Other reads go on.", "")
}

// left gives the document with the time for which it may still be kept.
func (h *held) left(now time.Time) api.Document {
	d := h.Document
	d.MaxAge = max(0, d.MaxAge-int(now.Sub(h.at)/time.Second))
	return d
}

// fetch asks the origin, and caches what it answers.
func (r *Relay) fetch(target string) (*held, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	status, header, body, err := r.ask(ctx, target)
	if err != nil {
		return nil, err
	}
	if status >= 500 || status == http.StatusTooManyRequests {
		return nil, errStatus(status)
	}
	h := &held{api.Document{Status: status, Media: header.Get("Content-Type"), Body: body}, r.now()}
	age := refusedAge
	if status == http.StatusOK {
		h.MaxAge = maxAge(header.Get("Cache-Control"))
		age = h.MaxAge
	}
	now := h.at.Unix()
	e := &cache.Entry{Since: 0, Until: now + int64(age), Value: h}
	r.held.Put(r.held.Key([]byte(target)), e, len(body)+len(h.Media))
	return h, nil
}

type errStatus int

func (e errStatus) Error() string { return "relay: status " + strconv.Itoa(int(e)) }

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
