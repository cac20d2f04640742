package edge

import (
	"encoding/json"
	"strings"
	"testing"

	"webring/core/api"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func (s *site) message(body string, fields ...string) reply {
	s.t.Helper()
	return s.do("POST", "/mcp", body, append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, fields...)...)
}

func TestMessagesAreTakenFromOwnOriginsAlone(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, c := range []struct {
		host, origin string
		taken        bool
	}{
		{"", "", true},
		{"evil.dev", "", true}, // no browser sent it
		{"", "https://anywhere.dev", true},
		{"ring.example", "https://ring.example", true},
		{"RING.example:443", "https://anywhere.dev", true},
		{"localhost:8402", "http://localhost:3000", true},
		{"[::1]:8402", "http://localhost:3000", true},
		{"evil.dev", "http://evil.dev", false},
		{"evil.dev:8402", "http://evil.dev:8402", false},
		{"localhost.evil.dev", "http://localhost.evil.dev", false},
		{"ring.example.evil.dev", "https://ring.example.evil.dev", false},
		{"", "null", false},
		{"", "evil", false},
		{"", "http://a.dev\", \"http://b.dev", false},
	} {
		request := "POST /mcp HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		if c.host == "" {
			request = strings.Replace(request, "Host: ", "Host: "+s.addr, 1)
		}
		if c.origin != "" {
			request += "Origin: " + c.origin + "\r\n"
		}
		r := s.raw(request + "Content-Length: " + itoa(len(listTools)) + "\r\n\r\n" + listTools)
		if c.taken && r.status != 200 {
			t.Errorf("host %q, origin %q: status %d: %s", c.host, c.origin, r.status, r.body)
		}
		if !c.taken {
			wantProblem(t, r, api.OriginNotAllowed)
		}
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestMessagesAreBoundedAndAnsweredAsOthers(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 100})
	r := s.message(listTools)
	wantCommon(t, r)
	wantFields(t, r, "Content-Type", "application/json", "Cache-Control", "no-store", "RateLimit-Remaining", "99", "Mcp-Session-Id", "")
	if strings.Count(r.body, `"outputSchema"`) != 9 {
		t.Errorf("%.300s", r.body)
	}
	wantProblem(t, s.message(strings.Repeat(" ", MaxBody)+"1"), api.BodyTooLarge)
	wantProblem(t, s.do("POST", "/mcp", listTools, "Content-Type", "text/plain"), api.InvalidRequest)
	wantProblem(t, s.message("["+listTools+"]"), api.Malformed)
	wantProblem(t, s.message(" \n[]"), api.Malformed)
	wantProblem(t, s.message("{"), api.Malformed)
	wantProblem(t, s.message(""), api.Malformed)
	wantProblem(t, s.message(listTools, "Mcp-Protocol-Version", "1999-01-01"), api.Malformed)
	wantProblem(t, s.message(listTools, "Api-Version", "2"), api.UnsupportedAPIVersion)
	wantProblem(t, s.get("/mcp"), api.MethodNotAllowed)
	wantProblem(t, s.do("DELETE", "/mcp", ""), api.MethodNotAllowed)
	// Clients that name no stream get JSON, which is what there is.
	if r := s.do("POST", "/mcp", listTools, "Accept", "application/json"); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if r := s.message(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 || r.body != "" {
		t.Errorf("a notification: status %d: %s", r.status, r.body)
	}
	// Nothing holds a request open.
	listen := s.message(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)
	if wantFields(t, listen, "Content-Type", "application/json"); !strings.Contains(listen.body, `"error"`) {
		t.Errorf("%d: %s", listen.status, listen.body)
	}
	wantProblem(t, s.message(`{"jsonrpc":"2.0","id":1,"method":"nothing"}`), api.Malformed)
	preflight := s.do("OPTIONS", "/mcp", "", "Origin", "https://anywhere.dev")
	if !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("a browser may not send %q", preflight.header.Get("Access-Control-Allow-Headers"))
	}
}

// A core that fails is a tool error, and the process lives.
func TestToolsOutliveTheCore(t *testing.T) {
	s := serve(t, Config{Core: &fakeCore{serve: func([]byte, *api.Response) { panic("core") }}})
	r := s.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_directory"}}`)
	if r.status != 200 || !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, `internal`) {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(listTools))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"get_member","arguments":{"slug":"alpha"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	s := serve(f, Config{Core: newRing(f)})
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > MaxBody {
			return
		}
		s := *s
		s.t = t
		r := s.message(string(body))
		switch {
		case r.status >= 500:
			t.Errorf("status %d: %s", r.status, r.body)
		case r.status == 202 && r.body == "", json.Valid([]byte(r.body)):
		default:
			t.Errorf("status %d, no JSON: %q", r.status, r.body)
		}
	})
}
