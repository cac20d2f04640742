package describe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"webring/core/api"
)

// Reference is what the page about the API says of one operation. It is made from the table
// of operations and of the ring's own facts.
type Reference struct {
	Operation
	Parameters []Parameter
	Request    string // can be sent unchanged, or with its words in braces replaced
	Example    string // target of a read that answers as the operation does, "" for none
	Returns    []Parameter
	Status     int
	Codes      []api.Code // problems beyond those that any request can meet, sorted by status
}

// Parameter is one thing that a request takes or an answer has.
type Parameter struct {
	Name     string
	In       string // path, query or body; "" in an answer
	Type     string // in words
	About    string
	Required bool
}

// References describes every operation that is no published document. The examples name the
// member with this slug, if it is not "".
func References(ring Ring, slug string) (all []Reference) {
	components := written().Components.Schemas
	for _, op := range Operations() {
		if op.Tag == documentsTag {
			continue
		}
		r := Reference{Operation: op, Status: op.status}
		for _, p := range op.params {
			r.Parameters = append(r.Parameters, Parameter{p.Name, p.In, shape(p.Schema), p.Description, p.Required})
		}
		r.Parameters = append(r.Parameters, fields(components[op.body], "body")...)
		if s := op.result; op.Method != "GET" && s != nil {
			r.Returns = fields(components[strings.TrimPrefix(s.Ref, componentSchemas)], "")
			for _, either := range s.AnyOf {
				r.Returns = append(r.Returns, fields(components[strings.TrimPrefix(either.Ref, componentSchemas)], "")...)
			}
		}
		for _, c := range api.Codes() {
			if slices.Contains(op.codes, c) {
				r.Codes = append(r.Codes, c)
			}
		}
		r.Request, r.Example = requestFor(&op, ring, slug)
		all = append(all, r)
	}
	return all
}

// Published are the documents that a site publishes for programs.
func Published(site Site) []Operation {
	return slices.DeleteFunc(Operations(), func(op Operation) bool {
		return op.Tag != documentsTag || op.Path == securityPath && site.Contact == ""
	})
}

// AnyRequest are the problems that any request can meet.
func AnyRequest() []api.Code { return slices.Clone(anyCodes()) }

// fields are those of a component that is an object.
func fields(s *schema, in string) (list []Parameter) {
	if s == nil {
		return nil
	}
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		about := p.Description
		if len(p.AnyOf) > 0 && about == "" {
			about = p.AnyOf[0].Description
		}
		list = append(list, Parameter{name, in, shape(p), about, slices.Contains(s.Required, name)})
	}
	return list
}

// shape says what values a schema has.
func shape(s *schema) string {
	if len(s.AnyOf) == 2 && s.AnyOf[1].Type == "null" {
		return shape(s.AnyOf[0])
	}
	var b strings.Builder
	switch {
	case s.Ref == componentSchemas+"USD":
		b.WriteString("amount, such as \"2.00\"")
	case s.Ref != "":
		b.WriteString(strings.TrimPrefix(s.Ref, componentSchemas))
	case len(s.Enum) > 0:
		for i, v := range s.Enum {
			if i > 0 {
				b.WriteString(" or ")
			}
			fmt.Fprintf(&b, "%q", v)
		}
	case s.Type == "array" && s.Items != nil:
		return "list of " + shape(s.Items)
	case s.Format == "uri":
		b.WriteString("URL")
	case s.Format == "date-time":
		b.WriteString("time, RFC 3339")
	case s.Pattern == amountPattern:
		b.WriteString("amount, such as \"2.00\"")
	case s.Type == "":
		b.WriteString("any")
	default:
		b.WriteString(s.Type)
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil && *s.Maximum < 1<<50:
		fmt.Fprintf(&b, ", %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		fmt.Fprintf(&b, ", from %.0f", *s.Minimum)
	}
	switch {
	case s.MaxLength != nil && s.MinLength != nil && *s.MinLength == *s.MaxLength:
		fmt.Fprintf(&b, ", %d characters", *s.MaxLength)
	case s.MaxLength != nil:
		fmt.Fprintf(&b, ", at most %d characters", *s.MaxLength)
	}
	if s.Default != nil {
		fmt.Fprintf(&b, "; else %s", s.Default)
	}
	return b.String()
}

// requestFor gives a request of an operation, and the target that answers as it does where
// that is a read which may be kept.
func requestFor(op *Operation, ring Ring, slug string) (request, example string) {
	path := op.Path
	if slug != "" {
		path = strings.Replace(path, "{slug}", slug, 1)
	}
	if op.Method == "GET" {
		query := url.Values{}
		for _, p := range op.params {
			switch {
			case p.Name == "limit":
				query.Set(p.Name, "1")
			case p.Name == "days":
				query.Set(p.Name, "2")
			case p.Name == "from" && slug != "":
				query.Set(p.Name, slug)
			}
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		example = path
		if op.Tag == linksTag || op.ID == "randomMember" || strings.Contains(path, "{") {
			example = "" // another one each time, or no document
		}
		return "curl '" + ring.Base + path + "'", example
	}
	request = op.Method + " " + ring.Base + path
	if op.Path == AgentPath {
		request += "\nA2A-Version: " + AgentVersion
	}
	if body := exampleBody(op.body, ring, slug); body != nil {
		request += "\nContent-Type: application/json"
		if op.needs == "payment" {
			request += "\nIdempotency-Key: {key}"
		}
		request += "\n\n" + string(inJSON(body))
	}
	return request, ""
}

// exampleBody is a body that a request of this kind may have.
func exampleBody(component string, ring Ring, slug string) any {
	switch component {
	case "RegisterRequest":
		return exampleDraft("https://agent.example/")
	case "BidRequest":
		return node{"member": cmp.Or(slug, "example"), "amount": ring.MinBid}
	case "ChangeRequest":
		return node{"description": "What it does, in other words."}
	case "ClaimRequest":
		return node{"account": "0x" + strings.Repeat("0", 39) + "1"}
	case "MCPMessage":
		return node{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
	case "AgentCall":
		part := node{"data": json.RawMessage(agentCall)}
		return node{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": node{"message": node{"messageId": "1", "role": "ROLE_USER", "parts": []node{part}}}}
	}
	return nil
}

// exampleDraft is a registration of a site.
func exampleDraft(site string) node {
	return node{"name": "Example Agent", "url": site, "kind": "agent", "category": "general", "description": "What it does, in a sentence."}
}

// inJSON is a constant or a map of words: it can be encoded.
func inJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// Answer is a JSON document as people read it.
func Answer(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") != nil {
		return string(body)
	}
	return b.String()
}

// Step is one message of the dialogue by which something is paid for.
type Step struct {
	Title, Words string
	Message      string // as it is sent
}

// Dialogue is how a bid is paid for, step by step, by the first offer of the ring. The
// values of long fields are cut.
func Dialogue(ring Ring, slug string) (steps []Step) {
	if len(ring.Offers) == 0 {
		ring.Offers = []Offer{{Method: "tempo", Intent: "charge", Network: "eip155:4217", Currency: "0x20c0…"}}
	}
	of := map[string]any{"Ring": ring, "Member": cmp.Or(slug, "example"), "Host": "ring.example", "Title": api.PaymentRequired.Title(),
		"Units": strings.TrimLeft(strings.Replace(ring.MinBid, ".", "", 1), "0") + "0000", // a dollar has 1 000 000
		"X402":  slices.ContainsFunc(ring.Offers, func(o Offer) bool { return o.Method == "evm" })}
	if u, err := url.Parse(ring.Base); err == nil {
		of["Host"] = u.Hostname()
	}
	for _, title := range []string{"Ask", "Read the offers", "Pay and send it again", "Read the receipt"} {
		words, message, _ := strings.Cut(text(title, of), "\n\n")
		steps = append(steps, Step{title, words, message})
	}
	return steps
}
