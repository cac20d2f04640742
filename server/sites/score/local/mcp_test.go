package local

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"webring/server/sites/fetch"
	"webring/server/sites/score/exemplar"
)

func check(t *testing.T, r *Report, id string) Check {
	t.Helper()
	for _, g := range r.Groups {
		for _, c := range g.Checks {
			if c.ID == id {
				return c
			}
		}
	}
	t.Fatalf("there is no check %s", id)
	return Check{}
}

// TestWaysToAnMCPServer has sites that keep cards and servers as the drafts and their
// earlier versions have it, and some that do not.
func TestWaysToAnMCPServer(t *testing.T) {
	const (
		card     = `{"name":"dev.site/tides","version":"1.0.0","remotes":[{"type":"streamable-http","url":"https://site.dev/tides/mcp"}]}`
		discover = `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`
		entry    = `{"specVersion":"1.0","entries":[{"identifier":"urn:example:skill","type":"text/markdown","url":"/x"},{"identifier":"urn:air:site.dev:mcp:tides",%s}]}`
		unknown  = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`
	)
	type page struct {
		status int
		fields string // "Name: value"
		body   string
	}
	answers := func(body string) page { return page{200, "Content-Type: application/json", body} }
	for name, c := range map[string]struct {
		url   string
		pages map[string]page // by method and path
		want  []string        // of mcp-card and mcp, those that pass
		words string          // of the evidence of one of them
		posts []string        // that the site got, but GETs
	}{
		"named by the catalog": {"/", map[string]page{
			"GET /.well-known/ai-catalog.json": answers(fmt.Sprintf(entry, `"type":"application/mcp-server-card+json","url":"https://site.dev/tides.json"`)),
			"GET /tides.json":                  answers(card), "POST /tides/mcp": answers(discover),
		}, []string{"mcp-card", "mcp"}, "The AI catalog leads to it.", []string{"POST /tides/mcp server/discover"}},
		"named by an earlier catalog": {"/", map[string]page{
			"GET /.well-known/ai-catalog.json": answers(fmt.Sprintf(entry, `"displayName":"Tides","mediaType":"application/mcp-server-card+json","url":"/tides.json"`)),
			"GET /tides.json":                  answers(card), "POST /tides/mcp": answers(discover),
		}, []string{"mcp-card", "mcp"}, "The AI catalog leads to it.", []string{"POST /tides/mcp server/discover"}},
		"in the catalog": {"/", map[string]page{
			"GET /.well-known/ai-catalog.json": answers(fmt.Sprintf(entry, `"type":"application/mcp-server-card+json","data":`+card)), "POST /tides/mcp": answers(discover),
		}, []string{"mcp-card", "mcp"}, "The AI catalog leads to it.", []string{"POST /tides/mcp server/discover"}},
		"at the reserved place": {"/", map[string]page{
			"GET /mcp/server-card": answers(strings.ReplaceAll(card, "/tides/mcp", "/mcp")), "POST /mcp": answers(discover),
		}, []string{"mcp-card", "mcp"}, "the place that is reserved", []string{"POST /mcp server/discover"}},
		"at the former place, of a former form": {"/", map[string]page{
			"GET /.well-known/mcp/server-card.json": answers(`{"serverInfo":{"name":"tides","version":"1"},"transport":{"type":"streamable-http","endpoint":"/tides/mcp"}}`), "POST /tides/mcp": answers(discover),
		}, []string{"mcp-card", "mcp"}, "where scanners look", []string{"POST /tides/mcp server/discover"}},
		"the address is the server's": {"/tides", map[string]page{
			"GET /tides": {405, "Allow: POST", ""}, "GET /tides/server-card": answers(strings.ReplaceAll(card, "/tides/mcp", "/tides")), "POST /tides": answers(discover),
		}, []string{"mcp-card", "mcp"}, "the place that is reserved", []string{"POST /tides server/discover"}},
		"the address is the server's, without a card": {"/mcp", map[string]page{
			"GET /mcp": {405, "Allow: POST", ""}, "POST /mcp": answers(discover),
		}, []string{"mcp"}, "asked by server/discover", []string{"POST /mcp server/discover"}},
		"as a stream": {"/mcp", map[string]page{
			"GET /mcp": {406, "", ""}, "POST /mcp": {200, "Content-Type: text/event-stream", ": hello\n\nevent: message\ndata: " + discover + "\n\n"},
		}, []string{"mcp"}, "asked by server/discover", []string{"POST /mcp server/discover"}},
		"an earlier server with sessions": {"/", map[string]page{
			"GET /mcp/server-card": answers(card), "POST /tides/mcp server/discover": {400, "Content-Type: application/json", unknown},
			"POST /tides/mcp initialize": {200, "Mcp-Session-Id: s-1", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"tides","version":"1"}}}`},
		}, []string{"mcp-card", "mcp"}, "asked by initialize", []string{"POST /tides/mcp server/discover", "POST /tides/mcp initialize", "DELETE /tides/mcp s-1"}},
		"wants an authorization": {"/", map[string]page{
			"GET /mcp/server-card": answers(card), "POST /tides/mcp": {401, `WWW-Authenticate: Bearer resource_metadata="https://site.dev/.well-known/oauth-protected-resource"`, ""},
		}, []string{"mcp-card", "mcp"}, "wants an authorization", []string{"POST /tides/mcp server/discover"}},
		"shuts itself off": {"/", map[string]page{
			"GET /mcp/server-card": answers(card), "POST /tides/mcp": {401, "WWW-Authenticate: Basic", ""},
		}, []string{"mcp-card"}, "Status 401.", []string{"POST /tides/mcp server/discover"}},
		"refuses both": {"/", map[string]page{
			"GET /mcp/server-card": answers(card), "POST /tides/mcp": answers(unknown),
		}, []string{"mcp-card"}, "What answers is no MCP server", []string{"POST /tides/mcp server/discover", "POST /tides/mcp initialize"}},
		"is not there": {"/", map[string]page{"GET /mcp/server-card": answers(card)}, []string{"mcp-card"}, "Status 404.", []string{"POST /tides/mcp server/discover"}},
		"is elsewhere by the catalog": {"/", map[string]page{
			"GET /.well-known/ai-catalog.json": answers(fmt.Sprintf(entry, `"type":"application/mcp-server-card+json","url":"https://tides.example/card.json"`)),
		}, nil, "No card says where a server is.", nil},
		"is elsewhere": {"/", map[string]page{
			"GET /mcp/server-card": answers(strings.ReplaceAll(card, "site.dev/tides", "tides.example")),
		}, []string{"mcp-card"}, "on other sites only", nil},
		"is named as a template": {"/", map[string]page{
			"GET /mcp/server-card": answers(strings.ReplaceAll(card, "site.dev/tides", "{host}")),
		}, []string{"mcp-card"}, "on other sites only", nil},
		"a card without an address": {"/", map[string]page{
			"GET /mcp/server-card": answers(`{"name":"dev.site/tides","version":"1.0.0"}`), "POST /mcp": answers(discover),
		}, nil, "does not have the form", nil},
		"no card, and so no question": {"/", map[string]page{"POST /mcp": answers(discover)}, nil, "No card says where a server is.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := &exemplar.Site{Name: "Example", About: "A site to be read.", Without: []string{"mcp-card", "mcp", "ai-catalog", "skills", "skill"}}
			var mu sync.Mutex
			var posts []string
			w := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				key := r.Method + " " + r.URL.Path
				p, ok := c.pages[key]
				if r.Method != http.MethodGet {
					body, _ := io.ReadAll(r.Body)
					method := r.Header.Get("Mcp-Method")
					if method == "" && strings.Contains(string(body), `"initialize"`) {
						method = "initialize"
					}
					mu.Lock()
					posts = append(posts, strings.TrimSpace(key+" "+method+r.Header.Get(fetch.SessionField)))
					mu.Unlock()
					if own, has := c.pages[key+" "+method]; has {
						p, ok = own, true
					}
				}
				if !ok {
					site.ServeHTTP(w, r)
					return
				}
				if name, value, ok := strings.Cut(p.fields, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(p.status)
				fmt.Fprint(w, p.body)
			}))
			r := scan(t, w, "https://site.dev"+c.url)
			var passed []string
			var evidence string
			for _, id := range []string{"mcp-card", "mcp"} {
				c := check(t, r, id)
				if evidence += c.Evidence; c.Passed() {
					passed = append(passed, id)
				}
			}
			if !slices.Equal(passed, c.want) || !strings.Contains(evidence, c.words) || !slices.Equal(posts, c.posts) {
				t.Errorf("passed %v, %q, sent %q", passed, evidence, posts)
			}
			if int(w.sent.Load()) != r.Requests || r.Requests > maxRequests {
				t.Errorf("%d requests, the report says %d", w.sent.Load(), r.Requests)
			}
		})
	}
}

// TestSkillIsWhatItsIndexSays has indexes of skills that do not keep their promise.
func TestSkillIsWhatItsIndexSays(t *testing.T) {
	const index = `{"skills":[{"name":"read","type":"skill-md","description":"Reads.","url":%q,"digest":%q}]}`
	const sum = "sha256:5ba14fb4d4bf93bb4b7f9f3a8dff4d2dd9aa3ac4e3a0bb0b1b0d2a6c8b6a7c6e"
	for name, c := range map[string]struct{ url, digest, words string }{
		"another digest": {"/skill.md", sum, "is not what the digest"},
		"no digest":      {"skill.md", "", "Status 404."},
		"not there":      {"/none.md", sum, "Status 404."},
		"elsewhere":      {"https://skills.example.com/read.md", sum, "on other sites only"},
		"no address":     {":", sum, "on other sites only"},
	} {
		site := &exemplar.Site{Name: "Example", About: "A site to be read."}
		r := scan(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/.well-known/agent-skills/index.json" {
				fmt.Fprintf(w, index, c.url, c.digest)
				return
			}
			site.ServeHTTP(w, r)
		})), "https://site.dev/")
		if got := check(t, r, "skill"); got.Passed() || !strings.Contains(got.Evidence, c.words) || !check(t, r, "skills").Passed() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDirectoryOfKeys holds that keys must be public.
func TestDirectoryOfKeys(t *testing.T) {
	for body, want := range map[string]bool{
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a","use":"sig"}]}`: true,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b"},{"kty":"RSA","n":"a","e":"AQAB"}]}`:                           true,
		`{"keys":[]}`: false,
		`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`:                  false,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"a","d":"b"}]}`: false,
	} {
		d := &document{}
		if d.read("signatures", []byte(body)); d.formed != want {
			t.Errorf("%s: %+v", body, d)
		}
	}
}
