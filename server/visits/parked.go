package visits

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"webring/server/hosts"
)

// parkingHosts serve the scripts and frames of domains that are parked or for sale. A page
// that only links to one of them is not parked.
var parkingHosts = []string{
	"sedoparking.com", "*.sedoparking.com", "parkingcrew.net", "*.parkingcrew.net", "bodis.com", "*.bodis.com",
	"parklogic.com", "*.parklogic.com", "above.com", "*.above.com", "dsnextgen.com", "*.dsnextgen.com",
	"dan.com", "*.dan.com", "afternic.com", "*.afternic.com", "hugedomains.com", "*.hugedomains.com",
	"parking-lander.com", "*.parking-lander.com", "d38psrni17bvxu.cloudfront.net", "domaincntrol.com", "*.domaincntrol.com",
}

// parkingPaths are paths of hosts that serve other things, too.
var parkingPaths = []string{"img1.wsimg.com/parking-lander/", "www.google.com/adsense/domains/", "parking.reg.ru/"}

// parkingTitles are in the titles of such pages.
var parkingTitles = []string{"domain is for sale", "domain for sale", "domain may be for sale", "domain is parked", "parked domain", "buy this domain", "domain name is for sale"}

// parked says whether a page is that of a domain without a site: it takes its content from a
// host that parks domains, or its title says so.
func parked(page []byte) bool {
	z := html.NewTokenizer(bytes.NewReader(page))
	title := false
	for range 2000 {
		switch z.Next() {
		case html.ErrorToken:
			return false
		case html.TextToken:
			if text := strings.ToLower(string(z.Text())); title && slices.ContainsFunc(parkingTitles, func(s string) bool { return strings.Contains(text, s) }) {
				return true
			}
		case html.EndTagToken:
			title = false
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			title = tag == atom.Title
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if (tag == atom.Script || tag == atom.Iframe || tag == atom.Frame) && string(key) == "src" && parks(string(value)) {
					return true
				}
			}
		}
	}
	return false
}

// parks says whether an address is one of a host that parks domains.
func parks(address string) bool {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(parkingHosts, func(p string) bool { return hosts.Matches(p, host) }) ||
		slices.ContainsFunc(parkingPaths, func(p string) bool { return strings.HasPrefix(host+u.Path, p) })
}
