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
