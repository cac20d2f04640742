package describe

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// Bazaar describes a paid operation, such as "register", for the directories of x402: how it
// is called over HTTP, with an example, and what it answers. It is the value of the extension
// "bazaar" in offers, nil for an operation that is not paid for. Clients send it back when
// they pay, so it has no words that a program does not need.
//
// Document: x402, "Extension: bazaar".
func Bazaar(operation string) json.RawMessage { return sold()[operation] }

// sold has the extensions of the operations that are paid for.
var sold = sync.OnceValue(func() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, op := range Operations() {
		if op.needs != "payment" {
			continue
		}
		body := standalone(written().Components.Schemas[op.body])
		walk(body, func(s *schema) { s.Description, s.Format = "", "" })
		body.Defs = nil // requests refer to nothing
		input := node{"type": "http", "method": op.Method, "bodyType": "json", "body": op.example()}
		properties := node{"type": constant("http"), "method": node{"enum": []string{op.Method}}, "bodyType": constant("json"), "body": body}
		all[strings.TrimPrefix(op.Path, "/api/")] = bazaar(input, properties, sample(standalone(op.result)))
	}
	return all
})

// Bazaar describes a tool that is paid for in the same way, nil for another one.
func (t *Tool) Bazaar() json.RawMessage {
	if t.op.needs != "payment" {
		return nil
	}
	input := node{"type": "mcp", "tool": t.Name, "description": t.About, "inputSchema": t.Input, "example": t.op.example()}
	text := node{"type": "string"}
	object := node{"type": "object"}
	return bazaar(input, node{"type": constant("mcp"), "tool": text, "description": text, "inputSchema": object, "example": object}, sample(standalone(t.op.result)))
}

// bazaar gives the extension: what is described, and the schema that this follows.
func bazaar(input, properties node, output any) json.RawMessage {
	required := make([]string, 0, len(properties))
	for name := range properties {
		required = append(required, name)
	}
	slices.Sort(required)
	object := func(properties node, required []string) node {
		return node{"type": "object", "properties": properties, "required": required}
	}
	taken := object(properties, required)
	taken["additionalProperties"] = false
	given := object(node{"type": constant("json"), "example": node{"type": "object"}}, []string{"type"})
	schema := object(node{"input": taken, "output": given}, []string{"input"})
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return inJSON(node{"info": node{"input": input, "output": node{"type": "json", "example": output}}, "schema": schema})
}

func constant(value string) node { return node{"const": value} }

// example is a body of a paid operation.
func (op *Operation) example() any {
	return exampleBody(op.body, Ring{Payments: Payments{MinBid: "1.00"}}, "")
}

// sample is a short document that has what a schema requires.
func sample(root *schema) any {
	var of func(name string, s *schema, depth int) any
	of = func(name string, s *schema, depth int) any {
		if def, refers := strings.CutPrefix(s.Ref, "#/$defs/"); refers {
			s = root.Defs[def]
		}
		switch {
		case len(s.AnyOf) > 0:
			return of(name, s.AnyOf[0], depth)
		case len(s.Enum) > 0:
			return s.Enum[0]
		case strings.HasSuffix(name, "_usd"):
			return "1.00"
		case s.Type == "boolean":
			return true
		case s.Type == "integer" || s.Type == "number":
			return 1
		case s.Type == "array":
			return []any{}
		case s.Type != "object":
			return "example"
		}
		o := node{}
		for name, p := range s.Properties {
			if depth == 0 && slices.Contains(s.Required, name) || depth > 0 && slices.Contains(briefly, name) {
				o[name] = of(name, p, depth+1)
			}
		}
		return o
	}
	return of("", root, 0)
}

// briefly are the members that stand for an object within a sample.
var briefly = []string{"slug", "name", "member", "amount_usd"}
