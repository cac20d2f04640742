package describe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
)

// registry asks for documents of the registry of MCP servers, and holds them to its schema.
type registry struct {
	t            *testing.T
	ring         *coretest.Ring
	site         Site
	list, server *jsonschema.Schema
}

func newRegistry(t *testing.T, r *coretest.Ring) *registry {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return &registry{t: t, ring: r, list: c.MustCompile("testdata/registry.schema.json#/$defs/ServerList"), server: c.MustCompile("testdata/registry.schema.json#/$defs/ServerResponse")}
}

// get gives a document, or the code of the problem that is there instead.
func (g *registry) get(target string) (any, api.Code) {
	g.t.Helper()
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		g.t.Fatal(err)
	}
	b, err := Servers(path, values.Get).Build(source(g.ring, g.site))
	var refused *Problem
	if errors.As(err, &refused) {
		doc := decoded(g.t, string(refused.Body))
		code := api.Code(doc["code"].(string))
		if code.Status() != refused.Status {
			g.t.Errorf("%s: status %d: %s", target, refused.Status, refused.Body)
		}
		return doc, code
	}
	if err != nil {
		g.t.Fatal(err)
	}
	if b == nil {
		return nil, api.NotFound
	}
	doc := decoded(g.t, string(b))
	schema := g.list
	if strings.Contains(path, "/versions/") {
		schema = g.server
	}
	if err := schema.Validate(any(doc)); err != nil {
		g.t.Errorf("%s: %v", target, err)
	}
	return doc, ""
}

// crawl follows cursors to the end, and gives the names' last parts and how many pages there were.
func (g *registry) crawl(query string) (slugs []string, pages int) {
	g.t.Helper()
	cursor := ""
	for pages < 1000 {
		doc, code := g.get(ServersPath + "?" + query + "&cursor=" + cursor)
		if pages > 0 { // editors keep the limit alone
			values, _ := url.ParseQuery(query)
			again, code := g.get(ServersPath + "?limit=" + values.Get("limit") + "&cursor=" + cursor)
			if code != "" || fmt.Sprint(again) != fmt.Sprint(doc) || len(cursor) > 300 || url.QueryEscape(cursor) != cursor {
				g.t.Fatalf("%s: by the cursor %s alone: %v", query, cursor, again)
			}
		}
		if code != "" {
			g.t.Fatalf("%s: %v", query, doc)
		}
		pages++
		list := at(doc, "servers").([]any)
		if int(at(doc, "metadata", "count").(float64)) != len(list) {
			g.t.Errorf("%s: %v", query, at(doc, "metadata"))
		}
		for _, s := range list {
			_, slug, _ := strings.Cut(at(s, "server", "name").(string), "/")
			slugs = append(slugs, slug)
		}
		var more bool
		if cursor, more = at(doc, "metadata", "nextCursor").(string); !more {
			break
		}
	}
	return slugs, pages
}

func TestMembersAreARegistryOfServers(t *testing.T) {
	r := coretest.NewRing(t, payable)
	g := newRegistry(t, r)
	if slugs, pages := g.crawl(""); len(slugs) != 0 || pages != 1 {
		t.Errorf("an empty ring: %v in %d pages", slugs, pages)
	}
	of := func(kind core.Kind) func(*core.Joined, *core.Texts) {
		return func(e *core.Joined, x *core.Texts) { e.Kind = kind }
	}
	var all []string
	for i := range 2*readSize + 7 {
		slug := fmt.Sprintf("m%d", i)
		all = append(all, slug)
		r.Join(slug, fmt.Sprintf("https://m%d.dev/mcp?a=%%7Bb%%7D", i), of(core.MCP))
	}
	r.Join("site", "https://site.dev/", of(core.Website))
	r.Join("eve", "https://eve.dev/", func(e *core.Joined, x *core.Texts) {
		e.Kind, x.Name.Value, x.Description.Value = core.MCP, hostile[:54], strings.Repeat("word ", 60)
	})
	all = append(all, "eve")
	for limit, want := range map[string]int{"": 34, "&limit=100": 11, "&limit=1": 1000, "&version=latest": 34} {
		slugs, pages := g.crawl(limit)
		if pages != want || want < 1000 && strings.Join(slugs, " ") != strings.Join(all, " ") {
			t.Errorf("%q: %d servers in %d pages", limit, len(slugs), pages)
		}
	}
	// Only what has changed since is sent. Few members are read for a page, whatever it finds.
	r.Wait(3600)
	since := time.UnixMilli(r.Stamp).UTC().Format(time.RFC3339)
	const category = "tools"
	r.Do(&core.Changed{Member: "m600", Category: category}, nil)
	r.Join("late", "https://late.dev/mcp", of(core.MCP))
	if slugs, pages := g.crawl("updated_since=" + since); strings.Join(slugs, " ") != "m600 late" || pages > 4 {
		t.Errorf("since %s: %v in %d pages", since, slugs, pages)
	}
	doc, _ := g.get(ServersPath + "/example.ring/m600/versions/latest")
	version := at(doc, "server", "version").(string)
	if slugs, _ := g.crawl("version=" + version); strings.Join(slugs, " ") != "m600" || version == unknownVersion {
		t.Errorf("version %s: %v", version, slugs)
	}
	if own := at(doc, "_meta", "example.ring/webring"); at(own, "category") != category || at(own, "member") != "https://ring.example/api/ring/m600" {
		t.Errorf("%v", doc)
	}
	if same, code := g.get(ServersPath + "/example.ring/m600/versions/" + version); code != "" || fmt.Sprint(same) != fmt.Sprint(doc) {
		t.Errorf("%s %v", code, same)
	}
	if list, code := g.get(ServersPath + "/example.ring/m600/versions"); code != "" || fmt.Sprint(at(list, "servers", 0)) != fmt.Sprint(doc) {
		t.Errorf("%s %v", code, list)
	}
	for target, want := range map[string]api.Code{
		"/example.ring/site/versions": api.UnknownMember, "/example.ring/nobody/versions/latest": api.UnknownMember, "/com.other/m600/versions": api.UnknownMember,
		"/example.ring/next/versions/latest": api.UnknownMember, "/example.ring/m600%2F/versions": api.UnknownMember, "/example.ring/../x/versions": api.UnknownMember, "/versions": api.NotFound,
		"/example.ring/m600/versions/9.9.9": api.UnknownMember, "/example.ring/m600": api.NotFound, "/example.ring/m600/versions/": api.NotFound, "/example.ring/m600/versions/latest/x": api.NotFound, "/": api.NotFound,
		"?limit=0": api.InvalidParameter, "?limit=101": api.InvalidParameter, "?limit=x": api.InvalidParameter, "?cursor=-1": api.InvalidParameter, "?cursor=x": api.InvalidParameter,
		"?cursor=99999999999": api.InvalidParameter, "?updated_since=yesterday": api.InvalidParameter,
		"?updated_since=9999-12-31T23:59:59-00:01": api.InvalidParameter, "?updated_since=0001-01-01T00:00:00%2B00:01": api.InvalidParameter, "?updated_since=0000-06-01T00:00:00Z": api.InvalidParameter,
		"?updated_since=0001-01-01T00:00:00Z": "", "?updated_since=9999-12-31T23:59:59Z": "",
		"?search=x": api.OriginUnavailable,
	} {
		if doc, code := g.get(ServersPath + target); code != want {
			t.Errorf("%s: %q, not %q: %v", target, code, want, doc)
		}
	}
	for _, w := range []wanted{{at: maxPart * readSize}, {version: "9.9.9"}, {since: time.Now().AddDate(100, 0, 0)}} {
		if read, ok := readCursor(w.cursor()); !ok || read.at != w.at || read.version != w.version || !read.since.Equal(w.since) {
			t.Errorf("%+v is read as %+v", w, read)
		}
		if doc, code := g.get(ServersPath + "?cursor=" + w.cursor()); code != "" || at(doc, "metadata", "count") != 0.0 {
			t.Errorf("%+v: %v", w, doc)
		}
	}
	for _, w := range []wanted{{at: -1}, {at: maxPart*readSize + 1}, {search: "a\nb"}, {search: "a&kind=agent"}, {version: strings.Repeat("1", 31)}} {
		if doc, code := g.get(ServersPath + "?cursor=" + w.cursor()); code != api.InvalidParameter {
			t.Errorf("%+v: %v", w, doc)
		}
	}
}

// FuzzCursor reads cursors of strangers.
func FuzzCursor(f *testing.F) {
	for _, w := range []wanted{{at: 30}, {at: 1, search: "tide tables", since: noon, version: "0.0.1"}} {
		f.Add(w.cursor())
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, ok := readCursor(text)
		if !ok {
			return
		}
		if again, ok := readCursor(w.cursor()); !ok || again.at != w.at || again.search != w.search || again.version != w.version || !again.since.Equal(w.since) {
			t.Errorf("%q: %+v, and then %+v", text, w, again)
		}
	})
}

// The origin is asked for words of the kind that it takes, whatever a client searches for.
func TestSearchesAreTheOriginsOwn(t *testing.T) {
	r := coretest.NewRing(t, payable)
	r.Join("m1", "https://m1.dev/mcp", func(e *core.Joined, x *core.Texts) { e.Kind = core.MCP })
	var asked []string
	g := newRegistry(t, r)
	g.site.OriginData = func(_ context.Context, path, query string) api.Document {
		asked = append(asked, path+"?"+query)
		var a api.Response
		api.Serve(r.State, []byte("/api/ring?kind=mcp"), 0, &a)
		return api.Document{Status: 200, Body: a.Body, MaxAge: 10}
	}
	for search, want := range map[string]string{
		"tide tables": "tide+tables", "example.ring/tide-tables": "tide+tables", "a.b/c": "a+b+c", "%C3%A9t%C3%A9": "%C3%A9t%C3%A9", "!!! ": "",
		strings.Repeat("w ", 20): "w+w+w+w+w+w+w+w", strings.Repeat("w", 300): strings.Repeat("w", searchedLength), strings.Repeat("%E6%BD%AE", 100): strings.Repeat("%E6%BD%AE", 33),
	} {
		asked = nil
		longest := wanted{maxPart * readSize, searched(strings.Repeat("\u6f6e", 99), ""), noon.Add(1), strings.Repeat("1", longestVersion)}
		if len(longest.cursor()) > 300 {
			t.Error(longest.cursor())
		}
		doc, code := g.get(ServersPath + "?limit=5&search=" + strings.ReplaceAll(search, " ", "+"))
		if want == "" {
			if code != "" || asked != nil || at(doc, "metadata", "count") != 0.0 {
				t.Errorf("%q: %s %v, %v was asked for", search, code, doc, asked)
			}
		} else if code != "" || len(asked) != 1 || asked[0] != "/api/ring?limit=5&offset=0&kind=mcp&q="+want || at(doc, "servers", 0, "server", "name") != "example.ring/m1" {
			t.Errorf("%q: %s %v, %v was asked for", search, code, doc, asked)
		}
	}
}
