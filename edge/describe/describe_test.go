package describe

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
)

// stateReader reads a state.
type stateReader struct{ st *core.State }

func (s stateReader) Serve(target []byte, r *api.Response) { api.Serve(s.st, target, 0, r) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func payable(e *core.Rules) {
	e.Networks = []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "0x20c0"}}
}

func source(r *coretest.Ring, site Site) *Source { return NewSource(stateReader{r.State}, site, noon) }

// build gives a document, as an object when it is JSON.
func build(t *testing.T, r *coretest.Ring, path string, site Site) string {
	t.Helper()
	for _, d := range Documents() {
		if d.Path == path {
			b, err := d.Build(source(r, site))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	t.Fatalf("there is no %s", path)
	return ""
}

// hostile are words that a member might call itself by.
const hostile = "# [x](javascript:alert(1)) <img src=x onerror=alert(1)> | `y` https://e.dev www.e.dev"

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return doc
}

func at(doc any, steps ...any) any {
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			doc, _ = doc.(map[string]any)[s]
		case int:
			doc = doc.([]any)[s]
		}
	}
	return doc
}

func TestOpenAPIDescribesEverything(t *testing.T) {
	r := coretest.NewRing(t, payable)
	text := build(t, r, "/openapi.json", Site{})
	doc := decoded(t, text)
	for _, e := range api.Endpoints() {
		if said, _ := at(doc, "paths", e.Path, strings.ToLower(e.Method), "summary").(string); said == "" || !strings.HasPrefix(e.About, said) {
			t.Errorf("%s %s is not described in the directory's words", e.Method, e.Path)
		}
	}
	ids := map[string]bool{}
	for _, op := range Operations() {
		if op.ID == "" || op.About == "" || ids[op.ID] {
			t.Errorf("%s %s has the id %q and says %q", op.Method, op.Path, op.ID, op.About)
		}
		ids[op.ID] = true
	}
	all, err := json.Marshal(at(doc, "components", "responses"))
	if err != nil {
		t.Fatal(err)
	}
	answers := string(all)
	for _, c := range api.Codes() {
		said := strings.Contains(answers, "`"+string(c)+"`")
		// This one is for what is no operation.
		if elsewhere := c == api.MethodNotAllowed; said == elsewhere {
			t.Errorf("%s is said of an operation: %t", c, said)
		}
	}
	var names []string
	for _, p := range at(doc, "paths", ServersPath, "get", "parameters").([]any) {
		names = append(names, at(p, "name").(string))
		if at(p, "name") == "limit" && (at(p, "schema", "default") != float64(serversLimit) || at(p, "schema", "maximum") != float64(mostServers)) {
			t.Errorf("the registry's limit: %v", at(p, "schema"))
		}
	}
	if !slices.Equal(names, ServersParameters) {
		t.Errorf("the registry's parameters: %v", names)
	}
	agent := at(doc, "paths", AgentPath, "post")
	if at(agent, "parameters", 0, "$ref") != "#/components/parameters/A2A-Version" || at(doc, "components", "parameters", "A2A-Version", "schema", "const") != AgentVersion ||
		at(agent, "requestBody", "content", "application/json", "example", "method") != "SendMessage" {
		t.Errorf("the agent: %v", agent)
	}
	if again := build(t, r, "/openapi.json", Site{}); again != text {
		t.Error("the same facts give different bytes")
	}
}

// Crawlers of registries read 64 KB of it, and no more.
func TestOpenAPIIsReadWhole(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) {
		e.BaseURL = "https://webring.a-rather-long-name.example.org"
		e.Networks = []core.Network{{Name: "tempo:4217", Method: "tempo", Currency: "0x20c0000000000000000000000000000000000000"},
			{Name: "evm:8453", Method: "evm", Currency: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"}}
		e.Policies = core.Policies{Terms: "https://webring.a-rather-long-name.example.org/terms", Privacy: "https://webring.a-rather-long-name.example.org/privacy", Report: "mailto:report@a-rather-long-name.example.org"}
	})
	r.Join("a-member-with-a-long-name", "https://ada.dev/")
	if text := build(t, r, "/openapi.json", Site{Contact: "mailto:security@example.org", Version: "0.1.0"}); len(text) > 64<<10 {
		t.Errorf("%d bytes", len(text))
	}
}

// Documents name the operator as the contact, and the address for reports where there is none.
func TestDocumentsSayWhoRunsTheRing(t *testing.T) {
	for want, rules := range map[string]core.Rules{
		"map[email:a@b.dev name:Ada]":                           {Operator: core.Operator{Name: "Ada", Contact: "mailto:a@b.dev"}, Policies: core.Policies{Report: "https://r.dev/"}},
		"map[name:The operator url:https://b.dev/]":             {Operator: core.Operator{Contact: "https://b.dev/"}},
		"map[name:Reports of members url:https://r.dev/report]": {Operator: core.Operator{Name: "Ada"}, Policies: core.Policies{Report: "https://r.dev/report"}},
		"<nil>": {Operator: core.Operator{Payee: "Ada"}},
	} {
		r := coretest.NewRing(t, func(e *core.Rules) { e.Operator, e.Policies = rules.Operator, rules.Policies })
		if got := fmt.Sprint(at(decoded(t, build(t, r, "/openapi.json", Site{})), "info", "contact")); got != want {
			t.Errorf("%+v: %s, want %s", rules.Operator, got, want)
		}
		if got := at(decoded(t, build(t, r, "/.well-known/agent-card.json", Site{})), "provider", "organization"); rules.Operator.Name != "" && got != "Ada" {
			t.Errorf("the agent's provider is %v", got)
		}
	}
}

// Generators make types of components and operations, all in one space of names.
func TestOpenAPICanBeGeneratedFrom(t *testing.T) {
	text := build(t, coretest.NewRing(t, payable), "/openapi.json", Site{Contact: "mailto:a@b.dev"})
	doc := decoded(t, text)
	// Each component has a name of its own, and is used.
	kinds := map[string]string{}
	for kind, all := range at(doc, "components").(map[string]any) {
		for name := range all.(map[string]any) {
			if kind == "headers" || kind == "parameters" || kind == "securitySchemes" { // of which no types are made
				kinds[kind+"/"+name] = kind
			} else if other, taken := kinds[name]; taken {
				t.Errorf("%s is one of %s and of %s", name, other, kind)
			} else {
				kinds[name] = kind
			}
			if kind != "securitySchemes" && !strings.Contains(text, `"#/components/`+kind+`/`+name+`"`) {
				t.Errorf("the component %s of %s is not used", name, kind)
			}
		}
	}
	for path, item := range at(doc, "paths").(map[string]any) {
		for method, op := range item.(map[string]any) {
			if at(op, "responses", "429", "$ref") != "#/components/responses/Problem429" {
				t.Errorf("%s %s has no answer to too many requests", method, path)
			}
			// Clients in Go call the answer to an operation by its id.
			id := at(op, "operationId").(string)
			for _, suffix := range []string{"", "Response", "Request", "Params"} {
				if kind, taken := kinds[strings.ToUpper(id[:1])+id[1:]+suffix]; taken {
					t.Errorf("%s%s is one of %s, too", id, suffix, kind)
				}
			}
		}
	}
	// Some generators hold a field with a default to be always there.
	draft := at(doc, "components", "schemas", "RegisterRequest")
	if _, says := at(draft, "properties", "category", "default").(string); says || slices.Contains(at(draft, "required").([]any), any("category")) {
		t.Errorf("%v", draft)
	}
}

// What the node does not serve is not described.
func TestSecurityTextIsDescribedWhereItIsServed(t *testing.T) {
	r := coretest.NewRing(t)
	for contact, there := range map[string]bool{"": false, "mailto:a@b.dev": true} {
		doc := decoded(t, build(t, r, "/openapi.json", Site{Contact: contact}))
		if (at(doc, "paths", securityPath) != nil) != there {
			t.Errorf("with the contact %q: %v", contact, at(doc, "paths", securityPath))
		}
	}
}

// The program has one version, for every caller.
func TestDocumentsSayTheVersionOfTheProgram(t *testing.T) {
	r := coretest.NewRing(t)
	for version, want := range map[string]string{"1.2.3": "1.2.3", "": devel} {
		site := Site{Version: version}
		if got := at(decoded(t, build(t, r, "/openapi.json", site)), "info", "version"); got != want {
			t.Errorf("OpenAPI says %v, not %s", got, want)
		}
		for _, path := range []string{"/mcp/server-card", "/.well-known/mcp/server-card.json"} {
			if got := decoded(t, build(t, r, path, site))["version"]; got != want {
				t.Errorf("%s says %v, not %s", path, got, want)
			}
		}
		entry, err := RegistryEntry("https://ring.example", "Ring", version)
		if err != nil || decoded(t, string(entry))["version"] != want {
			t.Errorf("%v %s", err, entry)
		}
	}
}

// One network has one name, and who is to sign for a token learns under which domain.
func TestNetworksHaveOneName(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) {
		e.Networks = []core.Network{{Name: "tempo:4217", Method: "tempo", Currency: "0x20c0"}, {Name: "evm:8453", Method: "evm", Currency: "0x8335"}}
	})
	var directory struct {
		Payments struct {
			Networks []string
			Offers   []Offer
		}
	}
	source(r, Site{}).read("/api", &directory)
	if got := fmt.Sprint(directory.Payments); got != "{[eip155:4217 eip155:8453] [{tempo charge eip155:4217 0x20c0} {evm charge eip155:8453 0x8335}]}" {
		t.Error(got)
	}
	text := build(t, r, "/llms.txt", Site{})
	for _, part := range []string{"`tempo` on `eip155:4217`", "`evm` on `eip155:8453`", "`domain` of the offer", "`name` and `version` of the token", "The ledger writes the method name", "client.setSpendControls({ maxAmountPerPayment: "} {
		if strings.Count(text, part) != 1 {
			t.Errorf("%q stands there %d times", part, strings.Count(text, part))
		}
	}
	if strings.Contains(text, "evm:8453") || strings.Contains(text, "tempo:4217") {
		t.Error(text)
	}
}

func TestOpenAPISaysDefaultsPatternsAndALicence(t *testing.T) {
	r := coretest.NewRing(t, payable)
	doc := decoded(t, build(t, r, "/openapi.json", Site{}))
	if at(doc, "info", "license", "identifier") != "Apache-2.0" || at(doc, "info", "license", "name") == nil {
		t.Errorf("licence: %v", at(doc, "info", "license"))
	}
	for path, item := range at(doc, "paths").(map[string]any) {
		for method, op := range item.(map[string]any) {
			if about, _ := at(op, "description").(string); about == at(op, "summary") || about == "" && at(op, "tags", 0) != documentsTag {
				t.Errorf("%s %s says %q", method, path, about)
			}
		}
	}
	for name, want := range map[string]any{"limit": 100.0, "offset": 0.0} {
		if got := at(doc, "components", "parameters", name, "schema", "default"); got != want {
			t.Errorf("the default of %s is %v", name, got)
		}
	}
	if got := at(doc, "components", "parameters", "offset", "schema", "maximum"); got != float64(1<<53) {
		t.Errorf("the highest offset is %v", got)
	}
	if got := at(doc, "components", "parameters", "slug", "schema", "pattern"); got != slugPattern {
		t.Errorf("the pattern of a slug is %v", got)
	}
	if got := at(doc, "components", "schemas", "RegisterRequest", "properties", "category", "anyOf", 0, "pattern"); got != "^[a-z0-9][a-z0-9-]{0,31}$" {
		t.Errorf("the pattern of a category is %v", got)
	}
	// A reader that knows the codes of today takes those of tomorrow, too.
	code := at(doc, "components", "schemas", "Problem", "properties", "code")
	if at(code, "enum") != nil || at(code, "type") != "string" {
		t.Errorf("code: %v", code)
	}
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, list := v["type"].([]any); list {
				t.Errorf("%s has a list of types", where)
			}
			for name, inner := range v {
				walk(where+"/"+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprint(where, "/", i), inner)
			}
		}
	}
	walk("", doc)
	if at(doc, "components", "schemas", "Member", "properties", "last_bid_at", "anyOf", 1, "type") != "null" {
		t.Error("last_bid_at is not null or an instant")
	}
}

func TestExamplesCanBePaidFor(t *testing.T) {
	r := coretest.NewRing(t, payable)
	example := func(path string, site Site) any {
		return at(decoded(t, build(t, r, "/openapi.json", site)), "paths", path, "post", "requestBody", "content", "application/json", "example")
	}
	offers := func(path string) any {
		info, _ := at(decoded(t, build(t, r, "/openapi.json", Site{})), "paths", path, "post", "x-payment-info").(map[string]any)
		return info["offers"]
	}
	if offers("/api/bid") != nil {
		t.Error("a bid is for sale in an empty ring")
	}
	first := at(example("/api/register", Site{}), "url")
	r.Join("ada", "https://ada.dev/")
	r.Join("bob", "https://bob.dev/")
	if got := at(example("/api/bid", Site{}), "member"); got != "ada" {
		t.Errorf("the bid names %v", got)
	}
	if again := at(example("/api/register", Site{}), "url"); again == first || !strings.HasPrefix(again.(string), "https://ring.example/?example=") {
		t.Errorf("the registration names %v, then %v", first, again)
	}
	if u := at(example("/api/register", Site{Example: "https://site.dev"}), "url").(string); !strings.HasPrefix(u, "https://site.dev/?example=") {
		t.Errorf("the registration names %s", u)
	}
	r.Remove("ada", false)
	if got := at(example("/api/bid", Site{}), "member"); got != "bob" {
		t.Errorf("the bid names %v, who was removed", got)
	}
	for _, path := range []string{"/api/register", "/api/bid"} {
		offer := at(offers(path), 0).(map[string]any)
		if amount, there := offer["amount"]; !there || amount != nil || offer["method"] != "tempo" || offer["intent"] != "charge" || offer["currency"] != "0x20c0" {
			t.Errorf("%s: offer %v", path, offer)
		}
	}
	r.Rules(func(e *core.Rules) { e.Networks = nil })
	if offers("/api/register") != nil || offers("/api/bid") != nil {
		t.Error("a ring that takes no payments has offers")
	}
	for base, want := range map[string]string{"http://127.0.0.1:8402": "https://my-agent.dev/", "http://localhost": "https://my-agent.dev/",
		"https://ring.org:8443": "https://my-agent.dev/", "https://ring.org/path": "https://ring.org/path/"} {
		r.Rules(func(e *core.Rules) { e.BaseURL = base })
		if u := at(example("/api/register", Site{}), "url").(string); !strings.HasPrefix(u, want+"?example=") {
			t.Errorf("at %s the registration names %s", base, u)
		}
	}
}

func TestTheOldSurfaceIsMarked(t *testing.T) {
	r := coretest.NewRing(t)
	old := map[string]Deprecation{"/api/categories": {Since: noon, Sunset: noon.AddDate(0, 4, 0), Successor: "/api/v2/categories"}}
	doc := decoded(t, build(t, r, "/openapi.json", Site{Deprecated: old}))
	op := at(doc, "paths", "/api/categories", "get")
	if at(op, "deprecated") != true || !strings.Contains(at(op, "description").(string), "2027-03-21") || !strings.Contains(at(op, "description").(string), "/api/v2/categories") {
		t.Errorf("%v", op)
	}
	if at(op, "responses", "200", "headers", "Deprecation") == nil || at(op, "responses", "200", "headers", "Sunset") == nil {
		t.Error("its answers lack Deprecation or Sunset")
	}
	name := strings.TrimPrefix(at(op, "responses", "429", "$ref").(string), "#/components/responses/")
	if at(doc, "components", "responses", name, "headers", "Sunset") == nil {
		t.Error("its problems lack Sunset")
	}
	if at(doc, "paths", "/api/ring", "get", "deprecated") != nil {
		t.Error("another path is marked")
	}
}

func TestDocumentsLeadOnlyToWhatThereIs(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("ada", "https://ada.dev/")
	bare := Site{Has: func(path string) bool { return slices.Contains(api.Paths(), path) }}
	for _, path := range []string{"/openapi.json", "/llms.txt", "/sitemap.xml", "/.well-known/api-catalog", "/feeds/joins.atom"} {
		text := build(t, r, path, bare)
		for _, gone := range []string{"/docs", "/members/", "widget.js\"", "widget.js)"} {
			if strings.Contains(text, gone) {
				t.Errorf("%s leads to %s", path, gone)
			}
		}
	}
	if text := build(t, r, securityPath, Site{}); text != "" {
		t.Errorf("nobody to contact, and %s", text)
	}
	if text := build(t, r, securityPath, Site{Contact: "mailto:a@b.dev"}); text !=
		"Contact: mailto:a@b.dev\nExpires: 2027-05-20T00:00:00Z\nPreferred-Languages: en\nCanonical: https://ring.example/.well-known/security.txt\n" {
		t.Error(text)
	}
}

func TestLLMsLinksWhatAGetAnswers(t *testing.T) {
	r := coretest.NewRing(t)
	text := build(t, r, "/llms.txt", Site{})
	if !strings.HasPrefix(text, "# Example Ring\n\n> ") || strings.Count(text, "\n## ") != 4 || !strings.Contains(text, "\n## Optional\n") {
		t.Error(text)
	}
	// In an empty ring there is nowhere to go.
	for _, path := range []string{"/mcp)", "/api/register)", "/api/bid)", "/next)", "/prev)", "/random)"} {
		if strings.Contains(text, path) {
			t.Errorf("it links %s", path)
		}
	}
	r.Join("ada", "https://ada.dev/")
	if text := build(t, r, "/llms.txt", Site{}); !strings.Contains(text, "/api/ring/next)") || !strings.Contains(text, "/random)") {
		t.Error("it does not link traversal")
	}
}

// Whoever reads how to join reads that the root of a domain is open to every account.
func TestLlmsTextSaysWhoMayRegisterTheRootOfADomain(t *testing.T) {
	if text := build(t, coretest.NewRing(t), "/llms.txt", Site{}); !strings.Contains(text, "Any account can register the root of a domain") {
		t.Error("llms.txt does not say so")
	}
}

// Whoever reads how to pay reads that a 402 promises no rank, and how to name one.
func TestOnlyIfRankIsDescribed(t *testing.T) {
	r := coretest.NewRing(t)
	if text := build(t, r, "/llms.txt", Site{}); !strings.Contains(text, "A 402 does not reserve a rank") || !strings.Contains(text, "`only_if_rank`") {
		t.Error(text)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(build(t, r, "/openapi.json", Site{})), &doc); err != nil {
		t.Fatal(err)
	}
	for schema, field := range map[string]string{"BidRequest": "only_if_rank", "RegisterRequest": "only_if_rank", "Problem": "to_take_rank_usd"} {
		if doc.Components.Schemas[schema].Properties[field] == nil {
			t.Errorf("%s has no %s", schema, field)
		}
	}
}

// What readers of feeds, OPML and sitemaps know of them.
type (
	atomText struct {
		Type string `xml:"type,attr"`
		Text string `xml:",chardata"`
	}
	atomFeed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Entries []struct {
			ID      string   `xml:"id"`
			Title   atomText `xml:"title"`
			Updated string   `xml:"updated"`
			Summary atomText `xml:"summary"`
		} `xml:"entry"`
	}
	opmlDocument struct {
		XMLName  xml.Name `xml:"opml"`
		Outlines []struct {
			Type string `xml:"type,attr"`
		} `xml:"body>outline"`
	}
	sitemap struct {
		XMLName   xml.Name `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		Locations []string `xml:"url>loc"`
	}
)

func TestFeeds(t *testing.T) {
	r := coretest.NewRing(t)
	for _, path := range []string{"/feeds/joins", "/feeds/lead"} {
		var feed atomFeed
		if err := xml.Unmarshal([]byte(build(t, r, path+".atom", Site{})), &feed); err != nil || len(feed.Entries) != 0 || feed.ID == "" || feed.Updated == "" {
			t.Errorf("empty %s: %v %+v", path, err, feed)
		}
	}
	for i := range 60 {
		r.Join(fmt.Sprintf("m%d", i), fmt.Sprintf("https://m%d.dev/", i), func(_ *core.Joined, x *core.Texts) {
			if i == 59 {
				x.Name.Value, x.Description.Value = "<b>&\u0001", "]]> \" '"
			}
		})
	}
	var feed atomFeed
	if err := xml.Unmarshal([]byte(build(t, r, "/feeds/joins.atom", Site{})), &feed); err != nil {
		t.Fatal(err)
	}
	if len(feed.Entries) != 50 || feed.Entries[0].ID != "tag:ring.example,2026:join/m59" || feed.Entries[49].ID != "tag:ring.example,2026:join/m10" {
		t.Errorf("%d entries: %+v", len(feed.Entries), feed.Entries[0])
	}
	if e := feed.Entries[0]; e.Title.Type != "text" || !strings.HasPrefix(e.Title.Text, "<b>&") || !strings.HasSuffix(e.Summary.Text, "]]> \" '") || e.Updated != feed.Updated {
		t.Errorf("%+v", e)
	}
	items := decoded(t, build(t, r, "/feeds/joins.json", Site{}))["items"].([]any)
	if len(items) != 50 || at(items, 0, "id") != feed.Entries[0].ID {
		t.Errorf("%d items", len(items))
	}

	lead := func() any { return at(decoded(t, build(t, r, "/feeds/lead.json", Site{})), "items", 0, "id") }
	before := lead()
	r.Bid("m7", 500)
	if got := lead(); got == before || !strings.HasPrefix(got.(string), "tag:ring.example,2026:lead/m7/") {
		t.Errorf("the lead is %v, then %v", before, got)
	}
	before = lead()
	r.Bid("m8", 100)
	if got := lead(); got != before {
		t.Errorf("another's bid makes the lead %v", got)
	}
}

func TestLargeRingsComeInParts(t *testing.T) {
	r := coretest.NewRing(t)
	for i := range opmlSize + 1 {
		r.Join(fmt.Sprintf("m%d", i), fmt.Sprintf("https://m%d.dev/", i))
	}
	part := func(path string) string { return partOf(t, r, path) }
	var doc opmlDocument
	if err := xml.Unmarshal([]byte(build(t, r, "/ring.opml", Site{})), &doc); err != nil || len(doc.Outlines) != 2 || doc.Outlines[1].Type != "include" {
		t.Fatalf("%v: %+v", err, doc.Outlines)
	}
	// Directories of rings find the same parts.
	hosts := decoded(t, build(t, r, openWebringPath, Site{}))["hosts"].([]any)
	slugs := map[any]bool{}
	for n, want := range []int{opmlSize, 1} {
		host := hosts[n]
		list := decoded(t, part(strings.TrimPrefix(at(host, "members_url").(string), "https://ring.example")))
		members := list["members"].([]any)
		if at(host, "members") != float64(want) || len(members) != want || at(list, "ring", "slug") != at(host, "slug") || at(list, "ring", "url") != "https://ring.example" || slugs[at(host, "slug")] ||
			at(host, "opml") != fmt.Sprintf("https://ring.example/opml/%d.opml", n+1) || at(members[0], "status") != "active" || at(members[0], "url") == "" || at(members[0], "since") != "2026-01-31" {
			t.Errorf("%v: %.300v", host, list)
		}
		slugs[at(host, "slug")] = true
	}
	if len(hosts) != 2 || part("/openwebring/3.json") != "" {
		t.Errorf("parts of the ring: %v", hosts)
	}
	for n, want := range map[int]int{1: opmlSize, 2: 1} {
		var doc opmlDocument
		if err := xml.Unmarshal([]byte(part(fmt.Sprintf("/opml/%d.opml", n))), &doc); err != nil || len(doc.Outlines) != want {
			t.Errorf("part %d: %v, %d outlines", n, err, len(doc.Outlines))
		}
	}
	var members sitemap
	if err := xml.Unmarshal([]byte(part("/sitemaps/members-1.xml")), &members); err != nil || len(members.Locations) != opmlSize+1 || members.Locations[0] != "https://ring.example/members/m0" {
		t.Errorf("%v: %d members", err, len(members.Locations))
	}
	for _, path := range []string{"/opml/3.opml", "/opml/0.opml", "/opml/01.opml", "/opml/-1.opml", "/opml/1", "/opml/999999999999.opml", "/opml/",
		"/sitemaps/members-2.xml", "/sitemaps/members-.xml", "/sitemaps/other.xml", "/sitemaps/pages", "/sitemaps/members-1.xml/x"} {
		if text := part(path); text != "" {
			t.Errorf("%s: %.100s", path, text)
		}
	}
}

func TestToolsHaveThePublicNames(t *testing.T) {
	var names []string
	tools := map[string]Tool{}
	for _, tool := range Tools() {
		names = append(names, tool.Name)
		tools[tool.Name] = tool
		if tool.About == "" || tool.Title == "" {
			t.Errorf("%s says nothing of itself", tool.Name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "ring_bid ring_bid_info ring_categories ring_change ring_check ring_claim ring_directory ring_events ring_hops ring_join ring_join_info "+
		"ring_leaderboard ring_leave ring_list ring_member ring_member_events ring_member_hops ring_next ring_prev ring_random ring_return ring_visit ring_widget" {
		t.Error(got)
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"ring_directory", ``, "/api"},
		{"ring_directory", `null`, "/api"},
		{"ring_list", `{"limit":5,"kind":"mcp","offset":null}`, "/api/ring?kind=mcp&limit=5"},
		// An integer is one however it is written, and a string is no number (JSON Schema).
		{"ring_list", `{"limit":2.0}`, "/api/ring?limit=2"},
		{"ring_list", `{"limit":2e0,"offset":20E-1}`, "/api/ring?limit=2&offset=2"},
		{"ring_events", `{"since":-0}`, "/api/events?limit=20&since=0"},
		{"ring_list", `{"limit":1.5}`, "/api/ring?limit=1.5"}, // which the read refuses, as the next
		{"ring_list", `{"limit":-1}`, "/api/ring?limit=-1"},
		{"ring_list", `{"offset":1e30}`, "/api/ring?limit=20&offset=1e%2B30"},
		{"ring_list", `{"limit":"5"}`, "limit must be a number"},
		{"ring_list", `{"limit":""}`, "limit must be a number"},
		{"ring_list", `{"limit":true}`, "limit must be a number"},
		{"ring_list", `{"limit":[5]}`, "limit must be a number"},
		{"ring_list", `{"limit":1e400}`, "no number is out of range"},
		{"ring_list", `{"limit":5,"limit":6}`, "no name is repeated"},
		{"ring_next", `{"from":5}`, "from must be a string"},
		{"ring_next", `{"from":true}`, "from must be a string"},
		{"ring_next", `{"from":["a"]}`, "from must be a string"},
		{"ring_list", `{"kind":1}`, "kind must be a string"},
		{"ring_widget", `{"from":{"slug":"a"}}`, "from must be a string"},
		{"ring_list", `{"category":"a&b=c#d"}`, "/api/ring?category=a%26b%3Dc%23d&limit=20"},
		{"ring_list", `{}`, "/api/ring?limit=20"},
		{"ring_leaderboard", `{"limit":100}`, "/api/leaderboard?limit=100"},
		{"ring_list", `{"limit":101}`, "limit can be at most 100 here"},
		{"ring_next", `{"from":"https://a.dev/?x=1&y"}`, "/api/ring/next?from=https%3A%2F%2Fa.dev%2F%3Fx%3D1%26y"},
		{"ring_member", `{"slug":"ada"}`, "/api/ring/ada"},
		{"ring_member", `{"slug":"next"}`, "no such member"},
		{"ring_member", `{"slug":"../bid"}`, "no such member"},
		{"ring_member", `{"slug":"a?b"}`, "no such member"},
		{"ring_member", `{"slug":7}`, "slug must be a string"},
		{"ring_member", `{"slug":"7"}`, "/api/ring/7"},
		{"ring_member", `{}`, "slug is required"},
		{"ring_member", `{"slug":null}`, "slug is required"},
		{"ring_member", `{"slug":""}`, "slug is required"},
		{"ring_list", `{"limit":null,"kind":"","category":"","page":2}`, "/api/ring?limit=20&page=2"},
		{"ring_next", `{"format":"redirect"}`, `There is no argument "format".`},
		{"ring_categories", `{"x":1}`, `There is no argument "x".`},
		{"ring_categories", `[]`, "must be one object"},
		{"ring_categories", `7`, "must be one object"},
		{"ring_categories", `{`, "must be one object"},
	} {
		tool := tools[c.tool]
		r, err := tool.Request(json.RawMessage(c.arguments))
		got := r.Target
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s %s: %s, want %s", c.tool, c.arguments, got, c.want)
		}
	}
}

// The same arguments are the same request, however they are written; what two readers may
// read differently is refused.
func TestToolsThatSendAreRequests(t *testing.T) {
	tools := map[string]Tool{}
	for _, tool := range Tools() {
		tools[tool.Name] = tool
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"ring_bid", `{"member":"ada","amount":"2.00"}`, `POST /api/bid {"amount":"2.00","member":"ada"} `},
		{"ring_bid", ` { "amount" : "2.00", "member":"\u0061da" } `, `POST /api/bid {"amount":"2.00","member":"ada"} `},
		{"ring_bid", `{"member":"ada","amount":"2.00","only_if_rank":1.0,"idempotency_key":"0123456789abcdef"}`, `POST /api/bid {"amount":"2.00","member":"ada","only_if_rank":1} 0123456789abcdef`},
		{"ring_bid", `{"member":"a<b>&","x":{"y":[1,"é"]}}`, `POST /api/bid {"member":"a<b>&","x":{"y":[1,"é"]}} `},
		{"ring_bid", `{"member":"ada","member":"bob","amount":"2.00"}`, "no name is repeated"},
		{"ring_bid", `[1]`, "one object"},
		{"ring_bid", `7`, "one object"},
		{"ring_bid", `null`, `POST /api/bid {} `},
		{"ring_bid", ``, `POST /api/bid {} `},
		{"ring_check", `{"name":"Ada","idempotency_key":"x"}`, `POST /api/check {"idempotency_key":"x","name":"Ada"} `},
		{"ring_join", `{"name":"Ada"}`, `POST /api/register {"name":"Ada"} `},
		{"ring_change", `{"slug":"ada","name":"Ada"}`, `PATCH /api/ring/ada {"name":"Ada"} `},
		{"ring_change", `{"name":"Ada"}`, "slug is required"},
		{"ring_change", `{"slug":"../bid"}`, "no such member"},
		{"ring_change", `{"slug":"next"}`, "no such member"},
		{"ring_leave", `{"slug":"ada"}`, `DELETE /api/ring/ada {} `},
		{"ring_leave", `{"slug":"ada","x":1}`, `There is no argument "x".`},
		{"ring_claim", `{"slug":"ada","account":"0x1"}`, `POST /api/ring/ada/claim {"account":"0x1"} `},
		{"ring_return", `{"slug":"ada"}`, `POST /api/ring/ada/return {} `},
		{"ring_visit", `{"slug":"ada","idempotency_key":"a key"}`, `POST /api/ring/ada/visit {} a key`},
	} {
		tool := tools[c.tool]
		r, err := tool.Request(json.RawMessage(c.arguments))
		got := fmt.Sprintf("%s %s %s %s", r.Method, r.Target, r.Body, r.IdempotencyKey)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s %s: %s, want %s", c.tool, c.arguments, got, c.want)
		}
	}
}

// Many clients know no lists of types, and some no schema of a result that is no object.
func TestSchemasOfToolsAreRead(t *testing.T) {
	for _, tool := range Tools() {
		for _, s := range []*schema{tool.Input, tool.Output} {
			text, err := json.Marshal(s)
			if err != nil || bytes.Contains(text, []byte(`"type":[`)) || bytes.Contains(text, []byte(componentSchemas)) || s.Type != "object" {
				t.Errorf("%s: %v %s", tool.Name, err, text)
			}
			if _, err := s.Resolve(nil); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
	}
}

// What the tools say that are made of several reads is what those reads say.
func TestInfosAreWhatTheirReadsSay(t *testing.T) {
	for _, size := range []int{0, 2} {
		r := coretest.NewRing(t)
		for i := range size {
			r.Join(fmt.Sprintf("m-%d", i+1), fmt.Sprintf("https://m-%d.dev", i+1))
		}
		for _, tool := range Tools() {
			if !tool.Makes() {
				continue
			}
			text, err := tool.Build(source(r, Site{}), nil)
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			resolved, err := tool.Output.Resolve(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(doc); err != nil {
				t.Errorf("%s: %v: %s", tool.Name, err, text)
			}
			if fee := doc["payments"].(map[string]any)["registration_fee_usd"]; fee != "1.00" {
				t.Errorf("%s: fee %v", tool.Name, fee)
			}
			if first, said := doc["first"]; said && (first == nil) != (size == 0) {
				t.Errorf("%s: first %v of %d", tool.Name, first, size)
			}
			if _, err := tool.Build(source(r, Site{}), json.RawMessage(`{"x":1}`)); err == nil {
				t.Errorf("%s takes any argument", tool.Name)
			}
		}
	}
}

func FuzzTarget(f *testing.F) {
	f.Add(0, `{"from":"a"}`)
	f.Add(5, `{"slug":"\u0000"}`)
	tools := slices.DeleteFunc(Tools(), func(t Tool) bool { return t.Sends() || t.Makes() })
	f.Fuzz(func(t *testing.T, n int, arguments string) {
		tool := tools[int(uint(n)%uint(len(tools)))]
		r, err := tool.Request(json.RawMessage(arguments))
		path, _, _ := strings.Cut(r.Target, "?")
		if err == nil && !api.Serves([]byte(path)) {
			t.Errorf("%s %q asks for %q", tool.Name, arguments, r.Target)
		}
	})
}

// A ring that lost all its members looks like one that never had any, and its documents are
// true of both.
func TestNobodyIsSaidToHaveNeverJoined(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("ada", "https://ada.dev/")
	r.Remove("ada", false)
	if said := build(t, r, "/ring.opml", Site{}); !strings.Contains(said, "The ring is empty") {
		t.Error(said)
	}
}
