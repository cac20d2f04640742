package visits

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/static"
)

// TestWhatAVisitFinds visits sites over the client that is used, and real connections.
func TestWhatAVisitFinds(t *testing.T) {
	const rpc = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`
	html := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, body)
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	words := func(media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			fmt.Fprint(w, body)
		}
	}
	var ended sync.Map
	var reached atomic.Bool
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Store(true)
		w.Write(static.Icons[0].Body)
	}))
	t.Cleanup(inner.Close)
	sites := map[string]struct {
		kind core.Kind
		site http.HandlerFunc
		want Outcome
		why  string
		link bool
	}{
		"fine":    {core.Website, words("text/html", "<p>Hello"), Answered, "", false},
		"linked":  {core.Website, words("text/html", `<a href="https://ring.example/next?from=linked">Next</a>`), Answered, "", true},
		"text":    {core.Website, words("text/plain", `<a href="https://ring.example/next?from=text">Next</a>`), Answered, "", false},
		"broken":  {core.Website, status(500), Failed, "the site answers 500", false},
		"lost":    {core.Website, status(404), Failed, "the site answers 404", false},
		"shut":    {core.Website, status(401), Gated, "", false},
		"paid":    {core.Website, status(402), Gated, "", false},
		"gated":   {core.Website, status(403), Gated, "", false},
		"busy":    {core.Website, status(429), Gated, "", false},
		"away":    {core.Website, http.RedirectHandler("http://elsewhere.dev/", http.StatusMovedPermanently).ServeHTTP, Failed, "the redirect is not followed: it leads to another site", false},
		"private": {core.Website, http.RedirectHandler("http://127.0.0.1/", http.StatusFound).ServeHTTP, Failed, "the redirect is not followed: its target is no public http or https URL", false},
		"loop":    {core.Website, http.RedirectHandler("/again", http.StatusFound).ServeHTTP, Failed, "the redirect is not followed: there are more than 3", false},
		"within": {core.Website, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/home", http.StatusFound)
				return
			}
			html(w, `<img src="https://ring.example/badge/within.svg">`)
		}, Answered, "", true},
		"iconic": {core.Website, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/i" {
				w.Write(static.Icons[0].Body)
				return
			}
			html(w, `<link rel=icon href=/i>`)
		}, Answered, "", false},
		"luring": {core.Website, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == iconPath {
				http.Redirect(w, r, inner.URL, http.StatusFound)
				return
			}
			html(w, `<link rel=icon href="`+inner.URL+`"><link rel=icon href="http://[::ffff:127.0.0.1]/"><link rel=icon href=http://localhost/>`)
		}, Answered, "", false},
		"parked": {core.Website, words("text/html", `<html><script src="//www.sedoparking.com/x.js"></script>`), Failed, "the domain is parked or for sale", false},
		"sold":   {core.Website, words("text/html", `<title>sold.example - This Domain Is For Sale</title>`), Failed, "the domain is parked or for sale", false},
		"broker": {core.Website, words("text/html", `<title>Names</title><a href="https://dan.com/x">This domain is for sale</a>`), Answered, "", false},
		"agent": {core.Agent, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != cardPath {
				http.NotFound(w, r)
				return
			}
			words("application/json", `{"name":"Agent","url":"https://agent.example/a2a"}`)(w, r)
		}, Answered, "", false},
		"agentpage": {core.Agent, words("text/html", `<a href="https://ring.example/members/agentpage">ring</a>`), Answered, "", true},
		"cardless":  {core.Agent, words("application/json", `[]`), Answered, "", false},
		"lostagent": {core.Agent, status(404), Failed, "the site answers 404", false},
		"mcp": {core.MCP, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet:
				html(w, `<link rel=alternate type=application/rss+xml href=/feed.xml><a href="https://ring.example/prev?from=mcp">Back</a>`)
			case r.Method == http.MethodDelete:
				ended.Store(r.Header.Get(fetch.SessionField), true)
			case r.Header.Get("Content-Type") != "application/json" || !strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
				http.Error(w, "no", http.StatusBadRequest)
			default:
				w.Header().Set(fetch.SessionField, "s-1")
				words("application/json", rpc)(w, r)
			}
		}, Answered, "", true},
		"stream": {core.MCP, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hello\n\nevent: message\ndata: %s\n\n", rpc)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // a stream that does not end
		}, Answered, "", false},
		"refusing": {core.MCP, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such version"}}`)
		}, Answered, "", false},
		"keyed":  {core.MCP, status(401), Gated, "", false},
		"dead":   {core.MCP, status(502), Failed, "the site answers 502", false},
		"silent": {core.MCP, status(404), Failed, "the site answers 404", false},
		"documented": {core.MCP, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			html(w, `<p>An MCP server. <a href="https://ring.example/random?from=documented">ring</a>`)
		}, Answered, "", true},
		"older": {core.MCP, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, Answered, "", false},
	}
	cfg := fetch.Config{Map: map[string]netip.AddrPort{}, Limits: fetch.Limits{PerMinute: -1, PerAddress: -1}}
	var hosts []string
	for name, c := range sites {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if agent := r.UserAgent(); !strings.Contains(agent, "+https://ring.example/docs#visits") {
				t.Errorf("%s is visited by %q", name, agent)
			}
			c.site(w, r)
		}))
		t.Cleanup(s.Close)
		host := name + ".example"
		cfg.Map[host] = netip.MustParseAddrPort(s.Listener.Addr().String())
		hosts = append(hosts, host)
	}
	cfg.Map["closed.example"] = netip.MustParseAddrPort("127.0.0.1:1")
	hosts = append(hosts, "closed.example", "localhost.localdomain")
	b := open(t, hosts...)
	client := fetch.New(cfg)
	t.Cleanup(client.Close)
	v := New(Config{Ledger: b, Fetch: client, Log: slog.New(slog.DiscardHandler)})
	look := func(name string, kind core.Kind) sight {
		m, ok := v.member(name)
		if !ok {
			t.Fatalf("no member %s", name)
		}
		m.URL = strings.Replace(m.URL, "https://", "http://", 1)
		m.Kind = kind
		return v.visit(t.Context(), m)
	}
	for name, c := range sites {
		t.Run(name, func(t *testing.T) {
			if s := look(name, c.kind); s.outcome != c.want || s.why != c.why || s.linked != c.link {
				t.Errorf("%s: %s, link %v", s.outcome, s.why, s.linked)
			}
		})
	}
	for name, why := range map[string]string{"closed": "the site could not be reached: no connection", "localhost": "not a public http or https URL: the host name is not public"} {
		if s := look(name, core.MCP); s.outcome != Failed || s.why != why {
			t.Errorf("%s: %s, %s", name, s.outcome, s.why)
		}
	}
	if s := look("mcp", core.MCP); s.feed != "http://mcp.example/feed.xml" || !s.fed {
		t.Errorf("%q %v", s.feed, s.fed)
	}
	if s := look("keyed", core.MCP); s.feed != "" || s.fed {
		t.Errorf("%q %v, and no page was read", s.feed, s.fed)
	}
	if s := look("iconic", core.Website); s.icon == nil || len(s.icon.png) == 0 {
		t.Errorf("%+v is the icon of a site that has one", s.icon)
	}
	// The page names private addresses, and /favicon.ico leads to one.
	if s := look("luring", core.Website); s.iconAt != "" || s.icon != nil || reached.Load() {
		t.Errorf("%q, %+v, and a private address was reached: %v", s.iconAt, s.icon, reached.Load())
	}
	if _, is := ended.Load("s-1"); !is {
		t.Error("the session of an MCP server is not ended")
	}
}
