package edge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/edge/share"
)

// Header fields are written once, as they stand on the wire: lines that each end with
// CRLF. The fast path sends them as they are; setFields gives them to fasthttp.

// commonFields are those of every answer.
const commonFields = "Api-Version: " + apiVersion + "\r\n" +
	"Access-Control-Allow-Origin: *\r\n" +
	"Access-Control-Expose-Headers: " + exposed + "\r\n" +
	"X-Content-Type-Options: nosniff\r\n"

const problemMedia = "application/problem+json"

// The fields that say what a body is.
const (
	jsonFields    = "Content-Type: application/json\r\n"
	problemFields = "Content-Type: " + problemMedia + "\r\n"
	htmlFields    = "Content-Type: text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
)

const notStored = "Cache-Control: no-store\r\n"

// setFields sets the fields in lines on fasthttp's answer.
func setFields(ctx *fasthttp.RequestCtx, lines []byte) {
	for len(lines) > 0 {
		var line []byte
		line, lines, _ = bytes.Cut(lines, crlf)
		name, value, _ := bytes.Cut(line, colon)
		if string(name) == "Content-Type" {
			ctx.Response.Header.SetContentTypeBytes(value)
		} else {
			ctx.Response.Header.SetCanonical(name, value)
		}
	}
}

var (
	crlf  = []byte("\r\n")
	colon = []byte(": ")
)

// appendWord appends a part of a field's value that the core wrote. A control character
// would end the field, so one is a bug that panics.
func appendWord(dst, word []byte) []byte {
	if !front.IsPrintable(word) {
		panic("edge: the core has written a header field that cannot be sent")
	}
	return append(dst, word...)
}

// appendAnswer appends the fields of an answer of the core in a form, and gives its
// status: 304 when one of the If-None-Match lines names the document in that form.
func (g *generation) appendAnswer(dst []byte, r *api.Response, f *content.Form, ifNoneMatch [][]byte) ([]byte, int) {
	dst = appendPosition(dst, r)
	if len(r.Location) > 0 {
		dst = append(dst, "Location: "...)
		dst = appendWord(dst, r.Location)
		dst = append(dst, "\r\n"...)
	}
	dst = appendLinks(dst, r)
	if r.Validity == api.Never {
		dst = append(dst, notStored...)
	} else {
		dst = append(dst, "Cache-Control: "...)
		dst = append(dst, g.cacheControl(r)...)
		dst = append(dst, "\r\nETag: "...)
		at := len(dst)
		dst = g.appendTag(dst, r, f)
		same := r.Status == fasthttp.StatusOK && content.Unchanged(ifNoneMatch, dst[at:])
		if dst = f.AppendFields(append(dst, "\r\n"...), same); same {
			return dst, fasthttp.StatusNotModified
		}
	}
	switch r.Media {
	case api.Problem:
		dst = append(dst, problemFields...)
		if r.Status == fasthttp.StatusServiceUnavailable {
			dst = append(dst, "Retry-After: 60\r\n"...)
		}
	case api.HTML:
		dst = append(dst, htmlFields...)
	default:
		dst = append(dst, jsonFields...)
	}
	return dst, r.Status
}

// appendPosition appends what an answer says of the ring, in whatever form it is sent.
func appendPosition(dst []byte, r *api.Response) []byte {
	dst = append(dst, "Webring-Seq: "...)
	dst = strconv.AppendUint(dst, r.Seq, 10)
	dst = append(dst, "\r\n"...)
	if r.Unknown {
		dst = append(dst, "Webring-From: unknown\r\n"...)
	}
	return dst
}

// appendLinks appends the Link field of a list's neighbouring pages.
func appendLinks(dst []byte, r *api.Response) []byte {
	before := "Link: <"
	if len(r.Next) > 0 {
		dst = append(dst, before...)
		dst = appendWord(dst, r.Next)
		dst = append(dst, `>; rel="next"`...)
		before = ", <"
	}
	if len(r.Prev) > 0 {
		dst = append(dst, before...)
		dst = appendWord(dst, r.Prev)
		dst = append(dst, `>; rel="prev"`...)
		before = ", <"
	}
	if before == ", <" {
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// appendCommon appends the fields that every answer carries.
func (s *Shell) appendCommon(dst []byte, w share.Window, now time.Time) []byte {
	dst = append(dst, commonFields...)
	if s.stale != nil && s.stale() {
		dst = append(dst, staleField+": true\r\n"...)
	}
	return w.AppendFields(dst, now)
}

// buildTag shortens the name of a build.
func buildTag(digest string) string {
	build := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(build[:4])
}

// appendTag appends the strong entity tag of an answer in a form, which says nothing of when
// this node looked. Of a document that the ledger position determines, it is the build of the
// core and that position. Of one that shows standings, it is the hash of the body: in a large
// ring some standing falls each second, and hardly ever one that is shown. The coding ends both.
func (g *generation) appendTag(dst []byte, r *api.Response, f *content.Form) []byte {
	dst = append(dst, '"')
	if r.Validity == api.Timed {
		hash := f.Hash
		if hash == (content.Hash{}) {
			hash = content.HashOf(r.Body)
		}
		dst = hash.Append(dst)
	} else {
		dst = append(append(dst, g.build...), '-')
		dst = strconv.AppendUint(dst, r.Seq, 10)
	}
	return append(append(dst, f.Suffix()...), '"')
}

// cacheControl gives the Cache-Control of an answer.
func (g *generation) cacheControl(r *api.Response) string {
	if r.Validity != api.Timed {
		return content.CacheControl(cache.Forever, 0)
	}
	_, now := g.core.Head()
	return content.CacheControl(r.Until, now)
}

const apiVersion = "1"

// versionServed says whether the request asks for the one version that there
// is, or for none in particular.
func versionServed(h *fasthttp.RequestHeader) bool {
	for _, v := range h.PeekAll("Api-Version") {
		if string(trim(v)) != apiVersion {
			return false
		}
	}
	return true
}

// setHeader sets a field under exactly this spelling.
func setHeader(ctx *fasthttp.RequestCtx, name, value string) {
	ctx.Response.Header.SetCanonical([]byte(name), []byte(value))
}

// finish adds the fields that every answer carries.
func (s *Shell) finish(ctx *fasthttp.RequestCtx, w share.Window) {
	if inHeader(&ctx.Request.Header, "Transfer-Encoding") > 0 {
		// A proxy before this server may have read a Content-Length instead, and then
		// takes other bytes for the next request. So this is the last one that is read
		// from the connection (RFC 9112, 6.1). This comes last, because a handler that
		// answers with a problem resets the response.
		ctx.SetConnectionClose()
		lingering(ctx.Conn())
	}
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	if len(s.deprecated) > 0 {
		s.markOld(ctx)
	}
	a := s.answers.Get().(*answer)
	a.fields = s.appendCommon(a.fields[:0], w, s.now())
	a.fields = append(append(append(a.fields, front.IDField+": "...), ctx.Request.Header.Peek(front.IDField)...), "\r\n"...)
	setFields(ctx, a.fields)
	s.giveBack(a)
	s.showError(ctx)
	s.noteAccess(ctx)
}

// staleField marks an answer of a node that may be behind the ring: it has
// heard nothing new from its origin for a while, or has not yet seen what the
// answer speaks of.
const staleField = "Webring-Stale"

// exposed are the fields that a script of another site may read.
const exposed = "ETag, Link, Location, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy, " +
	"WWW-Authenticate, Payment-Receipt, PAYMENT-REQUIRED, PAYMENT-RESPONSE, Api-Version, X-Request-Id, Webring-Seq, Webring-From, Webring-Stale, Deprecation, Sunset"

// leastNotice is for how many days a deprecated path stays (the service interface,
// "Versioning").
const leastNotice = 90

// deprecations are the deprecated paths: none yet.
var deprecations = map[string]describe.Deprecation{}

// markOld adds Deprecation (RFC 9745), Sunset (RFC 8594) and a link to the successor to
// every answer at a deprecated path, problems included.
func (s *Shell) markOld(ctx *fasthttp.RequestCtx) {
	target, _ := front.Target(&ctx.Request.Header)
	path := front.DecodePath(front.Path(target))
	d, old := s.deprecated[string(path)]
	if _, exact := s.plain[string(path)]; !old && !exact && bytes.HasPrefix(path, ringPrefix) {
		d, old = s.deprecated[string(ringPrefix)+"{slug}"]
	}
	if !old {
		return
	}
	setHeader(ctx, "Deprecation", "@"+strconv.FormatInt(d.Since.Unix(), 10))
	setHeader(ctx, "Sunset", string(fasthttp.AppendHTTPDate(nil, d.Sunset)))
	ctx.Response.Header.Add("Link", "<"+d.Successor+`>; rel="successor-version"`)
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
