package idn_test

import (
	"strings"
	"testing"

	"webring/edge/idn"
)

func TestNamesAreConvertedAsBrowsersDo(t *testing.T) {
	for host, want := range map[string]string{
		"a.com": "a.com", "WWW.A.com": "www.a.com", "a.com.": "a.com.", "bücher.example": "xn--bcher-kva.example",
		"faß.de": "xn--fa-hia.de", "ab--c.com": "ab--c.com", "①②⑦.⓪.⓪.①": "127.0.0.1", "a。b": "a.b",
		"": "", ".": "", "a..b": "", ".a": "", "a_b.com": "", "a b": "", "a/b": "", "a℀b.com": "", "a@b": "", "xn--a.com": "", "[::1]": "",
		strings.Repeat("ü", 300) + ".com": "",
	} {
		if got, ok := idn.ToASCII(host); ok != (want != "") || ok && got != want {
			t.Errorf("%q becomes %q %t, want %q", host, got, ok, want)
		}
	}
}

func TestTheHostOfAURLIsConverted(t *testing.T) {
	for raw, want := range map[string]string{
		"https://bücher.de/käse?q=ü#x": "https://xn--bcher-kva.de/käse?q=ü#x", "HTTP://BÜCHER.de:8080": "HTTP://xn--bcher-kva.de:8080",
		"https://b%C3%BCcher.de/k%C3%A4se": "https://xn--bcher-kva.de/k%C3%A4se", "https://%41%2ecom?x": "https://a.com?x",
		"https://bücher.de?http://käse.de": "https://xn--bcher-kva.de?http://käse.de",
		// There is none.
		"": "", "bücher.de": "bücher.de", "/x?u=https://bücher.de": "/x?u=https://bücher.de", "https:///ü": "https:///ü", "ü@bücher.de": "ü@bücher.de",
		"https://ü@bücher.de/": "https://ü@bücher.de/", "https://[::ü]/": "https://[::ü]/", "mailto:ü": "mailto:ü",
	} {
		if got, ok := idn.URL(raw); !ok || got != want {
			t.Errorf("%q becomes %q %t, want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"https://a_b.com", "https://a%2Fb.com/", "https://a%00.com", "https://a%", "https://%ff.com", "https://a％2fb.com", "https://a%25.com", "http://a b"} {
		if got, ok := idn.URL(raw); ok {
			t.Errorf("%q becomes %q", raw, got)
		}
	}
}

func TestReferencesAreURLsAndBareNames(t *testing.T) {
	for ref, want := range map[string]string{
		"bücher.de": "xn--bcher-kva.de", "Bu\u0308cher.de.": "xn--bcher-kva.de.", "www。bücher．de": "www.xn--bcher-kva.de", "b%C3%BCcher.de": "xn--bcher-kva.de",
		"https://BÜCHER.de/ü": "https://xn--bcher-kva.de/ü",
		"bücher.de/ü?ü":       "xn--bcher-kva.de/ü?ü", "b%C3%BCcher.de:80": "xn--bcher-kva.de:80", "www.bücher.de#x": "www.xn--bcher-kva.de#x",
		// What is not a host name with a dot names no member.
		"": "", "ａｌｐｈａ": "ａｌｐｈａ", "bücher": "bücher", "ü @b.de": "ü @b.de",
		"https://ü_ü.de/": "https://ü_ü.de/", "a％2fb.de": "a％2fb.de", "bücher/x.de": "bücher/x.de", "/bücher.de": "/bücher.de", "//bücher.de/": "//bücher.de/", "x@bücher.de/": "x@bücher.de/",
	} {
		if got := idn.Reference(ref); got != want {
			t.Errorf("%q becomes %q, want %q", ref, got, want)
		}
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"https://bücher.de/ü?x#y", "b%C3%BCcher.de", "①②⑦.⓪.⓪.①", "xn--a.com", "https://a／b.com", "https://u@ü.test:80", "http://%", "bücher.de/ü", "ü.de:80?x://y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		once := idn.Reference(ref)
		if twice := idn.Reference(once); twice != once {
			t.Errorf("%q becomes %q, and that %q", ref, once, twice)
		}
	})
}
