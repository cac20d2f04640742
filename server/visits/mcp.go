package visits

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"webring/server/fetch"
)

const (
	// protocol is the version of MCP that is spoken; a server may answer with another.
	protocol = "2025-06-18"
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 256 << 10

	sessionField = "Mcp-Session-Id"
)

var initialize = []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + protocol +
	`","capabilities":{},"clientInfo":{"name":"webring","version":"1"}}}`)

// initialize asks a member whether it is an MCP server. spoken says that the answer settles
// the visit; otherwise the member's page may still answer.
func (v *Visitor) initialize(ctx context.Context, m target) (s sight, spoken bool) {
	r := m.request(m.URL, "application/json, text/event-stream")
	r.MaxBody = maxAnswer
	r.Exchange = &fetch.Exchange{Method: http.MethodPost, Body: initialize,
		Fields: map[string]string{"Content-Type": "application/json", "MCP-Protocol-Version": protocol},
		Enough: func(_ http.Header, body []byte) bool { return answersMCP(body) }}
	a, err := v.cfg.Fetch.Get(ctx, r)
	switch s.outcome, s.why = judge(a, err); {
	case err != nil || s.outcome == Gated || a.Status >= 500:
		return s, true
	case !answersMCP(a.Body):
		return s, false
	}
	s.outcome, s.why = Answered, ""
	if session := a.Header.Get(sessionField); session != "" && a.Status/100 == 2 {
		v.endSession(ctx, m, session)
	}
	return s, true
}

// endSession tells a server that the session is not used any more. Servers need not take
// that.
func (v *Visitor) endSession(ctx context.Context, m target, session string) {
	r := m.request(m.URL, "")
	r.MaxBody = 1
	r.Exchange = &fetch.Exchange{Method: http.MethodDelete, Fields: map[string]string{sessionField: session, "MCP-Protocol-Version": protocol}}
	_, _ = v.cfg.Fetch.Get(ctx, r)
}

// answersMCP says whether a body is an answer of JSON-RPC to initialize, as JSON or as a
// stream of events that has come so far.
func answersMCP(body []byte) bool {
	if isAnswer(bytes.TrimSpace(body)) {
		return true
	}
	var data []byte
	for line := range bytes.Lines(body) {
		whole := bytes.HasSuffix(line, []byte("\n"))
		line = bytes.TrimRight(line, "\r\n")
		if more, is := bytes.CutPrefix(line, []byte("data:")); is && whole {
			data = append(append(data, more...), '\n')
		}
		if len(line) == 0 {
			if isAnswer(data) {
				return true
			}
			data = data[:0]
		}
	}
	return false
}

func isAnswer(body []byte) bool {
	if len(body) == 0 || bytes.TrimLeft(body, " \t")[0] != '{' {
		return false
	}
	var a struct {
		Version string `json:"jsonrpc"`
		Result  *struct {
			Protocol string `json:"protocolVersion"`
		} `json:"result"`
		Error *struct {
			Code    *int   `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &a) == nil && a.Version == "2.0" && (a.Result != nil && a.Result.Protocol != "" || a.Error != nil && a.Error.Code != nil)
}
