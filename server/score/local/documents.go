package local

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"webring/server/fetch"
)

// kind is a document in JSON that a site may publish.
type kind struct {
	id    string // of its check
	paths []string
	// rel is a link relation by which the page may name it, or "".
	rel string
}

var documents = []kind{
	{"mcp", []string{"/.well-known/mcp/server-card.json", "/.well-known/mcp-server-card"}, ""},
	{"openapi", []string{"/openapi.json"}, "service-desc"},
	{"api-catalog", []string{"/.well-known/api-catalog"}, ""},
	{"agent-card", []string{"/.well-known/agent-card.json"}, ""},
	{"skills", []string{"/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"}, ""},
	{"x402", []string{"/.well-known/x402"}, ""},
}

// document is one that was looked for.
type document struct {
	answer answer // of the last place that was looked at, without its body
	json   bool   // it is JSON at all
	formed bool   // it has the form that its kind has
	priced bool   // some operation of it says what it costs
}

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
	for _, k := range documents {
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
		d = &document{answer: s.get(ctx, fetch.Request{URL: address, Accept: "application/json, application/*;q=0.9, */*;q=0.5"})}
		if !d.answer.ok() {
			continue
		}
		if !d.answer.Truncated {
			s.read(ctx, func() { d.read(k.id, d.answer.Body) })
		}
		if d.answer.Body = nil; d.formed {
			break
		}
	}
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
	d.json = true
	d.formed = schemas()[id].Validate(value) == nil
	d.priced = d.formed && hasPaymentInfo(value)
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

// linkHeader is the first target of the page's Link fields (RFC 8288) with a
// relation, as it stands, or "".
func (s *site) linkHeader(rel string) string {
	if s.home.err != nil {
		return ""
	}
	for _, link := range parseLinks(s.home.Header.Values("Link")) {
		for _, r := range strings.Fields(strings.ToLower(link.rel)) {
			if r == rel {
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

// linkedData says whether text is JSON-LD that says something by schema.org.
func linkedData(text []byte) bool {
	var value any
	if manyValues(text) || json.Unmarshal(bytes.TrimSpace(text), &value) != nil {
		return false
	}
	items, isList := value.([]any)
	if !isList {
		items = []any{value}
	}
	for _, item := range items {
		object, _ := item.(map[string]any)
		_, typed := object["@type"]
		_, graph := object["@graph"]
		context, err := json.Marshal(object["@context"])
		if (typed || graph) && err == nil && bytes.Contains(context, []byte("schema.org")) {
			return true
		}
	}
	return false
}
