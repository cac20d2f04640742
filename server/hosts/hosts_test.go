package hosts_test

import (
	"testing"

	"webring/server/hosts"
)

func TestNamesAreConvertedAsBrowsersDo(t *testing.T) {
	for host, want := range map[string]string{
		"a.com": "a.com", "WWW.A.com": "www.a.com", "a.com.": "a.com.", "bücher.example": "xn--bcher-kva.example",
		"faß.de": "xn--fa-hia.de", "ab--c.com": "ab--c.com", "①②⑦.⓪.⓪.①": "127.0.0.1", "a。b": "a.b",
		"": "", ".": "", "a..b": "", ".a": "", "a_b.com": "", "a b": "", "a/b": "", "a℀b.com": "", "a@b": "", "xn--a.com": "", "[::1]": "",
	} {
		if got, ok := hosts.ToASCII(host); ok != (want != "") || ok && got != want {
			t.Errorf("%q becomes %q %t, want %q", host, got, ok, want)
		}
	}
}

func TestNumbersAreNoNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "1.0x7f": true, "1": true, "0x": true, "a.1": true,
		"1.a": false, "a.b1": false, "0x.com": false, "a.0xg": false,
	} {
		if hosts.EndsInNumber(host) != want {
			t.Errorf("%s ends in a number: %t", host, !want)
		}
	}
}

func TestPublicNamesLieBelowASuffix(t *testing.T) {
	for host, want := range map[string]bool{
		"a.com": true, "a.co.uk": true, "x.github.io": true, "github.io": true,
		"com": false, "co.uk": false, "a.nowhere": false, "localhost": false,
	} {
		if hosts.Public(host) != want {
			t.Errorf("%s is public: %t", host, !want)
		}
	}
}

func TestPatternsStandForOneNameOrAllBelow(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"a.b", "a.b", true}, {"A.b", "a.b", true}, {"a.b", "x.a.b", false},
		{"*.A.b", "x.a.b", true}, {"*.a.b", "y.x.a.b", true}, {"*.a.b", "a.b", false}, {"*.a.b", "xa.b", false},
	} {
		if hosts.Matches(c.pattern, c.host) != c.want {
			t.Errorf("%s stands for %s: %t", c.pattern, c.host, !c.want)
		}
	}
}
