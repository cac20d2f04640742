package core

import (
	"errors"
	"strings"
	"testing"
)

func canonical(t *testing.T, raw string) string {
	t.Helper()
	got, err := AppendURL(nil, []byte(raw))
	if err != nil {
		t.Fatalf("AppendURL(%q): %v", raw, err)
	}
	return string(got)
}

func TestCanonicalURLKeepsWhatMembersSeeAndNormalisesTheRest(t *testing.T) {
	for _, c := range []struct{ rule, raw, want string }{
		{"scheme kept", "http://a.com/x", "http://a.com/x"},
		{"scheme lower-cased", "HTTPS://a.com/x", "https://a.com/x"},
		{"host lower-cased, path not", "https://A.Com/Foo", "https://a.com/Foo"},
		{"www. kept", "https://www.a.com/", "https://www.a.com/"},
		{"no path stays none", "https://a.com", "https://a.com"},
		{"path slash kept", "https://a.com/foo/", "https://a.com/foo/"},
		{"index.html kept", "https://a.com/foo/index.html", "https://a.com/foo/index.html"},
		{"root dot dropped", "https://a.com./x", "https://a.com/x"},
		{"default https port dropped", "https://a.com:443/", "https://a.com/"},
		{"default http port dropped", "http://a.com:80", "http://a.com"},
		{"empty port dropped", "http://a.com:/", "http://a.com/"},
		{"leading zeros of a port dropped", "http://a.com:0080/", "http://a.com/"},
		{"other port kept", "https://a.com:80/", "https://a.com:80/"},
		{"highest port", "https://a.com:65535/", "https://a.com:65535/"},
		{"port with inner zeros", "https://a.com:10010/", "https://a.com:10010/"},
		{"fragment dropped", "https://a.com/x#y?z/..", "https://a.com/x"},
		{"fragment without path dropped", "https://a.com#x", "https://a.com"},
		{"query kept", "https://a.com/x?q=1&r=/../", "https://a.com/x?q=1&r=/../"},
		{"query without path kept", "https://a.com?q", "https://a.com?q"},
		{"empty query kept", "https://a.com/?", "https://a.com/?"},
		{"question mark in query", "https://a.com/?a?b", "https://a.com/?a?b"},
		{"single dot", "https://a.com/./b/./c", "https://a.com/b/c"},
		{"single dot at the end", "https://a.com/b/.", "https://a.com/b/"},
		{"double dot", "https://a.com/a/b/../c", "https://a.com/a/c"},
		{"double dot at the end", "https://a.com/a/b/..", "https://a.com/a/"},
		{"double dot above the root", "https://a.com/../../a", "https://a.com/a"},
		{"only double dot", "https://a.com/..", "https://a.com/"},
		{"double dot and empty segment", "https://a.com/a//../b", "https://a.com/a/b"},
		{"three dots are a name", "https://a.com/.../b", "https://a.com/.../b"},
		{"RFC 3986 5.2.4", "https://a.com/a/b/c/./../../g", "https://a.com/a/g"},
		{"escaped dots are dots", "https://a.com/a/%2e%2E/b/%2e", "https://a.com/b/"},
		{"empty segments kept", "https://a.com//a//", "https://a.com//a//"},
		{"escape of unreserved decoded", "https://a.com/%7Efoo%2d%41", "https://a.com/~foo-A"},
		{"escape of reserved kept, in capitals", "https://a.com/a%2fb?c%3dd", "https://a.com/a%2Fb?c%3Dd"},
		{"escaped percent stays escaped", "https://a.com/%2541", "https://a.com/%2541"},
		{"non-ASCII escaped", "https://a.com/ü?ü", "https://a.com/%C3%BC?%C3%BC"},
		{"composed letters stay so", "https://a.com/caf\u00e9", "https://a.com/caf%C3%A9"},
		{"decomposed letters stay so", "https://a.com/cafe\u0301", "https://a.com/cafe%CC%81"},
		{"escaped letters are the letters", "https://a.com/caf%c3%a9/cafe%cc%81", "https://a.com/caf%C3%A9/cafe%CC%81"},
		{"broken UTF-8 escaped", "https://a.com/\xff", "https://a.com/%FF"},
		{"forbidden ASCII escaped", "https://a.com/a[b]|{}^`\"<>?[]", "https://a.com/a%5Bb%5D%7C%7B%7D%5E%60%22%3C%3E?%5B%5D"},
		{"sub-delimiters kept", "https://a.com/!$&'()*+,;=:@?!$&'()*+,;=:@/", "https://a.com/!$&'()*+,;=:@?!$&'()*+,;=:@/"},
		{"IPv4", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/"},
		{"IPv6", "http://[2001:DB8::1]:80/", "http://[2001:db8::1]/"},
		{"IPv6 with port", "http://[::1]:8080", "http://[::1]:8080"},
		{"underscore", "https://my_site.a.com/", "https://my_site.a.com/"},
		{"A-label", "https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"},
	} {
		if got := canonical(t, c.raw); got != c.want {
			t.Errorf("%s: AppendURL(%q) = %q, want %q", c.rule, c.raw, got, c.want)
		}
	}
}

func TestCanonicalURLRefusesWithTheReason(t *testing.T) {
	label := strings.Repeat("a", 63)
	for _, c := range []struct {
		raw  string
		want error
	}{
		{"", ErrURLRelative},
		{"a.com", ErrURLRelative},
		{"/foo", ErrURLRelative},
		{"//a.com/foo", ErrURLRelative},
		{"?x:y", ErrURLRelative},
		{"://a.com", ErrURLRelative},
		{"1http://a.com", ErrURLRelative},
		{"ftp://a.com/", ErrURLScheme},
		{"javascript:alert(1)", ErrURLScheme},
		{"httpss://a.com/", ErrURLScheme},
		{"a.com:80", ErrURLScheme},
		{"https:a.com", ErrURLNoHost},
		{"https:/a.com", ErrURLNoHost},
		{"https://", ErrURLNoHost},
		{"https:///foo", ErrURLNoHost},
		{"https://:443/", ErrURLNoHost},
		{"https://?x", ErrURLNoHost},
		{"https://user@a.com/", ErrURLUserinfo},
		{"https://user:pass@a.com/", ErrURLUserinfo},
		{"https://@a.com/", ErrURLUserinfo},
		{"https://a.com:80@b.com/", ErrURLUserinfo},
		{"https://a.com/a b", ErrURLSpace},
		{" https://a.com/", ErrURLSpace},
		{"https://a.com/\n", ErrURLControl},
		{"https://a.com/\x00", ErrURLControl},
		{"https://a.com/#\x7f", ErrURLControl},
		{"https://a.com\\@b.com/", ErrURLBackslash},
		{"https:\\\\a.com", ErrURLBackslash},
		{"https://bücher.example/", ErrURLHost},
		{"https://a\xff.com/", ErrURLHost},
		{"https://a%2ecom/", ErrURLHost},
		{"https://./", ErrURLHost},
		{"https://.a.com/", ErrURLHost},
		{"https://a..com/", ErrURLHost},
		{"https://a.com../", ErrURLHost},
		{"https://a,com/", ErrURLHost},
		{"https://" + label + "a.com/", ErrURLHost},
		{"https://" + label + "." + label + "." + label + "." + label + "/", ErrURLHost},
		{"https://[::1/", ErrURLHost},
		{"https://[::1]x/", ErrURLHost},
		{"https://[]/", ErrURLHost},
		{"https://[1]/", ErrURLHost},
		{"https://[fe80::1%25eth0]/", ErrURLHost},
		{"https://[::g]/", ErrURLHost},
		{"https://::1/", ErrURLHost},
		{"https://a.com:0/", ErrURLPort},
		{"https://a.com:65536/", ErrURLPort},
		{"https://a.com:99999999999999999999/", ErrURLPort},
		{"https://a.com:8o/", ErrURLPort},
		{"https://a.com:80:80/", ErrURLPort},
		{"https://a.com:-1/", ErrURLPort},
		{"https://[::1]:x/", ErrURLPort},
		{"https://a.com/%", ErrURLEscape},
		{"https://a.com/%4", ErrURLEscape},
		{"https://a.com/%zz", ErrURLEscape},
		{"https://a.com/?%4g", ErrURLEscape},
	} {
		got, err := AppendURL([]byte("kept"), []byte(c.raw))
		if c.raw == "https://::1/" {
			// Without brackets the first colon ends an empty host.
			c.want = ErrURLNoHost
		}
		if err != c.want || !errors.Is(err, ErrInvalidURL) {
			t.Errorf("AppendURL(%q): error %v, want %v", c.raw, err, c.want)
		}
		if string(got) != "kept" {
			t.Errorf("AppendURL(%q) changed dst to %q on error", c.raw, got)
		}
	}
}

func TestURLLengthCountsCodePointsBeforeAndAfter(t *testing.T) {
	const origin = "https://a.com/"
	fill := func(n int, s string) string { return origin + strings.Repeat(s, n-len(origin)) }

	if got := canonical(t, fill(300, "x")); len(got) != 300 {
		t.Errorf("300 characters became %d", len(got))
	}
	for name, raw := range map[string]string{
		"301 characters":                        fill(301, "x"),
		"301 code points, shorter without #":    origin + "#" + strings.Repeat("ü", 300-len(origin)),
		"100 code points that escape to 530":    fill(100, "ü"),
		"a megabyte":                            fill(1<<20, "x"),
		"301 characters, fewer once normalised": fill(301, "/.")[:301],
	} {
		if _, err := AppendURL(nil, []byte(raw)); err != ErrURLTooLong {
			t.Errorf("%s: error %v, want %v", name, err, ErrURLTooLong)
		}
	}
	if got := canonical(t, fill(61, "ü")); len(got) > 300 {
		t.Errorf("canonical spelling has %d bytes", len(got))
	}
}

func TestKeyDropsWhatDoesNotCount(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"https://a.com", "a.com"},
		{"http://a.com/", "a.com"},
		{"https://www.a.com/", "a.com"},
		{"https://a.com/index.html", "a.com"},
		{"https://a.com/foo", "a.com/foo"},
		{"https://a.com/foo/", "a.com/foo"},
		{"https://a.com/foo/index.html", "a.com/foo"},
		{"https://a.com/foo//", "a.com/foo/"},
		{"https://a.com/foo/index.html/", "a.com/foo/index.html"},
		{"https://a.com/fooindex.html", "a.com/fooindex.html"},
		{"https://a.com/foo/INDEX.html", "a.com/foo/INDEX.html"},
		{"https://a.com?q=1", "a.com?q=1"},
		{"https://a.com/?q=1", "a.com?q=1"},
		{"https://a.com/foo/index.html?q=/index.html", "a.com/foo?q=/index.html"},
		{"https://a.com/?q=1/", "a.com?q=1/"},
		{"https://a.com/?", "a.com"},
		{"https://a.com:80/foo/", "a.com:80/foo"},
		{"http://a.com:80/foo/", "a.com/foo"},
		{"https://www.com/", "www.com"},
		{"https://www.com/a.b", "www.com/a.b"},
		{"https://www.www.com/", "www.com"},
		{"https://wwww.a.com/", "wwww.a.com"},
		{"https://a.com/www.b.com", "a.com/www.b.com"},
		{"https://[::1]:8080/x/", "[::1]:8080/x"},
	} {
		if got := string(AppendKey(nil, []byte(canonical(t, c.url)))); got != c.want {
			t.Errorf("key of %q = %q, want %q", c.url, got, c.want)
		}
	}
}

func TestKeyHostIsTheHostWithoutPort(t *testing.T) {
	for key, want := range map[string]string{
		"":                "",
		"a.com":           "a.com",
		"a.com:80":        "a.com",
		"a.com:80/x":      "a.com",
		"a.com/x:y":       "a.com",
		"a.com?x:/":       "a.com",
		"[::1]:80/x":      "[::1]",
		"[::1]":           "[::1]",
		"[::1":            "[",
		"a.com/[b]":       "a.com",
		"xn--bcher-kva.x": "xn--bcher-kva.x",
	} {
		if got := string(KeyHost([]byte(key))); got != want {
			t.Errorf("KeyHost(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestKeyIsCutAtPathSegments(t *testing.T) {
	walk := func(url string) string {
		key := AppendKey(nil, []byte(canonical(t, url)))
		steps := []string{string(key)}
		for {
			shorter, ok := KeyParent(key)
			if !ok {
				return strings.Join(steps, " < ")
			}
			key = shorter
			steps = append(steps, string(key))
		}
	}
	for _, c := range []struct{ url, want string }{
		{"https://a.com/", "a.com"},
		{"https://a.com/foo/", "a.com/foo < a.com"},
		{"https://a.com/foobar", "a.com/foobar < a.com"},
		{"https://a.com/foo/bar/index.html", "a.com/foo/bar < a.com/foo < a.com"},
		{"https://a.com/foo?q=a/b?c", "a.com/foo?q=a/b?c < a.com/foo < a.com"},
		{"https://a.com?q=/", "a.com?q=/ < a.com"},
		{"https://a.com/foo//bar", "a.com/foo//bar < a.com/foo/ < a.com/foo < a.com"},
		{"https://a.com:8080/x", "a.com:8080/x < a.com:8080"},
		{"https://a.com/a%2Fb", "a.com/a%2Fb < a.com"},
	} {
		if got := walk(c.url); got != c.want {
			t.Errorf("%s is cut as %s, want %s", c.url, got, c.want)
		}
	}
}

func TestURLFunctionsDoNotAllocateIntoARoomyBuffer(t *testing.T) {
	raw := []byte("HTTPS://WWW.a.com:8443/a/../%7e/ü/index.html?x=[1]#f")
	url, key := make([]byte, 0, 512), make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() {
		url, _ = AppendURL(url[:0], raw)
		key = AppendKey(key[:0], url)
		KeyHost(key)
		KeyParent(key)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = AppendURL(url[:0], raw[5:]) }); n != 0 {
		t.Errorf("%v allocations on error", n)
	}
}

func FuzzAppendURL(f *testing.F) {
	for _, s := range []string{
		"https://a.com/foo/../%2e%2e/b?x#y", "HTTP://WWW.A.COM.:0443/index.html?", "http://[::1%25x]:80/",
		"https://a.com/%41%2f\xff/ü", "https://www.www.com//..//.", "a.com", "https://a.com:80@b\\c",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := AppendURL(nil, raw)
		if err != nil {
			if len(once) != 0 || !errors.Is(err, ErrInvalidURL) {
				t.Fatalf("AppendURL(%q) = %q, %v", raw, once, err)
			}
			return
		}
		if len(once) > 300 {
			t.Fatalf("%q has the canonical spelling %q of %d bytes", raw, once, len(once))
		}
		for _, c := range once {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q has the canonical spelling %q", raw, once)
			}
		}
		twice, err := AppendURL(nil, once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("not idempotent: %q, then %q, then %q, %v", raw, once, twice, err)
		}

		key := AppendKey(nil, once)
		if len(KeyHost(key)) == 0 {
			t.Fatalf("%q has the key %q without a host", once, key)
		}
		// A key is a URL without its scheme: read as one, it names itself,
		// unless it is one of the few that shorten again.
		scheme := once[:strings.Index(string(once), "://")+3]
		again, err := AppendURL(nil, append(scheme[:len(scheme):len(scheme)], key...))
		if err != nil {
			t.Fatalf("%q has the key %q, which is no URL: %v", once, key, err)
		}
		if string(KeyHost(key)) != string(KeyHost(again[len(scheme):])) {
			t.Fatalf("%q has the key %q, read again as %q", once, key, again)
		}
		for shorter, ok := KeyParent(key); ok; shorter, ok = KeyParent(shorter) {
			if !strings.HasPrefix(string(key), string(shorter)) || len(shorter) >= len(key) ||
				string(KeyHost(shorter)) != string(KeyHost(key)) {
				t.Fatalf("%q is cut to %q", key, shorter)
			}
			key = shorter
		}
	})
}
