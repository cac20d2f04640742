package edge

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/edgetest"
)

func paidOK(ctx *fasthttp.RequestCtx, _ string, _ bool) {
	ctx.Response.Header.SetContentType("application/json")
	ctx.SetBodyString("{}")
}

func TestEveryReadPathAnswersGetAndHeadAlike(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	paths := []string{"/", "/problems/empty_ring", s.router.List()["GET"][len(s.router.List()["GET"])-1]}
	for _, p := range api.Paths() {
		paths = append(paths, strings.Replace(p, "{slug}", "beta", 1))
	}
	paths = append(paths, "/api/ring/nobody", "/api/ring?limit=x", "/nowhere", "/api/ring?limit=1&offset=1", "/next?from=nobody")
	for _, path := range paths {
		get, head := s.Get(path), s.Do("HEAD", path, "")
		if head.Body != "" {
			t.Errorf("HEAD %s: a body", path)
		}
		if get.Status != head.Status {
			t.Errorf("%s: GET %d, HEAD %d", path, get.Status, head.Status)
		}
		if get.Header.Get("Content-Length") == "" || strings.Contains(path, "random") {
			get.Header.Del("Content-Length") // another member's page
			head.Header.Del("Content-Length")
			get.Header.Del("Location")
			head.Header.Del("Location")
		}
		for name := range get.Header {
			if name != "Date" && name != "X-Request-Id" && strings.Join(get.Header[name], "|") != strings.Join(head.Header[name], "|") {
				t.Errorf("%s: %s: GET %q, HEAD %q", path, name, get.Header[name], head.Header[name])
			}
		}
		if len(get.Header) != len(head.Header) {
			t.Errorf("%s: GET %v, HEAD %v", path, get.Header, head.Header)
		}
	}
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	for _, path := range []string{
		"/nowhere", "/nowhere/", "//api", "/api//ring", "/api//", "///", "/api/ring/a/b", "/api/ring/a/b/", "/api/ring//",
		"/next//", "/NEXT", "/NEXT/", "/Api", "/problems/no_such_code", "/static/",
		"/static/style.css", "/api/../api/ring/x/y", "/%zz", "/api/ring/%zz", "/./api", "/api;x=1", "/*", "/{slug}",
	} {
		wantProblem(t, s.Raw("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), api.NotFound)
	}
	for _, method := range []string{"POST", "PUT", "OPTIONS", "DELETE", "HEAD", "TRACE", "BREW"} {
		wantProblem(t, s.Do(method, "/nowhere", ""), api.NotFound)
		wantProblem(t, s.Do(method, "/api/ring/a/b", ""), api.NotFound)
	}
}

// What people paste works: a slash at the end too many leads to the path without it.
func TestASlashTooManyLeadsToThePathWithoutIt(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/register": paidOK, "PATCH /api/ring/{slug}": paidOK}})
	for _, c := range []struct{ method, sent, location string }{
		{"GET", "/api/", "/api"}, {"GET", "/api/ring/", "/api/ring"}, {"HEAD", "/next/?from=alpha", "/next?from=alpha"}, {"GET", "/random/", "/random"},
		{"GET", "/next/?from=https%3A%2F%2Fa.example%2F&x=//y/", "/next?from=https%3A%2F%2Fa.example%2F&x=//y/"},
		{"GET", "/next/?from=\xff\"<>", "/next?from=%FF\"<>"}, {"GET", "/next/?", "/next?"}, {"GET", "/%6Eext/?from=alpha", "/%6Eext?from=alpha"},
		{"GET", "/api/ring/beta/", "/api/ring/beta"}, {"GET", "/api/ring/nobody/", "/api/ring/nobody"}, {"PATCH", "/api/ring/beta/", "/api/ring/beta"},
		{"POST", "/api/register/?x=y", "/api/register?x=y"}, {"GET", "/mcp/", "/mcp"}, {"POST", "/mcp/", "/mcp"}, {"PUT", "/leaderboard/", "/leaderboard"},
		{"GET", "/problems/", "/problems"}, {"GET", "/members/beta/", "/members/beta"}, {"GET", "/llms.txt/", "/llms.txt"}, {"GET", "/widget.js/", "/widget.js"}, {"GET", "/sitemaps/pages.xml/", "/sitemaps/pages.xml"},
		{"GET", "http://other.example/next/?from=alpha", "/next?from=alpha"}, {"GET", "//", "/"}, {"GET", "//?page=2", "/?page=2"},
		// None leads to another host, or to where nothing is.
		{"GET", "//evil.example/", ""}, {"GET", "//evil.example/next/", ""}, {"GET", "/\\evil.example/", ""}, {"GET", "/next//", ""}, {"POST", "/mcp//", ""}, {"GET", "/%2f", ""}, {"GET", "/%2Fevil.example/", ""},
		{"GET", "/next%2f", ""}, {"GET", "/next/%2F/", ""}, {"GET", "/%5Cevil.example/", ""}, {"GET", "/nowhere/", ""}, {"GET", "/api/ring/a/b/", ""}, {"GET", "///", ""}, {"GET", "/.//evil.example/", ""},
	} {
		r := s.Raw(c.method + " " + c.sent + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		want := ""
		if path, query, more := strings.Cut(c.location, "?"); path != "" {
			if want = "../" + path[strings.LastIndexByte(path, '/')+1:]; more {
				want += "?" + query
			}
		}
		if got := r.Header.Get("Location"); got != want || (r.Status == 308) != (c.location != "") || r.Status < 300 {
			t.Errorf("%s %s: status %d, to %q, want %q", c.method, c.sent, r.Status, got, want)
		}
		if wantCommon(t, r); r.Status == 308 {
			wantFields(t, r, "Cache-Control", "no-store")
		}
	}
	// It is right behind a proxy that takes a path off, too.
	there, err := url.Parse("https://ring.example/below/next/?from=alpha")
	if err == nil {
		there, err = there.Parse(s.Raw("GET /next/?from=alpha HTTP/1.1\r\nHost: x\r\n\r\n").Header.Get("Location"))
	}
	if err != nil || there.String() != "https://ring.example/below/next?from=alpha" {
		t.Errorf("%v, %v", there, err)
	}
	// A browser's preflight is answered where it comes, and the request after it is led on.
	wantFields(t, s.Do("OPTIONS", "/api/register/", "", "Origin", "https://elsewhere.example", "Access-Control-Request-Method", "POST"), "Allow", "OPTIONS, POST", "Location", "")
	client := *s.Client
	client.CheckRedirect = nil
	resp, err := client.Post("http://"+s.Addr+"/api/register/?a=b", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Read(resp); r.Status != 200 || resp.Request.Method != "POST" || resp.Request.URL.RequestURI() != "/api/register?a=b" {
		t.Errorf("status %d of %s %s", r.Status, resp.Request.Method, resp.Request.URL)
	}
}

// Whatever a description says that a client may send, a browser's page may send, too.
func TestABrowserMaySendWhatIsDescribed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/register": paidOK, "/api/bid": paidOK, "PATCH /api/ring/{slug}": paidOK, "DELETE /api/ring/{slug}": paidOK}})
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Ref string `json:"$ref"`
			}
		}
		Components struct {
			Parameters map[string]struct{ In string }
		}
	}
	if err := json.Unmarshal([]byte(s.Get("/openapi.json").Body), &doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			allowed := s.Do("OPTIONS", strings.Replace(path, "{slug}", "beta", 1), "").Header.Get("Access-Control-Allow-Headers")
			for _, p := range op.Parameters {
				name := strings.TrimPrefix(p.Ref, "#/components/parameters/")
				if checked++; doc.Components.Parameters[name].In == "header" && !strings.Contains(allowed+",", name+",") && allowed != "" {
					t.Errorf("%s %s: %s is described, and not among %s", method, path, name, allowed)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d parameters are described", checked)
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/register": paidOK}})
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "/api", "GET, HEAD, OPTIONS"}, {"PUT", "/api/ring", "GET, HEAD, OPTIONS"},
		{"DELETE", "/api/ring/beta", "GET, HEAD, OPTIONS"}, {"PATCH", "/next", "GET, HEAD, OPTIONS"},
		{"POST", "/", "GET, HEAD, OPTIONS"}, {"BREW", "/api", "GET, HEAD, OPTIONS"}, {"TRACE", "/api", "GET, HEAD, OPTIONS"},
		{"GET", "/api/register", "OPTIONS, POST"}, {"HEAD", "/api/register", "OPTIONS, POST"}, {"PUT", "/api/register", "OPTIONS, POST"},
		{"get", "/api", "GET, HEAD, OPTIONS"},
	} {
		r := s.Do(c.method, c.path, "")
		if c.method == "get" { // Go's client would send GET
			r = s.Raw("get /api HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		wantProblem(t, r, api.MethodNotAllowed)
		wantFields(t, r, "Allow", c.allow)
	}
}

func TestOptionsListsWhatAPathCanDo(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/register": paidOK}})
	for path, want := range map[string][2]string{
		"/api/ring":      {"GET, HEAD, OPTIONS", "Api-Version, If-None-Match, X-Request-Id"},
		"/api/ring/beta": {"GET, HEAD, OPTIONS", "Api-Version, If-None-Match, X-Request-Id"},
		"/next":          {"GET, HEAD, OPTIONS", "Api-Version, If-None-Match, X-Request-Id"},
		"/api/register":  {"OPTIONS, POST", "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Accept-Payment, Wallet-Account, Api-Version, X-Request-Id, PAYMENT-SIGNATURE, Access-Control-Expose-Headers"},
	} {
		r := s.Do("OPTIONS", path, "", "Origin", "https://elsewhere.example", "Access-Control-Request-Method", "POST")
		if r.Status != 204 || r.Body != "" {
			t.Errorf("%s: %d %q", path, r.Status, r.Body)
		}
		wantFields(t, r, "Allow", want[0], "Access-Control-Allow-Methods", want[0], "Access-Control-Allow-Headers", want[1])
		wantCommon(t, r)
	}
	r := s.Raw("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	if r.Status != 204 {
		t.Errorf("*: %d", r.Status)
	}
	wantFields(t, r, "Allow", "DELETE, GET, HEAD, OPTIONS, PATCH, POST")
}

func TestMembersAreChangedAtTheirOwnPath(t *testing.T) {
	tell := func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		fmt.Fprintf(ctx, "%s %v %s", ctx.Method(), ctx.UserValue("slug"), Body(ctx))
	}
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"PATCH /api/ring/{slug}": tell, "DELETE /api/ring/{slug}": tell, "POST /api/ring/{slug}/claim": tell}})
	const member, claim = "DELETE, GET, HEAD, OPTIONS, PATCH", "OPTIONS, POST"
	for _, c := range []struct{ method, path, body, says string }{
		{"PATCH", "/api/ring/beta", `{"name":"x"}`, `PATCH beta {"name":"x"}`},
		{"PATCH", "/api/ring/b%65ta?x=y", "", "PATCH beta "},
		{"DELETE", "/api/ring/no-such-member", "", "DELETE no-such-member "},
		{"DELETE", "/api/ring/beta", "{}", "DELETE beta {}"},
		{"POST", "/api/ring/beta/claim", "{}", "POST beta {}"},
	} {
		if r := s.Do(c.method, c.path, c.body); r.Status != 200 || r.Body != c.says {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, r.Status, r.Body, c.says)
		}
	}
	for _, c := range []struct{ method, path, allow string }{
		{"PATCH", "/api/ring/next", "GET, HEAD, OPTIONS"}, {"DELETE", "/api/ring/random", "GET, HEAD, OPTIONS"}, {"DELETE", "/api/ring", "GET, HEAD, OPTIONS"},
		{"POST", "/api/ring/beta", member}, {"PUT", "/api/ring/beta", member},
		{"GET", "/api/ring/beta/claim", claim}, {"PATCH", "/api/ring/beta/claim", claim},
	} {
		r := s.Do(c.method, c.path, "")
		wantProblem(t, r, api.MethodNotAllowed)
		wantFields(t, r, "Allow", c.allow)
	}
	r := s.Do("OPTIONS", "/api/ring/beta", "", "Origin", "https://elsewhere.example", "Access-Control-Request-Method", "PATCH")
	wantFields(t, r, "Allow", member, "Access-Control-Allow-Methods", member,
		"Access-Control-Allow-Headers", "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Accept-Payment, Wallet-Account, Api-Version, X-Request-Id, PAYMENT-SIGNATURE, Access-Control-Expose-Headers")
	wantProblem(t, s.Do("PATCH", "/api/ring/beta", "{}", "Content-Type", "text/plain"), api.InvalidRequest)
	wantProblem(t, s.Do("DELETE", "/api/ring/a/b", ""), api.NotFound)
}

// What the core ignores is left out.
func TestTheCoreGetsTheTargetAsItWasSent(t *testing.T) {
	var got string
	core := &fakeCore{serve: func(target []byte, r *api.Response) {
		got = string(target)
		*r = api.Response{Status: 200, Body: append(r.Body[:0], '{', '}')}
	}}
	s := serve(t, Config{Core: core})
	for sent, want := range map[string]string{
		"/next?from=https://a.com/b//c":      "/next?from=https://a.com/b//c",
		"/next?from=a%2Fb%zz&&x=+%00":        "/next?from=a%2Fb%zz",
		"/next?":                             "/next",
		"/api/ring/%62eta":                   "/api/ring/%62eta",
		"/%6Eext?from=\xff":                  "/next?from=\xff",
		"/next?from=//evil.example/next":     "/next?from=//evil.example/next",
		"http://other.example/next?kind=b":   "/next?kind=b",
		"HTTPS://other.example/api/ring/x":   "/api/ring/x",
		"http://user:pw@other.example/next":  "/next",
		"http://a.example/next?from=http://": "/next?from=http://",
	} {
		got = ""
		r := s.Raw("GET " + sent + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if r.Status != 200 || got != want {
			t.Errorf("%s: status %d, the core got %q, want %q", sent, r.Status, got, want)
		}
	}
}

func TestTargetsInAbsoluteFormMayLeaveThePathOut(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, target := range []string{"http://ring.example", "http://ring.example?x=1", "http://ring.example/"} {
		r := s.Raw("GET " + target + " HTTP/1.1\r\nHost: ring.example\r\n\r\n")
		if r.Status != 200 || !strings.Contains(r.Body, "<h1") {
			t.Errorf("%s: %d", target, r.Status)
		}
	}
}

func TestTargetsThatAreNoPathAreMalformed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, line := range []string{
		"GET * HTTP/1.1", "GET ftp://x/next HTTP/1.1", "CONNECT ring.example:443 HTTP/1.1", "GET next HTTP/1.1",
		"GET /next#top HTTP/1.1", "GET http:///next HTTP/1.1", "GET http://?x HTTP/1.1", "GET  /next HTTP/1.1",
		"GET /a b HTTP/1.1", "GET /next", "GET /next HTTP/9", "/next", "GET /next\x00 HTTP/1.1",
	} {
		wantProblem(t, s.Raw(line+"\r\nHost: x\r\n\r\n"), api.Malformed)
	}
}

func TestRequestsWithBrokenFramingAreMalformed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	for name, request := range map[string]string{
		"no host":              "GET /api HTTP/1.1\r\n\r\n",
		"two hosts":            "GET /api HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"bad host":             "GET /api HTTP/1.1\r\nHost: a b\r\n\r\n",
		"field without colon":  "GET /api HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
		"space before colon":   "GET /api HTTP/1.1\r\nHost : x\r\n\r\n",
		"control in a value":   "GET /api HTTP/1.1\r\nHost: x\r\nX: a\x01b\r\n\r\n",
		"two lengths":          "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"negative length":      "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"unknown coding":       "POST /api/bid HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
		"broken chunk":         "POST /api/bid HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
		"TLS to a plain port":  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"control in the field": "GET /api HTTP/1.1\r\nHost: x\r\nX\x01Y: a\r\n\r\n",
	} {
		r := s.Raw(request)
		wantProblem(t, r, api.Malformed)
		if !r.Closed {
			t.Errorf("%s: the connection stays open", name)
		}
	}
}

func TestBodiesAbove16KiBAreTooLarge(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	at, above := strings.Repeat("x", MaxBody), strings.Repeat("x", MaxBody+1)
	if r := s.Do("POST", "/api/bid", at); r.Status != 200 {
		t.Errorf("16 KiB: status %d", r.Status)
	}
	wantProblem(t, s.Do("POST", "/api/bid", above), api.BodyTooLarge)
	wantProblem(t, s.Do("GET", "/api", above), api.BodyTooLarge)
	head := "POST /api/bid HTTP/1.1\r\nHost: x\r\n"
	wantProblem(t, s.Raw(head+"Transfer-Encoding: chunked\r\n\r\n4001\r\n"+above+"\r\n0\r\n\r\n"), api.BodyTooLarge)
	wantProblem(t, s.Raw(head+"Content-Length: 99999999999\r\n\r\n"), api.BodyTooLarge)
	// The client hears of it although it goes on sending for a while.
	wantProblem(t, s.Raw(head+"Content-Length: 200000\r\n\r\n"+strings.Repeat("x", 200000)), api.BodyTooLarge)
}

func TestHeadersAbove24KiBAreTooLarge(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	// A credential of 16 KiB and then some must reach the handler.
	if r := s.Do("POST", "/api/bid", "{}", "Authorization", "Payment "+strings.Repeat("a", 20<<10)); r.Status != 200 {
		t.Errorf("20 KiB: status %d", r.Status)
	}
	wantProblem(t, s.Raw("GET /api HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", MaxHeader)+"\r\n\r\n"), api.HeaderTooLarge)
	wantProblem(t, s.Raw("GET /"+strings.Repeat("a", MaxHeader)+" HTTP/1.1\r\nHost: x\r\n\r\n"), api.HeaderTooLarge)
}

// Whatever is answered at an old path, and the document says so, for ninety days.
func TestDeprecationIsOnEveryAnswer(t *testing.T) {
	since := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	old := func(path string, days int) map[string]describe.Deprecation {
		return map[string]describe.Deprecation{path: {Since: since, Sunset: since.AddDate(0, 0, days), Successor: "/api/v2/ring"}}
	}
	for days, ok := range map[int]bool{-1: false, 89: false, 90: true, 400: true} {
		if _, err := newShell(Config{Core: newRing(t)}, old("/api/ring", days)); (err == nil) != ok {
			t.Errorf("%d days: %v", days, err)
		}
	}
	sites := map[string]*site{}
	for _, path := range []string{"/api/ring", "/api/ring/{slug}"} {
		sh, err := newShell(Config{Core: newRing(t), RateLimit: 8}, old(path, 90))
		if err != nil {
			t.Fatal(err)
		}
		sites[path] = &site{Shell: sh, Site: edgetest.Serve(t, sh, false)}
	}
	list := sites["/api/ring"]
	for _, method := range []string{"GET", "HEAD"} {
		r := list.Do(method, "/api/ring?limit=1", "")
		wantFields(t, r, "Deprecation", "@1798859045", "Link", `<https://ring.example/api/ring?limit=1&offset=1>; rel="next" | </api/v2/ring>; rel="successor-version"`)
	}
	wantFields(t, list.Get("/api/ring/beta"), "Deprecation", "", "Sunset", "")

	s := sites["/api/ring/{slug}"]
	wantFields(t, s.Get("/api/categories"), "Deprecation", "", "Sunset", "")
	tag := s.Get("/api/ring/beta").Header.Get("ETag")
	for want, r := range map[int]reply{
		200: s.Get("/api/ring/%62eta"),
		304: s.Get("/api/ring/beta", "If-None-Match", tag),
		400: s.Get("/api/ring/beta", "Api-Version", "2"),
		404: s.Get("/api/ring/nobody"),
		405: s.Do("DELETE", "/api/ring/beta", ""),
		204: s.Do("OPTIONS", "/api/ring/beta", ""),
		429: s.Get("/api/ring/beta"),
	} {
		if r.Status != want {
			t.Errorf("status %d, want %d", r.Status, want)
		}
		wantFields(t, r, "Deprecation", "@1798859045", "Sunset", "Fri, 02 Apr 2027 03:04:05 GMT")
	}
	s.SetRateLimit(0)
	var doc struct {
		Paths map[string]map[string]struct {
			Deprecated  bool
			Description string
		}
	}
	if err := json.Unmarshal([]byte(s.Get("/openapi.json").Body), &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		if op := item["get"]; op.Deprecated != (path == "/api/ring/{slug}") || op.Deprecated && !strings.Contains(op.Description, "gone on 2027-04-02") {
			t.Errorf("%s: deprecated %t: %s", path, op.Deprecated, op.Description)
		}
	}
}

func TestFieldNamesAreSpelledAsInTheInterface(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 5})
	head := s.RawHead("GET /api/ring?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy", "Api-Version", "ETag", "Link", "Webring-Seq"} {
		if !strings.Contains(head, "\r\n"+name+": ") {
			t.Errorf("no %s in %s", name, head)
		}
	}
}
