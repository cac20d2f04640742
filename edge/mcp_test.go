package edge

import (
	"encoding/json"
	"strings"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/describe"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func (s *site) message(body string, fields ...string) reply {
	s.t.Helper()
	return s.do("POST", "/mcp", body, append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, fields...)...)
}

func TestMessagesAreTakenFromOwnOriginsAlone(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	const notOurs, noSite = "its Host field is not this ring's", "does not name one site"
	for _, c := range []struct {
		host, origin string
		refused      string // which field is at fault, or "" when it is taken
	}{
		{"", "", ""},
		{"evil.dev", "", ""}, // no browser sent it
		{"", "https://anywhere.dev", ""},
		{"ring.example", "https://ring.example", ""},
		{"RING.example:443", "https://anywhere.dev", ""},
		{"localhost:8402", "http://localhost:3000", ""},
		{"[::1]:8402", "http://localhost:3000", ""},
		{"evil.dev", "http://evil.dev", notOurs},
		{"evil.dev:8402", "http://evil.dev:8402", notOurs},
		{"localhost.evil.dev", "http://localhost.evil.dev", notOurs},
		{"ring.example.evil.dev", "https://ring.example.evil.dev", notOurs},
		{"", "null", noSite},
		{"ring.example", "null", noSite},
		{"", "evil", noSite},
		{"", "http://a.dev\", \"http://b.dev", noSite},
		{"ring.example", "https://a.dev\r\nOrigin: https://b.dev", noSite},
	} {
		request := "POST /mcp HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		if c.host == "" {
			request = strings.Replace(request, "Host: ", "Host: "+s.addr, 1)
		}
		if c.origin != "" {
			request += "Origin: " + c.origin + "\r\n"
		}
		r := s.raw(request + "Content-Length: " + itoa(len(listTools)) + "\r\n\r\n" + listTools)
		if c.refused == "" && r.status != 200 || !strings.Contains(r.body, c.refused) {
			t.Errorf("host %q, origin %q: status %d: %s", c.host, c.origin, r.status, r.body)
		}
		if c.refused != "" {
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
	if strings.Count(r.body, `"outputSchema"`) != len(describe.Tools()) {
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
	preflight := s.do("OPTIONS", "/mcp", "", "Origin", "https://anywhere.dev")
	if !strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("a browser may not send %q", preflight.header.Get("Access-Control-Allow-Headers"))
	}
}

// Clients learn by such calls what a server can do, and find the answer by its id.
func TestUnusableCallsAreRefusedByTheirIDs(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, method := range []string{"completion/complete", "tasks/list", "nope/x", "", "a\\\"b"} {
		for _, id := range []string{"7", `"seven"`} {
			r := s.message(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"x","value":"x"}}}`)
			wantFields(t, r, "Content-Type", "application/json")
			var doc struct {
				ID    json.RawMessage
				Error struct{ Code int }
			}
			if err := json.Unmarshal([]byte(r.body), &doc); err != nil || r.status != 200 || string(doc.ID) != id || doc.Error.Code != -32601 {
				t.Errorf("%s %s: status %d: %s", method, id, r.status, r.body)
			}
		}
	}
	for _, r := range []reply{
		s.message(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`),
		s.message(`{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}`),
	} {
		if r.status != 200 || !strings.HasPrefix(r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`) {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	// Without an id it is no call, and nobody waits for a result.
	wantProblem(t, s.message(`{"jsonrpc":"2.0","method":"nope/x"}`), api.Malformed)
}

// What clients are told is in words of the protocol and the service, not of packages.
func TestDetailsHaveNoNamesOfPackages(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	for _, c := range []struct{ body, want string }{
		{"", "JSON-RPC 2.0 message"},
		{"{", "JSON-RPC 2.0 message"},
		{"1", "JSON-RPC 2.0 message"},
		{`{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, "JSON-RPC 2.0 message"},
		{`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, "JSON-RPC 2.0 message"},
		{"[" + listTools + "]", "Batches are not taken"},
		{`{"jsonrpc":"2.0","method":"nope/x"}`, "nope/x"},
		{call(`{"name":"ring_list","arguments":{"x":1}}`), `There is no argument`},
		{call(`{"name":"ring_list","arguments":[]}`), "The arguments must be an object."},
		{call(`{"name":"ring_member"}`), "slug is required."},
		{call(`5`), "-32602"},
		{call(`{"name":7}`), "-32602"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, "-32602"},
	} {
		r := s.message(c.body)
		if !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, r.status, r.body, c.want)
		}
		for _, name := range []string{"describe:", "mcp:", "edge:", "mcp.", "jsonrpc2", "json:", "interface {}"} {
			if strings.Contains(r.body, name) {
				t.Errorf("%s: %s", c.body, r.body)
			}
		}
	}
	if r := s.message(listTools, "Mcp-Protocol-Version", "1999-01-01"); !strings.Contains(r.body, "protocol version") || strings.Contains(r.body, "mcp:") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// The operator may rename the ring; server and card say the new name at once.
func TestTheServerIntroducesItselfAsItsCard(t *testing.T) {
	n := openedRing(t)
	s := serve(t, Config{Core: n})
	for i, name := range []string{"Test <Ring>", "Another"} {
		if i > 0 {
			apply(t, n, coretest.NewStep(&core.Rules{Stamp: epoch*1000 + 1, Name: name, BaseURL: "https://another.example", Fee: 100, MinBid: 100, Grace: 10, Decay: 1000}, nil))
		}
		var card struct{ Name, Title, Version, WebsiteURL string }
		if err := json.Unmarshal([]byte(s.get("/.well-known/mcp/server-card.json").body), &card); err != nil || card.Title != name {
			t.Fatalf("%+v, %v", card, err)
		}
		var answer struct {
			Result struct {
				ServerInfo struct{ Name, Title, Version, WebsiteURL string }
			}
		}
		r := s.message(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		if err := json.Unmarshal([]byte(r.body), &answer); err != nil || answer.Result.ServerInfo != card {
			t.Errorf("%+v, %v, want %+v: %s", answer, err, card, r.body)
		}
	}
}

// A core that fails is a tool error, and the process lives.
func TestToolsOutliveTheCore(t *testing.T) {
	s := serve(t, Config{Core: &fakeCore{serve: func(target []byte, r *api.Response) {
		if string(target) != "/api" { // where the server reads what it is called
			panic("core")
		}
		*r = api.Response{Status: 200, Body: []byte("{}")}
	}}})
	r := s.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ring_list"}}`)
	if r.status != 200 || !strings.Contains(r.body, `"isError":true`) || !strings.Contains(r.body, `internal`) {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

// A result that is long counts as several requests, goes out in a coding that is accepted, and
// is never that of a whole ring.
func TestLongResultsCountAsSeveralRequests(t *testing.T) {
	ring := crowded(t, 90)
	call := func(s *site, arguments string, fields ...string) reply {
		t.Helper()
		return s.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ring_list","arguments":`+arguments+`}}`, fields...)
	}
	limited := serve(t, Config{Core: ring, RateLimit: 100})
	left := 100
	for {
		r := call(limited, `{"limit":100}`)
		if left == 0 {
			wantProblem(t, r, api.RateLimited)
			break
		}
		cost := 1 + len(r.body)/bytesARequest
		if r.status != 200 || cost < 2 || cost > 5 {
			t.Fatalf("status %d, %d bytes", r.status, len(r.body))
		}
		left = max(0, left-cost) // the last one in the window is answered, too
		wantFields(t, r, "RateLimit-Remaining", itoa(left), "Retry-After", "")
	}

	free := serve(t, Config{Core: ring})
	plain := call(free, `{}`)
	if n := strings.Count(plain.body, `"canonical_url"`); n > 20 {
		t.Errorf("%d members without being asked", n)
	}
	for _, coding := range []string{"zstd", "br", "gzip"} {
		r := call(free, `{}`, "Accept-Encoding", coding)
		wantFields(t, r, "Content-Encoding", coding, "Vary", "Accept-Encoding", "Content-Type", "application/json")
		if decodedAs(t, coding, r.body) != plain.body || 3*len(r.body) > len(plain.body) {
			t.Errorf("%s: %d bytes instead of %d", coding, len(r.body), len(plain.body))
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(listTools))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ring_member","arguments":{"slug":"alpha"}}}`))
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
