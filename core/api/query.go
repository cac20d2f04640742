package api

import (
	"bytes"

	"webring/core"
	"webring/core/flat"
)

// params is a set of query parameters.
type params uint8

const (
	fromParam params = 1 << iota
	kindParam
	categoryParam
	formatParam
	limitParam
	offsetParam
	pageParam
	wordsParam

	filterParams = kindParam | categoryParam
	pageParams   = limitParam | offsetParam | pageParam
)

const (
	defaultLimit = 100
	maxLimit     = 500
	// maxOffset is the highest offset: up to here every reader of JSON keeps
	// integers exactly, and it is far beyond the end of any list.
	maxOffset = 1 << 53
	// maxPage is the highest page: whatever the limit is, its offset is none too high.
	maxPage = maxOffset/maxLimit + 1
	// maxCount is where numbers stop counting up.
	maxCount = maxOffset + 1
)

// parameters names each parameter, as [answer.parameter] reads it, with the rule
// that its values keep.
var parameters = [...]struct {
	bit        params
	name, rule string
}{
	{fromParam, "from", "from must be percent-encoded UTF-8: a member's slug, a member's URL or a bare host name."},
	{kindParam, "kind", "kind must be one of agent, mcp, website."},
	{categoryParam, "category", "category must be percent-encoded UTF-8."},
	{formatParam, "format", "format may only be redirect; leave it out for JSON."},
	{limitParam, "limit", "limit must be an integer from 1 to 500."},
	{offsetParam, "offset", "offset must be an integer from 0 to 9007199254740992."},
	{pageParam, "page", "page must be an integer, from 1 to 18014398509482."},
	{wordsParam, "q", "q must be percent-encoded UTF-8: 1 to 8 words of letters or digits, in at most 100 characters."},
}

// query is what an endpoint's parameters say. Slices in it alias the scratch
// buffer of the Response.
type query struct {
	seen     params
	from     []byte // empty for no from
	kind     core.Kind
	category []byte
	redirect bool
	limit    int64
	offset   int64
	words    []byte // empty for no q
}

// parametersOf gives the parameters that the endpoint of a path knows.
func parametersOf(path []byte) params {
	switch string(path) {
	case "/api/ring":
		return filterParams | pageParams | wordsParam
	case "/api/ring/next", "/api/ring/prev", "/api/ring/random":
		return fromParam | filterParams | formatParam
	case "/api/widget":
		return fromParam
	case "/api/leaderboard":
		return pageParams
	case "/next", "/prev", "/random":
		return fromParam | filterParams
	}
	return 0
}

// Known gives a target of the read surface without what [Serve] ignores: escapes in the path of
// an endpoint, and parameters that it does not know, that have no value, or that come again. So
// hosts cache one answer for all such spellings. Where there is nothing to leave out, it gives
// target, and otherwise a shorter one.
func Known(target []byte) []byte {
	path, query := split(target)
	if len(path) == len(target) && !flat.Escapes(path) {
		return target
	}
	a := answer{plain: !flat.Escapes(target)}
	if !a.plain {
		a.Response = &Response{scratch: make([]byte, 0, len(target))}
	}
	decoded, ok := a.decode(path, false)
	if !ok || !Serves(decoded) {
		return target
	}
	if _, member := detailSlug(decoded); member && parametersOf(decoded) == 0 {
		decoded = path // a slug may need its escapes
	}
	known := parametersOf(decoded)
	given := func(pair []byte) params {
		name, value, _ := bytes.Cut(pair, []byte("="))
		if len(value) == 0 {
			return 0
		}
		return a.parameter(name) & known
	}
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		if given(pair) == offsetParam {
			known &^= pageParam // it is not looked at
		}
	}
	var kept []byte
	for {
		size, seen := len(decoded), params(0)
		for pair := range bytes.SplitSeq(query, []byte("&")) {
			p := given(pair)
			if p == 0 || seen&p != 0 {
				continue
			}
			if size++; kept != nil {
				kept = append(kept, "?&"[min(seen, 1)])
				kept = append(kept, pair...)
			}
			size += len(pair)
			seen |= p
		}
		if kept != nil {
			return kept
		}
		if size == len(target) {
			return target
		}
		kept = append(make([]byte, 0, size), decoded...)
	}
}

// read reads the known parameters of raw in one pass, and ignores others, and
// those without a value. When one is invalid it makes the answer a problem that
// names it, and reports false.
func (a *answer) read(raw []byte, known params) bool {
	a.q = query{limit: defaultLimit}
	page, pageValid := int64(1), true
	for len(raw) > 0 {
		pair := raw
		if i := bytes.IndexByte(raw, '&'); i >= 0 {
			pair, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		name, value := pair, pair[len(pair):]
		if i := bytes.IndexByte(pair, '='); i >= 0 {
			name, value = pair[:i], pair[i+1:]
		}
		if len(value) == 0 {
			continue
		}
		p := a.parameter(name) & known
		if p == 0 || a.q.seen&p != 0 {
			continue
		}
		a.q.seen |= p
		sent := value
		value, ok := a.decode(value, true)
		if p == fromParam && !ok {
			// Pages do not always send UTF-8. As it was sent, from may still be the
			// address of a site. Otherwise it names no member, and the request goes on.
			value, ok = sent, true
		}
		if p == pageParam {
			// Whether it counts is known only when all have been read.
			page, pageValid = count(value)
			pageValid = pageValid && ok && page >= 1 && page <= maxPage
			continue
		}
		if !ok || !a.q.set(p, value) {
			return a.invalid(p)
		}
	}
	if a.q.seen&pageParam != 0 && a.q.seen&offsetParam == 0 {
		if !pageValid {
			return a.invalid(pageParam)
		}
		a.q.offset = (page - 1) * a.q.limit
	}
	return true
}

// parameter finds the parameter that name spells, 0 for none.
func (a *answer) parameter(raw []byte) params {
	name, ok := a.decode(raw, true)
	if !ok {
		return 0
	}
	switch string(name) {
	case "from":
		return fromParam
	case "kind":
		return kindParam
	case "category":
		return categoryParam
	case "format":
		return formatParam
	case "limit":
		return limitParam
	case "offset":
		return offsetParam
	case "page":
		return pageParam
	case "q":
		return wordsParam
	}
	return 0
}

// set takes a value, or reports that the parameter cannot have it.
func (q *query) set(p params, value []byte) (ok bool) {
	switch p {
	case fromParam:
		q.from, ok = value, true
	case kindParam:
		q.kind, ok = core.ParseKind(value)
	case categoryParam:
		q.category, ok = value, true
	case wordsParam:
		q.words, ok = value, true
	case formatParam:
		q.redirect = string(value) == "redirect"
		ok = q.redirect
	case limitParam:
		q.limit, ok = count(value)
		ok = ok && q.limit >= 1 && q.limit <= maxLimit
	case offsetParam:
		q.offset, ok = count(value)
		ok = ok && q.offset <= maxOffset
	}
	return ok
}

// count reads a number of decimal digits. Above maxCount it stays there.
func count(digits []byte) (n int64, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(10*n+int64(c-'0'), maxCount)
	}
	return n, len(digits) > 0
}

// invalid makes the answer a problem that names the parameter. It is false.
func (a *answer) invalid(p params) bool {
	for i := range parameters {
		if parameters[i].bit == p {
			a.fail(InvalidParameter, parameters[i].rule, parameters[i].name)
		}
	}
	return false
}
