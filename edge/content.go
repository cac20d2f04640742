package edge

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/valyala/fasthttp"
)

// content is a body that is sent as it is, or compressed. It must not be copied
// or changed; its functions may be called concurrently.
type content struct {
	media   string
	body    []byte
	hash    string // of body
	tag     string // of body as it is
	packed  [len(codings)]packed
	sharing bool // whether pages of other sites load it
}

// packed is a body in one coding, made when it is first asked for and kept as
// long as the content.
type packed struct {
	once sync.Once
	body []byte // nil when it is not shorter
	tag  string
}

// codings are the content codings offered, the better ones first. Each has a
// validator of its own: the bytes differ (RFC 9110, 8.8.3).
var codings = [...]struct {
	name, suffix string
	pack         func(body []byte) []byte
}{
	{"br", "-br", packBrotli},
	{"gzip", "-gz", packGzip},
}

// Levels: a page is packed once for each time that a number on it changes, and
// sent many times.
const (
	brotliLevel = 6
	gzipLevel   = 7
)

func packBrotli(body []byte) []byte {
	var b bytes.Buffer
	w := brotli.NewWriterLevel(&b, brotliLevel)
	// Neither fails on a buffer.
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

func packGzip(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzipLevel) // the level exists
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

func newContent(media string, body []byte) *content {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:8])
	return &content{media: media, body: body, hash: hash, tag: `"` + hash + `"`}
}

// coded gives the body in a coding, nil when that makes it no shorter.
func (c *content) coded(i int) *packed {
	p := &c.packed[i]
	p.once.Do(func() {
		p.tag = `"` + c.hash + codings[i].suffix + `"`
		if body := codings[i].pack(c.body); len(body) < len(c.body) {
			p.body = body
		}
	})
	return p
}

// appendAnswer appends the fields of an answer with the content to what h asks
// for, and gives its status and body: in the best coding that the client takes, or
// none with 304.
func (c *content) appendAnswer(dst []byte, h fields, cache string) (_ []byte, status int, body []byte) {
	body, tag, coding := c.body, c.tag, ""
	for i := range codings {
		if accepts(h, codings[i].name) {
			if p := c.coded(i); p.body != nil {
				body, tag, coding = p.body, p.tag, codings[i].name
			}
			break
		}
	}
	dst = appendField(dst, "ETag", tag)
	dst = appendField(dst, "Cache-Control", cache)
	dst = appendField(dst, "Vary", "Accept-Encoding")
	if c.sharing {
		dst = appendField(dst, "Cross-Origin-Resource-Policy", "cross-origin")
	}
	if unchanged(h.PeekAll("If-None-Match"), []byte(tag)) {
		return dst, fasthttp.StatusNotModified, nil
	}
	if coding != "" {
		dst = appendField(dst, "Content-Encoding", coding)
	}
	return appendField(dst, "Content-Type", c.media), fasthttp.StatusOK, body
}

// send answers with the content.
func (c *content) send(ctx *fasthttp.RequestCtx, cache string) {
	var room [512]byte
	lines, status, body := c.appendAnswer(room[:0], &ctx.Request.Header, cache)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
}

// listField gives the value of a field that is a list, whose lines are one (RFC
// 9110, 5.3).
func listField(h fields, name string) []byte {
	lines := h.PeekAll(name)
	if len(lines) == 1 {
		return lines[0]
	}
	return bytes.Join(lines, []byte(","))
}

// accepts says whether Accept-Encoding names the coding with a weight above 0
// (RFC 9110, 12.5.3). "*" is not taken up: who means brotli says so.
func accepts(h fields, coding string) bool {
	list := listField(h, "Accept-Encoding")
	for len(list) > 0 {
		var element []byte
		element, list, _ = bytes.Cut(list, []byte(","))
		name, parameters, _ := bytes.Cut(element, []byte(";"))
		if bytes.EqualFold(trim(name), []byte(coding)) {
			return weight(parameters) > 0
		}
	}
	return false
}
