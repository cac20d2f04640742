package api

import (
	"slices"
	"unicode/utf8"

	"webring/core/flat"
)

const hex = "0123456789abcdef"

// escaped is how many bytes one byte of a text can become.
const escaped = len(`\u0000`)

// AppendString appends s as a JSON string. Besides what JSON demands it
// escapes '<', so that a document may stand inside a script element, DEL, and
// the line separators that JavaScript would break a string at; invalid UTF-8
// becomes U+FFFD. '&' stays as it is: the addresses in documents are copied
// from the raw text too.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = room(dst, escaped*len(s)+2)
	return text(flat.Write(dst).Byte('"'), flat.View(s)).Byte('"').Bytes(dst)
}

// appendEscaped is AppendString without the quotes.
func appendEscaped(dst []byte, s string) []byte {
	dst = room(dst, escaped*len(s))
	return text(flat.Write(dst), s).Bytes(dst)
}

// room makes room for a pen to write n bytes.
func room(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n+flat.Slack {
		return dst
	}
	return slices.Grow(dst, n+flat.Slack)
}

// text writes s as the inside of a JSON string, which takes up to escaped times
// its length.
func text(w flat.Pen, s string) flat.Pen {
	n := flat.PlainJSON(s)
	w = w.Copy(s[:n])
	if n < len(s) {
		return slowText(w, s[n:])
	}
	return w
}

// slowText is text for what needs escapes or is not ASCII.
func slowText(w flat.Pen, s string) flat.Pen {
	dst := w.Room(escaped * len(s))
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != 0x7f {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hex[r&15])
		default:
			i += size
			continue
		}
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return w.Skip(len(dst))
}
