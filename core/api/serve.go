package api

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"webring/core"
	"webring/core/flat"
)

// Serve answers a GET of the read surface: every path of [Paths], and anything
// else with the problem not_found. target is the request target as it stood on
// the wire, path?query, in any bytes; random is used by random traversal only.
//
// The answer is that of st at its own clock. st must have been advanced since
// its last event ([core.State.Advance]) and is only read: any number of Serve
// may run on one state at a time, each with its own Response. r is overwritten
// and its buffers are reused; nothing is allocated beyond growing them, and
// nothing in r aliases st or target.
//
// Documents: the service interface, "Endpoints".
func Serve(st *core.State, target []byte, random uint64, r *Response) {
	r.Seq = st.Seq()
	unnamed, ok := straight(st, target, r)
	if ok {
		if !r.lean {
			r.rest()
			r.lean = true
		}
		return
	}
	r.lean = false
	r.rest()
	r.begin(0, JSON, Never)
	general(st, target, random, unnamed, r)
}

// general answers any target, into a Response that is empty. unnamed is described at
// [straight]; 0 says nothing.
func general(st *core.State, target []byte, random uint64, unnamed int, r *Response) {
	a := answer{Response: r, st: st, rules: st.Rules(), random: random, unnamed: unnamed}
	if a.rules == nil {
		a.rules = &unopened
		a.problem(Internal, "This ring has not been opened.")
		return
	}
	a.plain = !flat.Escapes(target)
	if !a.plain {
		// Decoding shortens, so with this room no decoded piece ever moves.
		r.scratch = slices.Grow(r.scratch, len(target))
	}
	path, rawQuery := split(target)
	path, ok := a.decode(path, false)
	if !ok {
		a.notFound()
		return
	}
	a.route(path, rawQuery)
}

// unopened are the rules of a state that has none.
var unopened core.Rules

// route finds the endpoint of a path. [endpoints] describes the same.
func (a *answer) route(path, query []byte) {
	switch string(path) {
	case "/api":
		a.directory()
	case "/api/ring":
		if a.read(query, parametersOf(path)) {
			a.members()
		}
	case "/api/ring/next":
		if a.read(query, parametersOf(path)) {
			a.traverse(next, strict)
		}
	case "/api/ring/prev":
		if a.read(query, parametersOf(path)) {
			a.traverse(prev, strict)
		}
	case "/api/ring/random":
		if a.read(query, parametersOf(path)) {
			a.traverse(anywhere, lenient)
		}
	case "/api/categories":
		a.categories()
	case "/api/widget":
		if a.read(query, parametersOf(path)) {
			o, known := a.locate()
			widget(a.Response, a.st, o, known)
		}
	case "/api/leaderboard":
		if a.read(query, parametersOf(path)) {
			a.leaderboard()
		}
	// Links that visitors click on a member's page. They redirect also when that page
	// misspells its own name. An invalid kind, and a filter that no member matches, are
	// refused: another member would not be what was asked for.
	case "/next":
		if a.read(query, parametersOf(path)) {
			a.q.redirect = true
			a.traverse(next, lenient)
		}
	case "/prev":
		if a.read(query, parametersOf(path)) {
			a.q.redirect = true
			a.traverse(prev, lenient)
		}
	case "/random":
		if a.read(query, parametersOf(path)) {
			a.q.redirect = true
			a.traverse(anywhere, lenient)
		}
	default:
		slug, ok := detailSlug(path)
		if !ok {
			a.notFound()
			return
		}
		a.details(slug)
	}
}

// detailSlug takes the slug from /api/ring/{slug}.
func detailSlug(path []byte) ([]byte, bool) {
	slug, ok := bytes.CutPrefix(path, []byte("/api/ring/"))
	return slug, ok && len(slug) > 0 && bytes.IndexByte(slug, '/') < 0
}

// Serves says whether [Serve] answers path with something other than not_found. path is
// percent-decoded, but for escaped slashes, and without a query. For such a path a host
// refuses methods other than GET and HEAD with 405.
func Serves(path []byte) bool {
	for i := range endpoints[:served] {
		if endpoints[i].Path == string(path) {
			return true
		}
	}
	_, ok := detailSlug(path)
	return ok && utf8.Valid(path)
}

// Paths lists the paths that [Serve] answers, in the order of the directory,
// with "{slug}" for the one that varies. The caller owns the list.
func Paths() []string {
	var paths []string
	for i := range endpoints[:served] {
		paths = append(paths, endpoints[i].Path)
	}
	return paths
}

// answer is one call of Serve under way.
type answer struct {
	*Response
	st     *core.State
	rules  *core.Rules
	random uint64
	plain  bool // the target has nothing to decode
	q      query

	unnamed int // see straight
}

// split cuts a target at its first '?'.
func split(target []byte) (path, query []byte) {
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		return target[:i], target[i+1:]
	}
	return target, nil
}

// decode resolves percent escapes, and in a query '+' to a space, into the scratch buffer.
// Without any, it gives raw. It reports false for a broken escape, for a result that is not
// UTF-8, and for a path with an escaped slash: that does not separate segments (RFC 3986,
// 2.2), and no path has one in a segment.
func (a *answer) decode(raw []byte, query bool) ([]byte, bool) {
	if a.plain {
		return raw, true
	}
	start := len(a.scratch)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '+' && query:
			c = ' '
		case c == '%':
			if len(raw)-i < 3 || flat.Unhex(raw[i+1]) < 0 || flat.Unhex(raw[i+2]) < 0 {
				return nil, false
			}
			c = byte(flat.Unhex(raw[i+1])<<4 | flat.Unhex(raw[i+2]))
			if c == '/' && !query {
				return nil, false
			}
			i += 2
		}
		a.scratch = append(a.scratch, c)
	}
	out := a.scratch[start:]
	return out, utf8.Valid(out)
}

// document begins a JSON answer with status 200.
func (r *Response) document() {
	r.begin(200, JSON, Position)
}

// timed begins one that is Timed: it is valid until a standing changes, or the day of its
// forecasts ends.
func (r *Response) timed(st *core.State) {
	r.begin(200, JSON, Timed)
	day := st.Day()
	r.Since, r.Until = max(st.ChangedAt(), day), min(st.NextChange(), day+core.DaySeconds)
}

// problem makes the answer an error.
func (a *answer) problem(code Code, detail string) {
	a.fail(code, detail, "")
}

func (a *answer) fail(code Code, detail, parameter string) {
	a.Status, a.Media, a.Validity = code.Status(), Problem, Never
	a.Body = appendProblem(a.Body[:0], a.rules.BaseURL, code, detail)
	if parameter != "" {
		a.Body = append(a.Body, `,"parameter":"`...)
		a.Body = append(a.Body, parameter...)
		a.Body = append(a.Body, '"')
	}
	a.Body = append(a.Body, '}')
}

func (a *answer) notFound() {
	a.problem(NotFound, "No document has this path. GET /api lists those that there are.")
}
