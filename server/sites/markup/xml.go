package markup

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"

	"golang.org/x/text/encoding"
)

// Document is a document in XML that is being read.
type Document struct {
	decoder *xml.Decoder
	text    []byte
	source  *bounded
}

// XML begins to read a document. Its encoding is the one that a byte order mark names, or
// else its Content-Type, or else its own declaration (RFC 7303). It knows the entities of
// XML alone, so nothing grows.
func XML(body []byte, contentType string) *Document {
	_, parameters := media(contentType)
	text := decode(body, byMark(body), charsetNamed(parameters["charset"]), declared(body))
	if version, rest := declaration(text); version != nil {
		text = rest // by now it says nothing; the decoder refuses version 1.1
	}
	d := &Document{text: text, source: &bounded{Reader: bytes.NewReader(text)}}
	d.decoder = xml.NewDecoder(d.source)
	return d
}

// declared gives the encoding that a declaration names, or nil.
func declared(body []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(body, []byte("<\x00?\x00")):
		return utf16LE
	case bytes.HasPrefix(body, []byte("\x00<\x00?")):
		return utf16BE
	}
	line, _ := declaration(body)
	_, after, _ := bytes.Cut(line, []byte("encoding"))
	after = bytes.TrimLeft(after, "= \t\r\n")
	if len(after) == 0 || after[0] != '"' && after[0] != '\'' {
		return nil
	}
	label, _, _ := bytes.Cut(after[1:], after[:1])
	if e := charsetNamed(string(label)); e != utf16LE && e != utf16BE {
		return e
	}
	return nil // a declaration that can be read byte by byte is not in UTF-16
}

// declaration cuts the XML declaration off a document; nil if it has none.
func declaration(text []byte) (declaration, rest []byte) {
	if !bytes.HasPrefix(text, []byte("<?xml")) || len(text) < 6 || !bytes.ContainsAny(text[5:6], " \t\r\n") {
		return nil, text
	}
	declaration, rest, found := bytes.Cut(text, []byte("?>"))
	if !found {
		return nil, text
	}
	return declaration, rest
}

// Token gives the next token, with namespaces in place of prefixes. It fails with [io.EOF]
// at the end.
func (d *Document) Token() (xml.Token, error) { d.begin(); return d.decoder.Token() }

// RawToken gives the next token as it stands. Tags need not match.
func (d *Document) RawToken() (xml.Token, error) { d.begin(); return d.decoder.RawToken() }

// maxTag is how long a tag may be, in bytes.
const maxTag = 64 << 10

var errTag = errors.New("markup: a tag is too long")

// begin bounds the next token if it is a tag: the decoder would make a tag as large as it
// comes, and twenty times as much of its attributes.
func (d *Document) begin() {
	rest := d.text[min(d.decoder.InputOffset(), int64(len(d.text))):]
	d.source.left = -1
	if len(rest) > 1 && rest[0] == '<' && rest[1] != '!' && rest[1] != '?' {
		d.source.left = maxTag
	}
}

// bounded gives a document to a decoder.
type bounded struct {
	*bytes.Reader
	left int // of the token; negative: it has no bound
}

func (b *bounded) ReadByte() (byte, error) {
	if b.left == 0 {
		return 0, errTag
	}
	b.left--
	return b.Reader.ReadByte()
}

var _ io.ByteReader = (*bounded)(nil)
