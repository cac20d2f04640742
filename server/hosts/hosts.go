// Package hosts says which names of hosts are those of public sites: one answer for
// the URLs that may join and for those that are fetched.
package hosts

import (
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// names converts as browsers do (UTS 46, non-transitional), with two differences:
// letters, digits and hyphens only, so that what a browser would pass on as a strange
// name is refused; and hyphens anywhere, because names with two of them in the third
// place exist.
var names = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.StrictDomainName(true), idna.CheckHyphens(false),
)

// ToASCII gives a host name in A-labels, in lower case. What the conversion made must
// be a name by itself: no mapped character may turn into a delimiter, no label may
// decode to another host's. A dot at the end stays.
func ToASCII(host string) (ascii string, ok bool) {
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

// EndsInNumber reports whether browsers would read host as an IPv4 address, or
// fail at trying (URL Standard, "ends in a number checker").
func EndsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// Public reports whether host is a name below a suffix that ICANN delegated.
// Suffixes that companies entered in the list (github.io) lie below such a one and
// are sites themselves, so they count as names.
func Public(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	if icann {
		return suffix != host
	}
	// Without a dot, the suffix is the fallback for unknown top-level names.
	return strings.Contains(suffix, ".")
}

// Matches reports whether a pattern stands for host, which is in lower case: a host
// name, or "*." before one, which stands for every name below it at any depth.
func Matches(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	return pattern == host || strings.HasPrefix(pattern, "*.") && strings.HasSuffix(host, pattern[1:])
}
