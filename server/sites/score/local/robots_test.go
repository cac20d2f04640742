package local

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type crawl struct {
	agent, path string
	want        bool
}

func allows(t *testing.T, text string, cases ...crawl) {
	t.Helper()
	f := parseRobots([]byte(text))
	for _, c := range cases {
		if got := f.Allowed(c.agent, c.path); got != c.want {
			t.Errorf("%s %s: %v in\n%.2000s", c.agent, c.path, got, text)
		}
	}
}

// TestSimpleExample is section 5.1 of RFC 9309.
func TestSimpleExample(t *testing.T) {
	allows(t, `User-Agent: *
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
		crawl{"anybot", "/", true}, crawl{"anybot", "/a.gif", false}, crawl{"anybot", "/a.gif?x", true}, crawl{"anybot", "/example/", false},
		crawl{"anybot", "/publications/a.html", true}, crawl{"anybot", "/publications/a.gif", true},
		crawl{"foobot", "/", false}, crawl{"foobot", "/example/page.html", true}, crawl{"FooBot", "/example/allowed.gif", true}, crawl{"foobot", "/publications/", false},
		crawl{"barbot", "/example/page.html", false}, crawl{"bazbot", "/example/page.html", false}, crawl{"barbot", "/example/", true}, crawl{"bazbot", "/a.gif", true},
		crawl{"quxbot", "/example/", true}, crawl{"quxbot", "/a.gif", true},
	)
}

// TestLongestMatch is section 5.2.
func TestLongestMatch(t *testing.T) {
	allows(t, "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
		crawl{"foobot", "/example/page/disallowed.gif", false}, crawl{"foobot", "/example/page/allowed.gif", true})
}

// TestGroupsOfOneCrawlerAreOne is the example of section 2.2.1.
func TestGroupsOfOneCrawlerAreOne(t *testing.T) {
	allows(t, "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\nuser-agent: ExampleBot\ndisallow: /baz\n",
		crawl{"examplebot", "/foo", false}, crawl{"examplebot", "/bar", false}, crawl{"examplebot", "/baz", false}, crawl{"examplebot", "/qux", true})
}

func TestAllowWinsTies(t *testing.T) {
	for _, text := range []string{"User-agent: a\nDisallow: /x\nAllow: /x\n", "User-agent: a\nAllow: /x\nDisallow: /x\n", "User-agent: a\nAllow: /x\nUser-agent: b\nDisallow: /y\nUser-agent: a\nDisallow: /x\n"} {
		allows(t, text, crawl{"a", "/x", true})
	}
}

func TestWhoIsMeant(t *testing.T) {
	allows(t, "User-agent: bot\nDisallow: /\n\nUser-agent: *\nDisallow: /star\n",
		crawl{"bot", "/a", false}, crawl{"botanist", "/a", true}, crawl{"robot", "/a", true}, crawl{"botanist", "/star", false}, crawl{"bot", "/robots.txt", true})
	allows(t, "User-agent: ChatGPT-User/1.0 (x)\nDisallow: /\n", crawl{"chatgpt-user", "/", false}, crawl{"ChatGPT-User", "/", false}, crawl{"chatgpt", "/", true})
	allows(t, "Disallow: /\nUser-agent: *\nAllow: /\n", crawl{"a", "/", true})
	allows(t, "User-agent: a\n\nUser-agent: b\nDisallow: /\n", crawl{"a", "/", false}, crawl{"b", "/", false})
	allows(t, "User-agent: a\nSitemap: https://x/s.xml\nUser-agent: b\nDisallow: /\n", crawl{"a", "/", false}, crawl{"b", "/", false})
	allows(t, "User-agent: a\nDisallow: /x\nSitemap: https://x/s.xml\nDisallow: /y\n", crawl{"a", "/y", false})
	allows(t, "User-agent: a\nCrawl-delay: 3\nDisallow: /x # why\nDisallow:\n", crawl{"a", "/x", false}, crawl{"a", "/y", true})
	allows(t, "", crawl{"a", "/", true})
}

func TestHowItIsWritten(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		allows(t, "\ufeff# hello"+end+"  USER-AGENT :\t* "+end+end+" disALLOW\t: /x  # no"+end+"nonsense"+end, crawl{"a", "/x", false}, crawl{"a", "/y", true})
	}
	f := parseRobots([]byte("User-agent: *\nSitemap: https://a/s?x=#y\nSITEMAP:/b\nContent-Signal: search=yes\n<html>\n\x00\n"))
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
	pad := strings.Repeat("#", maxRobots-len(head)-len("\nDisallow: /x")) + "\nDisallow: /x"
	allows(t, head+pad, crawl{"a", "/x", false}, crawl{"a", "/in", false})
	allows(t, head+"########"+pad, crawl{"a", "/x", true}, crawl{"a", "/in", false})
}

// TestSlowPatterns fills a file with patterns that backtracking matchers never
// end on.
func TestSlowPatterns(t *testing.T) {
	path := "/" + strings.Repeat("a", 300)
	line := "Disallow: /" + strings.Repeat("*a", 140) + "*b$\n"
	text := "User-agent: *\n" + strings.Repeat(line, (maxRobots-20)/len(line))
	start := time.Now()
	allows(t, text, crawl{"x", path, true})
	allows(t, "User-agent: *\nDisallow: /"+strings.Repeat("*a", 200_000)+"b\n", crawl{"x", path, true})
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
		file := parseRobots(text)
		file.Allowed(agent, path)
		if !file.Allowed(agent, "/robots.txt") {
			t.Fatal("robots.txt itself is refused")
		}
		// What was read once is read again.
		if again := parseRobots(append(append([]byte(nil), text...), "\nUser-agent: zz-top\nDisallow: /"...)); len(text) < maxRobots-50 && again.Allowed("zz-top", "/q") && !file.Allowed("zz-top", "/q") {
			t.Fatal("a further group allows more")
		}
	})
}
