package paid

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/unicode/norm"

	"webring/core"
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

// hostNames converts host names as browsers do (UTS 46, non-transitional), with
// two differences: letters, digits and hyphens only, so that what a browser
// would pass on as a strange name is refused; and hyphens anywhere, because
// names with two of them in the third place exist.
var hostNames = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.StrictDomainName(true), idna.CheckHyphens(false),
)

// SitePolicy says which sites may join (decisions.md, "Identity"). Its zero
// value admits public names only. It is read-only after [SitePolicy.Validate]
// and safe for concurrent use.
type SitePolicy struct {
	// AllowHosts are patterns of hosts that are admitted although their names
	// are reserved or have no public suffix: a host name, or "*." before one,
	// which stands for every name below it at any depth. Development only.
	AllowHosts []string
}

// Validate reports the first pattern that could never admit anything.
func (p SitePolicy) Validate() error {
	for _, pattern := range p.AllowHosts {
		if !isHostName(strings.TrimPrefix(pattern, "*.")) {
			return fmt.Errorf("allowed host %q is neither an ASCII host name nor one after \"*.\"", pattern)
		}
	}
	return nil
}

// Canonical gives the canonical spelling of a site's URL, as Member.url keeps
// it, and its identity key, if the site may join. Every error matches
// [core.ErrInvalidURL], and its text may be shown to the caller.
func (p SitePolicy) Canonical(raw string) (url, key string, err error) {
	url, key, err = spell(raw)
	if err != nil {
		return "", "", err
	}
	if err := p.admit(url); err != nil {
		return "", "", err
	}
	return url, key, nil
}

// spell is [core.AppendURL] and [core.AppendKey] for what people write: the
// text is brought to NFC and trimmed, the host name converted to A-labels.
func spell(raw string) (url, key string, err error) {
	if !utf8.ValidString(raw) {
		return "", "", errSiteUTF8
	}
	raw = strings.TrimFunc(norm.NFC.String(raw), unicode.IsSpace)
	// The limit is on what was sent too, fragment and U-labels included.
	if codePoints(raw) > core.MaxURL {
		return "", "", core.ErrURLTooLong
	}
	for _, r := range raw {
		switch {
		case unicode.Is(unicode.Cc, r):
			return "", "", core.ErrURLControl
		case unicode.Is(unicode.Cf, r):
			return "", "", errSiteInvisible
		case unicode.IsSpace(r):
			return "", "", core.ErrURLSpace
		}
	}
	if raw, err = asciiHost(raw); err != nil {
		return "", "", err
	}
	canonical, err := core.AppendURL(nil, []byte(raw))
	if err != nil {
		return "", "", err
	}
	return string(canonical), string(core.AppendKey(nil, canonical)), nil
}

// asciiHost replaces the host name in raw by its A-labels. Where raw has no
// host name it stays as it is, for [core.AppendURL] to say what is wrong.
func asciiHost(raw string) (string, error) {
	head, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsAny(head, "/?#") {
		return raw, nil
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
		return raw, nil
	}
	ascii, err := hostNames.ToASCII(host)
	// What the conversion made must be a name by itself: no mapped character
	// may turn into a delimiter, no label may decode to another host's.
	if err != nil || !isHostName(strings.TrimSuffix(ascii, ".")) {
		return "", core.ErrURLHost
	}
	if again, err := hostNames.ToASCII(ascii); err != nil || again != ascii {
		return "", core.ErrURLHost
	}
	return head + "://" + ascii + port + tail, nil
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
	case endsInNumber(host):
		return errSiteIP
	case !strings.Contains(host, "."):
		return errSiteLabel
	case port != "" && port != "80" && port != "443":
		return errSitePort
	case p.admitted(host):
		return nil
	case slices.ContainsFunc(reservedNames, func(name string) bool { return isOrBelow(host, name) }):
		return errSiteReserved
	case !belowPublicSuffix(host):
		return errSiteSuffix
	}
	return nil
}

// admitted reports whether the operator named host, which is canonical.
func (p SitePolicy) admitted(host string) bool {
	for _, pattern := range p.AllowHosts {
		pattern = strings.ToLower(pattern)
		if parent, ok := strings.CutPrefix(pattern, "*."); ok {
			if host != parent && isOrBelow(host, parent) {
				return true
			}
		} else if host == pattern {
			return true
		}
	}
	return false
}

// belowPublicSuffix reports whether host is a name under a suffix that ICANN
// delegated. Suffixes that companies entered in the list (github.io) lie below
// such a one and are sites themselves, so they count as names.
func belowPublicSuffix(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	if icann {
		return suffix != host
	}
	// Without a dot, the suffix is the fallback for unknown top-level names.
	return strings.Contains(suffix, ".")
}

// endsInNumber reports whether browsers would read host as an IPv4 address, or
// fail at trying (URL Standard, "ends in a number checker").
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// isOrBelow reports whether host is name or a name below it.
func isOrBelow(host, name string) bool {
	rest, ok := strings.CutSuffix(host, name)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// isHostName reports whether s is made of labels of ASCII letters, digits and
// hyphens. Lengths are [core.AppendURL]'s business.
func isHostName(s string) bool {
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
