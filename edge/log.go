package edge

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"webring/edge/uri"
)

// connectionLog receives what fasthttp has to say of connections. Its
// arguments quote what could not be parsed, an Authorization field perhaps, so
// only the occasion is passed on.
type connectionLog struct{ log *slog.Logger }

// Printf is what fasthttp calls.
func (l connectionLog) Printf(format string, _ ...any) {
	l.log.Debug("edge: connection", "occasion", format)
}

// logPanic says where a panic came from, and nothing of the request but method
// and path. Values of other types than these two may hold pieces of it.
func (s *Shell) logPanic(v any, method, target []byte) {
	reason := fmt.Sprintf("%T", v)
	switch v := v.(type) {
	case runtime.Error:
		reason = v.Error()
	case string:
		reason = v
	}
	s.log.Error("edge: panic while answering", "reason", reason,
		"method", string(method), "path", string(uri.Path(target)), "stack", string(debug.Stack()))
}
