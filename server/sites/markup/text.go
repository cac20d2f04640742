package markup

import (
	"bytes"
	"mime"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// Text gives a body in UTF-8 and without a byte order mark. The mark says which encoding
// the body has, or else the charset of its Content-Type; without either it is UTF-8.
func Text(body []byte, contentType string) []byte {
	_, parameters := media(contentType)
	return decode(body, byMark(body), charsetNamed(parameters["charset"]))
}

// MediaType gives a media type in lower case, without its parameters.
func MediaType(contentType string) string {
	name, _ := media(contentType)
	return name
}

// media gives a media type in lower case, and its parameters.
func media(contentType string) (string, map[string]string) {
	name, parameters, err := mime.ParseMediaType(contentType)
	if err != nil { // a parameter that makes no sense says nothing
		name, _, _ = strings.Cut(contentType, ";")
		name = strings.ToLower(strings.TrimSpace(name))
	}
	return name, parameters
}

// decode decodes a body by the first encoding that is known.
func decode(body []byte, candidates ...encoding.Encoding) []byte {
	for _, e := range candidates {
		if e == nil {
			continue
		}
		if text, err := e.NewDecoder().Bytes(body); err == nil {
			return bytes.TrimPrefix(text, utf8Mark)
		}
	}
	return body
}

var (
	utf8Mark = []byte("\xef\xbb\xbf")
	utf16LE  = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	utf16BE  = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
)

// byMark gives the encoding that a byte order mark names, or nil.
func byMark(body []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(body, utf8Mark):
		return unicode.UTF8
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return utf16LE
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return utf16BE
	}
	return nil
}

// charsetNamed gives the encoding that has a label in the Encoding Standard, or nil.
func charsetNamed(label string) encoding.Encoding {
	switch e, name := charset.Lookup(label); name {
	case "utf-16le":
		return utf16LE
	case "utf-16be":
		return utf16BE
	default:
		return e
	}
}
