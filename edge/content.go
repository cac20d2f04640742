package edge

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// content is a body that is sent as it is, or compressed. It must not be copied
// or changed; its functions may be called concurrently.
type content struct {
	media   string
	body    []byte
	hash    string // of body
	forms   forms
	sharing bool // whether pages of other sites load it
}

func newContent(media string, body []byte) *content {
	sum := sha256.Sum256(body)
	return &content{media: media, body: body, hash: hex.EncodeToString(sum[:8])}
}

// appendAnswer appends the fields of an answer with the content to what h asks
// for, and gives its status and body: in the best coding that the client takes, or
// none with 304.
func (c *content) appendAnswer(dst []byte, h fields, cache string) (_ []byte, status int, body []byte) {
	f, _ := c.forms.pick(&lastingCodings, c.body, h)
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
		return dst, fasthttp.StatusNotModified, nil
	}
	return appendField(dst, "Content-Type", c.media), fasthttp.StatusOK, f.body
}

// send answers with the content.
func (c *content) send(ctx *fasthttp.RequestCtx, cache string) {
	var room [512]byte
	lines, status, body := c.appendAnswer(room[:0], &ctx.Request.Header, cache)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
}
