package fetch

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestRequestsSayTheSameTwice holds that the header fields that mirror the body do.
//
// Document: revision 2026-07-28, "Streamable HTTP", "Request Metadata".
func TestRequestsSayTheSameTwice(t *testing.T) {
	var m struct {
		Version, Method string
		Params          struct {
			Meta            map[string]any `json:"_meta"`
			ProtocolVersion string
		}
	}
	if err := json.Unmarshal(Discover.Body, &m); err != nil || m.Method != Discover.Fields["Mcp-Method"] ||
		m.Params.Meta["io.modelcontextprotocol/protocolVersion"] != Discover.Fields[versionField] || m.Params.Meta["io.modelcontextprotocol/clientCapabilities"] == nil {
		t.Errorf("%v %s %v", err, Discover.Body, Discover.Fields)
	}
	if err := json.Unmarshal(Initialize.Body, &m); err != nil || m.Method != "initialize" || m.Params.ProtocolVersion != Initialize.Fields[versionField] {
		t.Errorf("%v %s %v", err, Initialize.Body, Initialize.Fields)
	}
}

func TestMCPAnswersAsJSONAndAsEvents(t *testing.T) {
	const discovered = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}}`
	for name, c := range map[string]struct {
		body     string
		ok       bool
		versions []string
	}{
		"discovered":                 {discovered, true, []string{"2026-07-28", "2025-11-25"}},
		"an event":                   {"event: message\r\ndata: " + discovered + "\r\n\r\n", true, []string{"2026-07-28", "2025-11-25"}},
		"after another event":        {"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n:\n\ndata: " + discovered + "\n\n", true, []string{"2026-07-28", "2025-11-25"}},
		"an event in two lines":      {"data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}\n\n", true, []string{"2025-06-18"}},
		"an event that is not whole": {"data: " + discovered + "\n", false, nil},
		"initialized":                {`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, true, []string{"2025-06-18"}},
		"refused":                    {`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`, true, nil},
		"no version":                 {`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[],"capabilities":{}}}`, false, nil},
		"another result":             {`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, false, nil},
		"not JSON-RPC":               {`{"result":{"protocolVersion":"2025-06-18"}}`, false, nil},
		"a page":                     {"<!doctype html><title>data: {}</title>\n\n", false, nil},
		"nothing":                    {"", false, nil},
	} {
		got, ok := ReadMCP([]byte(c.body))
		if ok != c.ok || got.Introduced != (len(c.versions) > 0) || !slices.Equal(got.Versions, c.versions) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}

func FuzzReadMCP(f *testing.F) {
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"error\":{\"code\":1}}\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, ok := ReadMCP(body); a.Introduced && (!ok || len(a.Versions) == 0) {
			t.Fatalf("%+v, %t", a, ok)
		}
	})
}
