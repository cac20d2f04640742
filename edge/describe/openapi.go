package describe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"webring/core/api"
)

// node is an object of the OpenAPI document. encoding/json sorts the names, so the same
// facts give the same bytes.
type node = map[string]any

// openAPI describes the service to programs, as OpenAPI 3.1 with the
// extensions of draft-payment-discovery-00: the written document with the facts of this ring,
// the problems of each operation, and the published documents.
func openAPI(s *Source) []byte {
	ring := s.ring()
	first, total := s.members("", 0, 1)
	b := &openapi{source: s, ring: ring}
	if total > 0 {
		b.member = first[0].Slug
	}
	doc := b.filled()
	for _, taken := range []string{"x-problems", "x-results", "x-tools", "x-reasons"} {
		delete(doc, taken)
	}
	info, docs, components, paths := doc["info"].(node), doc["x-service-info"].(node)["docs"].(node), doc["components"].(node), doc["paths"].(node)
	b.headers, b.responses = components["headers"].(node), components["responses"].(node)
	if p := ring.Policies; p.Terms != "" {
		info["termsOfService"] = p.Terms
	}
	if contact := ring.contact(); contact != nil {
		info["contact"] = contact
	}
	if s.has("/docs") {
		docs["apiReference"] = ring.Base + "/docs"
	}
	if !s.has(logCheckpoint) {
		delete(paths, logCheckpoint)
		delete(paths, logProof)
	}
	all := Operations()
	by := codesByStatus(all)
	for i := range all {
		op := &all[i]
		at, _ := paths[op.Path].(node)
		method := strings.ToLower(op.Method)
		if op.Path == securityPath && s.Contact == "" || op.Method == "GET" && !strings.Contains(op.Path, "{") && !s.has(op.Path) {
			if delete(at, method); len(at) == 0 {
				delete(paths, op.Path)
			}
			continue
		}
		if op.media != "" {
			o := b.published(op)
			parameters, _ := at[method].(node)
			maps.Copy(o, parameters)
			at = node{method: o}
			paths[op.Path] = at
		}
		o := at[method].(node)
		o["summary"] = op.summary()
		b.sell(op, o)
		b.problems(op, o["responses"].(node), by)
		if d, old := s.Deprecated[op.Path]; old {
			b.deprecate(o, d)
		}
		if o["security"] == nil {
			o["security"] = []node{} // crawlers look for it here
		}
	}
	return s.json(doc)
}

// Paths of the log. Nodes that nobody can follow have none.
const logCheckpoint, logProof = "/log/checkpoint", "/log/proof/{index}"

// openapi is one document being put together.
type openapi struct {
	source             *Source
	ring               Ring
	member             string // slug in the example of a bid, "" in an empty ring
	responses, headers node
}

// filled reads the written document with the facts in place of their names.
func (b *openapi) filled() (doc node) {
	var reasons []string
	for _, r := range Reasons() {
		reasons = append(reasons, r.Name)
	}
	var facts []string
	for name, fact := range map[string]string{"name": b.ring.Name, "description": b.ring.Description, "base": b.ring.Base, "how": b.ring.How, "rule": b.ring.Validation.Rule,
		"policies": text("policies", b.ring.Policies), "version": cmp.Or(b.source.Version, devel), "member": cmp.Or(b.member, "example"), "reasons": strings.Join(reasons, ", ")} {
		quoted, _ := json.Marshal(fact) // a string can be encoded
		facts = append(facts, "{{"+name+"}}", string(quoted[1:len(quoted)-1]))
	}
	if err := json.Unmarshal([]byte(strings.NewReplacer(facts...).Replace(openapiText)), &doc); err != nil {
		panic(err) // a constant of this package
	}
	return doc
}

// contact returns the operator's contact, the one for reports without it, or nil if neither is set.
func (r Ring) contact() node {
	name, address := cmp.Or(r.Operator.Name, "The operator"), r.Operator.Contact
	if address == "" {
		name, address = "Reports of members", r.Policies.Report
	}
	u, err := url.Parse(address)
	switch {
	case address == "" || err != nil:
		return nil
	case u.Scheme == "mailto":
		return node{"name": name, "email": u.Opaque}
	}
	return node{"name": name, "url": address}
}

// published describes a document that is published.
func (b *openapi) published(op *Operation) node {
	kind := "string"
	if strings.Contains(op.media, "json") {
		kind = "object"
	}
	answer := node{"description": "The document.", "content": node{op.media: node{"schema": node{"type": kind}}}}
	if name := map[string]string{jsonMedia: "JSONDocument", plainMedia: "TextDocument"}[op.media]; name != "" {
		answer = node{"$ref": "#/components/responses/" + name}
	}
	return node{"operationId": op.ID, "tags": []string{op.Tag}, "responses": node{"200": answer}}
}

// sell adds to an operation an example of its body that could be paid for now, and how to pay.
func (b *openapi) sell(op *Operation, o node) {
	for _, taken := range []string{"x-tool", "x-needs", "x-problems"} {
		delete(o, taken)
	}
	example := exampleBody(op.body, b.ring, b.member)
	if op.body == "RegisterRequest" {
		example = exampleDraft(b.source.example(b.ring.Base))
	}
	if example != nil && op.body != "MCPMessage" {
		o["requestBody"].(node)["content"].(node)[jsonMedia].(node)["example"] = example
	}
	if op.needs == "payment" {
		if info := b.payment(op); info != nil {
			o["x-payment-info"] = info
		}
	}
}

// payment says how to pay for an operation. It is nil if the operation is not for sale: an
// empty ring has no member to bid on. offers are for draft-payment-discovery-00, price and
// protocols for the directories of AgentCash.
func (b *openapi) payment(op *Operation) node {
	least, words := b.ring.Fee, "Fee of "+b.ring.Fee+" USD, and the opening bid."
	if op.body == "BidRequest" {
		if b.member == "" {
			return nil
		}
		least, words = b.ring.MinBid, "The amount of the bid, at least "+b.ring.MinBid+" USD."
	}
	var offers, protocols []node
	for _, o := range b.ring.Offers {
		offers = append(offers, node{"intent": o.Intent, "method": o.Method, "amount": nil, "currency": o.Currency, "description": words})
		protocols = append(protocols, node{"mpp": node{"method": o.Method, "intent": o.Intent, "currency": o.Currency}})
		if o.Method == "evm" {
			protocols = append(protocols, node{"x402": node{}}) // edges do not know whether the origin offers it: a 402 says so
		}
	}
	if len(offers) == 0 {
		return nil
	}
	return node{"offers": offers, "protocols": protocols, "price": node{"mode": "dynamic", "currency": "USD", "min": least, "max": mostBid}}
}

// mostBid is the highest bid, in USD.
const mostBid = "1000000.00"

// problems adds the problems of an operation to its answers, by status. What any request can
// meet is the default, but for the status 429, which generated clients look for.
func (b *openapi) problems(op *Operation, answers node, by map[int][]api.Code) {
	if op.Tag != documentsTag {
		answers["default"] = b.problem(0, nil, by)
	}
	for status, codes := range by {
		own := status == http.StatusTooManyRequests || !slices.Contains(anyStatuses, status) && slices.ContainsFunc(codes, func(c api.Code) bool { return slices.Contains(op.codes, c) })
		success, both := answers[strconv.Itoa(status)].(node)
		switch {
		case both: // the status has another answer, too
			success["content"].(node)[problemMedia] = problemContent[problemMedia]
		case own:
			answers[strconv.Itoa(status)] = b.problem(status, codes, by)
		}
	}
}

var problemContent = node{problemMedia: node{"schema": node{"$ref": componentSchemas + "Problem"}}}

// problem refers to the answer with problems of a status, any for 0. They are the same for
// all operations: a code says more than which of them an operation gives.
func (b *openapi) problem(status int, codes []api.Code, by map[int][]api.Code) node {
	name, about := "AnyProblem", "What any request can meet"
	if status > 0 {
		name, about = "Problem"+strconv.Itoa(status), http.StatusText(status)
	} else {
		for _, s := range anyStatuses {
			codes = append(codes, by[s]...)
		}
	}
	words := make([]string, len(codes))
	for i, c := range codes {
		words[i] = "`" + string(c) + "`"
	}
	r := node{"description": about + ": " + strings.Join(words, ", ") + ".", "content": problemContent}
	if fields := problemHeaders[status]; len(fields) > 0 {
		r["headers"] = headerRefs(fields)
	}
	b.responses[name] = r
	return node{"$ref": "#/components/responses/" + name}
}

// problemHeaders has the fields of problems by their status.
var problemHeaders = map[int][]string{
	402: {"WWW-Authenticate", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Link"},
	409: {"PAYMENT-RESPONSE"},
	429: {"RateLimit-Limit", "RateLimit-Reset", "Retry-After"},
	503: {"Retry-After", "PAYMENT-RESPONSE"},
}

func headerRefs(names []string) node {
	all := node{}
	for _, n := range names {
		all[n] = node{"$ref": "#/components/headers/" + n}
	}
	return all
}

// anyStatuses are those of what is wrong with a request as such. They are one answer, the
// default of each operation.
var anyStatuses = []int{400, 408, 413, 415, 431, 500, 505}

// codesByStatus has the codes that operations give, by their status.
func codesByStatus(all []Operation) map[int][]api.Code {
	by := map[int][]api.Code{}
	for _, c := range api.Codes() {
		if slices.Contains(anyCodes(), c) || slices.ContainsFunc(all, func(op Operation) bool { return slices.Contains(op.codes, c) }) {
			by[c.Status()] = append(by[c.Status()], c)
		}
	}
	return by
}

// deprecate marks an operation of the old surface: it says so, and all its answers have the
// fields that do.
func (b *openapi) deprecate(o node, d Deprecation) {
	about, _ := o["description"].(string)
	o["deprecated"] = true
	o["description"] = about + fmt.Sprintf(" Deprecated since %s, gone on %s. Use %s.", d.Since.UTC().Format("2006-01-02"), d.Sunset.UTC().Format("2006-01-02"), d.Successor)
	b.headers["Deprecation"] = node{"description": "Since when this path is the old surface (RFC 9745).", "required": true, "schema": node{"type": "string", "pattern": "^@[0-9]+$"}}
	b.headers["Sunset"] = node{"description": "When it goes (RFC 8594).", "required": true, "schema": node{"type": "string"}}
	answers := o["responses"].(node)
	for status, answer := range answers {
		answer := answer.(node)
		name, shared := strings.CutPrefix(fmt.Sprint(answer["$ref"]), "#/components/responses/")
		if shared {
			answer = maps.Clone(b.responses[name].(node))
		}
		fields := headerRefs([]string{"Deprecation", "Sunset", "Link"})
		if own, some := answer["headers"].(node); some {
			maps.Copy(fields, own)
		}
		answer["headers"] = fields
		if strings.Contains(name, "Problem") && shared {
			b.responses[name+"Deprecated"] = answer
			answer = node{"$ref": "#/components/responses/" + name + "Deprecated"}
		}
		answers[status] = answer
	}
}
