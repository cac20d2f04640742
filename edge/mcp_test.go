package edge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/edgetest"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func (s *site) message(body string, fields ...string) reply {
	s.T.Helper()
	return s.Do("POST", "/mcp", body, append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, fields...)...)
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
		// Pages without a site may do what those of any site may, and no more.
		{"", "null", ""},
		{"ring.example", "null", ""},
		{"evil.dev", "null", notOurs},
		{"", "file://", ""},
		{"ring.example", "file:///home/page.html", ""},
		{"evil.dev", "file://", notOurs},
		{"", "app://localhost", ""},
		{"", "chrome-extension://abcdefgh", ""},
		{"", "evil", noSite},
		{"", "NULL", noSite},
		{"", "null, https://a.dev", noSite},
		{"ring.example", "null\r\nOrigin: null", noSite},
		{"", "http://a.dev\", \"http://b.dev", noSite},
		{"ring.example", "https://a.dev\r\nOrigin: https://b.dev", noSite},
	} {
		request := "POST /mcp HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
		if c.host == "" {
			request = strings.Replace(request, "Host: ", "Host: "+s.Addr, 1)
		}
		if c.origin != "" {
			request += "Origin: " + c.origin + "\r\n"
		}
		r := s.Raw(request + "Content-Length: " + itoa(len(listTools)) + "\r\n\r\n" + listTools)
		if c.refused == "" && r.Status != 200 || !strings.Contains(r.Body, c.refused) {
			t.Errorf("host %q, origin %q: status %d: %s", c.host, c.origin, r.Status, r.Body)
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
	if strings.Count(r.Body, `"outputSchema"`) != len(describe.Tools()) {
		t.Errorf("%.300s", r.Body)
	}
	// Models read all of it before the first call.
	if len(r.Body) > 41_000 {
		t.Errorf("the tools take %d bytes", len(r.Body))
	}
	wantProblem(t, s.message(strings.Repeat(" ", MaxBody)+"1"), api.BodyTooLarge)
	wantProblem(t, s.Do("POST", "/mcp", listTools, "Content-Type", "text/plain"), api.InvalidRequest)
	wantProblem(t, s.message("{"), api.Malformed)
	wantProblem(t, s.message(""), api.Malformed)
	wantProblem(t, s.message(listTools, "Mcp-Protocol-Version", "1999-01-01"), api.Malformed)
	wantProblem(t, s.message(listTools, "Api-Version", "2"), api.UnsupportedAPIVersion)
	wantProblem(t, s.Get("/mcp"), api.MethodNotAllowed)
	wantProblem(t, s.Do("DELETE", "/mcp", ""), api.MethodNotAllowed)
	// Clients that name no stream get JSON, which is what there is.
	if r := s.Do("POST", "/mcp", listTools, "Accept", "application/json"); r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	if r := s.message(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.Status != 202 || r.Body != "" {
		t.Errorf("a notification: status %d: %s", r.Status, r.Body)
	}
	// Nothing holds a request open.
	listen := s.message(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`)
	if wantFields(t, listen, "Content-Type", "application/json"); !strings.Contains(listen.Body, `"error"`) {
		t.Errorf("%d: %s", listen.Status, listen.Body)
	}
	preflight := s.Do("OPTIONS", "/mcp", "", "Origin", "https://anywhere.dev")
	if !strings.Contains(preflight.Header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("a browser may not send %q", preflight.Header.Get("Access-Control-Allow-Headers"))
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
			if err := json.Unmarshal([]byte(r.Body), &doc); err != nil || r.Status != 200 || string(doc.ID) != id || doc.Error.Code != -32601 {
				t.Errorf("%s %s: status %d: %s", method, id, r.Status, r.Body)
			}
		}
	}
	for _, r := range []reply{
		s.message(`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`),
		s.message(`{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}`),
	} {
		if r.Status != 200 || !strings.HasPrefix(r.Body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`) {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
	}
	// Without an id it is no call, and no result is expected.
	wantProblem(t, s.message(`{"jsonrpc":"2.0","method":"nope/x"}`), api.Malformed)
}

// Clients find the answer by the id, and compare it in their own way: as text, or as a number
// of more digits than others keep.
func TestIDsComeBackByteForByte(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, id := range []string{
		"1", "0", "-7", "9007199254740993", "18446744073709551616", "123456789012345678901234567890", "1.5", "1.0", "2e0", "-0", "1E400", "0.1e-9",
		`""`, `"1"`, `"a b"`, `"\u0041"`, `"\/"`, `"<&>"`, `"\ud83d\ude00"`, `"é"`, `"\\\""`, `"` + strings.Repeat("x", 4000) + `"`,
	} {
		for form, begins := range map[string]string{
			`{"jsonrpc":"2.0","id":%s,"method":"ping"}`:                                     `{"jsonrpc":"2.0","id":%s,"result":{`,
			` { "method" : "ping", "id" : %s , "jsonrpc":"2.0","params":{"id":5} } `:        `{"jsonrpc":"2.0","id":%s,"result":{`,
			`{"jsonrpc":"2.0","i\u0064":%s,"method":"ping"}`:                                `{"jsonrpc":"2.0","id":%s,"result":{`,
			`{"jsonrpc":"2.0","method":"nope/x","id":%s}`:                                   `{"jsonrpc":"2.0","id":%s,"error":{`,
			`{"jsonrpc":"2.0","method":"tools/call","params":5,"id":%s}`:                    `{"jsonrpc":"2.0","id":%s,"error":{`,
			`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{}}`:         `{"jsonrpc":"2.0","id":%s,"error":{`,
			`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"ring_list"}}`: `{"jsonrpc":"2.0","id":%s,"result":{`,
		} {
			body := strings.Replace(form, "%s", id, 1)
			if r := s.message(body); r.Status != 200 || !strings.HasPrefix(r.Body, strings.Replace(begins, "%s", id, 1)) || !json.Valid([]byte(r.Body)) {
				t.Errorf("%.200s: %d %.200s", body, r.Status, r.Body)
			}
		}
	}
	// What is no id names no call.
	for _, body := range []string{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":01,"method":"ping"}`, `{"jsonrpc":"2.0","ID":1,"method":"ping"}`} {
		wantProblem(t, s.message(body), api.Malformed)
	}
}

// The revision 2025-03-26 has batches, and says nothing of it in its header fields.
func TestOldClientsMaySendBatches(t *testing.T) {
	const ping, told = `{"jsonrpc":"2.0","id":%s,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	s := serve(t, Config{Core: newRing(t), RateLimit: 60})
	pings := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(strings.Replace(ping, "%s", "1", 1)+",", n), ",")
	}
	one := func(id string) string { return strings.Replace(ping, "%s", id, 1) }
	ok := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	for _, c := range []struct {
		body, version string
		status        int
		want          string // the whole answer, or the code of a problem
	}{
		{"[" + one("1") + "," + one(`"b"`) + "]", "", 200, "[" + ok("1") + "," + ok(`"b"`) + "]"},
		{" \n[" + one("9007199254740993") + "] ", "2025-03-26", 200, "[" + ok("9007199254740993") + "]"},
		{"[" + told + "," + one("1") + "," + told + "]", "2024-11-05", 200, "[" + ok("1") + "]"},
		{"[" + told + "]", "", 202, ""},
		{"[5," + one("1") + ",[" + one("2") + "]]", "", 200, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,*}},` + ok("1") + `,{"jsonrpc":"2.0","id":null,"error":{"code":-32600,*}}]`},
		{`[{"jsonrpc":"2.0","id":"<i>","method":"initialize","params":{}}]`, "", 200, `[{"jsonrpc":"2.0","id":"<i>","error":{"code":-32600,*}}]`},
		{`[{"jsonrpc":"2.0","method":"nope/x"}]`, "", 202, ""},
		{"[]", "", 400, string(api.Malformed)},
		{"[" + one("1"), "", 400, string(api.Malformed)},
		{"[" + pings(17) + "]", "", 400, string(api.Malformed)},
		{"[" + one("1") + "]", "2025-06-18", 400, string(api.Malformed)},
		{"[" + one("1") + "]", "2025-11-25", 400, string(api.Malformed)},
		{"[" + one("1") + "]", "2026-07-28", 400, string(api.Malformed)},
	} {
		var fields []string
		if c.version != "" {
			fields = []string{"Mcp-Protocol-Version", c.version}
		}
		r := s.message(c.body, fields...)
		got, parts := r.Body, strings.Split(c.want, "*")
		for _, part := range parts {
			at := strings.Index(got, part)
			if r.Status != c.status || at < 0 {
				t.Errorf("%s %s: %d %s, want %d %s", c.body, c.version, r.Status, r.Body, c.status, c.want)
				break
			}
			got = got[at+len(part):]
		}
		if c.status == 200 && !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: %s", c.body, r.Body)
		}
	}
	// Each message counts as a request.
	s = serve(t, Config{Core: newRing(t), RateLimit: 20})
	wantFields(t, s.message("["+pings(16)+"]"), "RateLimit-Remaining", "4")
	r := s.message("[" + pings(16) + "]")
	wantProblem(t, r, api.RateLimited)
	wantFields(t, r, "RateLimit-Remaining", "0")
	wantProblem(t, s.message(one("1")), api.RateLimited)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// modernMessage sends a call as the revision without sessions has it.
func (s *site) modernMessage(method, params, name string) reply {
	fields := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		fields = append(fields, "Mcp-Name", name)
	}
	if params != "" {
		params += ","
	}
	return s.message(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, fields...)
}

// A name that a header field cannot carry comes encoded, and any may.
func TestNamesInFieldsAreDecoded(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for name, want := range map[string]string{
		"ring_list":                         `"structuredContent"`,
		"=?base64?cmluZ19saXN0?=":           `"structuredContent"`,
		"=?base64?cmluZ19uZXh0?=":           `"code":-32020`,
		"=?base64?cmluZ19saXN0":             `"code":-32020`,
		"=?base64?!?=":                      `"code":-32020`,
		"=?base64??=":                       `"code":-32020`,
		"=?utf-8?B?cmluZ19saXN0?=":          `"code":-32020`,
		"=?base64?PT9iYXNlNjQ/eD89?=":       `"code":-32020`,
		"=?BASE64?cmluZ19saXN0?=":           `"code":-32020`,
		"=?base64?cmluZ19saXN0?= ring_list": `"code":-32020`,
	} {
		if r := s.modernMessage("tools/call", `"name":"ring_list","arguments":{}`, name); !strings.Contains(r.Body, want) {
			t.Errorf("%s: %d %.300s, want %s", name, r.Status, r.Body, want)
		}
	}
}

// What clients are told of paying is what their revision does.
func TestTheServerSaysWhatTheRevisionDoes(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	const asError, asResult = "-32042", "org.paymentauth/payment-required"
	for version, c := range map[string]struct {
		hello, tools reply
		says, not    string
	}{
		"2025-03-26": {s.message(strings.Replace(initialize, "%s", "2025-03-26", 1)), s.message(listTools), asError, asResult},
		"2025-11-25": {s.message(strings.Replace(initialize, "%s", "2025-11-25", 1)), s.message(listTools, "Mcp-Protocol-Version", "2025-11-25"), asError, asResult},
		"2026-07-28": {s.modernMessage("server/discover", "", ""), s.modernMessage("tools/list", "", ""), asResult, asError},
	} {
		var doc struct {
			Result struct {
				Instructions string
				Capabilities struct {
					Experimental struct {
						Payment struct {
							Methods map[string]struct{ Intents []string }
						}
					}
				}
				Tools []struct{ Name, Description string }
			}
		}
		if err := json.Unmarshal([]byte(c.hello.Body), &doc); err != nil {
			t.Fatal(err)
		}
		said := doc.Result.Instructions
		if !strings.Contains(said, c.says) || strings.Contains(said, c.not) || !strings.Contains(said, "ring_next and ring_prev wrap around") {
			t.Errorf("%s: %q", version, said)
		}
		if pay := doc.Result.Capabilities.Experimental.Payment.Methods; len(pay) != 1 || len(pay["tempo"].Intents) != 1 || pay["tempo"].Intents[0] != "charge" {
			t.Errorf("%s: %s", version, c.hello.Body)
		}
		if err := json.Unmarshal([]byte(c.tools.Body), &doc); err != nil {
			t.Fatal(err)
		}
		about := map[string]string{}
		for _, tool := range doc.Result.Tools {
			about[tool.Name] = tool.Description
		}
		for _, name := range []string{"ring_join", "ring_bid", "ring_change", "ring_leave", "ring_claim", "ring_visit"} {
			if strings.Contains(about[name], asError) != (c.says == asError) || !strings.Contains(about[name], "challenges") {
				t.Errorf("%s: %s: %q", version, name, about[name])
			}
		}
		if strings.Contains(about["ring_check"], "challenges") || !strings.Contains(about["ring_next"], "After the last comes the first") || !strings.Contains(about["ring_prev"], "Before the first comes the last") {
			t.Errorf("%s: %q", version, about)
		}
	}
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
		{"[]", "1 to 16 JSON-RPC messages"},
		{`{"jsonrpc":"2.0","method":"nope/x"}`, "nope/x"},
		{call(`{"name":"ring_list","arguments":{"x":1}}`), `There is no argument`},
		{call(`{"name":"ring_list","arguments":[]}`), "The arguments must be one object"},
		{call(`{"name":"ring_member"}`), "slug is required."},
		{call(`5`), "-32602"},
		{call(`{"name":7}`), "-32602"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, "-32602"},
	} {
		r := s.message(c.body)
		if !strings.Contains(r.Body, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, r.Status, r.Body, c.want)
		}
		for _, name := range []string{"describe:", "mcp:", "edge:", "mcp.", "jsonrpc2", "json:", "interface {}"} {
			if strings.Contains(r.Body, name) {
				t.Errorf("%s: %s", c.body, r.Body)
			}
		}
	}
	if r := s.message(listTools, "Mcp-Protocol-Version", "1999-01-01"); !strings.Contains(r.Body, "protocol version") || strings.Contains(r.Body, "mcp:") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// The operator may rename the ring; server and card say the new name at once.
func TestTheServerIntroducesItselfAsItsCard(t *testing.T) {
	n := openedRing(t)
	s := serve(t, Config{Core: n})
	for i, name := range []string{"Test <Ring>", "Another"} {
		if i > 0 {
			edgetest.Apply(t, n, &core.Rules{Stamp: epoch*1000 + 1, Name: name, BaseURL: "https://another.example", Fee: 100, MinBid: 100, Grace: 10, Decay: 1000}, nil)
		}
		var card struct{ Name, Title, Version, WebsiteURL string }
		if err := json.Unmarshal([]byte(s.Get("/.well-known/mcp/server-card.json").Body), &card); err != nil || card.Title != name {
			t.Fatalf("%+v, %v", card, err)
		}
		var answer struct {
			Result struct {
				ServerInfo struct{ Name, Title, Version, WebsiteURL string }
			}
		}
		r := s.message(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || answer.Result.ServerInfo != card {
			t.Errorf("%+v, %v, want %+v: %s", answer, err, card, r.Body)
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
	if r.Status != 200 || !strings.Contains(r.Body, `"isError":true`) || !strings.Contains(r.Body, `internal`) {
		t.Errorf("status %d: %s", r.Status, r.Body)
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
		cost := 1 + len(r.Body)/bytesARequest
		if r.Status != 200 || cost < 2 || cost > 5 {
			t.Fatalf("status %d, %d bytes", r.Status, len(r.Body))
		}
		left = max(0, left-cost) // the last one in the window is answered, too
		wantFields(t, r, "RateLimit-Remaining", itoa(left), "Retry-After", "")
	}

	free := serve(t, Config{Core: ring})
	plain := call(free, `{}`)
	if n := strings.Count(plain.Body, `"canonical_url"`); n > 20 {
		t.Errorf("%d members without being asked", n)
	}
	for _, coding := range []string{"zstd", "br", "gzip"} {
		r := call(free, `{}`, "Accept-Encoding", coding)
		wantFields(t, r, "Content-Encoding", coding, "Vary", "Accept-Encoding", "Content-Type", "application/json")
		if decodedAs(t, coding, r.Body) != plain.Body || 3*len(r.Body) > len(plain.Body) {
			t.Errorf("%s: %d bytes instead of %d", coding, len(r.Body), len(plain.Body))
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
		one := *s.Site
		one.T = t
		s := site{Site: &one}
		r := s.message(string(body))
		switch {
		case r.Status >= 500:
			t.Errorf("status %d: %s", r.Status, r.Body)
		case r.Status == 202 && r.Body == "", json.Valid([]byte(r.Body)):
		default:
			t.Errorf("status %d, no JSON: %q", r.Status, r.Body)
		}
	})
}

// asPaid answers as the origin does: with a challenge, a refusal of a credential, a grant, or
// a problem.
func asPaid(t *testing.T, seen *[]string) Handler {
	offer := `Payment id="c1", realm="ring.example", method="tempo", intent="charge", request="` + base64.RawURLEncoding.EncodeToString([]byte(`{"amount":"1"}`)) + `", expires="2026-11-24T12:00:00Z", opaque="e30"`
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Request.Header
		var credentials []string
		for _, line := range h.PeekAll("Authorization") {
			text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(string(line), "Payment "))
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			credentials = append(credentials, string(text))
		}
		// What is passed on is the header as it came.
		if len(h.RawHeaders()) == 0 || len(h.Peek("X-Request-Id")) == 0 {
			t.Errorf("%q", h.RawHeaders())
		}
		*seen = append(*seen, fmt.Sprintf("%s %s %s %s %s %v %s %t", h.Method(), h.RequestURI(), Body(ctx), h.Peek("Idempotency-Key"), credentials, ctx.UserValue("slug"), client, secure))
		problem := func(code api.Code) {
			ctx.SetStatusCode(code.Status())
			ctx.SetContentType("application/problem+json")
			ctx.SetBody(api.AppendProblem(nil, "https://ring.example", code, "Why.", nil))
		}
		switch {
		case len(credentials) > 1:
			problem(api.MultipleCredentials)
		case len(credentials) == 0:
			problem(api.PaymentRequired)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
			ctx.Response.Header.Add("WWW-Authenticate", strings.Replace(offer, "tempo", "evm", 1))
		case strings.Contains(credentials[0], "bad"):
			problem(api.VerificationFailed)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
		case strings.Contains(credentials[0], "unreadable"):
			problem(api.MalformedCredential)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
		case strings.Contains(credentials[0], "panic"):
			panic("in a handler")
		case strings.Contains(credentials[0], "late"):
			problem(api.PaymentPending)
		default:
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("Payment-Receipt", base64.RawURLEncoding.EncodeToString([]byte(`{"method":"tempo","reference":"0x1","status":"success","timestamp":"2026-11-24T12:00:00.000Z"}`)))
			ctx.SetBodyString(`{"bid":{}}`)
		}
	}
}

// asPaidByX402 stands for the origin of a ring that takes x402 payments, too. It notes what it
// reads of them.
func asPaidByX402(seen *[]string) Handler {
	field := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		h := &ctx.Request.Header
		payments := ""
		for _, line := range h.PeekAll("PAYMENT-SIGNATURE") {
			text, err := base64.StdEncoding.DecodeString(string(line))
			payments += fmt.Sprintf("%s %v", text, err)
		}
		*seen = append(*seen, fmt.Sprintf("%d %s", len(h.PeekAll("Authorization")), payments))
		problem := func(code api.Code) {
			ctx.SetStatusCode(code.Status())
			ctx.SetContentType("application/problem+json")
			ctx.SetBody(api.AppendProblem(nil, "https://ring.example", code, "Why.", nil))
			if code.Status() == 402 {
				ctx.Response.Header.Add("WWW-Authenticate", `Payment id="c1", realm="ring.example", method="evm", intent="charge", request="eyJhbW91bnQiOiIxIn0"`)
				ctx.Response.Header.Add("PAYMENT-REQUIRED", field(`{"x402Version":2,"error":"Why.","resource":{"url":"https://ring.example/api/bid","description":"A bid"},"accepts":[{"scheme":"exact"}],"extensions":{"bazaar":{"info":{"input":{"type":"http"}}}}}`))
			}
			if payments != "" {
				ctx.Response.Header.Add("PAYMENT-RESPONSE", field(`{"success":false,"errorReason":"`+string(code)+`","transaction":"","network":"eip155:8453"}`))
			}
		}
		switch {
		case payments == "":
			problem(api.PaymentRequired)
		case strings.Contains(payments, "bad"):
			problem(api.VerificationFailed)
		case strings.Contains(payments, "used"):
			problem(api.CredentialReused)
		default:
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("Payment-Receipt", base64.RawURLEncoding.EncodeToString([]byte(`{"method":"evm","reference":"0x1","status":"success"}`)))
			ctx.Response.Header.Set("PAYMENT-RESPONSE", field(`{"success":true,"transaction":"0x1","network":"eip155:8453"}`))
			ctx.SetBodyString(`{"bid":{}}`)
		}
	}
}

// x402 over MCP is the same payment as over HTTP, in the metadata of calls and results.
func TestToolsThatX402ClientsPay(t *testing.T) {
	var seen []string
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": asPaidByX402(&seen)}})
	pays := func(word string) string {
		return `,"_meta":{"x402/payment":{"x402Version":2,"accepted":{},"payload":{"signature":"` + word + `"}}}`
	}
	sent := func(word string) string {
		return `0 {"x402Version":2,"accepted":{},"payload":{"signature":"` + word + `"}} <nil>`
	}
	const (
		unpaid = "0 "
		asked  = `"structuredContent":{"accepts":[{"scheme":"exact"}],"error":"Why.","extensions":{"bazaar":{"info":{"input":{`
		mpp    = `"org.paymentauth/payment-required":{"httpStatus":402,"challenges":[{"id":"c1"`
		failed = `"x402/payment-response":{"success":false,"errorReason":"`
	)
	for _, c := range []struct {
		name, path, params string
		modern             bool
		asks               string
		want, not          []string
	}{
		{"no words", "/mcp", "", false, unpaid, []string{`"code":-32042`, mpp[35:]}, []string{"structuredContent", "x402"}},
		{"by its address", "/mcp?pay=x402", "", false, unpaid, []string{asked, `"isError":true`, mpp, `"tool":"ring_bid"`, `"url":"http`, `/mcp"`}, []string{`"code":-32042`, "payment-response"}},
		{"without sessions", "/mcp", "", true, unpaid, []string{asked, `"isError":true`, mpp}, []string{"payment-response"}},
		{"paid", "/mcp", pays("good"), false, sent("good"), []string{`"structuredContent":{"bid":{}}`, `"x402/payment-response":{"success":true,"transaction":"0x1","network":"eip155:8453"}`}, []string{"isError", "org.paymentauth"}},
		{"paid, by its address", "/mcp?pay=x402", pays("good"), false, sent("good"), []string{`"structuredContent":{"bid":{}}`, `"x402/payment-response":{"success":true`}, nil},
		{"refused", "/mcp", pays("bad"), false, sent("bad"), []string{asked, `"isError":true`, failed + "verification_failed", `"failure":{"reason":"verification_failed"`}, []string{`"code":-3204`}},
		{"used before", "/mcp", pays("used"), false, sent("used"), []string{`"isError":true`, "credential_reused", failed + "credential_reused"}, []string{"structuredContent", "accepts"}},
		{"no object", "/mcp", `,"_meta":{"x402/payment":"bad"}`, false, `0 "bad" <nil>`, []string{asked}, nil},
		{"too large", "/mcp", pays(strings.Repeat("x", 13_000)), false, "", []string{"credential_too_large", `"isError":true`}, nil},
	} {
		seen = nil
		params, fields := `"name":"ring_bid","arguments":{"member":"alpha","amount":"1.00"}`+c.params, []string{"Content-Type", "application/json"}
		if c.modern {
			const version = "2026-07-28"
			fields = append(fields, "Mcp-Protocol-Version", version, "Mcp-Method", "tools/call", "Mcp-Name", "ring_bid")
			params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		}
		r := s.Do("POST", c.path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`, fields...)
		if got := strings.Join(seen, "\n"); got != c.asks || r.Status != 200 {
			t.Errorf("%s: %d, asked %s, want %s", c.name, r.Status, got, c.asks)
		}
		for _, part := range c.want {
			if !strings.Contains(r.Body, part) {
				t.Errorf("%s lacks %s: %s", c.name, part, r.Body)
			}
		}
		for _, part := range c.not {
			if strings.Contains(r.Body, part) {
				t.Errorf("%s has %s: %s", c.name, part, r.Body)
			}
		}
		var answer struct {
			Result struct {
				StructuredContent json.RawMessage
				Content           []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
			t.Fatal(err)
		}
		// Both places of x402 have the same document, and the problem comes after it.
		if asks := answer.Result; strings.Contains(r.Body, asked) && (asks.Content[0].Text != string(asks.StructuredContent) || len(asks.Content) != 2 || !strings.Contains(asks.Content[1].Text, `"status":402`)) {
			t.Errorf("%s: %s", c.name, r.Body)
		}
	}
	// A client that holds what is asked for against the schema of the tool is content with it.
	for _, tool := range describe.Tools() {
		if tool.Name != "ring_join" && tool.Name != "ring_bid" {
			continue
		}
		form, err := tool.Output.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if form.Validate(map[string]any{"x402Version": 2, "accepts": []any{}}) != nil || form.Validate(map[string]any{"x402Version": 2}) == nil {
			t.Errorf("%s: %s", tool.Name, tool.Output)
		}
	}
}

// A tool that sends is the same request over HTTP, and its answer the same answer.
func TestToolsThatPay(t *testing.T) {
	var seen []string
	paid := asPaid(t, &seen)
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paid, "PATCH /api/ring/{slug}": paid}})
	const bid = `"name":"ring_bid","arguments":{"member":"alpha","amount":"1.00"}`
	const metadata, modern = `"_meta":{"org.paymentauth/credential":%s}`, "2026-07-28"
	good := `{"challenge":{"id":"c1","request":{"amount":"1"}},"payload":{"signature":"good"}}`
	sent := func(word string) string {
		return `{"challenge":{"id":"c1","request":"eyJhbW91bnQiOiIxIn0"},"payload":{"signature":"` + word + `"}}`
	}
	with := func(word string) string { return fmt.Sprintf(metadata, strings.Replace(good, "good", word, 1)) }
	for _, c := range []struct {
		name, params, more string
		version            string
		asks               string // what the handler sees, "" when it is not called
		want               []string
	}{
		{"unpaid", bid, "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [] <nil> 127.0.0.1 true`,
			[]string{`"code":-32042`, `"httpStatus":402`, `"request":{"amount":"1"}`, `"method":"evm"`, `"opaque":"e30"`, `"code":"payment_required"`}},
		{"unpaid, without sessions", bid, "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [] <nil> 127.0.0.1 true`,
			[]string{`"org.paymentauth/payment-required":{"httpStatus":402,"challenges":[{"id":"c1"`, `"isError":true`, `"method":"evm"`, `"resultType":"complete"`}},
		{"paid", bid + "," + with("good"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`"structuredContent":{"bid":{}}`, `"org.paymentauth/receipt":{"challengeId":"c1"`, `"reference":"0x1"`}},
		{"paid, beside params", bid, "," + with("good"), "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`"structuredContent":{"bid":{}}`, `"org.paymentauth/receipt"`}},
		{"paid twice", bid + "," + with("good"), "," + with("good"), "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + " " + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`multiple_credentials`, `"isError":true`}},
		{"refused", bid + "," + with("bad"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("bad") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32043`, `"failure":{"reason":"verification_failed","detail":"Why."}`, `"challenges":[{"id":"c1"`}},
		{"unreadable", bid + "," + with("unreadable"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("unreadable") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32602`, `"failure":{"reason":"malformed_credential","detail":"Why."}`, `"challenges":[{"id":"c1"`}},
		{"unreadable, without sessions", bid + "," + with("unreadable"), "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("unreadable") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32602`, `"challenges":[{"id":"c1"`}},
		{"pending", bid + "," + with("late"), "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("late") + `] <nil> 127.0.0.1 true`,
			[]string{`payment_pending`, `"isError":true`}},
		{"a handler that fails", bid + "," + with("panic"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("panic") + `] <nil> 127.0.0.1 true`,
			[]string{`internal`, `"isError":true`}},
		{"a member's", `"name":"ring_change","arguments":{"slug":"alpha","name":"<b>","idempotency_key":"0123456789abcdef"}`, "", "", `PATCH /api/ring/alpha {"name":"<b>"} 0123456789abcdef [] alpha 127.0.0.1 true`,
			[]string{`"code":-32042`}},
		{"no key", `"name":"ring_bid","arguments":{"idempotency_key":"a\r\nAuthorization: Payment x"}`, "", "", "", []string{`invalid_idempotency_key`}},
		{"too large", bid + "," + with(strings.Repeat("x", 13_000)), "", "", "", []string{`credential_too_large`}},
		{"not here", `"name":"ring_join","arguments":{}`, "", "", "", []string{`not_found`, `"isError":true`}},
		{"no path", `"name":"ring_change","arguments":{"slug":"../bid"}`, "", "", "", []string{`unknown_member`}},
		{"an unknown argument", `"name":"ring_leave","arguments":{"slug":"alpha","x":1}`, "", "", "", []string{`invalid_request`}},
	} {
		seen = nil
		params, fields := c.params, []string(nil)
		if c.version != "" {
			fields = []string{"Mcp-Protocol-Version", c.version, "Mcp-Method", "tools/call", "Mcp-Name", "ring_bid"}
			own := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + c.version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
			if before, given, found := strings.Cut(params, `"_meta":{`); found {
				params = before + own + "," + given
			} else {
				params += "," + own + "}"
			}
		}
		r := s.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}`+c.more+`}`, fields...)
		if asked := strings.Join(seen, "\n"); asked != c.asks {
			t.Errorf("%s: asked\n%s\nwant\n%s", c.name, asked, c.asks)
		}
		wantFields(t, r, "Content-Type", "application/json", "Cache-Control", "no-store")
		// The revision without sessions has a status for parameters that are wrong.
		status := 200
		if c.version == modern && strings.Contains(r.Body, `"code":-32602`) {
			status = 400
		}
		if r.Status != status || !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Body)
		}
		for _, part := range c.want {
			// A document is text in a result.
			if !strings.Contains(r.Body, part) {
				t.Errorf("%s lacks %s: %s", c.name, part, r.Body)
			}
		}
	}
}
