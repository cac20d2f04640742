package pages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"webring/edge/describe"
)

// Addresses that mean the same are one page in the cache, and others are not.
func TestOnePageHasOneName(t *testing.T) {
	seen := map[string]string{}
	for _, same := range [][]string{
		{"/ring", "/ring?", "/ring?x=1", "/ring?sort=", "/ring?sort=oldest", "/ring?sort=NEWEST&q=", "/ring?q=+++", "/ring?page=1", "/ring?page=0001", "/ring?amount=5", "/rin%67"},
		{"/ring?sort=newest", "/ring?sort=newest&sort=x", "/ring?page=1&sort=newest"},
		{"/ring?q=caf%C3%A9+x", "/ring?q=CAF%C3%89+x", "/ring?q=++cafe%CC%81%20%09x+", "/ring?sort=up&q=%EF%BC%A3af%C3%A9+X&page=01"},
		{"/ring?q=cafe+x"}, // shown as it is
		{"/ring?q=cafex"},
		{"/ring?q=a%FF"}, {"/ring?q=A%FF"}, // no text
		{"/ring?page=2", "/ring?page=02", "/ring?page=2&page=3"},
		{"/ring?page=0"}, {"/ring?page=x"}, {"/ring?page=-1"}, {"/ring?page=%2B1"}, {"/ring?page=1.0"}, // the core refuses these
		{"/ring?page=10000000", "/ring?page=10000001", "/ring?page=99999999999999999999999"},
		{"/ring?kind=mcp", "/ring?sort=random&kind=mcp"},
		{"/members/alpha", "/members/alpha?amount=", "/members/alpha?amount=x", "/members/alpha?amount=-1", "/members/alpha?amount=0", "/members/alpha?amount=1.234",
			"/members/alpha?amount=1000001", "/members/alpha?amount=99999999999", "/members/alpha?amount=1e3", "/members/alpha?amount=%2B5", "/members/alpha?amount=+5", "/members/alpha?sort=newest"},
		{"/members/alpha?amount=5", "/members/alpha?amount=5.0", "/members/alpha?amount=0005.00", "/members/alpha?amount=5.00&amount=6"},
		{"/members/alpha?amount=1000000"},
		{"/leaderboard", "/leaderboard?page=1&sort=newest", "/leaderboard?q=x"},
		{"/categories/general", "/categories/general?sort=oldest", "/categories/general?q=x", "/categories/general?category=tools"},
		{"/", "/?q=x", "/?page=2"},
		{"/join", "/join?x=1", "/join?from=a"}, {"/embed", "/embed?", "/embed?x=1", "/embed?from=", "/embed?page=2"}, {"/docs", "/docs?x=1"}, {"/about", "/about?x=1"},
		{"/badge/alpha.svg", "/badge/alpha.svg?x=1"}, {"/problems/empty_ring", "/problems/empty_ring?x=1"},
	} {
		first, _, _ := Target([]byte(same[0]))
		if other, taken := seen[first]; taken {
			t.Errorf("%s and %s are %q", other, same[0], first)
		}
		seen[first] = same[0]
		for _, sent := range same[1:] {
			if name, _, _ := Target([]byte(sent)); name != first {
				t.Errorf("%s is %q, %s is %q", same[0], first, sent, name)
			}
		}
	}
}

// What is spelled once is spelled so again.
func FuzzSpelling(f *testing.F) {
	for _, s := range []string{"", " ", "Ｆｕｌｌ Ⅳ", "İI", "ΟΔΥΣΣΕΥΣ", "\u1e9e", "ウェブ", "\xff", "0001", "1.5", "ǅ \u0345", "\u2126\u0301", "ﷺ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, name := range []string{"q", "sort", "page", "amount", "kind"} {
			once := spelling(name, value)
			if twice := spelling(name, once); twice != once && once != "" {
				t.Errorf("%s %q is spelled %q, and then %q", name, value, once, twice)
			}
		}
	})
}

// A page with parameters is cached when it is asked for again, so a walk through their values
// evicts nothing, and neither do values without a meaning.
func TestPagesWithParametersAreCachedWhenAskedForAgain(t *testing.T) {
	c, s := newCore(t), New(describe.Site{}, time.Now)
	c.Tick(time.Unix(epoch+500, 0))
	has := func(sent string) bool {
		t.Helper()
		target, path, query := Target([]byte(sent))
		view := drawRing
		if strings.HasPrefix(path, membersPath) {
			view = drawMember
		}
		if _, failed := s.Get(c, view, target, path, query); failed != nil {
			t.Fatalf("%s: %d %s", sent, failed.Status, failed.Body)
		}
		return c.cache.Get(c.cache.Key([]byte(target))) != nil
	}
	if !has("/ring") || !has("/members/alpha") {
		t.Error("a page without parameters is not cached")
	}
	cached := 0
	for amount := 100; amount < 300; amount++ {
		if has(fmt.Sprintf("/members/alpha?amount=%d", amount)) {
			cached++
		}
	}
	if cached > 2 { // two hashes may be alike
		t.Errorf("%d pages that were asked for once are cached", cached)
	}
	if has("/ring?sort=newest") || !has("/ring?page=1&sort=newest") {
		t.Error("a page that was asked for once is cached, or one that was asked for again is not")
	}
	if !has("/ring?sort=up&q=+") {
		t.Error("the page is another")
	}
}
