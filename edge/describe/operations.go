package describe

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"webring/core/api"
)

// openapiText is the description of the service as an OpenAPI document. Words in double braces
// are facts of a ring. Members that begin with "x-" and that [openAPI] takes out are for this
// package: x-tool is the MCP tool of an operation, x-needs what it asks for ("payment" or
// "proof"), x-problems its codes or groups of codes,
// x-tools what a tool does (the directory's words name queries and redirects, which tools do not
// have), x-results schemas of tools, and x-reasons why payments are refused, in the order in which a
// payer meets the reasons.
//
//go:embed openapi.json
var openapiText string

// Operation is one thing that the service does at an address.
type Operation struct {
	ID           string // in OpenAPI
	Method, Path string
	About        string // the directory's words
	More         string // what these do not say
	Tag          string
	Tool         string // the MCP tool that mirrors it, "" for none

	params []param // in path and query
	body   string  // component of a JSON request body, "" for none
	status int     // of the answer
	result *schema // of the answer, nil for none
	media  string  // of a published document
	codes  []api.Code
	needs  string // "payment", "proof" or ""
}

// param is a query or path parameter.
type param struct {
	Name, In, Description string
	Required              bool
	Schema                *schema
}

// The tags that are more than a heading: redirects for a page, and what is
// published and no part of the ring.
const (
	linksTag     = "links"
	documentsTag = "documents"
)

const (
	jsonMedia    = "application/json"
	problemMedia = "application/problem+json"
	plainMedia   = "text/plain; charset=utf-8"
)

// writtenDocument is what this package reads of [openapiText].
type writtenDocument struct {
	Groups  map[string][]api.Code                    `json:"x-problems"`
	Results map[string]*schema                       `json:"x-results"`
	Reasons []Reason                                 `json:"x-reasons"`
	Tools   map[string]struct{ Title, About string } `json:"x-tools"`
	Paths   map[string]map[string]struct {
		OperationID, Description string
		Tags                     []string
		Tool                     string      `json:"x-tool"`
		Needs                    string      `json:"x-needs"`
		Codes                    []string    `json:"x-problems"`
		Parameters               []reference `json:"parameters"`
		RequestBody              struct {
			Content map[string]struct{ Schema reference }
		}
		Responses map[int]struct {
			Content map[string]struct{ Schema *schema }
		}
	}
	Components struct {
		Schemas    map[string]*schema
		Parameters map[string]param
	}
}

type reference struct {
	Ref string `json:"$ref"`
}

// name is the last part of a reference.
func (r reference) name() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

// written reads the document. Callers must not change it.
var written = sync.OnceValue(func() *writtenDocument {
	var doc writtenDocument
	var raw struct {
		Components struct {
			Schemas map[string]struct{ Properties json.RawMessage }
		}
	}
	for _, into := range []any{&doc, &raw} {
		if err := json.Unmarshal([]byte(openapiText), into); err != nil {
			panic(err) // a constant of this package
		}
	}
	for name, s := range doc.Components.Schemas {
		s.PropertyOrder = names(raw.Components.Schemas[name].Properties)
	}
	return &doc
})

// names are those of the members of a JSON object, in their order.
func names(object json.RawMessage) (list []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return list
		}
		switch name, isText := token.(string); {
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		case isText && depth == 1:
			list = append(list, name) // every value is an object
		}
	}
}

// Reason is why a payment was refused: a value of the member reason of a problem document.
type Reason struct{ Name, Meaning string }

// Reasons lists all that the payment methods give. The caller owns the list.
func Reasons() []Reason { return slices.Clone(written().Reasons) }

// anyCodes are the problems that any request can meet.
func anyCodes() []api.Code { return written().Groups["any"] }

// Operations lists everything that the service does for programs: first what
// the directory lists, in its order, then the A2A agent and the other documents. The caller owns
// the list.
func Operations() []Operation {
	operations.once.Do(func() { operations.list = readOperations() })
	return slices.Clone(operations.list)
}

// operations are read once. They list documents that read operations while they are made,
// which rules out [sync.OnceValue].
var operations struct {
	once sync.Once
	list []Operation
}

func readOperations() (list []Operation) {
	doc := written()
	for _, e := range append(api.Endpoints(), api.Endpoint{Method: "POST", Path: AgentPath, About: "The reads of the ring as an A2A agent, by JSON-RPC."}) {
		w := doc.Paths[e.Path][strings.ToLower(e.Method)]
		op := Operation{ID: w.OperationID, Method: e.Method, Path: e.Path, About: e.About, More: w.Description, Tag: w.Tags[0], Tool: w.Tool,
			needs: w.Needs, body: w.RequestBody.Content[jsonMedia].Schema.name()}
		for _, r := range w.Parameters {
			if p := doc.Components.Parameters[r.name()]; p.In != "header" {
				op.params = append(op.params, p)
			}
		}
		for status, r := range w.Responses {
			if op.status == 0 || status < op.status {
				op.status, op.result = status, r.Content[jsonMedia].Schema
			}
		}
		for _, name := range w.Codes {
			if group, is := doc.Groups[name]; is {
				op.codes = append(op.codes, group...)
			} else {
				op.codes = append(op.codes, api.Code(name))
			}
		}
		list = append(list, op)
	}
	for _, d := range Documents() {
		if !slices.ContainsFunc(list, func(op Operation) bool { return op.Path == d.Path }) {
			list = append(list, Operation{ID: d.id, Method: "GET", Path: d.Path, About: d.About, Tag: documentsTag, status: 200, media: d.Media})
		}
	}
	return list
}

// summary is what the directory says of the operation, but for what its parameters and its
// body say themselves.
func (op *Operation) summary() string {
	about, _, _ := strings.Cut(op.About, " Query")
	about, _, _ = strings.Cut(about, " JSON body")
	return about
}

type schema = jsonschema.Schema

const componentSchemas = "#/components/schemas/"

// The forms of slugs and of amounts in requests.
const (
	slugPattern   = "^[a-z0-9][a-z0-9-]{0,47}$"
	amountPattern = `^[0-9]{1,7}(\.[0-9]{1,2})?$`
)

func ptr[T any](v T) *T { return &v }

// standalone gives a schema of its own with what it refers to in $defs. Callers may change it.
func standalone(of *schema) *schema {
	all := written().Components.Schemas
	root := of.CloneSchemas()
	if name, ok := strings.CutPrefix(root.Ref, componentSchemas); ok {
		root = all[name].CloneSchemas()
	}
	root.Defs = map[string]*schema{}
	var visit func(s *schema)
	visit = func(s *schema) {
		if name, ok := strings.CutPrefix(s.Ref, componentSchemas); ok {
			s.Ref = "#/$defs/" + name
			if _, seen := root.Defs[name]; !seen {
				root.Defs[name] = all[name].CloneSchemas()
				walk(root.Defs[name], visit)
			}
		}
	}
	walk(root, visit)
	return root
}

// walk visits a schema and what it consists of.
func walk(s *schema, visit func(*schema)) {
	if s == nil {
		return
	}
	visit(s)
	for _, part := range slices.Concat(slices.Collect(maps.Values(s.Properties)), s.AllOf, s.AnyOf, []*schema{s.Items, s.AdditionalProperties}) {
		walk(part, visit)
	}
}
