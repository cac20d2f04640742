package fetch_test

import (
	"testing"

	"webring/server/sites/fetch"
)

func TestNumbersAreNoNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "1.0x7f": true, "1": true, "0x": true, "a.1": true,
		"1.a": false, "a.b1": false, "0x.com": false, "a.0xg": false,
	} {
		if fetch.EndsInNumber(host) != want {
			t.Errorf("%s ends in a number: %t", host, !want)
		}
	}
}

func TestPublicNamesLieBelowASuffix(t *testing.T) {
	for host, want := range map[string]bool{
		"a.com": true, "a.co.uk": true, "x.github.io": true, "github.io": true,
		"com": false, "co.uk": false, "a.nowhere": false, "localhost": false,
	} {
		if fetch.PublicHost(host) != want {
			t.Errorf("%s is public: %t", host, !want)
		}
	}
}

func TestDomainsAreWhatCanBeRegistered(t *testing.T) {
	for host, want := range map[string]string{
		"a.com": "a.com", "b.a.com": "a.com", "c.b.a.com": "a.com", "a.co.uk": "a.co.uk", "b.a.co.uk": "a.co.uk",
		"x.github.io": "x.github.io", "y.x.github.io": "x.github.io", "github.io": "github.io", "xn--bcher-kva.de": "xn--bcher-kva.de",
		"a.b.test": "a.b.test", "b.test": "b.test", "com": "com", "localhost": "localhost", "": "",
	} {
		if got := fetch.Domain(host); got != want {
			t.Errorf("%s lies on %s, want %s", host, got, want)
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
		if fetch.MatchHost(c.pattern, c.host) != c.want {
			t.Errorf("%s stands for %s: %t", c.pattern, c.host, !c.want)
		}
	}
}
