package edge

import (
	"bytes"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/pages"
	"webring/edge/share"
)

// plainPaths are the paths that the fast path answers, with their routes: those of the core,
// spelled without escapes, and the front page, which most people ask for and nothing else.
// Those below /api/ring/ are one, at "". A deprecated path has no route here: its answers have
// more fields.
type plainPaths map[string]plainPath

type plainPath struct {
	route int
	long  bool // it has a list
}

const noRoute = -1

func newPlainPaths(deprecated map[string]describe.Deprecation) plainPaths {
	p := plainPaths{"/": {route: otherRoute}}
	for _, path := range api.Paths() {
		route := otherRoute
		if _, old := deprecated[path]; old {
			route = noRoute
		}
		p[strings.TrimSuffix(path, string(ringPrefix)+"{slug}")] = plainPath{route, isList([]byte(path))}
	}
	return p
}

// have reports whether the path of a target is one of them, and gives its route and whether its
// answer may be long.
func (p plainPaths) have(target []byte) (route int, long, plain bool) {
	path := target
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		path = target[:i]
	}
	if found, is := p[string(path)]; is {
		return found.route, found.long, found.route != noRoute && (string(path) != ringPath || !mayAskForWords(target[len(path):]))
	}
	if len(path) <= len(ringPrefix) || string(path[:len(ringPrefix)]) != string(ringPrefix) {
		return 0, false, false
	}
	for _, c := range path[len(ringPrefix):] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-') {
			return 0, false, false
		}
	}
	found, is := p[""]
	return found.route, false, is && found.route != noRoute
}

// plainAnswerer answers plain reads for the fast path, as the handlers answer others.
type plainAnswerer struct {
	s      *Shell
	a      answer
	window share.Window // of the request that is answered
}

// Answer leaves to fasthttp requests beyond the rate limit, and the front page as
// Markdown.
func (p *plainAnswerer) Answer(r *fastpath.Request, now time.Time) (answer fastpath.Answer, ok bool) {
	home := len(r.Target) == 1 || r.Target[1] == '?'
	if home && pages.PrefersMarkdown(content.List(r, "Accept")) {
		return answer, false
	}
	p.window = p.s.limits.Load().of(r.Client).Take(r.Client, now)
	if p.window.Exceeded() {
		return answer, false
	}
	defer func() {
		if v := recover(); v != nil {
			p.s.logPanic(v, methodGet, r.Target, r.ID)
			answer = fastpath.Answer{Status: internal.code.Status(), Fields: []byte(notStored + problemFields),
				Body: api.AppendProblem(nil, p.s.core.BaseURL(), internal.code, internal.detail, nil)}
			if whose := asker(front.Path(r.Target), r); whose == person {
				answer.Fields = []byte(errorFields)
				answer.Body = p.s.pages.ErrorPage(nil, p.failure(r, &answer))
			} else if whose == either {
				answer.Fields = append(answer.Fields, varyAccept...)
			}
			ok = true
			p.count(r, answer.Status, now)
		}
		p.noteAccess(r, &answer, now)
	}()
	g := p.s.core.enter()
	defer g.leave()
	answer.Status, answer.Body = p.read(r, g, home, now)
	answer.Fields = p.a.fields
	p.count(r, answer.Status, now)
	return answer, true
}

// count counts the answer to r, which had arrived then.
func (p *plainAnswerer) count(r *fastpath.Request, status int, then time.Time) {
	if p.s.metrics != nil {
		p.s.metrics.answered(r.Route, status, time.Since(then))
	}
}

// read gives status and body of the answer to r, and writes its own fields to p.a.fields.
// The body does not change before the next answer.
func (p *plainAnswerer) read(r *fastpath.Request, g *generation, home bool, now time.Time) (status int, body []byte) {
	a := &p.a
	res, f := &a.Response, content.Form{}
	if home {
		page, failed := p.s.pages.Front(g)
		if failed == nil {
			a.fields, status, body = page.AppendAnswer(a.fields[:0], r, g)
			a.fields = append(a.fields, varyAccept...)
			return status, body
		}
		res = failed
		f.Body = res.Body
	} else {
		conn, _ := r.Holder.(*boundedConn)
		res, f = g.serve(r.Target, r, res, conn)
		p.s.hops.Count(res.From, res.To, r.Client, r.UserAgent, now)
	}
	if res.Media == api.Problem {
		switch asker(front.Path(r.Target), r) {
		case person:
			a.fields = append(appendPosition(a.fields[:0], res), errorFields...)
			return res.Status, p.s.pages.ErrorPage(g, p.failure(r, &fastpath.Answer{Status: res.Status, Body: f.Body}))
		case either:
			a.fields, status = g.appendAnswer(a.fields[:0], res, &f, r.IfNoneMatch)
			a.fields = append(a.fields, varyAccept...)
			return status, f.Body
		}
	}
	a.fields, status = g.appendAnswer(a.fields[:0], res, &f, r.IfNoneMatch)
	if status == fasthttp.StatusNotModified {
		return status, nil
	}
	return status, f.Body
}

// failure describes a request that is answered by a problem.
func (p *plainAnswerer) failure(r *fastpath.Request, a *fastpath.Answer) *pages.Failure {
	return &pages.Failure{Method: fasthttp.MethodGet, Target: r.Target, Status: a.Status, Body: a.Body, Reads: true, RequestID: string(r.ID)}
}

// AppendCommon appends the fields of all answers.
func (p *plainAnswerer) AppendCommon(dst []byte, now time.Time) []byte {
	return p.s.appendCommon(dst, p.window, now)
}

// Rest drops a long buffer.
func (p *plainAnswerer) Rest() { p.a.trim() }

// varyAccept is on all answers at the address of a page.
const varyAccept = "Vary: Accept\r\n"
