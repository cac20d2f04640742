package content

import (
	"bytes"
	"strconv"

	"webring/core/api"
)

// Fields are the header fields of a request. PeekAll gives the lines of a field by its
// canonical name; they are valid until the next call.
type Fields interface{ PeekAll(name string) [][]byte }

// AppendField appends one line of a header.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendNumberField appends a line with a number.
func AppendNumberField(dst []byte, name string, n int64) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// List gives the value of a field that is a list: several lines are one list (RFC 9110,
// 5.3).
func List(h Fields, name string) []byte {
	lines := h.PeekAll(name)
	if len(lines) == 1 {
		return lines[0]
	}
	return bytes.Join(lines, []byte(","))
}

// Weight gives the q of an element in thousandths, 1000 without one, 0 for a malformed one.
func Weight(parameters []byte) int {
	for p := range bytes.SplitSeq(parameters, []byte(";")) {
		name, value, _ := bytes.Cut(trim(p), []byte("="))
		if !bytes.EqualFold(trim(name), []byte("q")) {
			continue
		}
		whole, fraction, _ := bytes.Cut(trim(value), []byte("."))
		if len(fraction) > 3 || len(whole) != 1 || whole[0] > '1' || whole[0] < '0' {
			return 0
		}
		n := int(whole[0]-'0') * 1000
		for i, unit := 0, 100; i < len(fraction); i, unit = i+1, unit/10 {
			if fraction[i] < '0' || fraction[i] > '9' {
				return 0
			}
			n += int(fraction[i]-'0') * unit
		}
		return min(n, 1000)
	}
	return 1000
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// MaxAge is for how many seconds a client may use a document without asking again. It is
// short, since a payer wants to see what the payment did, and a 304 is cheap.
const MaxAge = 5

// CacheControl gives the Cache-Control of an answer that is valid until a second. max-age is a
// second less, because part of the present second may be over.
func CacheControl(until, now int64) string {
	return cacheControls[min(max(until-now-1, 0), MaxAge)]
}

// cacheControls are the fields by max-age.
var cacheControls = func() (fields [MaxAge + 1]string) {
	for i := range fields {
		fields[i] = "public, max-age=" + strconv.Itoa(i) + ", stale-while-revalidate=30, stale-if-error=86400"
	}
	return fields
}()

// Unchanged says whether the lines of If-None-Match name the tag: in a list,
// weakly or strongly, or as "*" (RFC 9110, 13.1.2). What follows a malformed
// element is not looked at.
func Unchanged(ifNoneMatch [][]byte, tag []byte) bool {
	for _, list := range ifNoneMatch {
		if string(trim(list)) == "*" {
			return true
		}
		for {
			list = bytes.TrimLeft(list, " \t,")
			list = bytes.TrimPrefix(list, []byte("W/"))
			if len(list) == 0 || list[0] != '"' {
				break
			}
			end := bytes.IndexByte(list[1:], '"')
			if end < 0 {
				break
			}
			if bytes.Equal(list[:end+2], tag) {
				return true
			}
			list = list[end+2:]
		}
	}
	return false
}

// Clone copies the exported fields of an answer.
func Clone(r *api.Response) api.Response {
	return api.Response{
		Status: r.Status, Media: r.Media, Validity: r.Validity, Seq: r.Seq, Since: r.Since, Until: r.Until, Unknown: r.Unknown, From: r.From, To: r.To,
		Location: bytes.Clone(r.Location), Next: bytes.Clone(r.Next), Prev: bytes.Clone(r.Prev), Body: bytes.Clone(r.Body),
	}
}
