package local

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"webring/server/sites/fetch"
	"webring/server/sites/markup"
)

// kind is a document in JSON that a site may publish.
type kind struct {
	id    string // of its schema, and of its check
	paths []string
	// rel is a link relation by which the page may name it, or "".
	rel string
}

var (
	aiCatalog   = kind{"ai-catalog", []string{"/.well-known/ai-catalog.json"}, "ai-catalog"}
	serverCard  = kind{"mcp-card", nil, ""}
	skillsIndex = kind{"skills", []string{"/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"}, ""}
)

// alone are the documents that lead to nothing else that is looked at.
var alone = []kind{
	{"openapi", []string{"/openapi.json"}, "service-desc"},
	{"api-catalog", []string{"/.well-known/api-catalog"}, ""},
	{"agent-card", []string{"/.well-known/agent-card.json"}, ""},
	{"x402", []string{"/.well-known/x402"}, ""},
	{"signatures", []string{"/.well-known/http-message-signatures-directory"}, ""},
}

// document is one that was looked for.
type document struct {
	answer answer // of the last place that was looked at, without its body
	json   bool   // it is JSON at all
	formed bool   // it has the form that its kind has
	priced bool   // some operation of it says what it costs
	leads  []lead // what it leads to
}

// lead is a document, a server or a skill that a document names.
type lead struct {
	url    string    // as it stands
	digest string    // of a skill
	card   *document // the card itself, when it stands in the catalog
}

const (
	// maxLeads is how many of them are kept of a document.
	maxLeads = 8
	// maxLead is how long an address among them may be, in bytes.
	maxLead = 2048
)

// schemasText holds, by id, what a document of that kind must have: much less
// than its specification asks for, so that drafts and versions may differ. Each element
// of a list is looked at in lists of up to 1000 only: what is wrong with one is
// kept until all were looked at.
//
//go:embed schemas.json
var schemasText []byte

var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	all, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemasText))
	if err != nil {
		panic(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schemas.json", all); err != nil {
		panic(err)
	}
	compiled := map[string]*jsonschema.Schema{}
	for _, k := range append([]kind{aiCatalog, serverCard, skillsIndex}, alone...) {
		compiled[k.id] = compiler.MustCompile("schemas.json#/" + k.id)
	}
	return compiled
})

// findDocument looks at the places of a document until it is there.
func (s *site) findDocument(ctx context.Context, k kind) *document {
	var addresses []string
	if href := s.linkHeader(k.rel); k.rel != "" && href != "" && s.own(href) != "" {
		addresses = []string{s.own(href)}
	}
	for _, p := range k.paths {
		if address := s.at(p); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	d := &document{}
	for _, address := range addresses {
		if d = s.readDocument(ctx, k, address); d.formed {
			break
		}
	}
	return d
}

// readDocument looks at one place of a document.
func (s *site) readDocument(ctx context.Context, k kind, address string) *document {
	accept := "application/json, application/*;q=0.9, */*;q=0.5"
	if k.id == serverCard.id {
		accept = cardMedia + ", application/json;q=0.9, */*;q=0.5"
	}
	d := &document{answer: s.get(ctx, fetch.Request{URL: address, Accept: accept})}
	if d.answer.ok() && !d.answer.Truncated {
		s.read(ctx, func() { d.read(k.id, d.answer.text()) })
	}
	d.answer.drop()
	return d
}

// read makes sense of the body of a document of a kind.
func (d *document) read(id string, body []byte) {
	if manyValues(body) {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return
	}
	d.take(id, value)
}

// take makes sense of the value of a document of a kind.
func (d *document) take(id string, value any) {
	d.json = true
	if d.formed = schemas()[id].Validate(value) == nil; !d.formed {
		return
	}
	d.priced = hasPaymentInfo(value)
	root, _ := value.(map[string]any)
	switch id {
	case aiCatalog.id:
		d.follow(root["entries"], func(e map[string]any) (l lead, ok bool) {
			media, _ := e["type"].(string)
			if media == "" { // its name in earlier drafts
				media, _ = e["mediaType"].(string)
			}
			if markup.MediaType(media) != cardMedia {
				return l, false
			}
			if l.url, _ = e["url"].(string); l.url == "" {
				l.card = &document{}
				l.card.take(serverCard.id, e["data"])
			}
			return l, true
		})
	case serverCard.id:
		d.follow(root["remotes"], func(e map[string]any) (l lead, ok bool) {
			kind, _ := e["type"].(string)
			l.url, _ = e["url"].(string)
			return l, kind != "sse" // the transport of the first revision
		})
		transport, _ := root["transport"].(map[string]any) // of earlier drafts
		for _, url := range []any{root["url"], transport["endpoint"], transport["url"]} {
			if at, _ := url.(string); at != "" && len(at) <= maxLead && len(d.leads) < maxLeads {
				d.leads = append(d.leads, lead{url: at})
			}
		}
	case skillsIndex.id:
		d.follow(root["skills"], func(e map[string]any) (l lead, ok bool) {
			l.url, _ = e["url"].(string)
			l.digest, _ = e["digest"].(string)
			return l, l.url != ""
		})
	}
}

// cardMedia is the media type of the card of an MCP server.
const cardMedia = "application/mcp-server-card+json"

// follow takes what elements of a list lead to.
func (d *document) follow(list any, to func(map[string]any) (lead, bool)) {
	elements, _ := list.([]any)
	for _, element := range elements {
		e, _ := element.(map[string]any)
		if l, ok := to(e); ok && len(l.url) <= maxLead && len(l.digest) <= maxLead {
			d.leads = append(d.leads, l)
		}
		if len(d.leads) == maxLeads {
			return
		}
	}
}

// finding says whether a document is there and has its form.
func (d *document) finding() finding {
	switch {
	case d.formed:
		return pass("It is there and has the form that it should.")
	case d.json:
		return fail("It is JSON, but does not have the form that it should.")
	case !d.answer.ok():
		return fail("%s", noAnswer(d.answer))
	}
	return fail("What is there is not JSON, or too long.")
}

// maxValues is how many values a document in JSON may have. It leaves ten bytes
// to each where a document is as long as one may be; a decoded value takes much
// more than the two bytes that it takes in "0,".
const maxValues = 100_000

// manyValues says whether text may hold more than [maxValues].
func manyValues(text []byte) bool {
	n := 0
	for _, c := range text {
		if c == ',' || c == '[' || c == '{' {
			n++
		}
	}
	return n > maxValues
}

// linkHeader is the first target of the page's Link fields (RFC 8288) with one of these
// relations, as it stands, or "".
func (s *site) linkHeader(relations ...string) string {
	if s.home.err != nil {
		return ""
	}
	for _, link := range parseLinks(s.home.Header.Values("Link")) {
		for r := range strings.FieldsSeq(strings.ToLower(link.rel)) {
			if slices.Contains(relations, r) {
				return link.target
			}
		}
	}
	return ""
}

type link struct{ target, rel string }

// parseLinks reads Link fields, leniently.
func parseLinks(fields []string) (links []link) {
	for _, field := range fields {
		for {
			_, rest, ok := strings.Cut(field, "<")
			if !ok {
				break
			}
			target, rest, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			// Parameters reach to the next link, which begins with "<".
			parameters, _, _ := strings.Cut(rest, "<")
			field = rest
			l := link{target: strings.TrimSpace(target)}
			for parameter := range strings.SplitSeq(parameters, ";") {
				name, value, _ := strings.Cut(parameter, "=")
				if strings.EqualFold(strings.TrimSpace(name), "rel") {
					l.rel = strings.Trim(strings.TrimRight(strings.TrimSpace(value), ", "), `"`)
				}
			}
			links = append(links, l)
		}
	}
	return links
}

// linkedData reads text as JSON-LD. It reports whether the text is JSON, and whether it has
// something with a type of schema.org: by a context at any place, by an alias of @type, or
// spelled out.
func linkedData(text []byte) (isJSON, says bool) {
	var value any
	if manyValues(text) || json.Unmarshal(bytes.TrimSpace(text), &value) != nil {
		return false, false
	}
	return true, saysBySchema(value, false, []string{"@type"})
}

// saysBySchema says whether a value in JSON-LD holds something with a type of schema.org. by
// says whether the context so far is of it, and types are the names that @type has there.
func saysBySchema(value any, by bool, types []string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return saysBySchema(element, by, types) })
	case map[string]any:
		if context, has := v["@context"]; has {
			text, _ := json.Marshal(context)
			by = by || bytes.Contains(text, []byte("schema.org"))
			contexts, isList := context.([]any)
			if !isList {
				contexts = []any{context}
			}
			for _, c := range contexts {
				terms, _ := c.(map[string]any)
				for _, term := range slices.Sorted(maps.Keys(terms)) {
					if meaning := terms[term]; len(types) < maxAliases && (meaning == "@type" || isAlias(meaning)) {
						types = append(slices.Clip(types), term)
					}
				}
			}
		}
		for _, name := range types {
			if is, has := v[name]; has && (by || spelledOut(is)) {
				return true
			}
		}
		for name, inner := range v {
			if name != "@context" && saysBySchema(inner, by, types) {
				return true
			}
		}
	}
	return false
}

// spelledOut says whether a type, or one in a list, is an address of schema.org.
func spelledOut(is any) bool {
	kinds, isList := is.([]any)
	if !isList {
		kinds = []any{is}
	}
	return slices.ContainsFunc(kinds, func(kind any) bool {
		text, _ := kind.(string)
		return strings.HasPrefix(text, "https://schema.org/") || strings.HasPrefix(text, "http://schema.org/")
	})
}

// maxAliases bounds the names of @type, each of which is looked for in each object.
const maxAliases = 8

// isAlias says whether the long form of a term stands for @type.
func isAlias(meaning any) bool {
	long, _ := meaning.(map[string]any)
	return long["@id"] == "@type"
}
