package fetch

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"webring/edge/idn"
)

// maxTarget is the longest URL that is fetched, in bytes.
const maxTarget = 2048

// target gives the URL in the form in which it is fetched, or [ErrTarget]. The host is
// checked after its conversion to A-labels: net/http converts too, and would reach
// 127.0.0.1 through ①②⑦.⓪.⓪.①.
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
	host, ok := idn.ToASCII(strings.TrimSuffix(u.Hostname(), "."))
	if !ok {
		return nil, fmt.Errorf("%w: the host name", ErrTarget)
	}
	if EndsInNumber(host) {
		return nil, fmt.Errorf("%w: an address in place of a host name", ErrTarget)
	}
	if p := u.Port(); p != "" && !slices.ContainsFunc(c.ports, func(port uint16) bool { return p == strconv.Itoa(int(port)) }) {
		return nil, fmt.Errorf("%w: the port", ErrTarget)
	}
	if _, mapped := c.mapped(host); !mapped && !PublicHost(host) {
		return nil, fmt.Errorf("%w: the host name is not public", ErrTarget)
	}
	if p := u.Port(); p != "" {
		host += ":" + p
	}
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	return u, nil
}

// Site is the registrable domain of host, or host itself when it has none. Limits are
// counted for each site, and redirects must stay within one.
func Site(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// ParseMap reads one HOST=ADDR:PORT for [Config.Map]. HOST is a pattern, ADDR a literal
// address.
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
