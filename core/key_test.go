package core

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// What the quick look at a URL takes, the long one writes as it stands.
func FuzzPlainURLsAreCanonical(f *testing.F) {
	for _, s := range []string{"https://a.com", "http://a.com/", "https://a.com/x/../y", "https://a..com/", "https://a.com/.x", "https://-/~", "https:///", "httpx://a", "https://a.com./"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if !isPlainURL(url) {
			return
		}
		if canonical, err := AppendURL(nil, []byte(url)); err != nil || string(canonical) != url {
			t.Fatalf("%q is taken for canonical, and is %q, %v", url, canonical, err)
		}
	})
}

// The same for URLs at the limits and from a small alphabet; and most URLs of
// members are plain.
func TestPlainURLsAreCanonical(t *testing.T) {
	label, long := strings.Repeat("a", maxLabelBytes), strings.Repeat("a.", maxHostBytes/2)
	for url, want := range map[string]bool{
		"https://a.com": true, "http://a.com/": true, "https://www.a-b.example/docs/x_1.html": true, "https://a.com//x": true,
		"https://" + label + ".com": true, "https://" + label + "a.com": false, "https://" + long + "a": true, "https://" + long + "aa": false,
		"https://a.com/" + strings.Repeat("x", MaxURL-14): true, "https://a.com/" + strings.Repeat("x", MaxURL-13): false,
		"https://a.com/.well-known": false, "https://a.com:80/": false, "https://a.com/?q": false, "https://A.com/": false, "https://": false,
		"https://.a.com": false, "https://a.com.": false, "https:/a.com/xx": false, "ftp://a.com/xx": false, "": false, "https://a.com/%41": false,
	} {
		if isPlainURL(url) != want {
			t.Errorf("%q is plain: %t", url, !want)
		}
	}
	const seed = 21
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	plains := 0
	for range 200_000 {
		url := []byte("https://a")
		for range random.IntN(12) {
			url = append(url, "ab./-_A%:?"[random.IntN(10)])
		}
		if !isPlainURL(string(url)) {
			continue
		}
		plains++
		if canonical, err := AppendURL(nil, url); err != nil || string(canonical) != string(url) {
			t.Fatalf("%q is taken for canonical, and is %q, %v", url, canonical, err)
		}
	}
	if plains < 1000 {
		t.Errorf("only %d URLs were plain", plains)
	}
}
