package publish

import (
	"time"

	"github.com/valyala/fasthttp"
)

// Bounded gives the handlers with bounds that a test can reach, and a function
// that says how many followers hold a place.
func Bounded(s Source, most int64, poll, silence time.Duration) (routes map[string]fasthttp.RequestHandler, followers func() int64) {
	h := newHandlers(s, func() string { return "https://ring.test" })
	h.most, h.pollTime, h.heartbeat = most, poll, silence
	return h.routes(), h.followers.Load
}
