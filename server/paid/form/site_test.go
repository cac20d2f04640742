package form

import (
	"errors"
	"strings"
	"testing"

	"webring/core"
	"webring/server/sites/fetch"
)

func TestSitesThatMayJoin(t *testing.T) {
	for _, c := range []struct{ rule, raw, url, key string }{
		{"as it is", "https://acme.com/agent", "https://acme.com/agent", "acme.com/agent"},
		{"trimmed", " \thttps://acme.com/\n\u3000", "https://acme.com/", "acme.com"},
		{"UTS 46 lower-cases and converts", "https://BÜCHER.de/", "https://xn--bcher-kva.de/", "xn--bcher-kva.de"},
		{"host given decomposed", "https://bu\u0308cher.de/", "https://xn--bcher-kva.de/", "xn--bcher-kva.de"},
		{"host given with escapes", "https://b%C3%BCcher.de/k%C3%A4se", "https://xn--bcher-kva.de/k%C3%A4se", "xn--bcher-kva.de/k%C3%A4se"},
		{"A-label stays", "https://xn--bcher-kva.de/", "https://xn--bcher-kva.de/", "xn--bcher-kva.de"},
		{"not transitional: ß is a letter", "https://faß.de/", "https://xn--fa-hia.de/", "xn--fa-hia.de"},
		{"full-width letters and stops", "https://ａｃｍｅ。com/", "https://acme.com/", "acme.com"},
		{"hyphens in the third place", "https://r3---sn.acme.com/", "https://r3---sn.acme.com/", "r3---sn.acme.com"},
		{"path decomposed", "https://acme.com/u\u0308", "https://acme.com/u%CC%88", "acme.com/u%CC%88"},
		{"path decomposed, escaped", "https://acme.com/u%cc%88", "https://acme.com/u%CC%88", "acme.com/u%CC%88"},
		{"path composed", "https://acme.com/\u00fc", "https://acme.com/%C3%BC", "acme.com/%C3%BC"},
		{"query decomposed", "https://acme.com/?q=u\u0308", "https://acme.com/?q=u%CC%88", "acme.com?q=u%CC%88"},
		{"a sign that NFC replaces", "https://acme.com/\u212b\u2126\uf900", "https://acme.com/%E2%84%AB%E2%84%A6%EF%A4%80", "acme.com/%E2%84%AB%E2%84%A6%EF%A4%80"},
		{"Hangul in parts", "https://acme.com/\u1112\u1161\u11ab", "https://acme.com/%E1%84%92%E1%85%A1%E1%86%AB", "acme.com/%E1%84%92%E1%85%A1%E1%86%AB"},
		{"host and path decomposed", "https://bu\u0308cher.de/u\u0308", "https://xn--bcher-kva.de/u%CC%88", "xn--bcher-kva.de/u%CC%88"},
		{"a joiner in a path", "https://acme.com/\u0645\u06cc\u200c\u062e", "https://acme.com/%D9%85%DB%8C%E2%80%8C%D8%AE", "acme.com/%D9%85%DB%8C%E2%80%8C%D8%AE"},
		{"port 80 of https", "https://acme.com:80/", "https://acme.com:80/", "acme.com:80"},
		{"default port", "http://acme.com:80/", "http://acme.com/", "acme.com"},
		{"root dot", "https://www.acme.co.uk./", "https://www.acme.co.uk/", "acme.co.uk"},
		{"below a company's suffix", "https://me.github.io/", "https://me.github.io/", "me.github.io"},
		{"a company's suffix itself", "https://github.io/", "https://github.io/", "github.io"},
		{"a suffix as part of a name", "https://test.com/", "https://test.com/", "test.com"},
		{"a reserved word as part of a name", "https://myexample.com/", "https://myexample.com/", "myexample.com"},
		{"localhost below a suffix", "https://localhost.acme.com/", "https://localhost.acme.com/", "localhost.acme.com"},
		{"numbers below a name", "https://1.2.3.4.acme.com/", "https://1.2.3.4.acme.com/", "1.2.3.4.acme.com"},
	} {
		url, key, err := SitePolicy{}.Canonical(c.raw)
		if err != nil || url != c.url || key != c.key {
			t.Errorf("%s: Canonical(%q) = %q, %q, %v, want %q, %q", c.rule, c.raw, url, key, err, c.url, c.key)
			continue
		}
		if again, _, err := (SitePolicy{}).Canonical(url); err != nil || again != url {
			t.Errorf("%s: Canonical(%q) = %q, %v", c.rule, url, again, err)
		}
	}
}

func TestSitesThatMayNotJoin(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want error
	}{
		{"", core.ErrURLRelative},
		{"acme.com", core.ErrURLRelative},
		{"/path?x=https://acme.com", core.ErrURLRelative},
		{"ftp://acme.com/", core.ErrURLScheme},
		{"https://u:p@acme.com/", core.ErrURLUserinfo},
		{"https://ü@acme.com/", core.ErrURLUserinfo},
		{"https://a\x01cme.com/", core.ErrURLControl},
		{"https://acme.com/\u0085x", core.ErrURLControl},
		{"https://acme.com/a b", core.ErrURLSpace},
		{"https://acme.com/a\u3000b", core.ErrURLSpace},
		{"https://acme.com/\u202egpj.exe", errSiteInvisible},
		{"https://ac\u00adme.com/", errSiteInvisible},
		{"https://ac\u200dme.com/", core.ErrURLHost},
		{"https://acme.com/\xff", errSiteUTF8},
		{"https:///x", core.ErrURLNoHost},
		{"https://acme.com:0/", core.ErrURLPort},
		{"https://acme.com/%zz", core.ErrURLEscape},
		{"https://acme.com\\@b.com/", core.ErrURLBackslash},

		{"https://ac_me.com/", core.ErrURLHost},
		{"https://ac／me.com/", core.ErrURLHost},
		{"https://acme．．com/", core.ErrURLHost},
		{"https://acme％2ecom/", core.ErrURLHost},
		{"https://acme%2f.com/", core.ErrURLHost},
		{"https://acme%00.com/", core.ErrURLHost},
		{"https://acme%ff.com/", core.ErrURLHost},
		{"https://acme%zz.com/", core.ErrURLHost},
		{"https://xn--a.com/", core.ErrURLHost},
		{"https://xn--example-.com/", core.ErrURLHost},
		{"https://a.xn--.com/", core.ErrURLHost},
		{"https://xn--99zzzz.com/", core.ErrURLHost},
		{"https://" + strings.Repeat("ü", 60) + ".com/", core.ErrURLHost},

		{"https://127.0.0.1/", errSiteIP},
		{"https://1.1.1.1./", errSiteIP},
		{"https://%31%32%37.0.0.1/", errSiteIP},
		{"https://①②⑦.⓪.⓪.①/", errSiteIP},
		{"https://１２７。1/", errSiteIP},
		{"https://2130706433/", errSiteIP},
		{"https://0x7f000001/", errSiteIP},
		{"https://0x7f.1/", errSiteIP},
		{"https://acme.0x/", errSiteIP},
		{"https://acme.com.09/", errSiteIP},
		{"https://[::1]/", errSiteIP},
		{"https://[::ffff:127.0.0.1]:443/", errSiteIP},

		{"https://acme.com:8443/", errSitePort},
		{"https://acme.com:81/", errSitePort},
		{"https://acme/", errSiteLabel},
		{"https://localhost/", errSiteLabel},
		{"https://com/", errSiteLabel},

		{"https://a.localhost/", errSiteReserved},
		{"https://printer.local/", errSiteReserved},
		{"https://vault.internal/", errSiteReserved},
		{"https://a.test/", errSiteReserved},
		{"https://a.invalid/", errSiteReserved},
		{"https://a.b.example/", errSiteReserved},
		{"https://example.com/", errSiteReserved},
		{"https://www.example.org/", errSiteReserved},
		{"https://expyuzz4wqqyqhjn.onion/", errSiteReserved},
		{"https://router.home.arpa/", errSiteReserved},
		{"https://1.in-addr.arpa/", errSiteReserved},
		{"https://a.alt/", errSiteReserved},

		{"https://nas.lan/", errSiteSuffix},
		{"https://a.nosuchsuffix/", errSiteSuffix},
		{"https://co.uk/", errSiteSuffix},
		{"https://www.ck.nosuch/", errSiteSuffix},
	} {
		url, key, err := SitePolicy{}.Canonical(c.raw)
		if err != c.want || !errors.Is(err, core.ErrInvalidURL) || url != "" || key != "" {
			t.Errorf("Canonical(%q) = %q, %q, %v, want %v", c.raw, url, key, err, c.want)
		}
	}
}

func TestSiteURLHas300CodePoints(t *testing.T) {
	fill := func(origin, s string, n int) string { return origin + strings.Repeat(s, n-codePoints(origin)) }
	if url, _, err := (SitePolicy{}).Canonical(fill("https://acme.com/", "x", 300)); err != nil || len(url) != 300 {
		t.Errorf("300 code points: %d bytes, %v", len(url), err)
	}
	for name, raw := range map[string]string{
		"301":                             fill("https://acme.com/", "x", 301),
		"301 with a fragment":             fill("https://acme.com/#", "x", 301),
		"300 that become more by A-label": fill("https://bücher.de/", "x", 300),
		"60 that become more by escapes":  fill("https://acme.com/", "\U0001F600", 60),
	} {
		if _, _, err := (SitePolicy{}).Canonical(raw); err != core.ErrURLTooLong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAllowHostAdmitsNamesBelowItsPattern(t *testing.T) {
	p := SitePolicy{AllowHosts: []string{"*.test", "exact.internal", "*.Shop.Local", "*.1", "mapped.lan"}}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		raw  string
		want error
	}{
		{"https://a.test/", nil},
		{"https://c.b.a.test/", nil},
		{"https://A.TEST/", nil},
		{"https://exact.internal/", nil},
		{"https://x.shop.local/", nil},
		{"http://mapped.lan/", nil},
		{"https://acme.com/", nil},
		{"https://test/", errSiteLabel},
		{"https://atest/", errSiteLabel},
		{"https://a.notest/", errSiteSuffix},
		{"https://www.exact.internal/", errSiteReserved},
		{"https://shop.local/", errSiteReserved},
		{"https://a.mapped.lan/", errSiteSuffix},
		{"https://127.0.0.1/", errSiteIP},
		{"https://①②⑦.⓪.⓪.①/", errSiteIP},
		{"https://a.test:8080/", errSitePort},
		{"https://u@a.test/", core.ErrURLUserinfo},
	} {
		if _, _, err := p.Canonical(c.raw); err != c.want {
			t.Errorf("Canonical(%q): %v, want %v", c.raw, err, c.want)
		}
	}
}

func TestSitePolicyRefusesPatternsThatAdmitNothing(t *testing.T) {
	for _, pattern := range []string{"", "*", "*.", "a.*.test", "**.test", ".test", "a.test:80", "https://a.test", "bücher.test", "*test"} {
		if (SitePolicy{AllowHosts: []string{pattern}}).Validate() == nil {
			t.Errorf("allowed host %q passed", pattern)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"https://BÜCHER.de/ü?x#y", "http://①②⑦.⓪.⓪.①/", "https://xn--a.com", "https://a／b.com", "https://u@a.test:80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p := SitePolicy{AllowHosts: []string{"*.test"}}
		url, key, err := p.Canonical(raw)
		if err != nil {
			if !errors.Is(err, core.ErrInvalidURL) {
				t.Fatalf("Canonical(%q): %v", raw, err)
			}
			return
		}
		again, same, err := p.Canonical(url)
		if err != nil || again != url || same != key {
			t.Fatalf("Canonical(%q) = %q, %q; again %q, %q, %v", raw, url, key, again, same, err)
		}
		if host := string(core.KeyHost([]byte(key))); !strings.Contains(host, ".") || fetch.EndsInNumber(host) {
			t.Fatalf("Canonical(%q) admits the host %q", raw, host)
		}
	})
}
