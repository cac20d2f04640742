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
	return &content{media: media, body: body, hash: hex.EncodeToString(sum[:8])}
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

// send answers with the content in the best coding that the client takes, or
// with 304.
func (c *content) send(ctx *fasthttp.RequestCtx, cache string) {
	body, tag, coding := c.body, "", ""
	for i := range codings {
		if accepts(&ctx.Request.Header, codings[i].name) {
			if p := c.coded(i); p.body != nil {
				body, tag, coding = p.body, p.tag, codings[i].name
			}
			break
		}
	}
	if tag == "" {
		tag = `"` + c.hash + `"`
	}
	setHeader(ctx, "ETag", tag)
	setHeader(ctx, "Cache-Control", cache)
	ctx.Response.Header.Add("Vary", "Accept-Encoding")
	if c.sharing {
		setHeader(ctx, "Cross-Origin-Resource-Policy", "cross-origin")
	}
	if unchanged(ctx.Request.Header.PeekAll("If-None-Match"), []byte(tag)) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	if coding != "" {
		setHeader(ctx, "Content-Encoding", coding)
	}
	ctx.Response.Header.SetContentType(c.media)
	ctx.Response.SetBodyRaw(body)
}

// listField gives the value of a field that is a list, whose lines are one (RFC
// 9110, 5.3).
func listField(h *fasthttp.RequestHeader, name string) []byte {
	lines := h.PeekAll(name)
	if len(lines) == 1 {
		return lines[0]
	}
	return bytes.Join(lines, []byte(","))
}

// accepts says whether Accept-Encoding names the coding with a weight above 0
// (RFC 9110, 12.5.3). "*" is not taken up: who means brotli says so.
func accepts(h *fasthttp.RequestHeader, coding string) bool {
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
