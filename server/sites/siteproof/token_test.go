package siteproof_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

// tokenOf gives a token that names an account.
func tokenOf(account byte) string {
	return base64.RawURLEncoding.EncodeToString(append(bytes.Repeat([]byte{account}, 20), "sixteen of marks"...))
}

// What a site answers for its file, and whether that names the owner.
func TestFilesThatShowAToken(t *testing.T) {
	token := tokenOf(1)
	typed := func(mediaType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{mediaType}
			fmt.Fprint(w, text)
		}
	}
	says := func(text string) http.HandlerFunc { return typed("text/plain; charset=utf-8", text) }
	leads := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	pathed := func(to string, then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI == to {
				then(w, r)
				return
			}
			w.Header().Set("Location", to) // as it is spelled
			w.WriteHeader(http.StatusFound)
		}
	}
	sites := map[string]http.HandlerFunc{
		"alone.dev":      says(token),
		"lines.dev":      says("# ours\r\n " + tokenOf(2) + " \r\n\r\n0x" + strings.Repeat("aB", 20) + "\n\t" + token + " \r\n"),
		"typed.dev":      typed("Text/Plain", token),
		"marked.dev":     says("\ufeff" + token + "\n"), // as some editors begin a file
		"www.apex.dev":   says(token),
		"apex.dev":       leads("http://www.apex.dev/.well-known/webring-online.txt"),
		"www.named.dev":  leads("//named.dev/.well-known/webring-online.txt"),
		"named.dev":      says(token),
		"away.dev":       leads("http://alone.dev/.well-known/webring-online.txt"),
		"within.dev":     says("the token is " + token),
		"longer.dev":     says(token + "x"),
		"other-case.dev": says(strings.ToUpper(token)),
		"early.dev":      says(token + "\n" + strings.Repeat("x", 1<<20)),
		"late.dev":       says(strings.Repeat("x", 1<<20) + "\n" + token),
		"empty.dev":      says(""),
		// Pages to which others add lines, or that answer whatever they are asked.
		"guestbook.dev":      says("Welcome to my guestbook!\n" + token + "\n"),
		"guest.dev":          says(token + "\nNice site"),
		"html.dev":           typed("text/html", token),
		"comment.dev":        typed("text/html; charset=utf-8", "<!--\n"+token+"\n-->"),
		"json.dev":           typed("application/json", token),
		"binary.dev":         typed("application/octet-stream", token),
		"untyped.dev":        typed("", token),
		"mark.dev":           says("# " + token),
		"element.dev":        says("<!--\n" + token + "\n-->"),
		"list.dev":           says(token + " " + token),
		"part.dev":           says(token[:44]),
		"user.dev":           pathed("/users/mallory", says(token)),
		"query.dev":          pathed("/.well-known/webring-online.txt?user=mallory", says(token)),
		"other-path.dev":     pathed("/.well-known//webring-online.txt", says(token)),
		"tenant.dev":         leads("http://mallory.tenant.dev/.well-known/webring-online.txt"),
		"mallory.tenant.dev": says(token),
		"shop.dev":           leads("http://www.www.shop.dev/.well-known/webring-online.txt"),
		"www.www.shop.dev":   says(token),
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
	shown := map[string]bool{"alone.dev": true, "lines.dev": true, "marked.dev": true, "www.apex.dev": true, "apex.dev": true, "named.dev": true, "www.named.dev": true, "typed.dev": true,
		"mallory.tenant.dev": true, "www.www.shop.dev": true}
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
		// What names an account follows the same rule.
		if named, _ := siteproof.Accounts(t.Context(), client, "http://"+host); host != "missing.dev" && (len(named) > 0) != (shown[host] && host == "lines.dev") {
			t.Errorf("%s names %v", host, named)
		}
	}
}

// ends is a client that is led to one URL, and finds a token there.
type ends struct {
	siteproof.Client
	url, token string
}

func (e ends) Get(context.Context, fetch.Request) (*fetch.Response, error) {
	u, err := url.Parse(e.url)
	return &fetch.Response{Status: http.StatusOK, URL: u, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(e.token)}, err
}

func (ends) TXT(context.Context, string, string) ([]string, error) { return nil, nil }

// A file is as safe on its way as the member's URL is.
func TestFilesDoNotLeaveHTTPS(t *testing.T) {
	for _, c := range []struct {
		from, to string
		shown    bool
	}{
		{"http://one.dev", "http://one.dev", true},
		{"http://one.dev", "https://one.dev", true},
		{"https://one.dev", "https://one.dev", true},
		{"https://one.dev", "https://www.one.dev", true},
		{"https://one.dev", "http://one.dev", false},
		{"https://one.dev", "http://www.one.dev", false},
	} {
		at, err := siteproof.PlaceOf(c.from)
		if err != nil {
			t.Fatal(err)
		}
		_, err = siteproof.Find(t.Context(), ends{url: c.to + siteproof.File, token: tokenOf(1)}, at, tokenOf(1))
		if (err == nil) != c.shown {
			t.Errorf("%s from %s: %v", c.to, c.from, err)
		}
	}
}
