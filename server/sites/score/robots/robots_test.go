package robots

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type asked struct {
	agent, path string
	want        bool
}

func check(t *testing.T, text string, cases ...asked) {
	t.Helper()
	f := Parse([]byte(text))
	for _, c := range cases {
		if got := f.Allowed(c.agent, c.path); got != c.want {
			t.Errorf("%s %s: %v in\n%.2000s", c.agent, c.path, got, text)
		}
	}
}

// TestSimpleExample is section 5.1 of RFC 9309.
func TestSimpleExample(t *testing.T) {
	check(t, `User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
`,
		asked{"anybot", "/", true}, asked{"anybot", "/a.gif", false}, asked{"anybot", "/a.gif?x", true}, asked{"anybot", "/example/", false},
		asked{"anybot", "/publications/a.html", true}, asked{"anybot", "/publications/a.gif", true},
		asked{"foobot", "/", false}, asked{"foobot", "/example/page.html", true}, asked{"FooBot", "/example/allowed.gif", true}, asked{"foobot", "/publications/", false},
		asked{"barbot", "/example/page.html", false}, asked{"bazbot", "/example/page.html", false}, asked{"barbot", "/example/", true}, asked{"bazbot", "/a.gif", true},
		asked{"quxbot", "/example/", true}, asked{"quxbot", "/a.gif", true},
	)
}

// TestLongestMatch is section 5.2.
func TestLongestMatch(t *testing.T) {
	check(t, "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
		asked{"foobot", "/example/page/disallowed.gif", false}, asked{"foobot", "/example/page/allowed.gif", true})
}

// TestGroupsOfOneCrawlerAreOne is the example of section 2.2.1.
func TestGroupsOfOneCrawlerAreOne(t *testing.T) {
	check(t, "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n",
		asked{"examplebot", "/foo", false}, asked{"examplebot", "/bar", false}, asked{"examplebot", "/baz", false}, asked{"examplebot", "/qux", true})
}

func TestAllowWinsTies(t *testing.T) {
	for _, text := range []string{"User-agent: a\nDisallow: /x\nAllow: /x\n", "User-agent: a\nAllow: /x\nDisallow: /x\n", "User-agent: a\nAllow: /x\nUser-agent: b\nDisallow: /y\nUser-agent: a\nDisallow: /x\n"} {
		check(t, text, asked{"a", "/x", true})
	}
}

func TestWhoIsMeant(t *testing.T) {
	check(t, "User-agent: bot\nDisallow: /\n\nUser-agent: *\nDisallow: /star\n",
		asked{"bot", "/a", false}, asked{"botanist", "/a", true}, asked{"robot", "/a", true}, asked{"botanist", "/star", false}, asked{"bot", "/robots.txt", true})
	check(t, "User-agent: ChatGPT-User/1.0 (x)\nDisallow: /\n", asked{"chatgpt-user", "/", false}, asked{"ChatGPT-User", "/", false}, asked{"chatgpt", "/", true})
	check(t, "Disallow: /\nUser-agent: *\nAllow: /\n", asked{"a", "/", true})
	check(t, "User-agent: a\n\nUser-agent: b\nDisallow: /\n", asked{"a", "/", false}, asked{"b", "/", false})
	check(t, "User-agent: a\nSitemap: https://x/s.xml\nUser-agent: b\nDisallow: /\n", asked{"a", "/", false}, asked{"b", "/", false})
	check(t, "User-agent: a\nDisallow: /x\nSitemap: https://x/s.xml\nDisallow: /y\n", asked{"a", "/y", false})
	check(t, "User-agent: a\nCrawl-delay: 3\nDisallow: /x # why\nDisallow:\n", asked{"a", "/x", false}, asked{"a", "/y", true})
	check(t, "", asked{"a", "/", true})
}

func TestHowItIsWritten(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		check(t, "\ufeff# hello"+end+"  USER-AGENT :\t* "+end+end+" disALLOW\t: /x  # no"+end+"nonsense"+end, asked{"a", "/x", false}, asked{"a", "/y", true})
	}
	f := Parse([]byte("User-agent: *\nSitemap: https://a/s?x=#y\nSITEMAP:/b\nContent-Signal: search=yes\n<html>\n\x00\n"))
	if f.Groups() != 1 || fmt.Sprint(f.Sitemaps) != "[https://a/s?x= /b]" || fmt.Sprint(f.Signals) != "[search=yes]" || f.Strange != 2 {
		t.Errorf("%+v", f)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true}, {"/", "/x", true}, {"/fish", "/fish.html", true}, {"/fish", "/Fish", false}, {"/fish", "/catfish", false},
		{"/fish*", "/fishheads", true}, {"/fish/", "/fish", false}, {"/*.php", "/a/b.php?x", true}, {"/*.php", "/windows.PHP", false},
		{"/*.php$", "/a.php", true}, {"/*.php$", "/a.php?x", false}, {"/*.php$", "/a.php.php", true}, {"/*.php$", "/.php5", false},
		{"/fish*.php", "/fishheads/x.php?y", true}, {"/fish*.php", "/Fish.PHP", false}, {"$", "/", false}, {"/$", "/", true}, {"/$", "/x", false},
		{"*", "/", true}, {"**", "/x", true}, {"*$", "/x", true}, {"/a*a", "/a", false}, {"/a*a", "/aa", true}, {"/a*b*c$", "/abbcc", true}, {"/a*b*c$", "/abcd", false},
		{"/a$b", "/a$b", true}, {"/x*", "/x", true}, {"/ab*ab$", "/ab", false}, {"/ab*ab$", "/abab", true},
	} {
		if got := matches(normal(c.pattern), normal(c.path)); got != c.want {
			t.Errorf("%s on %s: %v", c.pattern, c.path, got)
		}
	}
}

// TestEscapes has the table of section 2.2.2.
func TestEscapes(t *testing.T) {
	for _, c := range [][2]string{
		{"/foo/bar?baz=quz", "/foo/bar?baz=quz"}, {"/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"},
		{"/foo/bar/ツ", "/foo/bar/%E3%83%84"}, {"/foo/bar/%E3%83%84", "/foo/bar/ツ"}, {"/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84"},
		{"/foo/bar/%62%61%7A", "/foo/bar/baz"}, {"/foo/bar/baz", "/foo/bar/%62%61%7A"}, {"/a%2fb", "/a%2Fb"}, {"/%", "/%"}, {"/%zz", "/%zz"}, {"/%4", "/%4"},
	} {
		if !matches(normal(c[0]), normal(c[1])) {
			t.Errorf("%s does not match %s", c[0], c[1])
		}
	}
	if matches(normal("/a%2Fb"), normal("/a/b")) || matches(normal("/%2A"), normal("/x")) || matches(normal("/x%24"), normal("/x")) {
		t.Error("an escaped delimiter is taken for one")
	}
}

func TestSizeLimit(t *testing.T) {
	head := "User-agent: *\nDisallow: /in\n"
	pad := strings.Repeat("#", MaxSize-len(head)-len("\nDisallow: /x")) + "\nDisallow: /x"
	check(t, head+pad, asked{"a", "/x", false}, asked{"a", "/in", false})
	check(t, head+"########"+pad, asked{"a", "/x", true}, asked{"a", "/in", false})
}

// TestSlowPatterns fills a file with patterns that backtracking matchers never
// end on.
func TestSlowPatterns(t *testing.T) {
	path := "/" + strings.Repeat("a", 300)
	line := "Disallow: /" + strings.Repeat("*a", 140) + "*b$\n"
	text := "User-agent: *\n" + strings.Repeat(line, (MaxSize-20)/len(line))
	start := time.Now()
	check(t, text, asked{"x", path, true})
	check(t, "User-agent: *\nDisallow: /"+strings.Repeat("*a", 200_000)+"b\n", asked{"x", path, true})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("%s", took)
	}
}

// slowly is matches by trying everything.
func slowly(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	if pattern == "$" {
		return path == ""
	}
	if pattern[0] == '*' {
		return slowly(pattern[1:], path) || path != "" && slowly(pattern, path[1:])
	}
	return path != "" && path[0] == pattern[0] && slowly(pattern[1:], path[1:])
}

func FuzzMatches(f *testing.F) {
	for _, s := range [][2]string{{"/a*b*c$", "/abbcc"}, {"*a*a", "/aaaa"}, {"$", ""}, {"/*$", "/x"}, {"/$*", "/$"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 12 || len(path) > 12 {
			return
		}
		if got, want := matches(pattern, path), slowly(pattern, path); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, path, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /x*y$\nSitemap: z\n"), "bot", "/x")
	f.Fuzz(func(t *testing.T, text []byte, agent, path string) {
		file := Parse(text)
		file.Allowed(agent, path)
		if !file.Allowed(agent, "/robots.txt") {
			t.Fatal("robots.txt itself is refused")
		}
		// What was read once is read again.
		if again := Parse(append(append([]byte(nil), text...), "\nUser-agent: zz-top\nDisallow: /"...)); len(text) < MaxSize-50 && again.Allowed("zz-top", "/q") && !file.Allowed("zz-top", "/q") {
			t.Fatal("a further group allows more")
		}
	})
}
