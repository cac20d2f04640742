package fetch

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// maxTarget is the longest URL that is fetched, in bytes.
const maxTarget = 2048

// hostNames converts as browsers do (UTS 46), and refuses what is no name.
var hostNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(true), idna.CheckHyphens(false))

// target brings a URL into the form in which it is fetched, or refuses it with
// [ErrTarget]. The host is checked after its conversion: net/http converts too,
// and would reach 127.0.0.1 through ①②⑦.⓪.⓪.①.
func (c *Client) target(raw string) (*url.URL, error) {
	if len(raw) > maxTarget {
		return nil, fmt.Errorf("%w: too long", ErrTarget)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: no URL", ErrTarget)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: the scheme", ErrTarget)
	case u.User != nil:
		// It would be sent as Basic authentication.
		return nil, fmt.Errorf("%w: a user name", ErrTarget)
	case u.Opaque != "":
		return nil, fmt.Errorf("%w: no host", ErrTarget)
	}
	host, err := hostNames.ToASCII(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil || host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return nil, fmt.Errorf("%w: the host name", ErrTarget)
	}
	// What the conversion made must be a name by itself.
	if again, err := hostNames.ToASCII(host); err != nil || again != host {
		return nil, fmt.Errorf("%w: the host name", ErrTarget)
	}
	if endsInNumber(host) {
		return nil, fmt.Errorf("%w: an address in place of a host name", ErrTarget)
	}
	if p := u.Port(); p != "" && !slices.ContainsFunc(c.ports, func(port uint16) bool { return p == strconv.Itoa(int(port)) }) {
		return nil, fmt.Errorf("%w: the port", ErrTarget)
	}
	if _, mapped := c.mapped(host); !mapped && !admits(c.cfg.Allow, host) && !public(host) {
		return nil, fmt.Errorf("%w: the host name is not public", ErrTarget)
	}
	if p := u.Port(); p != "" {
		host += ":" + p
	}
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	return u, nil
}

// endsInNumber reports whether browsers would read host as an IPv4 address, or
// fail at trying (URL Standard, "ends in a number checker").
func endsInNumber(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// public reports whether host is a name below a suffix that ICANN delegated.
// Suffixes that companies entered in the list lie below such a one.
func public(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	if icann {
		return suffix != host
	}
	return strings.Contains(suffix, ".")
}

// Site is the name that limits go by, and that redirects must not leave: the
// registrable domain of host, or host itself when it has none.
func Site(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// admits reports whether host, in lower case, is one of patterns, as in [Config].
func admits(patterns []string, host string) bool {
	for _, p := range patterns {
		if matches(strings.ToLower(p), host) {
			return true
		}
	}
	return false
}

func matches(pattern, host string) bool {
	parent, below := strings.CutPrefix(pattern, "*.")
	if !below {
		return host == pattern
	}
	return strings.HasSuffix(host, "."+parent)
}

// ParseMap reads one HOST=ADDR:PORT of the development map: HOST as in [Config],
// ADDR a literal address.
func ParseMap(s string) (pattern string, to netip.AddrPort, err error) {
	pattern, address, ok := strings.Cut(s, "=")
	if !ok || strings.Trim(strings.TrimPrefix(pattern, "*."), ".") == "" {
		return "", to, fmt.Errorf("fetch: %q is not HOST=ADDR:PORT", s)
	}
	if to, err = netip.ParseAddrPort(address); err != nil || to.Port() == 0 {
		return "", to, fmt.Errorf("fetch: %q is not HOST=ADDR:PORT with a literal address and a port", s)
	}
	return strings.ToLower(pattern), to, nil
}
