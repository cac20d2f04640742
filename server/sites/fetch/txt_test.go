package fetch

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
)

func TestTextsOfANameAreLookedUp(t *testing.T) {
	c := New(Config{Resolver: names(t, map[string][]string{
		"_here.site.dev":          {"txt:one,txt:two"},
		"_here.xn--bcher-kva.dev": {"txt:three"},
		"_here.none.dev":          {"192.0.2.1"},
	})})
	for host, want := range map[string][]string{"site.dev": {"one", "two"}, "SITE.dev": {"one", "two"}, "bücher.dev": {"three"}, "none.dev": nil, "nowhere.dev": nil} {
		got, err := c.TXT(t.Context(), "_here", host)
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", host, got, err, want)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "com", "site.dev:53", "x@site.dev", "site.dev/x?", "", "a b.dev"} {
		if got, err := c.TXT(t.Context(), "_here", host); err == nil || got != nil {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
}

// Questions about names count as requests to their site, and what goes wrong with one
// says no more than what goes wrong with a fetch.
func TestQuestionsAboutNamesAreBounded(t *testing.T) {
	c := New(Config{Limits: Limits{PerMinute: 2}, Resolver: names(t, map[string][]string{"_here.site.dev": {"txt:one"}})})
	for range 2 {
		if _, err := c.TXT(t.Context(), "_here", "site.dev"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.TXT(t.Context(), "_here", "www.site.dev"); !errors.As(err, new(*Busy)) {
		t.Errorf("one too many: %v", err)
	}
	broken := New(Config{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the address of a name server")
	}}})
	if _, err := broken.TXT(t.Context(), "_here", "site.dev"); !errors.Is(err, ErrUnreachable) || errors.Unwrap(err) != nil {
		t.Errorf("without a name server: %v", err)
	}
}
