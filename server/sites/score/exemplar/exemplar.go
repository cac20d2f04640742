// Package exemplar is a small website that is ready for agents in every way that
// the local rubric knows, and that can leave out one at a time. Tests score it;
// the development ring serves it as its members' sites.
package exemplar

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Site is one such website. It answers for any host name, and every page below
// Path, or "/", is its home page.
type Site struct {
	Name  string
	About string // one sentence
	Path  string // of the home page; "" for "/"
	// Without lists checks, by their id in the rubric, that are to fail.
	Without []string
}

// ServeHTTP answers as the site.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	base := scheme + "://" + r.Host
	for _, agent := range []string{"GPTBot", "ClaudeBot", "ChatGPT-User", "PerplexityBot"} {
		if strings.Contains(r.UserAgent(), agent) && !s.has(strings.ToLower(agent)) {
			http.Error(w, "not for agents", http.StatusForbidden)
			return
		}
	}
	home := s.Path
	if home == "" {
		home = "/"
	}
	switch path := r.URL.Path; {
	case path == home || path == "/":
		s.home(w, r, base)
	case path == "/about" || path == "/contact" || path == "/privacy":
		send(w, "text/html; charset=utf-8", "<!DOCTYPE html><html lang=en><title>"+path[1:]+"</title><h1>"+path[1:]+"</h1><p>Write to hello@"+html.EscapeString(r.Host))
	case path == "/robots.txt" && s.has("robots"):
		send(w, "text/plain", "User-agent: *\nAllow: /\n"+s.signal()+"\nSitemap: "+base+"/sitemap.xml\n")
	case path == "/robots.txt":
		send(w, "text/plain", "User-agent: *\nAllow: /\n"+s.signal()+"\nUser-agent: GPTBot\nDisallow: /\n")
	case path == "/sitemap.xml" && s.has("sitemap"):
		send(w, "application/xml", `<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+base+`/</loc></url><url><loc>`+base+`/about</loc></url></urlset>`)
	case path == "/llms.txt" && s.has("llms-txt"):
		send(w, "text/plain; charset=utf-8", "# "+s.Name+"\n\n> "+s.About+"\n\n## Pages\n\n- [About]("+base+"/about)\n")
	case path == "/skill.md" && s.has("skill"):
		send(w, "text/markdown; charset=utf-8", skill)
	case path == "/mcp" && r.Method == http.MethodPost && s.has("mcp"):
		s.introduce(w, r)
	case s.document(w, path, base):
	default:
		s.missing(w)
	}
}

func (s *Site) has(check string) bool { return !slices.Contains(s.Without, check) }

func (s *Site) signal() string {
	if s.has("content-signal") {
		return "Content-Signal: search=yes, ai-input=yes, ai-train=no\n"
	}
	return ""
}

func (s *Site) missing(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if s.has("not-found") {
		w.WriteHeader(http.StatusNotFound)
	}
	if s.has("not-found-help") {
		fmt.Fprint(w, `<!DOCTYPE html><title>Not here</title><h1>There is no such page</h1><p>The <a href="/">front page</a> leads on.`)
	}
}

func (s *Site) home(w http.ResponseWriter, r *http.Request, base string) {
	if s.has("vary") {
		w.Header().Set("Vary", "Accept")
	}
	if s.has("links") {
		w.Header().Set("Link", `</about>; rel="preload", <`+base+`/.well-known/api-catalog>; rel="api-catalog"; type="application/linkset+json"`)
	}
	if s.has("markdown") && strings.Contains(r.Header.Get("Accept"), "text/markdown") {
		send(w, "text/markdown; charset=utf-8", "# "+s.Name+"\n\n"+s.About+"\n")
		return
	}
	var b strings.Builder
	line := func(check, text string) {
		if check == "" || s.has(check) {
			b.WriteString(text + "\n")
		}
	}
	name, about := html.EscapeString(s.Name), html.EscapeString(s.About)
	b.WriteString("<!DOCTYPE html>\n<html")
	if s.has("lang") {
		b.WriteString(` lang="en"`)
	}
	line("", "><head><meta charset=utf-8>")
	line("title", "<title>"+name+"</title>")
	line("description", `<meta name="description" content="`+about+`">`)
	line("canonical", `<link rel="canonical" href="`+base+r.URL.Path+`">`)
	line("open-graph", `<meta property="og:title" content="`+name+`"><meta property="og:type" content="website">`)
	line("json-ld", `<script type="application/ld+json">{"@context":"https://schema.org","@type":"WebSite","name":"Site"}</script>`)
	line("", "</head><body>")
	if s.has("text") {
		line("", "<h1>"+name+"</h1>")
	}
	line("", "<p>"+about+"</p>")
	if s.has("headings") {
		line("", "<h2>What this is</h2>")
	} else {
		line("", "<h2>What this is</h2><h4>And a level was skipped</h4>")
	}
	line("", "<p>"+strings.Repeat("This site says what it is in plain text, before any script has run. ", 10)+"</p><ul>")
	for _, page := range []string{"about", "contact", "privacy"} {
		line(page, `<li><a href="/`+page+`">`+page+`</a>`)
	}
	line("", "</ul></body></html>")
	send(w, "text/html; charset=utf-8", b.String())
}

// document answers one of the machine-readable documents, and says whether
// there is one.
func (s *Site) document(w http.ResponseWriter, path, base string) bool {
	type object = map[string]any
	type list = []any
	var check string
	var value any
	card := object{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": "example/site", "version": "1.0.0", "description": s.About,
		"remotes": list{object{"type": "streamable-http", "url": base + "/mcp"}}}
	media := "application/json"
	switch path {
	case "/.well-known/ai-catalog.json":
		media = "application/ai-catalog+json"
		check, value = "ai-catalog", object{"specVersion": "1.0", "entries": list{
			object{"identifier": "urn:air:" + hostOf(base) + ":site:mcp", "type": cardMedia, "url": base + "/mcp/server-card"},
			object{"identifier": "urn:air:" + hostOf(base) + ":index:skills", "type": "application/json", "url": base + "/.well-known/agent-skills/index.json"}}}
	case "/mcp/server-card":
		media, check, value = cardMedia, "mcp-card", card
	case "/.well-known/mcp/server-card.json":
		check, value = "mcp-card", card
	case "/openapi.json":
		check, value = "openapi", object{"openapi": "3.1.0", "info": object{"title": s.Name, "version": "1"}, "paths": object{}}
	case "/.well-known/api-catalog":
		check, value = "api-catalog", object{"linkset": list{object{"anchor": base + "/", "service-desc": list{object{"href": base + "/openapi.json"}}}}}
	case "/.well-known/agent-card.json":
		check, value = "agent-card", object{"name": s.Name, "description": s.About, "version": "1.0.0", "url": base + "/a2a", "capabilities": object{},
			"defaultInputModes": list{"text/plain"}, "defaultOutputModes": list{"text/plain"}, "skills": list{object{"id": "read", "name": "Read", "description": "Reads.", "tags": list{"text"}}}}
	case "/.well-known/agent-skills/index.json":
		check, value = "skills", object{"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": list{
			object{"name": "read", "type": "skill-md", "description": "Reads this site.", "url": "/skill.md", "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(skill)))}}}
	case "/.well-known/x402":
		check, value = "payments", object{"version": 1, "resources": list{base + "/paid"}}
	case "/.well-known/http-message-signatures-directory":
		media = "application/http-message-signatures-directory+json"
		// The key of RFC 8037, appendix A.2.
		check, value = "signatures", object{"keys": list{object{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}}
	}
	if value == nil || !s.has(check) {
		return false
	}
	w.Header().Set("Content-Type", media)
	// The connection may be gone, so an error cannot be reported.
	_ = json.NewEncoder(w).Encode(value)
	return true
}

const (
	cardMedia = "application/mcp-server-card+json"
	skill     = "---\nname: read\ndescription: Reads this site.\n---\n\n# Read\n\nGet the front page as Markdown.\n"
)

func hostOf(base string) string {
	_, host, _ := strings.Cut(base, "://")
	return host
}

// introduce answers as an MCP server of the revision 2026-07-28, which has no tools.
func (s *Site) introduce(w http.ResponseWriter, r *http.Request) {
	var q struct{ Method string }
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&q); err != nil || q.Method != "server/discover" || r.Header.Get("Mcp-Method") != q.Method {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
		return
	}
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},`+
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"example/site","version":"1.0.0"}},"ttlMs":60000,"cacheScope":"public"}}`)
}

func send(w http.ResponseWriter, media, body string) {
	w.Header().Set("Content-Type", media)
	fmt.Fprint(w, body)
}
