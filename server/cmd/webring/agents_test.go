package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"webring/server/devchain"
)

// These tests read the ring with programs of others: the official MCP clients,
// the inspector, a linter of OpenAPI documents, and the checks of the reference
// payment client.

// agents gives the folder with the programs for Node, or skips and says how to
// get what is missing.
func agents(t *testing.T) string {
	t.Helper()
	if raceDetector {
		t.Skip("they and the binary are programs of their own, in which the race detector sees nothing: the run without it has them read the ring")
	}
	return npm(t, "../../../edge/mcp/clients")
}

// npm gives a folder with what its package.json lists.
func npm(t *testing.T, folder string) string {
	t.Helper()
	dir, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs Node 20 or newer: apt install nodejs npm, or nodejs.org")
	}
	if err := devchain.InstallIn(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runNode runs a program and gives what it prints, whatever its status.
func runNode(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "REDOCLY_TELEMETRY=off", "NO_COLOR=1")
	errs := &logBuffer{}
	cmd.Stderr = errs
	// A program of Node that exits leaves behind what a pipe has not taken yet; a
	// file takes everything.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	err = cmd.Run()
	text, failed := os.ReadFile(out.Name())
	if failed != nil || len(text) == 0 {
		t.Fatalf("%v: %v, %v: %s", args, err, failed, errs)
	}
	return string(text)
}

// toolCalls has every tool, and what is the same by HTTP, if a read is. A code stands for a
// tool error. The ring that they are for takes no payments.
var toolCalls = []struct {
	tool, arguments, path, code string
}{
	{"ring_directory", `{}`, "/api", ""},
	{"ring_list", `{}`, "/api/ring?limit=20", ""},
	{"ring_list", `{"kind":"agent","limit":1,"offset":1}`, "/api/ring?kind=agent&limit=1&offset=1", ""},
	{"ring_list", `{"q":"BET app","limit":2}`, "/api/ring?q=BET+app&limit=2", ""},
	{"ring_list", `{"q":"bet","kind":"website"}`, "/api/ring?q=bet&kind=website&limit=20", ""},
	{"ring_list", `{"limit":0}`, "/api/ring?limit=0", "invalid_parameter"},
	{"ring_member", `{"slug":"gamma"}`, "/api/ring/gamma", ""},
	{"ring_member", `{"slug":"nobody"}`, "/api/ring/nobody", "unknown_member"},
	{"ring_member", `{"slug":"eta"}`, "/api/ring/eta", "member_removed"},
	{"ring_next", `{"from":"https://www.beta.dev/app/"}`, "/api/ring/next?from=beta", ""},
	{"ring_next", `{"from":"nobody"}`, "/api/ring/next?from=nobody", "unknown_member"},
	{"ring_prev", `{"from":"alpha","category":"tools"}`, "/api/ring/prev?from=alpha&category=tools", ""},
	{"ring_random", `{"kind":"mcp"}`, "/api/ring/random?kind=mcp", ""}, // there is one
	{"ring_random", `{"category":"none"}`, "/api/ring/random?category=none", "empty_ring"},
	{"ring_categories", `{}`, "/api/categories", ""},
	{"ring_leaderboard", `{"limit":3}`, "/api/leaderboard?limit=3", ""},
	{"ring_widget", `{"from":"alpha"}`, "/api/widget?from=alpha", ""},
	{"ring_hops", `{"days":2}`, "/api/hops?days=2", ""},
	{"ring_member_hops", `{"slug":"beta"}`, "/api/ring/beta/hops", ""},
	{"ring_events", `{"since":0,"limit":2}`, "/api/events?since=0&limit=2", ""},
	{"ring_member_events", `{"slug":"beta"}`, "/api/ring/beta/events?limit=20", ""},
	{"ring_join_info", `{}`, "", ""},
	{"ring_bid_info", `{}`, "", ""},
	{"ring_check", `{"name":"New","url":"https://new.dev/","kind":"agent","bid":"0.01"}`, "", ""},
	{"ring_join", `{"name":"New","url":"https://new.dev/","kind":"agent"}`, "", "payments_unconfigured"},
	{"ring_join", `{"name":"New"}`, "", "invalid_request"},
	{"ring_bid", `{"member":"beta","amount":"1.00"}`, "", "payments_unconfigured"},
	{"ring_bid", `{"member":"nobody","amount":"1.00"}`, "", "unknown_member"},
	{"ring_change", `{"slug":"nobody","name":"Mine"}`, "", "unknown_member"},
	{"ring_leave", `{"slug":"eta"}`, "", "member_removed"},
	{"ring_return", `{"slug":"eta"}`, "", "member_removed"},
	{"ring_claim", `{"slug":"beta","account":"0x0000000000000000000000000000000000000001"}`, "", ""},
	{"ring_visit", `{"slug":"nobody"}`, "", "unknown_member"},
	{"ring_visit", `{"slug":"next"}`, "", "unknown_member"},
}

var toolNames = strings.Fields("ring_bid ring_bid_info ring_categories ring_change ring_check ring_claim ring_directory ring_events ring_hops ring_join ring_join_info " +
	"ring_leaderboard ring_leave ring_list ring_member ring_member_events ring_member_hops ring_next ring_prev ring_random ring_return ring_visit ring_widget")

func value(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return v
}

// sameAsHTTP holds the result of a call to the answer of its read.
func (o *origin) sameAsHTTP(n int, structured any, text string, failed bool) {
	o.t.Helper()
	c := toolCalls[n]
	if c.path == "" {
		doc := value(o.t, []byte(text))
		switch {
		case failed != (c.code != "") || failed != (structured == nil):
			o.t.Errorf("%s %s: an error is %t: %s", c.tool, c.arguments, failed, text)
		case failed && at(o.t, doc, "code") != c.code:
			o.t.Errorf("%s %s: %s", c.tool, c.arguments, text)
		case !failed && !reflect.DeepEqual(structured, doc):
			o.t.Errorf("%s %s: structured content is not the document:\n%v\n%s", c.tool, c.arguments, structured, text)
		}
		return
	}
	want := o.get(c.path)
	if failed != (c.code != "") {
		o.t.Errorf("%s %s: an error is %t: %s", c.tool, c.arguments, failed, text)
	}
	if c.code != "" {
		if got := at(o.t, value(o.t, []byte(text)), "code"); got != c.code || want.code(o.t) != c.code || structured != nil {
			o.t.Errorf("%s %s: code %v, by HTTP %s", c.tool, c.arguments, got, want.code(o.t))
		}
		return
	}
	if text != string(want.Body) {
		o.t.Errorf("%s %s: the text is not the document:\n%s\n%s", c.tool, c.arguments, text, want.Body)
	}
	if !reflect.DeepEqual(structured, value(o.t, want.Body)) {
		o.t.Errorf("%s %s: structured content is not the document:\n%v\n%s", c.tool, c.arguments, structured, want.Body)
	}
}

func TestGoClientCallsEveryTool(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	client := mcp.NewClient(&mcp.Implementation{Name: "webring-tests", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: o.base + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if listed.TTLMs != 300_000 || listed.CacheScope != "public" {
		t.Errorf("the list may be kept for %d ms, %q", listed.TTLMs, listed.CacheScope)
	}
	changing := strings.Fields("ring_bid ring_change ring_claim ring_join ring_leave ring_return ring_visit")
	schemas := map[string]*jsonschema.Resolved{}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
		text, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if schemas[tool.Name], err = s.Resolve(nil); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if only := !slices.Contains(changing, tool.Name); tool.Annotations.ReadOnlyHint != only {
			t.Errorf("%s says that it only reads: %t", tool.Name, !only)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, toolNames) {
		t.Errorf("tools %v", names)
	}
	for n, c := range toolCalls {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: json.RawMessage(c.arguments)})
		if err != nil {
			t.Fatalf("%s %s: %v", c.tool, c.arguments, err)
		}
		o.sameAsHTTP(n, r.StructuredContent, r.Content[0].(*mcp.TextContent).Text, r.IsError)
		if c.code == "" {
			if err := schemas[c.tool].Validate(r.StructuredContent); err != nil {
				t.Errorf("%s: %v", c.tool, err)
			}
		}
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "register"}); err == nil {
		t.Error("a tool that there is not was called")
	}
}

func TestTypeScriptClientsCallEveryToolAndTheInspectorOne(t *testing.T) {
	t.Parallel()
	dir := agents(t)
	o := founded(t, reference, freely...)
	var calls []map[string]any
	for _, c := range toolCalls {
		calls = append(calls, map[string]any{"tool": c.tool, "arguments": json.RawMessage(c.arguments)})
	}
	plan, err := json.Marshal(map[string]any{"url": o.base + "/mcp", "calls": calls})
	if err != nil {
		t.Fatal(err)
	}
	type clientReport struct {
		Tools    []string
		Revision string
		TTLMs    int
		Results  []struct {
			Content    []struct{ Text string }
			Structured any `json:"structuredContent"`
			IsError    bool
		}
	}
	var reports map[string]clientReport
	if err := json.Unmarshal([]byte(runNode(t, dir, "call.mjs", string(plan))), &reports); err != nil {
		t.Fatal(err)
	}
	if sdk, client := reports["sdk"], reports["client"]; len(reports) != 2 || client.Revision != "2026-07-28" || client.TTLMs != 300_000 || sdk.Revision >= client.Revision {
		t.Errorf("revisions %q and %q, a list for %d ms", sdk.Revision, client.Revision, client.TTLMs)
	}
	for by, report := range reports {
		slices.Sort(report.Tools)
		if !slices.Equal(report.Tools, toolNames) {
			t.Errorf("%s: tools %v", by, report.Tools)
		}
		if len(report.Results) != len(toolCalls) {
			t.Fatalf("%s: %d results", by, len(report.Results))
		}
		for n, r := range report.Results {
			o.sameAsHTTP(n, r.Structured, r.Content[0].Text, r.IsError)
		}
	}

	inspect := func(args ...string) any {
		return value(t, []byte(runNode(t, dir, append([]string{"node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js", "--cli", o.base + "/mcp", "--transport", "http"}, args...)...)))
	}
	var shown []string
	for _, tool := range at(t, inspect("--method", "tools/list"), "tools").([]any) {
		shown = append(shown, at(t, tool, "name").(string))
	}
	slices.Sort(shown)
	if !slices.Equal(shown, toolNames) {
		t.Errorf("the inspector shows %v", shown)
	}
	if got := at(t, inspect("--method", "tools/call", "--tool-name", "ring_member", "--tool-arg", "slug=gamma"), "structuredContent", "member", "slug"); got != "gamma" {
		t.Errorf("the inspector reads %v", got)
	}
}

// TestMessagesThatAreRefused sends what no client should, of all the kinds that
// the protocol refuses in a way of its own. That each answer is as described is
// seen to by sending it.
func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	o := start(t, freely...)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		body   string
		status int
		fields []string
	}{
		{ping, 200, nil},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:y"}}`, 200, nil},
		{`{"jsonrpc":"2.0","id":1,"method":"nothing"}`, 200, nil}, // the refusal is the call's answer
		{ping, 400, []string{"Mcp-Protocol-Version", "1999-01-01"}},
		{ping, 400, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "ping"}},
		{ping, 400, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}},
		{`{"jsonrpc":"2.0","id":1,"method":"nothing","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, 404,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "nothing"}},
		{"", 400, nil}, {"null", 400, nil}, {"[" + ping + "]", 200, nil}, {"[" + ping + "]", 400, []string{"Mcp-Protocol-Version", "2025-06-18"}}, {strings.Repeat("[", 9000), 400, nil},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, nil},
		{strings.Repeat("x", 20_000), 413, nil},
		{ping, 200, []string{"Origin", "null"}},
		{ping, 200, []string{"Origin", "file://"}},
		{ping, 403, []string{"Origin", "nowhere"}},
		{ping, 422, []string{"Content-Type", "text/plain"}},
	} {
		fields := c.fields
		if !slices.Contains(fields, "Content-Type") {
			fields = append(fields, "Content-Type", "application/json")
		}
		if r := o.send("POST", "/mcp", []byte(c.body), fields...); r.Status != c.status {
			t.Errorf("%.80s %v: status %d, want %d: %s", c.body, c.fields, r.Status, c.status, r.Body)
		}
	}
}

// TestEveryLinkOfLLMsResolves holds also what other documents lead to.
func TestEveryLinkOfLLMsResolves(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*origin{"empty": start(t, freely...), "full": founded(t, reference, freely...)} {
		text := string(o.get("/llms.txt").Body)
		for _, source := range []string{"/.well-known/api-catalog", "/sitemap.xml", "/sitemaps/pages.xml", "/sitemaps/members-1.xml", "/feeds/joins.json",
			"/.well-known/ai-catalog.json", "/ai-catalogs/agent-1.json", "/.well-known/agent-skills/join-webring/SKILL.md"} {
			text += string(o.get(source).Body)
		}
		links := 0
		for _, link := range regexp.MustCompile(regexp.QuoteMeta(o.base)+`[^\s)<>"`+"`"+`]*`).FindAllString(text, -1) {
			path := strings.TrimPrefix(strings.TrimRight(link, "."), o.base)
			// What a program is to send is no link, and neither is what has words to replace.
			if path == "/mcp" || path == "/api/check" || path == "/api/register" || path == "/api/bid" || strings.HasPrefix(path, "/problems/") || strings.Contains(path, "{") || strings.HasSuffix(path, "'") {
				continue
			}
			links++
			if r := o.get(path); r.Status != 200 && r.Status != 302 {
				t.Errorf("%s ring: %s: status %d", name, path, r.Status)
			}
		}
		if links < 25 {
			t.Errorf("%s ring: only %d links", name, links)
		}
	}
}

func TestLinterFindsNoErrorInOpenAPI(t *testing.T) {
	t.Parallel()
	dir := agents(t)
	o := founded(t, reference, freely...)
	out := runNode(t, dir, "node_modules/@redocly/cli/bin/cli.js", "lint", "--extends=recommended-strict", o.base+"/openapi.json", "--format=json")
	var report struct {
		Totals struct{ Errors, Warnings int }
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if report.Totals.Errors+report.Totals.Warnings != 0 {
		t.Errorf("%s", out)
	}
	t.Logf("%d errors, %d warnings", report.Totals.Errors, report.Totals.Warnings)
}

// TestReferenceClientFindsNothingWrong runs the checks of the reference client
// twice, in an empty ring and in one with members: examples stay payable.
func TestReferenceClientFindsNothingWrong(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	dir, err := devchain.Dir()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*origin{"empty": ring(t), "full": founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)} {
		if out := runNode(t, dir, "node_modules/mppx/dist/bin.js", "discover", "validate", o.base+"/openapi.json"); !strings.Contains(out, "valid") || strings.Contains(out, "[") {
			t.Errorf("%s ring: discover: %s", name, out)
		}
		out := runNode(t, dir, "node_modules/mppx/dist/bin.js", "validate", o.base, "--output-json")
		var report struct {
			Discovery struct{ Checks []check }
			Endpoints []struct {
				Method, Path                      string
				Challenge, ErrorHandling, Payment []check
			}
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		rows := report.Discovery.Checks
		want := 2
		if name == "empty" {
			want = 1 // nobody to bid on
		}
		if len(report.Endpoints) != want {
			t.Errorf("%s ring: %d endpoints", name, len(report.Endpoints))
		}
		for _, e := range report.Endpoints {
			rows = append(append(rows, e.Challenge...), e.ErrorHandling...)
			if len(e.Challenge) < 5 || len(e.ErrorHandling) < 2 {
				t.Errorf("%s ring: %s %s is hardly checked: %+v", name, e.Method, e.Path, e)
			}
		}
		for _, row := range rows {
			if row.Severity != "pass" {
				t.Errorf("%s ring: %+v", name, row)
			}
		}
	}
}

// TestDirectoriesFindWhatIsForSale runs what the directories of AgentCash read a service with:
// at the origin, and at an edge that serves the same documents.
func TestDirectoriesFindWhatIsForSale(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	dir := agents(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--report", "mailto:report@ring.dev")...)
	e := o.follow(t, o.verifier())
	alike(t, o, e)
	for name, base := range map[string]string{"origin": o.base, "edge": e.base} {
		discover := func(words ...string) any {
			return value(t, []byte(runNode(t, dir, append([]string{"node_modules/@agentcash/discovery/bin/discovery.js"}, append(words, "--json")...)...)))
		}
		found := discover("discover", base)
		prices := map[string]any{}
		for _, r := range at(t, found, "resources").([]any) {
			if r := r.(map[string]any); r["authHint"] == "paid" {
				prices[at(t, r, "method").(string)+" "+at(t, r, "path").(string)] = at(t, r, "priceHint")
				if protocols := at(t, r, "protocols").([]any); !slices.Contains(protocols, any("mpp")) {
					t.Errorf("%s: %v", name, r)
				}
			}
		}
		if len(prices) != 2 || prices["POST /api/register"] != "1.00-1000000.00 USD" || prices["POST /api/bid"] != "1.00-1000000.00 USD" {
			t.Errorf("%s: prices %v", name, prices)
		}
		for _, w := range at(t, found, "warnings").([]any) {
			if code := at(t, w, "code"); code != "L2_ROUTE_COUNT_HIGH" {
				t.Errorf("%s: %v", name, w)
			}
		}
		for _, path := range []string{"/api/register", "/api/bid"} {
			checked := discover("check", base+path)
			if at(t, checked, "found") != true || at(t, checked, "advisories", 0, "authMode") != "paid" || len(at(t, checked, "warnings").([]any)) != 0 {
				t.Errorf("%s: %s: %v", name, path, checked)
			}
		}
	}
}

type check struct{ Label, Severity, Detail, Hint string }

func (c check) String() string {
	return fmt.Sprintf("%s: %s: %s %s", c.Severity, c.Label, c.Detail, c.Hint)
}
