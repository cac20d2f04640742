package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"webring/core/api"
	"webring/edge/describe"
)

// agent sends a call to the agent, and gives its answer.
func (s *site) agent(body string, fields ...string) (doc struct {
	ID     any
	Result struct {
		Tasks     []any
		TotalSize int
		Message   struct {
			MessageID, ContextID, Role string
			Parts                      []struct {
				Text, MediaType string
				Data            json.RawMessage
			}
		}
	}
	Error struct {
		Code int
		Data []struct {
			Type string `json:"@type"`
		}
	}
}) {
	s.T.Helper()
	r := s.Do("POST", describe.AgentPath, body, append([]string{"Content-Type", "application/json"}, fields...)...)
	if err := json.Unmarshal([]byte(r.Body), &doc); err != nil || r.Status != 200 || !strings.HasPrefix(r.Body, `{`) || !strings.Contains(r.Body, `"jsonrpc":"2.0"`) {
		s.T.Fatalf("%.100s: status %d: %s", body, r.Status, r.Body)
	}
	wantFields(s.T, r, "Cache-Control", "no-store", "Content-Type", "application/json")
	return doc
}

func TestTheAgentUsesTheSkillsOfItsCard(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	var card struct {
		Name, Description, Version string
		Interfaces                 []struct{ URL, ProtocolBinding, ProtocolVersion string } `json:"supportedInterfaces"`
		Skills                     []struct {
			ID, Name, Description string
			Tags                  []string
		}
		DefaultInputModes, DefaultOutputModes []string
	}
	if err := json.Unmarshal([]byte(s.Get("/.well-known/agent-card.json").Body), &card); err != nil {
		t.Fatal(err)
	}
	if card.Name == "" || card.Description == "" || card.Version == "" || len(card.Skills) < 10 || len(card.DefaultInputModes) == 0 || len(card.DefaultOutputModes) == 0 ||
		len(card.Interfaces) != 1 || card.Interfaces[0].URL != "https://ring.example/a2a" || card.Interfaces[0].ProtocolBinding != "JSONRPC" {
		t.Fatalf("%+v", card)
	}
	version := []string{"A2A-Version", card.Interfaces[0].ProtocolVersion}
	const call = `{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"message":{"messageId":"m","contextId":"c","role":"ROLE_USER","parts":[{"text":"Hello"},{"data":%s}]}}}`
	for _, k := range card.Skills {
		if k.ID == "" || k.Name == "" || k.Description == "" || len(k.Tags) == 0 {
			t.Errorf("%+v", k)
		}
		m := s.agent(fmt.Sprintf(call, `{"tool":"`+k.ID+`","arguments":{}}`), version...).Result.Message
		if m.Role != "ROLE_AGENT" || m.MessageID == "" || m.ContextID != "c" || len(m.Parts) != 1 || !json.Valid(m.Parts[0].Data) || m.Parts[0].MediaType != "application/json" {
			t.Errorf("%s: %+v", k.ID, m)
		}
	}
	// It is the document of the read, or its problem.
	for data, path := range map[string]string{`{"tool":"ring_member","arguments":{"slug":"beta"}}`: "/api/ring/beta", `{"tool":"ring_list","arguments":{"kind":"mcp","limit":1}}`: "/api/ring?limit=1&kind=mcp"} {
		if m := s.agent(fmt.Sprintf(call, data), version...).Result.Message; len(m.Parts) != 1 || string(m.Parts[0].Data) != s.Get(path).Body {
			t.Errorf("%s: %+v", data, m)
		}
	}
	if m := s.agent(fmt.Sprintf(call, `{"tool":"ring_member","arguments":{"slug":"nobody"}}`), version...).Result.Message; !strings.Contains(string(m.Parts[0].Data), string(api.UnknownMember)) {
		t.Errorf("%+v", m)
	}
	// What costs anything is no skill, and whatever else is said gets words.
	for _, data := range []string{`{"tool":"ring_join","arguments":{}}`, `{"tool":"ring_check","arguments":{}}`, `{"tool":7}`, `[]`, `null`, `"ring_list"`, `{}`} {
		if m := s.agent(fmt.Sprintf(call, data), version...).Result.Message; len(m.Parts) != 1 || m.Parts[0].Text != describe.AgentHelp {
			t.Errorf("%s: %+v", data, m)
		}
	}
	for body, code := range map[string]int{
		`{`: -32700, ``: -32700, `[]`: -32600, `7`: -32600, `{"jsonrpc":"2.0","method":"SendMessage"}`: -32600, `{"jsonrpc":"2.0","id":{},"method":"ListTasks"}`: -32600, `{"jsonrpc":"2.0","id":null,"method":"ListTasks"}`: -32600,
		`{"jsonrpc":"2.0","id":1,"method":"message/send"}`: -32601, `{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`: -32602, strings.Replace(fmt.Sprintf(call, "7"), "ROLE_USER", "ROLE_AGENT", 1): -32602,
		strings.Replace(fmt.Sprintf(call, "7"), `"messageId"`, `"taskId":"t","messageId"`, 1): -32001, `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`: -32001,
		`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage"}`: -32004, `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig"}`: -32003, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`: -32004,
	} {
		if got := s.agent(body, version...); got.Error.Code != code || code > -32100 && code < -32000 && got.Error.Code > -32100 && code >= -32009 && got.Error.Data[0].Type == "" {
			t.Errorf("%s: %+v", body, got)
		}
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`
	if got := s.agent(list, version...); got.Error.Code != 0 || got.Result.Tasks == nil || got.ID != 1.0 {
		t.Errorf("%+v", got)
	}
	for _, v := range []string{"0.3", "2.0", ""} {
		if got := s.agent(list, "A2A-Version", v); got.Error.Code != -32009 {
			t.Errorf("version %q: %+v", v, got)
		}
	}
	wantProblem(t, s.Do("POST", describe.AgentPath, list, "Content-Type", "text/plain"), api.InvalidRequest)
	wantProblem(t, s.Get(describe.AgentPath), api.MethodNotAllowed)
}
