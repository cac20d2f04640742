package edge

import (
	"bytes"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
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
