package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
)

// gallery reads a registry as VS Code does. It sends the same requests and insists on the same fields as
// mcpGalleryManifestService.ts, mcpGalleryService.ts and mcpManagementService.ts in VS Code's
// src/vs/platform/mcp/common.
type gallery struct {
	*testing.T
	site *site
}

// galleryEntry is what VS Code reads of an entry.
type galleryEntry struct {
	Server struct {
		Name, Title, Description, Version string

		Remotes []struct{ Type, URL string }
	}
	Meta map[string]struct {
		Status                 string
		IsLatest               bool
		PublishedAt, UpdatedAt time.Time
	} `json:"_meta"`
}

// get asks for a document. Only a success is read.
func (g *gallery) get(target string, document any) bool {
	g.Helper()
	r := g.site.Get(target, "Origin", "https://vscode.dev")
	if r.Header.Get("Access-Control-Allow-Origin") != "*" {
		g.Errorf("%s: the browser's VS Code may not read it", target)
	}
	if r.Status != 200 {
		return false
	}
	if err := json.Unmarshal([]byte(r.Body), document); err != nil {
		g.Errorf("%s: %v: %s", target, err, r.Body)
	}
	return true
}

// list reads all pages of a search.
func (g *gallery) list(search string) (slugs []string, pages int) {
	g.Helper()
	for target := "/v0.1/servers?limit=50&version=latest" + search; target != ""; pages++ {
		var page struct {
			Servers  []json.RawMessage
			Metadata *struct {
				Count      *int
				NextCursor string
			}
		}
		if !g.get(target, &page) || page.Servers == nil || page.Metadata == nil || page.Metadata.Count == nil {
			g.Fatalf("%s is not a page: %+v", target, page)
		}
		for _, entry := range page.Servers {
			slugs = append(slugs, g.entry(target, entry))
		}
		// The search is left out then, and the cursor is not escaped.
		target = ""
		if next := page.Metadata.NextCursor; next != "" {
			target = "/v0.1/servers?limit=50&version=latest&cursor=" + next
		}
	}
	return slugs, pages
}

// entry reads an entry, and gives the member's slug.
func (g *gallery) entry(target string, text []byte) string {
	g.Helper()
	var e galleryEntry
	if err := json.Unmarshal(text, &e); err != nil {
		g.Fatalf("%s: %v: %s", target, err, text)
	}
	official := e.Meta["io.modelcontextprotocol.registry/official"]
	switch s := e.Server; {
	case s.Name == "" || s.Title == "" || s.Description == "" || s.Version == "":
	case official.Status != "active" || !official.IsLatest || official.PublishedAt.IsZero() || official.UpdatedAt.IsZero():
	case len(s.Remotes) != 1 || s.Remotes[0].Type != "streamable-http" || strings.ContainsAny(s.Remotes[0].URL, "{}"):
	default:
		namespace, slug, _ := strings.Cut(s.Name, "/")
		if namespace != "example.ring" || s.Remotes[0].URL != "https://"+slug+".example/" {
			g.Errorf("%s: %s is at %s", target, s.Name, s.Remotes[0].URL)
		}
		return slug
	}
	g.Errorf("%s: VS Code cannot install from this entry: %s", target, text)
	return ""
}

// VS Code lists all servers, searches by words, and looks up a server by its name.
func TestVSCodeReadsTheRegistry(t *testing.T) {
	ring := newRing(t)
	var all []string
	for i := range 60 {
		all = append(all, fmt.Sprintf("server-%d", i))
		join(t, ring, 2000+int64(i), fmt.Sprintf("Server <%d> é", i), core.Joined{Slug: all[i], Kind: core.MCP})
	}
	all = append([]string{"beta"}, all...)
	g := &gallery{t, serve(t, Config{Core: ring, OriginData: func(_ context.Context, path, query string) api.Document {
		q, _ := url.ParseQuery(query)
		if path != "/api/ring" || q.Get("kind") != "mcp" {
			t.Errorf("asked the origin for %s?%s", path, query)
		}
		var a api.Response // the origin finds by words what here is found by its place
		target := fmt.Sprintf("/api/ring?kind=mcp&limit=%s&offset=%s", q.Get("limit"), q.Get("offset"))
		if q.Get("q") == "nothing" {
			target = "/api/ring?kind=website&category=none"
		}
		ring.Serve([]byte(target), &a)
		return api.Document{Status: 200, Media: "application/json", MaxAge: 10, Body: append([]byte(nil), a.Body...)}
	}})}

	var probed any
	if !g.get("/v0.1/servers?limit=1", &probed) {
		t.Error("VS Code does not take this for a registry of version 0.1")
	}
	for search, want := range map[string][]string{"": all, "&search=server%20beta": all, "&search=nothing": nil, "&search=%22%3F%22": nil} {
		slugs, pages := g.list(search)
		if fmt.Sprint(slugs) != fmt.Sprint(want) || pages != 1+len(want)/50 {
			t.Errorf("%q: %v in %d pages", search, slugs, pages)
		}
	}
	for name, want := range map[string]string{"example.ring/server-7": "server-7", "example.ring/beta": "beta", "example.ring/gamma": "", "example.ring/nobody": "", "io.github.other/beta": ""} {
		target, found := "/v0.1/servers/"+url.QueryEscape(name)+"/versions/latest", ""
		var text json.RawMessage
		if g.get(target, &text) {
			found = g.entry(target, text)
		}
		if found != want {
			t.Errorf("%s: found %q", name, found)
		}
	}
}
