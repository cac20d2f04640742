package edge

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/edge/edgetest"
	"webring/edge/pages"
	"webring/templates"
	"webring/wasm/host"
)

// The Accept fields of browsers, when somebody follows a link, and of some programs.
const (
	browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
	images   = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
)

func TestWhoPrefersHTML(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/html":                           true,
		browsers:                              true,
		images:                                false,
		"text/css,*/*;q=0.1":                  false,
		"text/html, */*":                      false,
		"text/html, */*;q=0.9":                true,
		"TEXT/HTML ; q=0.5":                   true,
		"text/html;q=0":                       false,
		"text/html;q=x":                       false,
		"text/*":                              false,
		"application/json, text/html":         false,
		"application/json;q=0.9, text/html":   true,
		"text/html, application/problem+json": false,
		"text/html, application/problem+json;q=0.5, */*":  true,
		"text/html;q=0.7, application/*;q=0.6, */*":       true,
		"text/html;q=0.7, application/*;q=0.8, */*;q=0.1": false,
		"text/markdown, text/html":                        false,
		"text/markdown;q=0.9, text/html":                  true,
		"text/html;q=0.4, text/markdown;q=0.3, */*;q=0.1": true,
		"text/htmlx":                        false,
		"application/json, text/plain, */*": false,
		"image/png,text/html;level=1;q=0.6, ,,;q=1, */*;q=.2": true,
	} {
		if got := pages.PrefersHTML([]byte(accept)); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
	anything := []byte("*/*")
	if n := testing.AllocsPerRun(100, func() { pages.PrefersHTML(anything) }); n > 0 && !edgetest.Race {
		t.Errorf("%v allocations for a program", n)
	}
}

// For people an error is a page with ways on; other clients get the document. This holds on
// the fast path and on fasthttp, wherever the error is found.
func TestErrorsArePagesForPeople(t *testing.T) {
	ring := newRing(t)
	edgetest.Apply(t, ring, &core.Removed{Stamp: (epoch + 2) * 1000, Member: "beta", Reason: "asked to"}, nil)
	check := func(context.Context, string, templates.Draft) templates.Checked { panic("asked") }
	gone := func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		ctx.SetStatusCode(503)
		ctx.SetContentType("application/problem+json")
		ctx.Response.Header.Set("Retry-After", "2")
		ctx.SetBody(api.AppendProblem(nil, base, api.NotLeader, "Nobody leads.", nil))
	}
	s := serve(t, Config{Core: ring, Check: check, Paid: map[string]Handler{"/api/bid": gone},
		Others: map[string]Handler{"GET /reports/{id}": gone}})
	empty := serve(t, Config{Core: openedRing(t)})
	closed := serve(t, Config{Core: host.NewNative(1)})
	broken := serve(t, Config{Core: &fakeCore{serve: func([]byte, *api.Response) { panic("broken") }}})
	type way struct{ href, text string }
	random, join := way{"random", "A random member"}, way{"join", "Join the ring"}
	for _, c := range []struct {
		s      *site
		begins string
		code   api.Code
		words  string
		root   string
		ways   []way
	}{
		{s, "GET /nowhere", api.NotFound, "This page does not exist", "", []way{random, join}},
		{s, "GET /a/b/nowhere?x=%22%3E", api.NotFound, "This page does not exist", "../../", []way{random, join}},
		{s, "GET http://ring.example/members/", api.NotFound, "This page does not exist", "../", []way{random}},
		{s, "GET /" + strings.Repeat("a/", 500), api.NotFound, "This page does not exist", "/", []way{random}},
		{s, "GET /members/nobody-here", api.UnknownMember, "No such member", "../", []way{random, join}},
		{s, "GET /members/%3Cb%3E", api.UnknownMember, "No such member", "../", []way{random}},
		{s, "GET /members/beta", api.MemberRemoved, "This member is gone", "../", []way{random, join}},
		{s, "GET /ring?page=0", api.InvalidParameter, "This address is not valid", "", []way{random}},
		{s, "GET /next?kind=mcp&from=alpha", api.EmptyRing, "No member matches", "", []way{random}},
		{s, "GET /random?kind=robot", api.InvalidParameter, "kind", "", []way{random}},
		{s, "POST /members/alpha", api.MethodNotAllowed, "This does not work here", "../", []way{{"", "Open this page"}, random}},
		{s, "PUT /nowhere", api.NotFound, "This page does not exist", "", []way{random}},
		{s, "POST /join", api.InvalidRequest, "The form cannot be read", "", []way{random}},
		{s, "GET /ring HTTP/1.1\r\nApi-Version: 2", api.UnsupportedAPIVersion, "This version", "", []way{random}},
		{s, "GET /reports/x?y=1", api.NotLeader, "Try again in 2 seconds.", "../", []way{{"", "Try again"}, random}},
		{empty, "GET /next", api.EmptyRing, "The ring is empty", "", []way{{"join", "Be the first to join"}}},
		{empty, "GET /nowhere", api.NotFound, "This page does not exist", "", []way{{"join", "Be the first to join"}}},
		{empty, "GET /members/x", api.UnknownMember, "The ring is empty. Join now", "../", []way{{"join", "Be the first to join"}}},
		{closed, "GET /next?from=a", api.Internal, "Something went wrong here", "", []way{{"", "Try again"}, random}},
		{closed, "GET /", api.Internal, "Something went wrong here", "", []way{{"", "Try again"}, random}},
		{broken, "GET /next", api.Internal, "It is not your fault", "", []way{random}},
		{broken, "GET /about", api.Internal, "It is not your fault", "", []way{random}},
	} {
		version := " HTTP/1.1"
		if strings.Contains(c.begins, version) {
			version = ""
		}
		ask := func(fields string) reply {
			return c.s.Raw(c.begins + version + "\r\nHost: x\r\n" + fields + "\r\n")
		}
		for _, usual := range []string{"", unusual} {
			for _, program := range []string{"", "Accept: */*\r\n", "Accept: application/json\r\n", "Accept: text/markdown, text/html, */*\r\n", "Accept: " + images + "\r\n"} {
				r := ask(usual + program)
				if c.s != closed { // it does not know its address
					wantProblem(t, r, c.code)
				}
				wantFields(t, r, "Content-Type", "application/problem+json", "Vary", "Accept", "Content-Security-Policy", "")
			}
			r := ask(usual + "Accept: " + browsers + "\r\nX-Request-Id: my-request-1\r\n")
			wantCommon(t, r)
			wantFields(t, r, "Content-Type", pages.Media, "Cache-Control", "no-store", "Vary", "Accept", "ETag", "",
				"Content-Security-Policy", templates.Policy, "Referrer-Policy", "strict-origin-when-cross-origin")
			wants := []string{c.words, "<title>", "my-request-1</code>", fmt.Sprintf("Error %d<", c.code.Status()),
				fmt.Sprintf(`href="%sproblems/%s"`, c.root, c.code)}
			for _, w := range c.ways {
				if w.href != "" {
					w.href = c.root + w.href
				}
				wants = append(wants, fmt.Sprintf(`href="%s">%s</a>`, w.href, w.text))
			}
			if c.s != empty {
				wants = append(wants, fmt.Sprintf(`role="search" action="%sring" method="get"`, c.root))
			}
			for _, want := range wants {
				if !strings.Contains(r.Body, want) {
					t.Errorf("%s: no %s in %s", c.begins, want, r.Body)
				}
			}
			if r.Status != c.code.Status() || len(r.Body) > 6<<10 {
				t.Errorf("%s: status %d, %d bytes", c.begins, r.Status, len(r.Body))
			}
		}
	}
	head := s.Raw("HEAD /nowhere HTTP/1.1\r\nHost: x\r\nAccept: " + browsers + "\r\n\r\n")
	if head.Status != 404 || head.Body != "" || len(head.Header.Get("Content-Length")) != 4 {
		t.Errorf("HEAD: %d %v %s", head.Status, head.Header, head.Body)
	}
	// What programs alone ask for has no pages, and what comes by no path of the ring has.
	for request, code := range map[string]api.Code{
		"GET /api/nowhere": api.NotFound, "GET /api/ring/nobody": api.UnknownMember, "GET /api/ring/next?kind=mcp": api.EmptyRing, "PUT /mcp": api.MethodNotAllowed,
		"GET /mcp/x": api.NotFound, "GET /sync/checkpoint": api.NotFound, "POST /api/bid": api.NotLeader, "DELETE /api": api.MethodNotAllowed,
	} {
		r := s.Raw(request + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAccept: " + browsers + "\r\n\r\n")
		wantProblem(t, r, code)
		wantFields(t, r, "Vary", "")
	}
	for _, request := range []string{"GET /apis HTTP/1.1\r\n", "GET /a#b HTTP/1.1\r\n", "POST /join HTTP/1.1\r\nContent-Length: 99999\r\n"} {
		if r := s.Raw(request + "Host: x\r\nAccept: " + browsers + "\r\n\r\n"); r.Status < 400 || r.Header.Get("Content-Type") != pages.Media {
			t.Errorf("%q: %d %v %s", request, r.Status, r.Header, r.Body)
		}
	}
}

// A visitor who is one too many is told when to come again.
func TestTooManyRequestsIsAPage(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 1, Now: newClock().Now})
	s.Get("/api")
	r := s.Get("/next?from=alpha", "Accept", browsers)
	wantFields(t, r, "Content-Type", pages.Media, "Retry-After", "60", "Vary", "Accept")
	if r.Status != 429 || !strings.Contains(r.Body, "Try again in 60 seconds.") || !strings.Contains(r.Body, `href="">Try again</a>`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	wantProblem(t, s.Get("/next?from=alpha"), api.RateLimited)
	// The page in the cache has the request and the wait of each.
	for _, target := range []string{"/members/alpha?amount=%22%3E", "/members/x%3Cb%3E", "/a&b", "/", "/" + strings.Repeat("a/", 9) + "b", "/" + strings.Repeat("a", 700)} {
		for _, id := range []string{"first-request", "second-request"} {
			r := s.Get(target, "Accept", browsers, "X-Request-Id", id)
			deep := strings.Count(target, "/") - 1
			home := `href="` + strings.Repeat("../", deep) + `random"`
			if deep > 8 {
				home = `href="/random"`
			}
			for _, want := range []string{`href="">Try again</a>`, "Request <code>" + id + "</code>", home} {
				if r.Status != 429 || !strings.Contains(r.Body, want) {
					t.Errorf("%s: %d, no %s in %s", target, r.Status, want, r.Body)
				}
			}
		}
	}
	for _, form := range []string{"name=x", ""} {
		r := s.Do("POST", "/join", form, "Content-Type", formType, "Accept", browsers)
		if r.Status != 429 || !strings.Contains(r.Body, `href="">Back to the form</a>`) || strings.Contains(r.Body, "7d0c4f1b") {
			t.Errorf("a form: %d %s", r.Status, r.Body)
		}
	}
}

// The page of a member that its owner has taken out of the ring says how it puts the member back, as
// long as it can. One that the operator removed offers nothing.
func TestWhoLeftIsOfferedTheReturn(t *testing.T) {
	ring, now := newRing(t), newClock()
	left := int64(epoch+2) * 1000
	edgetest.Apply(t, ring, &core.Removed{Stamp: left, Member: "beta", Reason: "asked to"}, nil)
	edgetest.Apply(t, ring, &core.Departed{Stamp: left, Member: "gamma"}, nil)
	s := serve(t, Config{Core: ring, Now: now.Now})
	const offered = "Is it yours? Return free until"
	until := time.UnixMilli(left + core.ReturnSpan).UTC()
	now.Move(until.Add(-time.Second).Sub(now.Now()))
	r := s.Get("/members/gamma", "Accept", browsers)
	for _, want := range []string{"This member has left", offered + ` <time datetime="` + until.Format(time.RFC3339) + `">` + until.Format("2 January 2006"), "/api/ring/gamma/return&#39; -J &#39;{}&#39;", `href="../docs#owners"`} {
		if r.Status != 410 || !strings.Contains(r.Body, want) {
			t.Errorf("%d, no %s in %s", r.Status, want, r.Body)
		}
	}
	for _, path := range []string{"/members/beta", "/embed?from=gamma", "/members/gamma"} {
		if path == "/members/gamma" {
			now.Move(time.Second)
		}
		if r := s.Get(path, "Accept", browsers); strings.Contains(r.Body, offered) || strings.Contains(r.Body, "see the docs") {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
}

// Whoever asks too often costs no more with each further request: nothing is read for it, and
// no page is drawn.
func TestACrowdIsAnsweredFromTheCache(t *testing.T) {
	asked := 0
	ring := newRing(t)
	s := serve(t, Config{Core: &fakeCore{serve: func(target []byte, a *api.Response) {
		asked++
		ring.Serve(target, a)
		a.Seq = 7 // where this core stands
	}}, RateLimit: 1, Now: newClock().Now, Check: func(context.Context, string, templates.Draft) templates.Checked { panic("asked") }})
	ask := func() reply {
		return s.Do("POST", "/join", "name=x", "Content-Type", formType, "Accept", browsers)
	}
	s.Get("/api")
	asked = 0
	if first := ask(); first.Status != 429 || asked == 0 {
		t.Fatalf("%d, %d documents: %s", first.Status, asked, first.Body)
	}
	asked = 0
	for range 3 {
		if again := ask(); again.Status != 429 || !strings.Contains(again.Body, "Too many requests") {
			t.Errorf("%d %s", again.Status, again.Body)
		}
	}
	if asked > 0 {
		t.Errorf("%d documents were read for requests that are refused", asked)
	}
}

// requestShown matches the id of a request in an error page.
var requestShown = regexp.MustCompile(`Request <code>[^<]*</code>`)
