package idn

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// names converts as browsers do (UTS 46, non-transitional), with two differences:
// letters, digits and hyphens only, so that what a browser would pass on as a strange
// name is refused; and hyphens anywhere, because names with two of them in the third
// place exist.
var names = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.StrictDomainName(true), idna.CheckHyphens(false),
)

// longest is the longest name that is converted, in bytes: twice what the domain name
// system has room for, as letters beyond ASCII take up to four bytes, or nine in pieces,
// and become two or more. The time for a label grows with the square of its length, and
// one as long as this takes half a millisecond.
const longest = 512

// ToASCII gives a host name in A-labels, in lower case. What the conversion made must
// be a name by itself: no mapped character may turn into a delimiter, no label may
// decode to another host's. A dot at the end stays.
func ToASCII(host string) (ascii string, ok bool) {
	if len(host) > longest {
		return "", false
	}
	ascii, err := names.ToASCII(host)
	if err != nil || !IsName(strings.TrimSuffix(ascii, ".")) {
		return "", false
	}
	again, err := names.ToASCII(ascii)
	return ascii, err == nil && again == ascii
}

// IsName reports whether s is made of labels of ASCII letters, digits and hyphens. It
// does not look at lengths.
func IsName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return false
		}
		for _, r := range label {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' {
				return false
			}
		}
	}
	return true
}

// URL replaces the host name in raw, a URL, by its A-labels, whether its letters are
// written as they are or as percent escapes. Where raw has no host name it stays as it
// is; it is not ok when the name is none.
func URL(raw string) (ascii string, ok bool) {
	head, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsAny(head, "/?#") {
		return raw, true
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	host, port := authority, ""
	if i := strings.IndexByte(authority, ':'); i >= 0 {
		host, port = authority[:i], authority[i:]
	}
	if host == "" || strings.ContainsAny(authority, "@[") {
		return raw, true
	}
	if host, ok = unescapedToASCII(host); !ok {
		return "", false
	}
	return head + "://" + host + port + tail, true
}

// unescapedToASCII is [ToASCII] for a host in which letters may be escaped.
func unescapedToASCII(host string) (ascii string, ok bool) {
	if strings.IndexByte(host, '%') >= 0 {
		var err error
		if host, err = url.PathUnescape(host); err != nil || !utf8.ValidString(host) {
			return "", false
		}
	}
	return ToASCII(host)
}

// Reference is [URL] for what names a member: the URL of a page, or the bare name of a
// host, which has a dot. Anything else stays as it is, and so does what has no host
// name where one belongs.
func Reference(ref string) string {
	if ascii, ok := URL(ref); ok && ascii != ref {
		return ascii
	}
	if host, ok := unescapedToASCII(ref); ok && strings.Contains(host, ".") {
		return host
	}
	return ref
}
