// Package idn converts host names into A-labels, the ASCII form in the domain name
// system. One conversion serves URLs that join, URLs that are fetched, and
// references to members. The core sees only the result.
package idn

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// names converts as browsers do (UTS 46, non-transitional), with two differences. It
// allows letters, digits and hyphens only, where browsers pass on other characters.
// And it allows hyphens anywhere, because names with two of them at the third place
// exist.
var names = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.StrictDomainName(true), idna.CheckHyphens(false),
)

// longest is the longest name that is converted, in bytes: twice the limit of the
// domain name system, since a letter beyond ASCII takes more bytes in UTF-8 than it
// adds to an A-label. The time for a label grows with the square of its length; one as
// long as this takes half a millisecond.
const longest = 512

// ToASCII gives a host name in A-labels, in lower case. It is not ok if the result is
// no host name: a mapped character must not become a delimiter, and no label may
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

// URL replaces the host name in the URL raw by its A-labels. Letters of the name may
// be written as they are or as percent escapes. A raw without a host name is returned
// unchanged. It is not ok if the host name cannot be converted.
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

// unescapedToASCII is [ToASCII] for a host that may contain percent escapes.
func unescapedToASCII(host string) (ascii string, ok bool) {
	if strings.IndexByte(host, '%') >= 0 {
		var err error
		if host, err = url.PathUnescape(host); err != nil || !utf8.ValidString(host) {
			return "", false
		}
	}
	return ToASCII(host)
}

// Reference is [URL] for a reference to a member: the URL of a page, with its scheme or
// without, or a bare host name. Without a scheme the name must have a dot. It returns anything
// else unchanged, and any reference with a host name that it cannot convert.
func Reference(ref string) string {
	if ascii, ok := URL(ref); ok && ascii != ref {
		return ascii
	}
	end := strings.IndexAny(ref, ":/?#")
	if end < 0 {
		end = len(ref)
	}
	if host, ok := unescapedToASCII(ref[:end]); ok && strings.Contains(host, ".") {
		return host + ref[end:]
	}
	return ref
}
