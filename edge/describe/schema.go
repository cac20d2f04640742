package describe

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

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
