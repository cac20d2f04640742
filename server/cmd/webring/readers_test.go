package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"webring/core"
)

// TestReadersOfOthersReadTheDocuments gives feeds, OPML, sitemaps and the API
// catalog to parsers by others, of an empty ring and of one whose members say
// what would be markup.
func TestReadersOfOthersReadTheDocuments(t *testing.T) {
	t.Parallel()
	dir := agents(t)
	const words = `]]></summary> <b>&amp; "it's" & {{x}} -->`
	hostile := func(f *founding) {
		f.join(founder{slug: "ada", url: "https://ada.dev/?a=b&c='d'", category: "tools", kind: core.Agent, description: words},
			founder{slug: "bob", url: "https://bob.dev/%3Cb%3E", category: "art", kind: core.MCP, description: words})
		f.ago(day)
		f.append(nil, &core.Bid{Member: "bob", Amount: 300})
	}
	for name, o := range map[string]*origin{"empty": start(t, freely...), "hostile": founded(t, hostile, freely...)} {
		type read struct {
			Pages   []string
			Links   []struct{ Anchor, Rel, Href string }
			OPML    []struct{ Text, Type, URL string }
			Members map[string]struct {
				Atom struct {
					ID, Updated string
					Entries     []struct {
						ID    string
						Title struct{ Value string }
					}
				}
				JSON struct {
					Items []struct{ ID, URL string }
				}
			}
			Joins, Lead struct {
				Atom struct {
					ID, Updated string
					Title       struct{ Value string }
					Authors     []struct{ Name string }
					Entries     []struct {
						ID, Updated string
						Title       struct{ Value string }
						Summary     struct{ Value string }
						Links       []struct{ Rel, Href string }
					}
				}
				JSON struct {
					Title string
					Home  string `json:"home_page_url"`
					Items []struct {
						ID       string
						External string `json:"external_url"`
						Text     string `json:"content_text"`
					}
				}
			}
		}
		var r read
		if err := json.Unmarshal([]byte(runNode(t, dir, "documents.mjs", o.base)), &r); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/ring", "/join", "/docs"} {
			if !slices.Contains(r.Pages, o.base+path) {
				t.Errorf("%s ring: no sitemap has %s: %v", name, path, r.Pages)
			}
		}
		apis := map[string]int{}
		for _, l := range r.Links {
			if !strings.HasPrefix(l.Href, o.base+"/") {
				t.Errorf("%s ring: the catalog leads to %s", name, l.Href)
			}
			apis[l.Anchor]++
		}
		if len(apis) != 2 || apis[o.base+"/api"] < 4 || apis[o.base+"/mcp"] < 2 {
			t.Errorf("%s ring: the catalog has %v", name, apis)
		}
		for _, f := range []string{r.Joins.Atom.ID, r.Joins.Atom.Title.Value, r.Joins.Atom.Updated, r.Lead.Atom.ID, r.Lead.Atom.Title.Value, r.Lead.Atom.Updated, r.Joins.JSON.Title, r.Joins.JSON.Home, r.Lead.JSON.Title} {
			if f == "" {
				t.Errorf("%s ring: a feed lacks what it must have: %+v", name, r)
			}
		}
		if len(r.Joins.Atom.Authors) != 1 || len(r.Lead.Atom.Authors) != 1 {
			t.Errorf("%s ring: a feed is by nobody", name)
		}
		if name == "empty" {
			if len(r.Joins.Atom.Entries)+len(r.Lead.Atom.Entries)+len(r.Joins.JSON.Items)+len(r.Lead.JSON.Items) != 0 || len(r.OPML) != 1 || r.OPML[0].URL != "" {
				t.Errorf("the empty ring has entries: %+v", r)
			}
			continue
		}
		if len(r.Joins.Atom.Entries) != 2 || len(r.Joins.JSON.Items) != 2 || len(r.Lead.Atom.Entries) != 1 || len(r.Lead.JSON.Items) != 1 || len(r.OPML) != 2 {
			t.Fatalf("%+v", r)
		}
		news := r.Members["bob"]
		// The ring's first rules let standings end at once, those of its start do not.
		if titles := news.Atom.Entries; len(titles) != 3 || titles[0].Title.Value != "Bob has another rank, rank 1 after 2" ||
			titles[1].Title.Value != "Bob got a bid of $3.00" || titles[2].Title.Value != "Bob joined" ||
			news.Atom.ID == "" || news.Atom.Updated == "" || len(news.JSON.Items) != 3 || news.JSON.Items[0].ID != titles[0].ID || news.JSON.Items[0].URL != o.base+"/members/bob" {
			t.Errorf("the news of bob: %+v", news)
		}
		for i, slug := range []string{"bob", "ada"} { // the newest first
			site := at(t, o.get("/api/ring/"+slug).document(t), "member", "url").(string)
			entry, item := r.Joins.Atom.Entries[i], r.Joins.JSON.Items[i]
			if entry.ID == "" || entry.ID != item.ID || entry.Updated == "" || !strings.HasSuffix(entry.Summary.Value, words) || item.Text != entry.Summary.Value {
				t.Errorf("%s joined: %+v\n%+v", slug, entry, item)
			}
			if item.External != site || r.OPML[1-i].URL != site || r.OPML[1-i].Type != "link" {
				t.Errorf("%s has the site %s: %+v, %+v", slug, site, item, r.OPML)
			}
			if !slices.Contains(r.Pages, o.base+"/members/"+slug) {
				t.Errorf("no sitemap has %s: %v", slug, r.Pages)
			}
		}
		if lead := r.Lead.Atom.Entries[0]; lead.Title.Value != "Bob leads" || lead.ID != r.Lead.JSON.Items[0].ID {
			t.Errorf("the lead is %+v", lead)
		}
	}
}
