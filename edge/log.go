package edge

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"webring/edge/front"
)

// connectionLog receives what fasthttp logs about connections. The arguments quote what
// could not be parsed, which may be an Authorization field. So only the format is logged.
type connectionLog struct{ log *slog.Logger }

// Printf is what fasthttp calls.
func (l connectionLog) Printf(format string, _ ...any) {
	l.log.Debug("edge: connection", "occasion", format)
}

// logPanic logs where a panic came from, and of the request only method, path and id. A
// panic value of another type than these two may contain parts of the request.
func (s *Shell) logPanic(v any, method, target, id []byte) {
	reason := fmt.Sprintf("%T", v)
	switch v := v.(type) {
	case runtime.Error:
		reason = v.Error()
	case string:
		reason = v
	}
	s.log.Error("edge: panic while answering", "reason", reason,
		"method", string(method), "path", string(front.Path(target)), "request", string(id), "stack", string(debug.Stack()))
}
