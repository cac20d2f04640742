package describe

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// What directories are told follows the schema that comes with it, as facilitators require, is
// the request that the service takes, and is short.
func TestBazaarDescribesWhatIsPaidFor(t *testing.T) {
	tools := map[string]Tool{}
	for _, tool := range Tools() {
		tools[tool.Name] = tool
	}
	join, bid, change := tools["ring_join"], tools["ring_bid"], tools["ring_change"]
	for name, c := range map[string]struct {
		text  json.RawMessage
		input string // the members of input that are the same for any body
		most  int
	}{
		"register":  {Bazaar("register"), `{"bodyType":"json","method":"POST","type":"http"}`, 1500},
		"bid":       {Bazaar("bid"), `{"bodyType":"json","method":"POST","type":"http"}`, 1100},
		"ring_join": {join.Bazaar(), `{"tool":"ring_join","type":"mcp"}`, 6000},
		"ring_bid":  {bid.Bazaar(), `{"tool":"ring_bid","type":"mcp"}`, 6000},
	} {
		var extension struct {
			Info   map[string]map[string]any
			Schema *jsonschema.Schema
		}
		if err := json.Unmarshal(c.text, &extension); err != nil {
			t.Fatalf("%s: %v in %s", name, err, c.text)
		}
		form, err := extension.Schema.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := form.Validate(map[string]any{"input": extension.Info["input"], "output": extension.Info["output"]}); err != nil {
			t.Errorf("%s: %v in %s", name, err, c.text)
		}
		input := extension.Info["input"]
		example, body := input["example"], input["body"]
		if (example == nil) == (body == nil) || extension.Info["output"]["example"] == nil || len(c.text) > c.most {
			t.Errorf("%s: %d bytes: %s", name, len(c.text), c.text)
		}
		// Its schema refuses what is no request.
		if body, _ := body.(map[string]any); body != nil {
			body["surprise"] = 1
			if form.Validate(map[string]any{"input": input}) == nil {
				t.Errorf("%s: any body follows %s", name, c.text)
			}
		}
		for _, varies := range []string{"example", "body", "description", "inputSchema"} {
			delete(input, varies)
		}
		if rest, _ := json.Marshal(input); string(rest) != c.input {
			t.Errorf("%s: %s", name, rest)
		}
	}
	if got := string(Bazaar("change")) + string(Bazaar("")) + string(change.Bazaar()); got != "" {
		t.Errorf("what costs nothing has %s", got)
	}
}
