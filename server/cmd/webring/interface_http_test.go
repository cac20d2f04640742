package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"webring/core/api"
)

// TestInterfaceEveryAnswerHasItsHeaders holds Api-Version, CORS and the rate
// fields on every kind of answer, from every layer.
func TestInterfaceEveryAnswerHasItsHeaders(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	tag := o.get("/api/ring").Header.Get("ETag")
	for _, c := range []struct {
		kind   string
		status int
		send   func(o *origin) reply
	}{
		{"a document", 200, func(o *origin) reply { return o.get("/api/leaderboard") }},
		{"a page", 200, func(o *origin) reply { return o.get("/") }},
		{"HEAD", 200, func(o *origin) reply { return o.send("HEAD", "/api/ring", nil) }},
		{"OPTIONS", 204, func(o *origin) reply { return o.send("OPTIONS", "/api/bid", nil) }},
		{"a redirect", 302, func(o *origin) reply { return o.get("/next") }},
		{"not modified", 304, func(o *origin) reply { return o.get("/api/ring", "If-None-Match", tag) }},
		{"a bad parameter", 400, func(o *origin) reply { return o.get("/api/ring?limit=0") }},
		{"a bad version", 400, func(o *origin) reply { return o.get("/api", "Api-Version", "2") }},
		{"no HTTP", 400, func(o *origin) reply { return o.raw("garbage\r\n\r\n") }},
		{"no such member", 404, func(o *origin) reply { return o.get("/api/ring/nobody") }},
		{"no such path", 404, func(o *origin) reply { return o.get("/nowhere") }},
		{"no such method", 405, func(o *origin) reply { return o.send("DELETE", "/api/ring", nil) }},
		{"a removed member", 410, func(o *origin) reply { return o.get("/api/ring/eta") }},
		{"a long body", 413, func(o *origin) reply { return o.post("/api/bid", strings.Repeat(" ", 16<<10+1)) }},
		{"a body in a coding that is not read", 415, func(o *origin) reply { return o.post("/api/bid", "{}", "Content-Encoding", "br") }},
		{"a body that is no JSON", 422, func(o *origin) reply { return o.send("POST", "/api/bid", []byte("{}"), "Content-Type", "text/plain") }},
		{"a long header", 431, func(o *origin) reply { return o.get("/api", "X-Long", strings.Repeat("x", 32<<10)) }},
		{"no payments", 503, func(o *origin) reply { return o.post("/api/bid", `{"member":"beta","amount":"1.00"}`) }},
	} {
		t.Run(strconv.Itoa(c.status)+" "+c.kind, func(t *testing.T) {
			o := o.in(t)
			r := c.send(o)
			if r.Status != c.status {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			o.everyAnswer(r)
			o.fields(r, "RateLimit-Limit", "1000000", "RateLimit-Policy", "1000000;w=60", "Deprecation", "", "Sunset", "", "Set-Cookie", "")
			for _, name := range []string{"RateLimit-Remaining", "RateLimit-Reset"} {
				if n, err := strconv.Atoi(r.Header.Get(name)); err != nil || n < 1 {
					t.Errorf("%s: %q", name, r.Header.Get(name))
				}
			}
			if c.status >= 400 {
				o.refused(r, c.status, r.code(t))
			}
		})
	}
}

// TestInterfaceVersioning holds that Api-Version is optional, 1 is allowed on
// all endpoints, and anything else is 400 unsupported_api_version.
func TestInterfaceVersioning(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, e := range interfaceEndpoints {
		method, path, _ := strings.Cut(strings.Replace(e, "{slug}", "beta", 1), " ")
		t.Run(e, func(t *testing.T) {
			o := o.in(t)
			without, with := o.send(method, path, nil), o.send(method, path, nil, "Api-Version", "1")
			if without.Status != with.Status || with.Status == 400 || with.Status == 404 {
				t.Errorf("status %d without, %d with Api-Version: 1", without.Status, with.Status)
			}
			o.everyAnswer(with)
			for _, v := range []string{"2", "0", "1.0", "v1", ""} {
				o.refused(o.send(method, path, nil, "Api-Version", v), 400, "unsupported_api_version")
			}
		})
	}
}

// TestInterfaceMethods holds 405 with Allow, HEAD wherever GET, and OPTIONS 204
// with CORS, on every endpoint.
func TestInterfaceMethods(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, e := range append(slices.Clone(interfaceEndpoints), "GET /", "GET /problems/empty_ring") {
		method, path, _ := strings.Cut(strings.Replace(e, "{slug}", "beta", 1), " ")
		allow, others := "GET, HEAD, OPTIONS", []string{"POST", "PUT", "PATCH", "DELETE"}
		headers := "Api-Version"
		if method == "POST" {
			allow, others = "OPTIONS, POST", []string{"GET", "HEAD", "PUT", "PATCH", "DELETE"}
			headers = "Authorization, Content-Type, Idempotency-Key, Accept-Payment, Api-Version"
		}
		if path == "/api/ring/beta" { // which its owner changes
			allow, others = "DELETE, GET, HEAD, OPTIONS, PATCH", []string{"POST", "PUT"}
			headers = "Authorization, Content-Type, Idempotency-Key, Api-Version"
		}
		t.Run("405 with Allow "+path, func(t *testing.T) {
			o := o.in(t)
			for _, other := range others {
				r := o.send(other, path, nil)
				if o.fields(r, "Allow", allow); other != "HEAD" {
					o.refused(r, 405, "method_not_allowed")
				} else if r.Status != 405 {
					t.Errorf("HEAD: status %d", r.Status)
				}
			}
		})
		t.Run("OPTIONS 204 with CORS "+path, func(t *testing.T) {
			o := o.in(t)
			r := o.send("OPTIONS", path, nil, "Origin", "https://elsewhere.dev", "Access-Control-Request-Method", method)
			if r.Status != 204 || len(r.Body) != 0 {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			o.fields(r, "Allow", allow, "Access-Control-Allow-Methods", allow)
			for name := range strings.SplitSeq(headers, ", ") {
				if !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), name) {
					t.Errorf("%s is not allowed: %q", name, r.Header.Get("Access-Control-Allow-Headers"))
				}
			}
			o.everyAnswer(r)
		})
		if method != "GET" {
			continue
		}
		t.Run("HEAD is GET without the body "+path, func(t *testing.T) {
			o := o.in(t)
			// Go's client asks for a compressed form with GET alone.
			get, head := o.get(path, "Accept-Encoding", "identity"), o.send("HEAD", path, nil, "Accept-Encoding", "identity")
			if head.Status != get.Status || len(head.Body) != 0 {
				t.Errorf("GET %d, HEAD %d with %d bytes", get.Status, head.Status, len(head.Body))
			}
			for name := range get.Header {
				differs := name == "Date" || name == "X-Request-Id" || strings.HasPrefix(name, "Ratelimit-") ||
					strings.Contains(path, "random") && (name == "Content-Length" || name == "Location")
				if !differs && get.Header.Get(name) != head.Header.Get(name) {
					t.Errorf("%s: GET %q, HEAD %q", name, get.Header.Get(name), head.Header.Get(name))
				}
			}
		})
	}
}

// TestInterfaceUnknownPaths holds 404 not_found.
func TestInterfaceUnknownPaths(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, path := range []string{"/nowhere", "/nowhere/", "/api//", "/api/rings", "/api/ring//", "/api/ring/beta/x", "/API/ring", "/api/ring/beta/x/", "//api", "/next//",
		"/api/register//", "//evil.example/", "/problems/no_such_code", "/api%2Fring", "/api%2fregister", "/api/ring%2Fbeta", "/api/ring/beta%2Fx", "/%2Fapi", "/sync%2Fcheckpoint"} {
		t.Run(path, func(t *testing.T) {
			o := o.in(t)
			o.refused(o.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), 404, "not_found")
			o.refused(o.send("POST", path, nil), 404, "not_found")
			o.refused(o.send("OPTIONS", path, nil), 404, "not_found")
		})
	}
}

// TestInterfaceASlashTooMany holds 308 to the path without it, and that what follows it comes
// where it meant to, a draft in its body too.
func TestInterfaceASlashTooMany(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for path, to := range map[string]string{"/api/": "/api", "/api/ring/?limit=1": "/api/ring?limit=1", "/api/ring/beta/": "/api/ring/beta", "/next/?from=beta": "/next?from=beta", "/problems/": "/problems", "/mcp/": "/mcp"} {
		r := o.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		from, err := url.Parse(path)
		if err == nil {
			from, err = from.Parse(r.Header.Get("Location"))
		}
		if err != nil || r.Status != http.StatusPermanentRedirect || from.String() != to {
			t.Errorf("%s: %d to %q", path, r.Status, r.Header.Get("Location"))
		}
	}
	want := o.post("/api/check", `{"name":"Zoe","url":"https://zoe.dev/","kind":"agent"}`)
	r, err := http.Post(o.base+"/api/check/", "application/json", strings.NewReader(`{"name":"Zoe","url":"https://zoe.dev/","kind":"agent"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got, err := io.ReadAll(r.Body); err != nil || r.StatusCode != want.Status || r.Request.URL.Path != "/api/check" || string(got) != string(want.Body) {
		t.Errorf("%d %s, %v; want %d %s", r.StatusCode, got, err, want.Status, want.Body)
	}
}

// TestInterfaceReadsAreFree holds that reads, traversal, redirects and the
// widget need no authentication, and do not look at any.
func TestInterfaceReadsAreFree(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, e := range interfaceEndpoints {
		path, read := strings.CutPrefix(strings.Replace(e, "{slug}", "beta", 1), "GET ")
		if !read {
			continue
		}
		t.Run(path, func(t *testing.T) {
			o := o.in(t)
			want := o.get(path).Status
			if want != 200 && want != 302 {
				t.Errorf("status %d", want)
			}
			for _, authorization := range []string{"Payment !", "Payment a, Payment b", "Bearer x", "Payment " + strings.Repeat("a", 17<<10)} {
				r := o.get(path, "Authorization", authorization, "X-Forwarded-For", "203.0.113.1")
				if r.Status != want || r.Header.Get("Payment-Receipt") != "" || r.Header.Get("WWW-Authenticate") != "" {
					t.Errorf("with %.20s: status %d", authorization, r.Status)
				}
			}
		})
	}
}

// TestInterfaceProblemTypesResolve holds that {base_url}/problems/{code} leads
// to a page that explains it, for every code there is.
func TestInterfaceProblemTypesResolve(t *testing.T) {
	t.Parallel()
	o := start(t, freely...)
	for _, code := range api.Codes() {
		t.Run(string(code), func(t *testing.T) {
			o := o.in(t)
			r := o.get("/problems/" + string(code))
			if r.Status != 200 || !strings.Contains(string(r.Body), string(code)) {
				t.Errorf("status %d: %.200s", r.Status, r.Body)
			}
			o.fields(r, "Content-Type", "text/html; charset=utf-8")
		})
	}
	// The type in a document is that address.
	doc := o.refused(o.get("/api/ring/next"), 404, "empty_ring")
	res, err := http.Get(doc["type"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !strings.Contains(string(page), "empty_ring") {
		t.Errorf("%v: status %d", err, res.StatusCode)
	}
}

// TestInterfaceNotModified holds strong validators on ring, traversal and
// widget, and 304 for them.
func TestInterfaceNotModified(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, path := range []string{"/api", "/api/ring", "/api/ring/next", "/api/ring/prev?from=beta", "/api/categories", "/api/widget?from=beta",
		"/api/ring/alpha", "/api/leaderboard"} {
		t.Run(path, func(t *testing.T) {
			o := o.in(t)
			first := o.get(path)
			tag := first.Header.Get("ETag")
			if !strings.HasPrefix(tag, `"`) {
				t.Fatalf("ETag %q", tag)
			}
			again := o.get(path, "If-None-Match", `"other", W/`+tag)
			if again.Status != 304 || len(again.Body) != 0 {
				t.Errorf("status %d", again.Status)
			}
			o.fields(again, "ETag", tag, "Cache-Control", first.Header.Get("Cache-Control"))
			if r := o.get(path, "If-None-Match", `"other"`); r.Status != 200 {
				t.Errorf("another tag: status %d", r.Status)
			}
		})
	}
}

// TestInterfaceJSONIsCompressedWhenAskedFor holds that long documents come in the coding
// that is asked for, natively and from the module, each with a tag of its own.
func TestInterfaceJSONIsCompressedWhenAskedFor(t *testing.T) {
	t.Parallel()
	members := func(f *founding) { f.join(manyMembers(120)...) }
	nodes := map[string]*origin{"native": founded(t, members, append(freely, "--core", "native")...), "wasm": founded(t, members, append(freely, "--core", "wasm")...)}
	for name, o := range nodes {
		for _, path := range []string{"/api/ring", "/api/leaderboard", "/api/categories", "/api", "/openapi.json"} {
			t.Run(name+" "+path, func(t *testing.T) {
				get := func(coding, tag string) reply {
					r := o.in(t).raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: " + coding + "\r\nIf-None-Match: " + tag + "\r\n\r\n")
					if r.Header.Get("Vary") != "Accept-Encoding" {
						t.Errorf("in %q: status %d, Vary %q", coding, r.Status, r.Header.Get("Vary"))
					}
					return r
				}
				plain := get("identity", `"none"`)
				tags := map[string]bool{plain.Header.Get("ETag"): true}
				for coding, open := range map[string]func(io.Reader) (io.Reader, error){
					"gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
					"zstd": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
					"br":   func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
				} {
					r := get(coding, `"none"`)
					in, err := open(bytes.NewReader(r.Body))
					if err != nil {
						t.Fatal(err)
					}
					if text, err := io.ReadAll(in); err != nil || !bytes.Equal(text, plain.Body) || r.Header.Get("Content-Encoding") != coding || len(r.Body) > len(plain.Body)*2/3 {
						t.Errorf("%s: %v, %d bytes in %q that decode to %d of %d", coding, err, len(r.Body), r.Header.Get("Content-Encoding"), len(text), len(plain.Body))
					}
					tag := r.Header.Get("ETag")
					if tags[tag] {
						t.Errorf("%s: the tag %s is another form's", coding, tag)
					}
					tags[tag] = true
					if again := get(coding, tag); again.Status != 304 || len(again.Body) > 0 {
						t.Errorf("%s: its own tag: %d", coding, again.Status)
					}
					if other := get("identity", tag); other.Status != 200 {
						t.Errorf("%s: its tag, asked for plain: %d", coding, other.Status)
					}
				}
			})
		}
	}
}

// TestInterfaceSlowRequests holds that an answer from the outermost layer, too,
// is a problem document with all its header fields.
func TestInterfaceSlowRequests(t *testing.T) {
	t.Parallel()
	o := start(t, freely...)
	o.refused(o.raw("POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"), 408, "request_timeout")
}
