package front

import (
	"bytes"
	"encoding/hex"
	"net/url"
	"slices"
	"unicode/utf8"

	"webring/edge/idn"
)

// ASCIIHosts gives a target with the host of its from parameter in A-labels, the only form
// that the core knows. It gives nearly all targets as they are, without allocating, and
// never changes the argument.
func ASCIIHosts(target []byte) []byte {
	_, query, _ := bytes.Cut(target, []byte("?"))
	if isPlainASCII(query) {
		return target
	}
	for at := len(target) - len(query); at < len(target); at++ {
		pair, _, _ := bytes.Cut(target[at:], []byte("&"))
		at += len(pair)
		name, value, _ := bytes.Cut(pair, []byte("="))
		if isFrom(name) && namesForeignHost(value) {
			before := at - len(value)
			// The core reads one from only.
			return slices.Concat(target[:before], asciiReference(value), target[at:])
		}
	}
	return target
}

// isPlainASCII reports that a query has nothing but ASCII in it once it is decoded, and no
// escape that was escaped. This holds for nearly all, and takes little time.
func isPlainASCII(query []byte) bool {
	if !IsPrintable(query) {
		return false
	}
	for {
		at := bytes.IndexByte(query, '%')
		if at < 0 || len(query)-at < len("%00") {
			return true
		}
		if query = query[at+1:]; query[0] >= '8' || query[0] == '2' && query[1] == '5' {
			return false
		}
	}
}

// isFrom reports whether a name in a query is that of the parameter that names a member.
func isFrom(name []byte) bool {
	if bytes.IndexByte(name, '%') < 0 {
		return string(name) == "from"
	}
	decoded, err := url.QueryUnescape(string(name))
	return err == nil && decoded == "from"
}

// namesForeignHost reports whether the host in a reference, a URL or a bare name that is
// escaped as in a query, has anything but ASCII in it, or escapes of its own.
func namesForeignHost(value []byte) bool {
	const (
		nameOrScheme = iota
		colon
		slash
		host
	)
	for at, i := nameOrScheme, 0; i < len(value); i++ {
		c := value[i]
		if c == '%' && i+2 < len(value) {
			var decoded [1]byte
			if _, err := hex.Decode(decoded[:], value[i+1:i+3]); err == nil {
				c = decoded[0]
				i += 2
			}
		}
		switch {
		case c >= utf8.RuneSelf || c == '%':
			return at == nameOrScheme || at == host
		case at == nameOrScheme && c == ':':
			at = colon
		case (at == colon || at == slash) && c == '/':
			at++
		case at == colon || at == slash || c == ':' || c == '/' || c == '?' || c == '#':
			return false
		}
	}
	return false
}

// asciiReference puts the host of a reference into A-labels, if it can be. Like the
// core, it takes what cannot be decoded as it was sent.
func asciiReference(value []byte) []byte {
	ref, err := url.QueryUnescape(string(value))
	if err != nil || !utf8.ValidString(ref) {
		ref = string(value)
	}
	ascii := idn.Reference(ref)
	if ascii == ref {
		return value
	}
	return []byte(url.QueryEscape(ascii))
}
