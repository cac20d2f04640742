package coretest

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// Asker sends requests to a ring with a history from [Generate].
type Asker struct {
	*rand.Rand
	Names   []string // of members: slugs and URLs
	Members int      // about how many there are
}

// Damage cuts bytes off, flips a bit, or adds bytes.
func (a *Asker) Damage(b []byte) []byte {
	b = append([]byte(nil), b...)
	if len(b) == 0 {
		return []byte{byte(a.Uint32())}
	}
	switch a.IntN(5) {
	case 0:
		return b[:a.IntN(len(b))]
	case 1:
		return append(b, byte(a.Uint32()))
	}
	b[a.IntN(len(b))] ^= 1 << a.IntN(8)
	return b
}

// Target makes a request target: an endpoint with parameters in some encoding,
// or something like one.
func (a *Asker) Target() []byte {
	path := a.pick("/api", "/api/ring", "/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random", "/api/categories",
		"/api/widget", "/api/leaderboard", "/api/leaderboard", "/next", "/prev", "/random", "/api/ring/"+a.reference(), "/nothing", "", "/api/", "/next/")
	if a.IntN(12) == 0 {
		path = strings.ReplaceAll(path, "a", a.pick("%61", "%6", "%zz", "A", "%FF"))
	}
	var query []string
	for range a.IntN(5) {
		switch a.IntN(10) {
		case 0, 1, 2:
			query = append(query, "from="+a.encode(a.reference()))
		case 3, 4:
			query = append(query, "kind="+a.pick("agent", "mcp", "website", "", "Agent", "%61gent"))
		case 5:
			query = append(query, "category="+a.pick("general", "tools", "a", "x-", "", "unused", "GENERAL", "a%00b"))
		case 6:
			query = append(query, "limit="+a.number())
		case 7:
			query = append(query, a.pick("offset=", "page=")+a.number())
		case 8:
			query = append(query, "format="+a.pick("redirect", "json", ""))
		default:
			query = append(query, a.garbage())
		}
	}
	target := path
	if len(query) > 0 || a.IntN(10) == 0 {
		target += "?" + strings.Join(query, a.pick("&", "&", "&", "&&", ";"))
	}
	b := []byte(target)
	if a.IntN(15) == 0 {
		b = a.Damage(b)
	}
	return b
}

func (a *Asker) reference() string {
	ref := a.pick("alpha-0", "beta-1", "a-very-long-name-indeed-2", "nobody", "a.com", "www.a.com", "h1.example", "https://a.com/foo/bar",
		"HTTPS://A.COM:443/./foo/../foo", "//a.com", "a.com/foo/bar", "WWW.a.com:80/foo?q", "a.com:443", "mailto:x@a.com", "", "-", strings.Repeat("x", a.IntN(400)))
	if len(a.Names) > 0 && a.IntN(2) == 0 {
		ref = a.Names[a.IntN(len(a.Names))]
		if _, bare, ok := strings.Cut(ref, "://"); ok && a.IntN(3) == 0 {
			ref = bare // as people write it
		}
		ref += a.pick("", "", "/", "/deeper", "?q=1", "#f")
	} else if a.IntN(2) == 0 {
		ref = fmt.Sprintf("%s-%d", a.pick("alpha", "beta", "a-very-long-name-indeed"), a.IntN(a.Members))
	}
	return ref
}

func (a *Asker) encode(v string) string {
	switch a.IntN(3) {
	case 0:
		return url.QueryEscape(v)
	case 1:
		return url.PathEscape(v)
	}
	return v
}

func (a *Asker) number() string {
	return a.pick(fmt.Sprint(a.IntN(30)), fmt.Sprint(a.IntN(600)), "0", "1", "500", "501", "-1", "007", "", "x", "1e3",
		"9007199254740993", "18014398509482", "18014398509483", "9223372036854775808", "99999999999999999999999", "%31", "+1")
}

func (a *Asker) garbage() string {
	b := make([]byte, a.IntN(20))
	for i := range b {
		b[i] = byte(a.Uint32())
	}
	return string(b)
}

func (a *Asker) pick(from ...string) string { return from[a.IntN(len(from))] }
