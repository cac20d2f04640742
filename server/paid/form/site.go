package form

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"webring/core"
	"webring/edge/idn"
	"webring/server/sites/fetch"
)

// Why a URL that is one may still not join. The texts continue those of
// [core.URLError], and match [core.ErrInvalidURL] as they do.
const (
	errSiteUTF8      core.URLError = "the url is not valid UTF-8"
	errSiteInvisible core.URLError = "the url contains an invisible format character"
	errSiteIP        core.URLError = "the url's host is an IP address, not a name"
	errSitePort      core.URLError = "the url's port is neither 80 nor 443"
	errSiteLabel     core.URLError = "the url's host is a single label, not a public name"
	errSiteReserved  core.URLError = "the url's host is a reserved name"
	errSiteSuffix    core.URLError = "the url's host is not a name under a public suffix"
)

// reservedNames are names that never lead to a site of the public Internet, with
// all names below them: the IANA registry of special-use domain names, which
// .onion and .arpa entries of the public suffix list overlap, and .internal.
var reservedNames = []string{
	"alt", "arpa", "example", "example.com", "example.net", "example.org",
	"internal", "invalid", "local", "localhost", "onion", "test",
}

// SitePolicy says which sites may join (server/DESIGN.md, "Rules of paid requests"). Its zero
// value admits public names only. It is read-only after [SitePolicy.Validate]
// and safe for concurrent use.
type SitePolicy struct {
	// AllowHosts are patterns of hosts that are admitted although their names
	// are reserved or have no public suffix, in the form of [fetch.MatchHost].
	// Development only.
	AllowHosts []string
}

// Validate reports the first pattern that could never admit anything.
func (p SitePolicy) Validate() error {
	for _, pattern := range p.AllowHosts {
		if !idn.IsName(strings.TrimPrefix(pattern, "*.")) {
			return fmt.Errorf("allowed host %q is neither an ASCII host name nor one after \"*.\"", pattern)
		}
	}
	return nil
}

// Canonical gives the canonical spelling of a site's URL, as Member.url keeps
// it, and its identity key, if the site may join. Every error matches
// [core.ErrInvalidURL], and its text may be shown to the caller.
func (p SitePolicy) Canonical(raw string) (url, key string, err error) {
	url, key, err = Spell(raw)
	if err != nil {
		return "", "", err
	}
	if err := p.admit(url); err != nil {
		return "", "", err
	}
	return url, key, nil
}

// Spell is [core.AppendURL] and [core.AppendKey] for what people write: the
// text is trimmed, the host name converted to A-labels. Nothing else is normalised:
// path and query in another normal form name another resource.
func Spell(raw string) (url, key string, err error) {
	if !utf8.ValidString(raw) {
		return "", "", errSiteUTF8
	}
	raw = strings.TrimFunc(raw, unicode.IsSpace)
	// The limit is on what was sent too, fragment and U-labels included.
	if codePoints(raw) > core.MaxURL {
		return "", "", core.ErrURLTooLong
	}
	for _, r := range raw {
		switch {
		case unicode.Is(unicode.Cc, r):
			return "", "", core.ErrURLControl
		case unicode.Is(unicode.Cf, r) && r != zwnj && r != zwj: // with which words of some scripts are spelled
			return "", "", errSiteInvisible
		case unicode.IsSpace(r):
			return "", "", core.ErrURLSpace
		}
	}
	ascii, ok := idn.URL(raw)
	if !ok {
		return "", "", core.ErrURLHost
	}
	canonical, err := core.AppendURL(nil, []byte(ascii))
	if err != nil {
		return "", "", err
	}
	return string(canonical), string(core.AppendKey(nil, canonical)), nil
}

// admit applies the policy to a canonical URL. It sees the host after its
// conversion: "①②⑦.⓪.⓪.①" is 127.0.0.1 by now.
func (p SitePolicy) admit(canonical string) error {
	_, rest, _ := strings.Cut(canonical, "://")
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	if strings.HasPrefix(authority, "[") {
		return errSiteIP
	}
	host, port, _ := strings.Cut(authority, ":")
	switch {
	case fetch.EndsInNumber(host):
		return errSiteIP
	case !strings.Contains(host, "."):
		return errSiteLabel
	case port != "" && port != "80" && port != "443":
		return errSitePort
	case slices.ContainsFunc(p.AllowHosts, func(pattern string) bool { return fetch.MatchHost(pattern, host) }):
		return nil
	case slices.ContainsFunc(reservedNames, func(name string) bool { return IsOrBelow(host, name) }):
		return errSiteReserved
	case !fetch.PublicHost(host):
		return errSiteSuffix
	}
	return nil
}

// IsOrBelow reports whether host is name or a name below it.
func IsOrBelow(host, name string) bool {
	rest, ok := strings.CutSuffix(host, name)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// HostOf gives the host of a member's URL as identity has it, without "www.".
func HostOf(url string) string { return string(core.KeyHost(core.AppendKey(nil, []byte(url)))) }
