// Package content has bodies in their content codings, of which a client gets the best
// that it accepts, and the header fields about them: entity tag, caching, content coding.
// It knows no routes and no documents.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// Content is a body that is sent as it is, or compressed. It must not be copied
// or changed; its functions may be called concurrently.
type Content struct {
	media  string
	body   []byte
	hash   Hash // of body
	forms  Forms
	packed atomic.Int64 // bytes of all forms
	Shared bool         // whether pages of other sites load it
	Plain  bool         // whether it is compressed already, and always sent as it is
}

// New gives the content of a media type.
func New(media string, body []byte) *Content {
	return &Content{media: media, body: body, hash: HashOf(body)}
}

// Hash names a body in entity tags: all nodes that show the same give it the same tag,
// whenever each of them has looked.
type Hash [8]byte

// HashOf hashes a body.
func HashOf(body []byte) Hash {
	sum := sha256.Sum256(body)
	return Hash(sum[:])
}

// Append appends the hash in hexadecimal.
func (h Hash) Append(dst []byte) []byte { return hex.AppendEncode(dst, h[:]) }

// AppendAnswer appends the fields of an answer with the content to what h asks
// for, and gives its status and body: in the best coding that the client takes, or
// none with 304. made is how many bytes the content has grown by.
func (c *Content) AppendAnswer(dst []byte, h Fields, cache string) (_ []byte, status int, body []byte, made int) {
	f := Form{Body: c.body}
	if !c.Plain {
		if f, made = c.forms.Pick(&Lasting, c.body, h); made > 0 {
			c.packed.Add(int64(made))
		}
	}
	dst = append(dst, "ETag: \""...)
	at := len(dst) - 1
	dst = c.hash.Append(dst)
	dst = append(append(dst, f.Suffix()...), '"')
	same := Unchanged(h.PeekAll("If-None-Match"), dst[at:])
	dst = append(dst, "\r\n"...)
	dst = AppendField(dst, "Cache-Control", cache)
	dst = f.AppendFields(dst, same)
	if c.Shared {
		dst = AppendField(dst, "Cross-Origin-Resource-Policy", "cross-origin")
	}
	if same {
		return dst, fasthttp.StatusNotModified, nil, made
	}
	return AppendField(dst, "Content-Type", c.media), fasthttp.StatusOK, f.Body, made
}

// Media is its media type.
func (c *Content) Media() string { return c.media }

// Body is the body as it was given, without a coding.
func (c *Content) Body() []byte { return c.body }

// Equal says whether the bodies are the same.
func (c *Content) Equal(other *Content) bool { return c.hash == other.hash }

// Size is how many bytes it takes in all its forms.
func (c *Content) Size() int { return len(c.body) + int(c.packed.Load()) }
