package siteproof

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"webring/server/sites/markup"
)

// Icon gives the address of the icon that the head of a page links to, "" if there is none that can be
// drawn: of several the one whose size comes closest to side from above, with up to most pixels a
// side. A picture for the home screen of a phone does where no other is as large. The icon is not
// fetched.
func Icon(page []byte, contentType string, at *url.URL, side, most int) (best string) {
	worth := 0
	for base, link := range headLinks(page, contentType, at) {
		if w := iconWorth(link, side, most); w > worth {
			if icon := linkAt(base, link["href"], at.Hostname()); icon != "" {
				best, worth = icon, w
			}
		}
	}
	return best
}

// iconWorth says how well a link serves for an icon, 0 if it does not.
func iconWorth(link map[string]string, side, most int) (worth int) {
	rel := strings.Fields(strings.ToLower(link["rel"]))
	path, _, _ := strings.Cut(strings.ToLower(link["href"]), "?")
	switch {
	case markup.MediaType(link["type"]) == "image/svg+xml", strings.HasSuffix(path, ".svg"):
		return 0
	case slices.Contains(rel, "apple-touch-icon"):
		return side + 1
	case !slices.Contains(rel, "icon"):
		return 0
	}
	sizes := strings.Fields(strings.ToLower(link["sizes"]))
	if len(sizes) == 0 {
		return side + 2
	}
	for _, size := range sizes {
		w, _, _ := strings.Cut(size, "x")
		switch n, err := strconv.Atoi(w); {
		case err != nil: // any
			worth = max(worth, side+2)
		case n >= side && n <= most:
			worth = max(worth, side+3+most-n)
		case n > 0 && n < side:
			worth = max(worth, n)
		}
	}
	return worth
}
