package edge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"webring/core/api"
)

// buildTag shortens the name of a build.
func buildTag(digest string) string {
	build := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(build[:4])
}

// appendTag appends the strong entity tag of an answer in a form: the build of the
// core, the ledger position, for documents that show standings the second since
// which these have held, and the coding. Together they determine the bytes at one
// target.
func (t *tenure) appendTag(dst []byte, r *api.Response, f *form) []byte {
	dst = append(dst, '"')
	dst = append(dst, t.build...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, r.Seq, 10)
	if r.Validity == api.Timed {
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, r.Since, 10)
	}
	return append(append(dst, f.suffix()...), '"')
}

// maxAge is for how many seconds a document may be kept unasked. It is short,
// since a payer wants to see what the payment did, and a 304 is cheap.
const maxAge = 5

// lifetime gives the max-age of an answer. One that holds until some second is
// let go a second earlier, as the clock may be anywhere within the present one.
func (t *tenure) lifetime(r *api.Response) int {
	if r.Validity != api.Timed {
		return maxAge
	}
	_, now := t.core.Head()
	return int(min(max(r.Until-now-1, 0), maxAge))
}

// cacheControls are the fields by max-age.
var cacheControls = func() (fields [maxAge + 1]string) {
	for i := range fields {
		fields[i] = "public, max-age=" + strconv.Itoa(i) + ", stale-while-revalidate=30, stale-if-error=86400"
	}
	return fields
}()

// unchanged says whether the lines of If-None-Match name the tag: in a list,
// weakly or strongly, or as "*" (RFC 9110, 13.1.2). What follows a malformed
// element is not looked at.
func unchanged(ifNoneMatch [][]byte, tag []byte) bool {
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
