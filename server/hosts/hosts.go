// Package hosts says which names of hosts, in A-labels, are those of public sites: one
// answer for the URLs that may join and for those that are fetched.
package hosts

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

// Domain gives the registrable domain of host, which its owner has with all names
// below: one label more than the suffix of the public suffix list, those of companies
// included. A host that lies below no such suffix is a domain by itself.
func Domain(host string) string {
	suffix, _ := publicsuffix.PublicSuffix(host)
	above, ok := strings.CutSuffix(host, "."+suffix)
	if !ok || !Public(host) {
		return host
	}
	return host[strings.LastIndexByte(above, '.')+1:]
}

// Matches reports whether a pattern stands for host, which is in lower case: a host
// name, or "*." before one, which stands for every name below it at any depth.
func Matches(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	return pattern == host || strings.HasPrefix(pattern, "*.") && strings.HasSuffix(host, pattern[1:])
}
