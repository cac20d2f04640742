package visits

import (
	"net/url"
	"slices"
	"strings"

	"webring/server/sites/fetch"
	"webring/server/sites/markup"
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
func parked(page []byte, contentType string) bool {
	title, left := false, 2000
	for t := range markup.Tokens(page, contentType) {
		if left--; left < 0 {
			return false
		}
		switch t.Kind {
		case markup.Words:
			if text := strings.ToLower(string(t.Text)); title && slices.ContainsFunc(parkingTitles, func(s string) bool { return strings.Contains(text, s) }) {
				return true
			}
		case markup.End:
			title = false
		case markup.Start:
			title = t.Name == "title" && !t.Foreign
			switch t.Name {
			case "script", "iframe", "frame":
				if parks(t.Attributes["src"]) {
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
	return slices.ContainsFunc(parkingHosts, func(p string) bool { return fetch.MatchHost(p, host) }) ||
		slices.ContainsFunc(parkingPaths, func(p string) bool { return strings.HasPrefix(host+u.Path, p) })
}
