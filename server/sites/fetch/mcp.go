package fetch

import (
	"bytes"
	"encoding/json"
	"net/http"

	"webring/server/sites/markup"
)

const (
	// AcceptMCP is the Accept field that MCP servers want of each request.
	AcceptMCP = "application/json, text/event-stream"
	// MaxMCP is how much of an answer of such a server is read, in bytes.
	MaxMCP = 256 << 10
	// SessionField is the header field in which an answer to initialize may name a session.
	SessionField = "Mcp-Session-Id"

	versionField = "MCP-Protocol-Version"
	client       = `{"name":"webring","version":"1"}`

	// stateless is the revision without a handshake; shaken is one with it. A server may
	// answer initialize with another revision.
	stateless = "2026-07-28"
	shaken    = "2025-06-18"
)

// Discover and Initialize are the two requests that ask an MCP server to introduce itself. No
// tool is called. Servers of the revision 2026-07-28 answer server/discover, and need no
// session. Those of earlier revisions answer initialize. Each is one value, so that requests that
// have it can be compared.
//
// Document: Model Context Protocol, revisions 2025-06-18 and 2026-07-28, "Streamable HTTP",
// "Discovery" and "Lifecycle".
var (
	Discover = question(map[string]string{versionField: stateless, "Mcp-Method": "server/discover"},
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+stateless+
			`","io.modelcontextprotocol/clientInfo":`+client+`,"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	Initialize = question(map[string]string{versionField: shaken},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+shaken+`","capabilities":{},"clientInfo":`+client+`}}`)
)

func question(fields map[string]string, body string) *Exchange {
	fields["Content-Type"] = "application/json"
	return &Exchange{Method: http.MethodPost, Body: []byte(body), Fields: fields,
		Enough: func(_ http.Header, body []byte) bool { _, whole := ReadMCP(body); return whole }}
}

// EndSession tells a server that a session is not used any more. Servers need not take that.
func EndSession(session string) *Exchange {
	return &Exchange{Method: http.MethodDelete, Fields: map[string]string{SessionField: session, versionField: shaken}}
}

// Introduction is what a server answers to one of the two requests.
type Introduction struct {
	// Introduced says that it is a result, as an MCP server gives it; otherwise it is an
	// error of JSON-RPC.
	Introduced bool
	// Versions are the revisions that the server names.
	Versions []string
}

// ReadMCP reads the answer from a body: JSON, or a stream of events as far as it has come. It
// reports whether there is one.
func ReadMCP(body []byte) (Introduction, bool) {
	body = markup.Text(body, "")
	if a, ok := message(bytes.TrimSpace(body)); ok {
		return a, true
	}
	var data []byte
	for line := range bytes.Lines(body) {
		whole := bytes.HasSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r\n")
		if more, is := bytes.CutPrefix(line, []byte("data:")); is && whole {
			data = append(append(data, more...), '\n')
		}
		if len(line) == 0 {
			if a, ok := message(data); ok {
				return a, true
			}
			data = data[:0]
		}
	}
	return Introduction{}, false
}

// message reads one message of JSON-RPC.
func message(body []byte) (Introduction, bool) {
	if len(body) == 0 || bytes.TrimLeft(body, " \t")[0] != '{' {
		return Introduction{}, false
	}
	var m struct {
		Version string `json:"jsonrpc"`
		Result  *struct {
			Protocol string   `json:"protocolVersion"`   // of initialize
			Versions []string `json:"supportedVersions"` // of server/discover
		} `json:"result"`
		Error *struct {
			Code    *int   `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &m) != nil || m.Version != "2.0" {
		return Introduction{}, false
	}
	switch {
	case m.Result != nil && m.Result.Protocol != "":
		return Introduction{Introduced: true, Versions: []string{m.Result.Protocol}}, true
	case m.Result != nil && len(m.Result.Versions) > 0:
		return Introduction{Introduced: true, Versions: m.Result.Versions}, true
	}
	return Introduction{}, m.Error != nil && m.Error.Code != nil
}
