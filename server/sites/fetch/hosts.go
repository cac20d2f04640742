package fetch

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// EndsInNumber reports whether browsers would read host as an IPv4 address, or
// fail at trying (URL Standard, "ends in a number checker").
func EndsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// PublicHost reports whether host is a name below a suffix that ICANN delegated. Suffixes
// that companies entered in the public suffix list, such as github.io, lie below one
// of these and are sites themselves, so they count as names.
func PublicHost(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	if icann {
		return suffix != host
	}
	// Without a dot, the suffix is the fallback for unknown top-level names.
	return strings.Contains(suffix, ".")
}

// Domain gives the registrable domain of host: one label more than its suffix in the
// public suffix list, companies' suffixes included. A host that lies below no such
// suffix is a domain by itself.
func Domain(host string) string {
	suffix, _ := publicsuffix.PublicSuffix(host)
	above, ok := strings.CutSuffix(host, "."+suffix)
	if !ok || !PublicHost(host) {
		return host
	}
	return host[strings.LastIndexByte(above, '.')+1:]
}

// MatchHost reports whether pattern matches host, which is in lower case. A pattern is a
// host name, or "*." and a host name, which matches every name below it at any depth.
func MatchHost(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	return pattern == host || strings.HasPrefix(pattern, "*.") && strings.HasSuffix(host, pattern[1:])
}
