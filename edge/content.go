package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// content is a body that is sent as it is, or compressed. It must not be copied
// or changed; its functions may be called concurrently.
type content struct {
	media   string
	body    []byte
	hash    string // of body
	forms   forms
	packed  atomic.Int64 // bytes of all forms
	sharing bool         // whether pages of other sites load it
}

func newContent(media string, body []byte) *content {
	sum := sha256.Sum256(body)
	return &content{media: media, body: body, hash: hex.EncodeToString(sum[:8])}
}

// appendAnswer appends the fields of an answer with the content to what h asks
// for, and gives its status and body: in the best coding that the client takes, or
// none with 304. made is how many bytes the content has grown by.
func (c *content) appendAnswer(dst []byte, h fields, cache string) (_ []byte, status int, body []byte, made int) {
	f, made := c.forms.pick(&lastingCodings, c.body, h)
	if made > 0 {
		c.packed.Add(int64(made))
	}
	dst = append(dst, "ETag: \""...)
	at := len(dst) - 1
	dst = append(dst, c.hash...)
	dst = append(append(dst, f.suffix()...), '"')
	same := unchanged(h.PeekAll("If-None-Match"), dst[at:])
	dst = append(dst, "\r\n"...)
	dst = appendField(dst, "Cache-Control", cache)
	dst = f.appendFields(dst, same)
	if c.sharing {
		dst = appendField(dst, "Cross-Origin-Resource-Policy", "cross-origin")
	}
	if same {
		return dst, fasthttp.StatusNotModified, nil, made
	}
	return appendField(dst, "Content-Type", c.media), fasthttp.StatusOK, f.body, made
}

// send answers with the content, and gives how many bytes it has grown by.
func (c *content) send(ctx *fasthttp.RequestCtx, cache string) (made int) {
	var room [512]byte
	lines, status, body, made := c.appendAnswer(room[:0], &ctx.Request.Header, cache)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
	return made
}
