package siteproof_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

// A site names accounts in its file, and a page in its head: what readers write on it does
// not.
func TestSitesNameAccountsBeforeTheyJoin(t *testing.T) {
	one, two := "0x"+strings.Repeat("1", 40), "0x"+strings.Repeat("2", 40)
	meta := func(account string) string { return `<meta name="webring-account" content="` + account + `">` }
	pages := map[string]string{
		"file.dev" + siteproof.File:  "# ours\n " + one + " \r\n\n",
		"both.dev" + siteproof.File:  one,
		"both.dev/~two":              "<html><head><title>x</title>" + meta(two) + "</head>",
		"page.dev/~one":              "<!doctype html>" + meta(one) + "<p>",
		"body.dev/~one":              "<head></head><body>" + meta(one),
		"bare.dev/~one":              "<body>" + meta(one),
		"text.dev/~one":              "<head><title>" + meta(one) + "</title>" + one,
		"comment.dev/~one":           "<head><!-- " + meta(one) + " --></head>",
		"other.dev/~two":             meta(two),
		"many.dev" + siteproof.File:  strings.Repeat(one+"\n", 100),
		"chat.dev" + siteproof.File:  one + "\nhello\n",
		"case.dev" + siteproof.File:  "0x" + strings.Repeat("aB", 20),
		"empty.dev" + siteproof.File: "",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.Host+r.URL.Path]
		switch {
		case r.Host == "other.dev" && r.URL.Path == "/~one":
			http.Redirect(w, r, "/~two", http.StatusFound)
		case !ok:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "text/html")
			if strings.HasSuffix(r.URL.Path, siteproof.File) {
				w.Header().Set("Content-Type", "text/plain")
			}
			fmt.Fprint(w, page)
		}
	}))
	defer server.Close()
	at := map[string]netip.AddrPort{}
	for url := range pages {
		host, _, _ := strings.Cut(url, "/")
		at[host] = netip.MustParseAddrPort(server.Listener.Addr().String())
	}
	client := fetch.New(fetch.Config{Map: at, Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server is asked in this test")
	}}})
	defer client.Close()
	named := func(all ...string) (want []core.Account) {
		for _, account := range all {
			want = append(want, core.AccountOf(account))
		}
		return want
	}
	for url, want := range map[string][]core.Account{
		"file.dev/~x": named(one), "both.dev/~two": named(one, two), "page.dev/~one": named(one),
		"body.dev/~one": nil, "bare.dev/~one": nil, "text.dev/~one": nil, "comment.dev/~one": nil, "other.dev/~one": nil, "empty.dev/": nil, "chat.dev/": nil,
		"many.dev/": slices.Repeat(named(one), 8), "case.dev/": named("0x" + strings.Repeat("ab", 20)),
	} {
		got, _ := siteproof.Accounts(t.Context(), client, "http://"+url)
		slices.SortFunc(got, func(a, b core.Account) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(got, want) {
			t.Errorf("%s names %v, want %v", url, got, want)
		}
	}
}
