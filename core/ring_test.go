package core_test

import (
	"fmt"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// The newest member is followed by the first however little room its state has left
// for more: states that were restored have it only just.
func TestTheNewestIsFollowedByTheFirst(t *testing.T) {
	for n := 60; n < 140; n++ {
		r := coretest.NewRing(t)
		for i := range n {
			r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/%s", i, strings.Repeat("a", 100)))
		}
		restored, err := snap.Open(1<<20, 1, snap.Append(nil, r.State), core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		r.State = restored
		for i := range n {
			r.Join(fmt.Sprint("late", i), fmt.Sprintf("https://late%d.example/", i))
			if next := r.Next(core.Ordinal(n + i)); next != 0 {
				t.Fatalf("restored with %d, the newest of %d is followed by %d", n, r.Rows(), next)
			}
		}
	}
}

func TestKindsAndCategoriesAsDocumentsSpellThem(t *testing.T) {
	for k := range core.Kind(10) {
		got, ok := core.ParseKind(k.String())
		if valid := k >= core.Agent && k <= core.Website; ok != valid || valid && got != k {
			t.Errorf("kind %d is %q, which is %d %t", k, k.String(), got, ok)
		}
	}
	for name, want := range map[string]bool{"": false, "general": true, "0": true, "a-": true, "a--b": true, "-a": false, "A": false, "a_b": false, "ä": false, "a b": false} {
		if core.ValidCategory(name) != want {
			t.Errorf("category %q: %t", name, !want)
		}
	}
}

// A page is found by its address as people write it: without a scheme, with and without
// "www.", with a port. The same parts decide as with one, and no text that merely has a host in
// it is an address.
func TestAnAddressWithoutASchemeMeansThatPage(t *testing.T) {
	st := coretest.NewRing(t)
	st.Join("foo", "https://a.com/foo")
	st.Join("port", "https://b.com:8443/x")
	st.Join("root", "http://www.c.com/")
	var scratch []byte
	for from, want := range map[string]string{
		"a.com/foo": "foo", "A.COM/foo/": "foo", "www.a.com/foo/bar?q=1#x": "foo", "a.com:443/foo": "foo", "a.com:80/foo": "foo", "a.com:0443/foo": "foo", "a.com./foo/index.html": "foo",
		"a.com/x/../foo": "foo", "a.com/foo?off=100%": "foo", "a.com/foo#a b": "foo", "a.com/foo/" + strings.Repeat("x", 2000): "foo", "a.com/foo?" + strings.Repeat("x", 5000): "foo",
		"b.com:8443/x": "port", "www.b.com:8443/x/y": "port", "c.com/": "root", "c.com/y": "root", "c.com:80": "root", "c.com:443/": "root", "www.c.com?x": "root", "c.com#x": "root",
		"a.com": "foo", "b.com": "port",
		"a.com/": "", "a.com/foobar": "", "data.com/foo": "", "com/foo": "", "a.com.evil.example/foo": "", "evil.example/a.com/foo": "", "evil.example?a.com/foo": "", "a.com@evil.example/foo": "", "x@a.com/foo": "",
		"a.com:8443/foo": "", "b.com:8444/x": "", "a.com:/foo": "", "a.com:0/foo": "", "a.com:99999/foo": "", "a.com:x/foo": "", "mailto:x@a.com": "", "javascript:a.com/foo": "", "a.com://foo": "", "c.com:": "",
		"//a.com/foo": "", "/a.com/foo": "", "/foo": "", "a.com\\foo": "", " a.com/foo": "", "a.com /foo": "", "https:a.com/foo": "", "http:80/foo": "",
		"a.com/foo/" + strings.Repeat("x", 2048): "",
	} {
		o, ok := st.Resolve([]byte(from), &scratch)
		if got := st.Slug(o); ok != (want != "") || ok && got != want {
			t.Errorf("%.60s is %s's page (%t), want %q", from, got, ok, want)
		}
	}
}

// TestLongPageAddressFindsItsSite holds that a visitor's page is found by its
// site however long its address is, as typed or once it is escaped, and whatever
// its query carries: identity stands in host and path.
func TestLongPageAddressFindsItsSite(t *testing.T) {
	st := coretest.NewRing(t)
	st.Join("blog", "https://a.com/blog/")
	st.Join("deep", "https://a.com/blog/"+strings.Repeat("x/", 100))
	st.Join("asked", "https://a.com/blog?q="+strings.Repeat("y", 200))
	const blog, deep, asked = 0, 1, 2
	var scratch []byte
	for name, c := range map[string]struct {
		from string
		want core.Ordinal
	}{
		"long query":                {"https://www.a.com/blog/post?utm=" + strings.Repeat("x", 2000), blog},
		"long fragment":             {"https://a.com/blog/#" + strings.Repeat("x", 2000), blog},
		"long segment":              {"https://a.com/blog/" + strings.Repeat("y", 2000), blog},
		"long path":                 {"https://a.com/blog/" + strings.Repeat("y/", 900), blog},
		"path and query":            {"https://a.com/blog/" + strings.Repeat("y/", 200) + "?" + strings.Repeat("/", 300), blog},
		"long once escaped":         {"https://a.com/blog/" + strings.Repeat("é", 60), blog},
		"query long once escaped":   {"https://a.com/blog/?q=" + strings.Repeat("é", 60), blog},
		"query with a stray escape": {"https://a.com/blog/?off=100%", blog},
		"query with a space":        {"https://a.com/blog/post?q=a b", blog},
		"fragment with a space":     {"https://a.com/blog/post#a b", blog},
		"below a long address":      {"https://a.com/blog/" + strings.Repeat("x/", 150), deep},
		"beside a long address":     {"https://a.com/blog/" + strings.Repeat("x/", 99) + strings.Repeat("x", 200), blog},
		"a member's long query":     {"https://a.com/blog?q=" + strings.Repeat("y", 200), asked},
		"a longer one":              {"https://a.com/blog?q=" + strings.Repeat("y", 400), blog},
		"at the limit":              {"https://a.com/blog/" + strings.Repeat("y", 300-len("a.com/blog/")), blog},
		"a slash at the limit":      {"https://a.com/blog/" + strings.Repeat("y", 300-len("a.com/blog/")) + "/z", blog},
	} {
		if o, ok := st.Resolve([]byte(c.from), &scratch); !ok || o != c.want {
			t.Errorf("%s: member %d %t, want %d", name, o, ok, c.want)
		}
	}
	for _, stranger := range []string{
		"https://a.com/" + strings.Repeat("x", 2000), "https://a.com/blog" + strings.Repeat("x", 2000), "https://a.com/blog%?q",
		"https://a.com/blog/" + strings.Repeat("y/", 2000), "https://a.com/blog/" + strings.Repeat("y/", 2000) + "?q",
		"https://" + strings.Repeat("a.com", 400) + "/blog/",
	} {
		if o, ok := st.Resolve([]byte(stranger), &scratch); ok {
			t.Errorf("%.40s is taken for member %d", stranger, o)
		}
	}
}

const (
	ada     = "did:pkh:eip155:42431:0x00000000000000000000000000000000000000aa"
	adaToo  = "did:pkh:eip155:8453:0x00000000000000000000000000000000000000AA" // on another network
	mallory = "did:pkh:eip155:42431:0x00000000000000000000000000000000000000bb"
	nobody  = "" // an account that is not known
)

// paidBy has a member paid for by an account.
func paidBy(payer string) func(*core.Joined, *core.Texts) {
	return func(e *core.Joined, _ *core.Texts) { e.Payment.Payer = payer }
}

// TestStrangersDoNotNameOtherPeoplesPages: if a member is at the root of a host, a member of
// another account below it has its own address and no more.
func TestStrangersDoNotNameOtherPeoplesPages(t *testing.T) {
	type member struct{ slug, url, payer string }
	root := member{"root", "https://www.ada.dev/", ada}
	for name, c := range map[string]struct {
		members []member
		want    map[string]string
	}{
		"a stranger below": {[]member{root, {"below", "https://ada.dev/blog/", mallory}}, map[string]string{
			"https://ada.dev/blog/": "below", "http://www.ada.dev/blog/index.html": "below",
			"https://ada.dev/blog/post": "root", "https://ada.dev/blog/?page=2": "root", "https://ada.dev/x": "root", "ada.dev": "root"}},
		"a stranger that came first": {[]member{{"below", "https://ada.dev/blog/", mallory}, root}, map[string]string{
			"https://ada.dev/blog/": "below", "https://ada.dev/blog/post": "root", "ada.dev": "root"}},
		"the same account": {[]member{root, {"below", "https://ada.dev/blog/", ada}}, map[string]string{
			"https://ada.dev/blog/post": "below", "https://ada.dev/blog/?page=2": "below", "https://ada.dev/x": "root", "ada.dev": "root"}},
		"the same account on another network": {[]member{root, {"below", "https://ada.dev/blog/", adaToo}}, map[string]string{
			"https://ada.dev/blog/post": "below"}},
		"accounts that are not known": {[]member{{"root", "https://ada.dev/", nobody}, {"below", "https://ada.dev/blog/", nobody}}, map[string]string{
			"https://ada.dev/blog/post": "root"}},
		"a stranger below a member's own": {[]member{root, {"own", "https://ada.dev/blog/", ada}, {"below", "https://ada.dev/blog/2026/", mallory}}, map[string]string{
			"https://ada.dev/blog/2026/": "below", "https://ada.dev/blog/2026/may": "own"}},
		"a query": {[]member{root, {"below", "https://ada.dev/?lang=en", mallory}}, map[string]string{
			"https://ada.dev/?lang=en": "below", "https://ada.dev/?lang=en&x": "root", "ada.dev": "root"}},
		"another port": {[]member{{"root", "https://ada.dev/", ada}, {"port", "https://ada.dev:8443/", mallory}, {"below", "https://ada.dev:8443/blog/", mallory}}, map[string]string{
			"https://ada.dev:8443/blog/post": "below", "https://ada.dev:8443/x": "port", "https://ada.dev/blog/post": "root", "ada.dev": "root"}},
		"nobody at the root": {[]member{{"deep", "https://ada.dev/a/b/", ada}, {"below", "https://ada.dev/blog/", mallory}, {"late", "https://ada.dev/c/", ada}}, map[string]string{
			"https://ada.dev/blog/post": "below", "https://ada.dev/a/b/c": "deep", "ada.dev": "below"}},
	} {
		r := coretest.NewRing(t)
		for _, m := range c.members {
			r.Join(m.slug, m.url, paidBy(m.payer))
		}
		restored, err := snap.Open(100, 7, snap.Append(nil, r.State), core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		for how, st := range map[string]*core.State{"folded": r.State, "restored": restored} {
			var scratch []byte
			for from, want := range c.want {
				if o, ok := st.Resolve([]byte(from), &scratch); !ok || st.Slug(o) != want {
					t.Errorf("%s, %s: %s is %s's page (%t), want %s's", name, how, from, st.Slug(o), ok, want)
				}
			}
		}
	}
}

func TestAnAccountIsItsAddress(t *testing.T) {
	want := core.Account{18: 0xab, 19: 0xcd}
	for payer, known := range map[string]bool{
		"0x000000000000000000000000000000000000abcd":                      true,
		"0x000000000000000000000000000000000000ABCD":                      true,
		"did:pkh:eip155:42431:0x000000000000000000000000000000000000abcd": true,
		"did:pkh:eip155:8453:0x000000000000000000000000000000000000aBcD":  true,
		"000000000000000000000000000000000000abcd":                        false,
		"x0x000000000000000000000000000000000000abcd":                     false,
		"0x000000000000000000000000000000000000abc":                       false,
		"0x000000000000000000000000000000000000abcdd":                     false,
		"0x000000000000000000000000000000000000abcg":                      false,
		"0x000000000000000000000000000000000000abcd:":                     false,
		"": false, ":": false, "0x": false, "0xpayer": false,
	} {
		if p := core.AccountOf(payer); (p == want) != known || !known && p != (core.Account{}) {
			t.Errorf("%q is the account %v", payer, p)
		}
	}
	if want.String() != "0x000000000000000000000000000000000000abcd" || (core.Account{}).String() != "" {
		t.Errorf("accounts are written as %q and %q", want, core.Account{})
	}
	if !want.Is(want) || want.Is(core.Account{1}) || (core.Account{}).Is(core.Account{}) {
		t.Error("which accounts are one is wrong")
	}
}
