package core

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"webring/core/flat"
)

const (
	maxHostBytes  = 253 // RFC 1035, without the root's dot
	maxLabelBytes = 63
)

// ErrInvalidURL is what every [URLError] matches under [errors.Is].
var ErrInvalidURL = errors.New("invalid url")

// URLError says why a text is no URL that the ring could know. Its text is a
// sentence fragment fit for the detail of a problem document; it never repeats
// the input.
type URLError string

// Error returns the reason.
func (e URLError) Error() string { return string(e) }

// Is reports whether target is [ErrInvalidURL].
func (e URLError) Is(target error) bool { return target == ErrInvalidURL }

// The reasons for which [AppendURL] refuses a text.
const (
	ErrURLTooLong   URLError = "the url is longer than 300 characters"
	ErrURLControl   URLError = "the url contains a control character"
	ErrURLSpace     URLError = "the url contains a space"
	ErrURLBackslash URLError = "the url contains a backslash"
	ErrURLRelative  URLError = "the url is not absolute"
	ErrURLScheme    URLError = "the url's scheme is neither http nor https"
	ErrURLUserinfo  URLError = "the url contains a user name or password"
	ErrURLNoHost    URLError = "the url has no host"
	ErrURLHost      URLError = "the url's host is not a valid host name"
	ErrURLPort      URLError = "the url's port is not a number from 1 to 65535"
	ErrURLEscape    URLError = "the url contains an incomplete percent escape"
)

// AppendURL appends the canonical spelling of raw to dst: the form that
// Member.url keeps and redirects use. The scheme, a leading "www.", the slash
// at the end of the path and a final "index.html" stay as given; scheme and
// host are lower-cased, the dot of the DNS root, a default port and the
// fragment are dropped, dot segments are resolved, escapes of unreserved
// characters are decoded and all others written in capitals, and every byte
// that RFC 3986 does not allow in a path or query is escaped.
//
// The host must be ASCII: callers convert host names from people (UTS 46)
// first. IP literals, reserved names and unusual ports are accepted
// here; which hosts may join is not a question of spelling.
//
// Both raw and the canonical spelling, which is ASCII, are at most [MaxURL]
// code points: so the canonical spelling is accepted wherever raw is.
//
// AppendURL is idempotent, reads any bytes without panicking, and allocates
// only to grow dst, which must not overlap raw. On error, always a [URLError],
// it returns dst as it was given.
func AppendURL(dst, raw []byte) ([]byte, error) {
	// Bytes first, so that the code points of a megabyte are not counted.
	if len(raw) > MaxURL*utf8.UTFMax || utf8.RuneCount(raw) > MaxURL {
		return dst, ErrURLTooLong
	}
	base := len(dst)
	dst, err := appendURL(dst, raw)
	if len(dst)-base > MaxURL {
		return dst[:base], ErrURLTooLong
	}
	return dst, err
}

// appendURL is [AppendURL] without its bounds on lengths: no member has a longer
// address than they allow, but pages of its site may.
func appendURL(dst, raw []byte) ([]byte, error) {
	base := len(dst)
	for _, c := range raw {
		switch {
		case c < ' ' || c == 0x7f:
			return dst, ErrURLControl
		case c == ' ':
			return dst, ErrURLSpace
		case c == '\\':
			// Browsers read it as a slash, servers do not.
			return dst, ErrURLBackslash
		}
	}

	https, rest, err := cutScheme(raw)
	if err != nil {
		return dst, err
	}
	if i := bytes.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i]
	}
	query := rest[len(rest):]
	hasQuery := false
	if i := bytes.IndexByte(rest, '?'); i >= 0 {
		rest, query, hasQuery = rest[:i], rest[i+1:], true
	}
	authority, path := rest, rest[len(rest):]
	if i := bytes.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}

	if https {
		dst = append(dst, "https://"...)
	} else {
		dst = append(dst, "http://"...)
	}
	if dst, err = appendAuthority(dst, authority, https); err != nil {
		return dst[:base], err
	}
	if dst, err = appendPath(dst, path); err != nil {
		return dst[:base], err
	}
	if hasQuery {
		dst = append(dst, '?')
		if dst, err = appendEscaped(dst, query, "/?"); err != nil {
			return dst[:base], err
		}
	}
	return dst, nil
}

// AppendKey appends the identity key of canonical, a URL that [AppendURL]
// wrote: two URLs with one key are one site. The key is host, port if not the
// default, path and query, without the scheme, a leading "www.", a final
// "index.html", the slash at the end of the path, and an empty query:
//
//	https://www.a.com/          a.com
//	http://a.com/foo/?q=1       a.com/foo?q=1
//	https://a.com:80/index.html a.com:80
//
// The first '/' or '?' ends the host; the first '?' ends the path, in which no
// '?' occurs unescaped. [KeyParent] shortens a key at those places. AppendKey
// allocates only to grow dst.
func AppendKey(dst, canonical []byte) []byte {
	rest := canonical
	if i := bytes.Index(rest, []byte("://")); i >= 0 {
		rest = rest[i+3:]
	}
	// "www.com" is a site of its own, so a dot must remain.
	if host, ok := bytes.CutPrefix(rest, []byte("www.")); ok {
		if bytes.IndexByte(KeyHost(host), '.') > 0 {
			rest = host
		}
	}
	path, query := rest, rest[len(rest):]
	if i := bytes.IndexByte(rest, '?'); i >= 0 {
		path, query = rest[:i], rest[i:]
	}
	if dir, ok := bytes.CutSuffix(path, []byte("/index.html")); ok {
		path = dir
	} else {
		path = bytes.TrimSuffix(path, []byte("/"))
	}
	dst = append(dst, path...)
	if len(query) > 1 {
		dst = append(dst, query...)
	}
	return dst
}

// KeyHost returns the host name with which key begins, without port: a slice
// of key. An IPv6 literal keeps its brackets.
func KeyHost(key []byte) []byte {
	for i, c := range key {
		switch c {
		case '[':
			if end := bytes.IndexByte(key, ']'); i == 0 && end > 0 {
				return key[:end+1]
			}
		case ':', '/', '?':
			return key[:i]
		}
	}
	return key
}

// KeyParent returns the next shorter key that names the same site or a part of
// it further up: without the query if key has one, otherwise without the last
// segment of the path. It reports false, and returns key, when only host and
// port are left. Walking up with it until a member has the key finds the
// longest member URL that is a path-segment prefix.
func KeyParent(key []byte) ([]byte, bool) {
	if i := bytes.IndexByte(key, '?'); i >= 0 {
		return key[:i], true
	}
	if i := bytes.LastIndexByte(key, '/'); i >= 0 {
		return key[:i], true
	}
	return key, false
}

// cutScheme splits "http://" or "https://", in any case, from raw.
func cutScheme(raw []byte) (https bool, rest []byte, err error) {
	i := bytes.IndexByte(raw, ':')
	if i < 0 || !isScheme(raw[:i]) {
		return false, nil, ErrURLRelative
	}
	switch {
	case bytes.EqualFold(raw[:i], []byte("https")):
		https = true
	case !bytes.EqualFold(raw[:i], []byte("http")):
		return false, nil, ErrURLScheme
	}
	// Browsers repair "https:a.com" and "https:/a.com", and most other programs refuse
	// them. They are refused here, so that no host is guessed.
	rest, ok := bytes.CutPrefix(raw[i+1:], []byte("//"))
	if !ok {
		return false, nil, ErrURLNoHost
	}
	return https, rest, nil
}

// isScheme reports whether s has the form of a URI scheme. What stands before
// the first colon of "a.com/x:y" has not; "a.com:80" has, and is then refused
// for being neither http nor https.
func isScheme(s []byte) bool {
	for i, c := range s {
		switch {
		case isLetter(c):
		case i > 0 && (isDigit(c) || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return len(s) > 0
}

// appendAuthority appends host and port, without the scheme's default port.
func appendAuthority(dst, authority []byte, https bool) ([]byte, error) {
	if bytes.IndexByte(authority, '@') >= 0 {
		return dst, ErrURLUserinfo
	}
	host, port := authority, authority[len(authority):]
	if len(host) > 0 && host[0] == '[' {
		end := bytes.IndexByte(host, ']')
		if end < 0 {
			return dst, ErrURLHost
		}
		host, port = authority[:end+1], authority[end+1:]
		if len(port) > 0 && port[0] != ':' {
			return dst, ErrURLHost
		}
	} else if i := bytes.IndexByte(host, ':'); i >= 0 {
		host, port = authority[:i], authority[i:]
	}

	var err error
	if dst, err = appendHost(dst, host); err != nil {
		return dst, err
	}
	number, err := parsePort(port)
	if err != nil {
		return dst, err
	}
	if number == 0 || !https && number == 80 || https && number == 443 {
		return dst, nil
	}
	return strconv.AppendInt(append(dst, ':'), int64(number), 10), nil
}

// parsePort reads ":" and digits; 0 means no port, or an empty one.
func parsePort(port []byte) (int, error) {
	if len(port) <= 1 {
		return 0, nil
	}
	number := 0
	for _, c := range port[1:] {
		if !isDigit(c) {
			return 0, ErrURLPort
		}
		if number = number*10 + int(c-'0'); number > 65535 {
			return 0, ErrURLPort
		}
	}
	if number == 0 {
		return 0, ErrURLPort
	}
	return number, nil
}

// appendHost appends the host in lower case.
func appendHost(dst, host []byte) ([]byte, error) {
	if len(host) == 0 {
		return dst, ErrURLNoHost
	}
	if host[0] == '[' {
		return appendIPv6(dst, host)
	}
	host = bytes.TrimSuffix(host, []byte("."))
	if len(host) == 0 || len(host) > maxHostBytes {
		return dst, ErrURLHost
	}
	label := 0
	for _, c := range host {
		switch {
		case c == '.':
			if label == 0 {
				return dst, ErrURLHost
			}
			label = 0
			dst = append(dst, c)
			continue
		case isLetter(c) || isDigit(c) || c == '-' || c == '_':
			dst = append(dst, lower(c))
		default:
			return dst, ErrURLHost
		}
		if label++; label > maxLabelBytes {
			return dst, ErrURLHost
		}
	}
	if label == 0 {
		return dst, ErrURLHost
	}
	return dst, nil
}

// appendIPv6 appends a bracketed literal in lower case. It checks the alphabet
// only: no member has such a host, so a spelling that means nothing finds
// nothing. Zone identifiers are refused with everything else.
func appendIPv6(dst, host []byte) ([]byte, error) {
	inner := host[1 : len(host)-1]
	if bytes.Count(inner, []byte(":")) < 2 || len(inner) > len("0000:0000:0000:0000:0000:ffff:255.255.255.255") {
		return dst, ErrURLHost
	}
	dst = append(dst, '[')
	for _, c := range inner {
		if c != ':' && c != '.' && flat.Unhex(c) < 0 {
			return dst, ErrURLHost
		}
		dst = append(dst, lower(c))
	}
	return append(dst, ']'), nil
}

// appendPath appends path, which is empty or begins with a slash, with its dot
// segments resolved (RFC 3986, 5.2.4) after its escapes: browsers treat "%2e"
// as a dot too.
func appendPath(dst, path []byte) ([]byte, error) {
	start := len(dst)
	for len(path) > 0 {
		segment, rest := path[1:], path[len(path):]
		if i := bytes.IndexByte(segment, '/'); i >= 0 {
			segment, rest = segment[:i], segment[i:]
		}
		path = rest

		mark := len(dst)
		dst = append(dst, '/')
		var err error
		if dst, err = appendEscaped(dst, segment, ""); err != nil {
			return dst, err
		}
		switch string(dst[mark+1:]) {
		case ".":
			dst = dst[:mark]
		case "..":
			dst = dst[:mark]
			if i := bytes.LastIndexByte(dst[start:], '/'); i >= 0 {
				dst = dst[:start+i]
			}
		default:
			continue
		}
		if len(path) == 0 {
			dst = append(dst, '/')
		}
	}
	return dst, nil
}

// appendEscaped appends text with its percent-encoding normalised (RFC 3986,
// 6.2.2): unreserved characters bare, sub-delimiters, ':', '@' and those in
// also as they stand, all else as an escape in capitals.
func appendEscaped(dst, text []byte, also string) ([]byte, error) {
	const capitals = "0123456789ABCDEF"
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' {
			if isUnreserved(c) || bytes.IndexByte([]byte("!$&'()*+,;=:@"), c) >= 0 ||
				bytes.IndexByte([]byte(also), c) >= 0 {
				dst = append(dst, c)
				continue
			}
			dst = append(dst, '%', capitals[c>>4], capitals[c&15])
			continue
		}
		if len(text)-i < 3 || flat.Unhex(text[i+1]) < 0 || flat.Unhex(text[i+2]) < 0 {
			return dst, ErrURLEscape
		}
		c = byte(flat.Unhex(text[i+1])<<4 | flat.Unhex(text[i+2]))
		i += 2
		if isUnreserved(c) {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '%', capitals[c>>4], capitals[c&15])
	}
	return dst, nil
}

func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
