package pages

import (
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/edge/cache"
	"webring/edge/describe"
	"webring/wasm/host"
)

// hostile are words that a member might call itself by.
const hostile = "# [x](javascript:alert(1)) <img src=x onerror=alert(1)> | `y` ``` https://e.dev www.e.dev ](https://e.dev) \\"

// markdownOf gives a page as Markdown, from a ring with two members with hostile words.
func markdownOf(t *testing.T, target string) string {
	t.Helper()
	c := &ringCore{host.NewNative(10), cache.New(1 << 20)}
	steps := []coretest.Step{coretest.NewStep(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example/at", Fee: 100, MinBid: 100,
		Grace: 10, Decay: 1000, Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40,
		Policies: core.Policies{Report: "mailto:report@ring.example"}}, nil)}
	for i, slug := range []string{"ada", "bob"} {
		texts := &core.Texts{Name: core.Text{Value: hostile[i : 79+i]}, URL: core.Text{Value: "https://" + slug + ".dev/?a=b/c&d"}, Description: core.Text{Value: hostile}}
		steps = append(steps, coretest.NewStep(&core.Joined{Stamp: (epoch + 1) * 1000, Slug: slug, Kind: core.Agent, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Description: coretest.Commit(texts.Description), Fee: 100, Bid: int64(5000 * i)}, texts))
	}
	for _, s := range steps {
		if err := c.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
			t.Fatal(err)
		}
	}
	c.Tick(time.Unix(epoch+5, 0))
	name, path, query := Target([]byte(target))
	for _, r := range Routes() {
		pattern, _, folder := strings.Cut(r.Pattern, "{")
		if path == pattern || folder && strings.HasPrefix(path, pattern) {
			p, failed := New(describe.Site{}, time.Now).Get(c, r.View.Markdown(), "markdown "+name, path, query)
			if failed != nil {
				t.Fatalf("%s: %d %s", target, failed.Status, failed.Body)
			}
			if p.Media() != MarkdownMedia || p.fields != "" {
				t.Errorf("%s: %s %s", target, p.Media(), p.fields)
			}
			return string(p.Body())
		}
	}
	t.Fatalf("no page at %s", target)
	return ""
}

func TestMembersWordsAreNoMarkup(t *testing.T) {
	for _, target := range []string{"/", "/leaderboard", "/ring", "/members/ada", "/categories/general", "/embed?from=bob", "/docs"} {
		text := markdownOf(t, target)
		prose, fences := "", 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "```") {
				fences++
			}
			if fences%2 == 0 {
				prose += line
			}
		}
		for _, markup := range []string{"x](javascript", "<img", " `y`", "\n# [x", " https://e.dev", " www.e", " ](https://e.dev"} {
			if strings.Contains(prose, markup) {
				t.Errorf("%s has %q:\n%s", target, markup, prose)
			}
		}
		prose = strings.NewReplacer(`\\`, "", `\]`, "").Replace(prose) // what is escaped is no link
		for _, link := range strings.SplitAfter(prose, "](")[1:] {
			if address, _, _ := strings.Cut(link, ")"); !strings.HasPrefix(address, "https://ring.example/at/") && address != "https://ada.dev/?a=b/c&d" && address != "https://bob.dev/?a=b/c&d" && address != "mailto:report@ring.example" && address != "https://ethereum.org/wallets/find-wallet/" && !strings.HasPrefix(address, "mailto:report@ring.example?subject=") {
				t.Errorf("%s leads to %q", target, address)
			}
		}
		if !strings.Contains(text, "mailto:report@ring.example") {
			t.Errorf("%s does not say where to report a member", target)
		}
	}
}

func TestTextIsEscaped(t *testing.T) {
	for words, want := range map[string]string{"1. a": `1\. a`, "1.": `1\.`, "2)": `2\)`, "- a": `\- a`, " + a": ` \+ a`, "+1.00": "+1.00", "--": `\--`, "a-b. c+d (e)": "a-b. c+d (e)", "": "", "= a": `\= a`,
		"v1.5": "v1.5", "51.00 x": "51.00 x", "http://a": `http\://a`, "WWW.a": `WWW\.a`, "a_b*c~d@e&f!": `a\_b\*c\~d\@e\&f\!`} {
		if got := escaped(words); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}

// Each page says the same as Markdown.
func TestPagesAreMarkdown(t *testing.T) {
	for target, want := range map[string][]string{
		"/":                     {"# A ring of websites", "[Leaderboard](https://ring.example/at/leaderboard)", "[Ring](https://ring.example/at/)", "| 1 | [\\"},
		"/leaderboard":          {"# Leaderboard\n", "- **Now** ", "| Rank | Member |"},
		"/join":                 {"# Join the ring\n", "`POST /api/register`", "npx -y -p mppx@"},
		"/members/bob?amount=7": {"- **Rank** 1 of 2\n", "**$7** lifts it to **", "(https://ring.example/at/members/bob?amount=1.00#bid)"},
		"/embed?from=bob":       {"<webring-online from=\"bob\">", "https://ring.example/at/next?from=bob", "![Member of Ring](https://ring.example/at/badge/bob.svg)"},
		"/embed?from=%ff":       {"<webring-online>"},
		"/docs":                 {"# The API\n", "https://ring.example/at/problems/payment_pending)", "| `insufficient_funds` |", "PATCH https://ring.example/at/api/ring/ada"},
		"/verify":               {"webring edge --origin https://ring.example/at"},
		"/problems":             {"payment_pending", "404"},
		"/problems/empty_ring":  {"# No member matches\n"},
	} {
		text := markdownOf(t, target)
		for _, words := range want {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q:\n%s", target, words, text)
			}
		}
		if strings.Count(text, "\n```")%2 != 0 || strings.Contains(text, "<svg") || strings.Contains(text, "Skip to") {
			t.Errorf("%s: %s", target, text)
		}
	}
}

// BenchmarkMarkdown is the longest page.
func BenchmarkMarkdown(b *testing.B) {
	row := `<tr><td>1</td><th><a href="./a">A member</a> <small>a.example</small><p><span>Agent</span> <a href="members/a">details</a> What it says of itself, in a sentence or two.</p></th><td><strong>8.26</strong></td></tr>`
	page := []byte("<body><main><h1>Leaderboard</h1><table><thead><tr><th>Rank</th><th>Member</th><th>Counts</th></tr></thead><tbody>" + strings.Repeat(row, listRows) + "</tbody></table></main></body>")
	for b.Loop() {
		if len(inMarkdown(page, "https://ring.example/leaderboard")) == 0 {
			b.Fatal("nothing")
		}
	}
}

func TestWordsStayInTheirPlaceOfAPage(t *testing.T) {
	for page, want := range map[string]string{
		"<p>a\uf002- b</p>": "a\ufffd- b\n",
		`<p><a href="https://a.dev/?x=1&amp;copy;=2">l</a></p>`: "[l](https://a.dev/?x=1&amp;copy;=2)\n",
		`<p><a href="https://a.dev/?x=1&amp;copy=2">l</a></p>`:  "[l](https://a.dev/?x=1&copy=2)\n",
		`<p><img src="/i.png" alt="A &amp; B &lt;i&gt;"></p>`:   "![A \\& B &lt;i&gt;](https://ring.example/i.png)\n",
		`<p><img src="/i.png" alt="a](https://e.dev) [b"></p>`:  "![a\\](https\\://e.dev) \\[b](https://ring.example/i.png)\n",
		"<ul><li>a\uf002\uf002# b</li><li>c</li></ul><p>d</p>":  "- a\ufffd\ufffd\\# b\n- c\n\nd\n",
	} {
		if got := string(inMarkdown([]byte(page), "https://ring.example/")); got != want {
			t.Errorf("%s:\n%q, want\n%q", page, got, want)
		}
	}
}
