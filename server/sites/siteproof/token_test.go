package siteproof_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

// What a site answers for its file, and whether that names the owner.
func TestFilesThatShowAToken(t *testing.T) {
	const token = "a-token-of-this-ring"
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	leads := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	sites := map[string]http.HandlerFunc{
		"alone.dev":      says(token),
		"lines.dev":      says("# ours\r\n another \r\n\t" + token + " \r\n"),
		"marked.dev":     says("\ufeff" + token + "\n"), // as some editors begin a file
		"www.apex.dev":   says(token),
		"apex.dev":       leads("http://www.apex.dev/tokens"),
		"away.dev":       leads("http://alone.dev/.well-known/webring-online.txt"),
		"within.dev":     says("the token is " + token),
		"longer.dev":     says(token + "x"),
		"other-case.dev": says(strings.ToUpper(token)),
		"early.dev":      says(token + "\n" + strings.Repeat("x", 1<<20)),
		"late.dev":       says(strings.Repeat("x", 1<<20) + "\n" + token),
		"empty.dev":      says(""),
		"missing.dev": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, token)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "webring/") {
			t.Errorf("it calls itself %q", r.UserAgent())
		}
		sites[r.Host](w, r)
	}))
	defer server.Close()
	at := map[string]netip.AddrPort{}
	for host := range sites {
		at[host] = netip.MustParseAddrPort(server.Listener.Addr().String())
	}
	client := fetch.New(fetch.Config{Map: at, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return nil, errors.New("no name server is asked in this test")
	}}})
	defer client.Close()
	shown := map[string]bool{"alone.dev": true, "lines.dev": true, "marked.dev": true, "www.apex.dev": true, "apex.dev": true, "early.dev": true}
	for host := range sites {
		place, err := siteproof.PlaceOf("http://" + host + "/~member?page=1")
		if err != nil || place.URL != "http://"+host+siteproof.File || place.Name != siteproof.Label+"."+strings.TrimPrefix(host, "www.") {
			t.Fatalf("%+v, %v", place, err)
		}
		proof, err := siteproof.Find(t.Context(), client, place, token)
		if (err == nil) != shown[host] || (proof == core.ByFile) != shown[host] {
			t.Errorf("%s: %v, %v", host, proof, err)
		}
		if err != nil && !errors.As(err, new(*siteproof.NotFoundError)) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
