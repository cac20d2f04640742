package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
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
func (g *generation) appendTag(dst []byte, r *api.Response, f *content.Form) []byte {
	dst = append(dst, '"')
	dst = append(dst, g.build...)
	dst = append(dst, '-')
	dst = strconv.AppendUint(dst, r.Seq, 10)
	if r.Validity == api.Timed {
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, r.Since, 10)
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
