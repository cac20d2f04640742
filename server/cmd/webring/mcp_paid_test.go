package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"webring/server/devchain"
	"webring/server/pay/mpp"
)

// toolCall is a call of a tool by the reference client.
type toolCall struct {
	By        string          `json:"by"` // an official client, or "fetch"
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// toolPaid is what came of it.
type toolPaid struct {
	Result toolResult
	Error  string
	Asked  *struct { // how payment was asked for; nil: it was not
		Error *struct {
			Code int
			Data json.RawMessage
		}
		Result *toolResult
	}
	Sent *struct { // the credential
		Challenge struct{ ID string }
		Payload   map[string]string
	}
}

type toolResult struct {
	Content           []struct{ Text string }
	StructuredContent json.RawMessage
	IsError           bool
	Meta              struct {
		Receipt *struct{ Status, Method, Reference, ChallengeID, Timestamp string } `json:"org.paymentauth/receipt"`
		Asked   *struct {
			HTTPStatus int
			Challenges []toolChallenge
			Failure    *struct{ Reason string }
		} `json:"org.paymentauth/payment-required"`
	} `json:"_meta"`
}

// code is that of a tool error.
func (r *toolResult) code(t *testing.T) string {
	t.Helper()
	if !r.IsError || len(r.Content) != 1 || r.StructuredContent != nil {
		t.Fatalf("no tool error: %+v", r)
	}
	return at(t, value(t, []byte(r.Content[0].Text)), "code").(string)
}

// toolChallenge is a challenge with its request as an object.
type toolChallenge struct {
	mpp.Challenge
	Request json.RawMessage `json:"request"`
}

// overHTTP is the challenge as a header field has it.
func (c toolChallenge) overHTTP(t *testing.T) mpp.Challenge {
	t.Helper()
	text, err := mpp.EncodeJSON(c.Request)
	if err != nil {
		t.Fatal(err)
	}
	c.Challenge.Request = text
	return c.Challenge
}

// asMetadata is an Authorization field as metadata has it.
func asMetadata(t *testing.T, authorization string) json.RawMessage {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(authorization, "Payment "))
	if err != nil {
		t.Fatal(err)
	}
	credential := value(t, text).(map[string]any)
	echo := credential["challenge"].(map[string]any)
	request, err := base64.RawURLEncoding.DecodeString(echo["request"].(string))
	if err != nil {
		t.Fatal(err)
	}
	echo["request"] = json.RawMessage(request)
	unloggable.Secret("a payment", at(t, credential, "payload", "signature").(string))
	text, err = json.Marshal(credential)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// message is a call of a tool by hand, with what it needs in the revision without sessions.
func message(tool, arguments string, credential json.RawMessage) (body []byte, header []string) {
	const version = "2026-07-28"
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientInfo": map[string]string{"name": "x", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	if credential != nil {
		meta["org.paymentauth/credential"] = credential
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": json.RawMessage(arguments), "_meta": meta}})
	if err != nil {
		panic(err)
	}
	return body, []string{"Content-Type", "application/json", "Mcp-Protocol-Version", version, "Mcp-Method", "tools/call", "Mcp-Name", tool}
}

func (o *origin) call(tool, arguments string, credential json.RawMessage) toolResult {
	o.t.Helper()
	body, header := message(tool, arguments, credential)
	r := o.send(http.MethodPost, "/mcp", body, header...)
	var answer struct{ Result *toolResult }
	if err := json.Unmarshal(r.Body, &answer); err != nil || answer.Result == nil {
		o.t.Fatalf("%s %s: %d %s", tool, arguments, r.Status, r.Body)
	}
	return *answer.Result
}

// payByTools has the reference client call tools, and pay where it is asked to.
func (o *origin) payByTools(w devchain.Account, calls ...toolCall) []toolPaid {
	o.t.Helper()
	clients := agents(o.t)
	c, _ := chain(o.t)
	dir, err := devchain.Dir()
	if err != nil {
		o.t.Fatal(err)
	}
	unloggable.Secret("the key of a wallet", w.HexKey())
	plan, err := json.Marshal(map[string]any{"url": o.base + "/mcp", "clients": clients, "rpc": c.RPC, "key": w.HexKey(), "calls": calls})
	if err != nil {
		o.t.Fatal(err)
	}
	out := runNode(o.t, dir, filepath.Join(dir, "mcp.mjs"), string(plan))
	var answers []toolPaid
	if err := json.Unmarshal([]byte(out), &answers); err != nil || len(answers) != len(calls) {
		o.t.Fatalf("%v: %s", err, out)
	}
	for i, a := range answers {
		if a.Error != "" {
			o.t.Fatalf("%s %s: %s\n%s", calls[i].Tool, calls[i].Arguments, a.Error, o.log)
		}
		if a.Sent != nil {
			unloggable.Secret("a payment", a.Sent.Payload["signature"])
		}
	}
	return answers
}

// TestToolsArePaidThroughAnEdge has the reference client join, bid, change and leave by the
// tools of an edge, wrapped around each official client; then twenty copies of one credential
// come by both transports at once, and an answer is lost and asked for again.
func TestToolsArePaidThroughAnEdge(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret)
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	w := wallet(t)
	const draft = `{"name":"By Tool","url":"https://by-tool.dev/","kind":"agent","bid":"1.50"}`

	checked := e.call("ring_check", draft, nil)
	for field, want := range map[string]any{"taken": true, "price_usd": "2.50", "slug": "by-tool", "leaderboard_rank": 1.0, "required_score": 40.0} {
		if got := at(t, value(t, checked.StructuredContent), field); got != want {
			t.Errorf("the draft's %s is %v, want %v", field, got, want)
		}
	}

	calls := []toolCall{
		{"sdk", "ring_join", json.RawMessage(draft)},
		{"client", "ring_bid", json.RawMessage(`{"member":"by-tool","amount":"1.25"}`)},
		{"fetch", "ring_bid", json.RawMessage(`{"member":"by-tool","amount":"1.00"}`)},
		{"client", "ring_change", json.RawMessage(`{"slug":"by-tool","name":"By Hand"}`)},
		{"sdk", "ring_visit", json.RawMessage(`{"slug":"by-tool"}`)},
		{"client", "ring_join", json.RawMessage(`{"name":"Leaver","url":"https://leaver.dev/","kind":"mcp"}`)},
		{"sdk", "ring_leave", json.RawMessage(`{"slug":"leaver"}`)},
		{"client", "ring_return", json.RawMessage(`{"slug":"leaver"}`)},
		{"fetch", "ring_leave", json.RawMessage(`{"slug":"leaver"}`)},
		{"client", "ring_bid", json.RawMessage(`{"member":"nobody","amount":"1.00"}`)},
	}
	paid := e.payByTools(w, calls...)
	for i, p := range paid[:len(paid)-1] {
		// Revisions with sessions get the error of MPP, later ones what MCP leaves free.
		if inError := p.Asked != nil && p.Asked.Error != nil && p.Asked.Error.Code == -32042; p.Asked == nil || inError != (calls[i].By != "client") {
			t.Errorf("%s by %s: asked to pay by %+v", calls[i].Tool, calls[i].By, p.Asked)
		}
		receipt := p.Result.Meta.Receipt
		if p.Result.IsError || receipt == nil || receipt.Status != "success" || receipt.Method != "tempo" || receipt.ChallengeID != p.Sent.Challenge.ID {
			t.Fatalf("%s by %s: %+v", calls[i].Tool, calls[i].By, p.Result)
		}
	}
	if last := paid[len(paid)-1]; last.Result.code(t) != "unknown_member" || last.Sent != nil {
		t.Errorf("%+v", last)
	}
	if got := at(t, value(t, paid[2].Result.StructuredContent), "bid_total_usd"); got != "3.75" {
		t.Errorf("the bids come to %v", got)
	}
	now := e.get("/api/ring/by-tool").document(t)
	if at(t, now, "member", "name") != "By Hand" || at(t, now, "member", "paid_total_usd") != "4.75" || at(t, now, "member", "owner") != strings.ToLower(w.Address.Hex()) {
		t.Errorf("%v", now)
	}
	e.get("/api/ring/leaver").does(t, 410, "member_removed")

	// What a check finds next to a member with 4.75.
	check := func(arguments string) any { return value(t, e.call("ring_check", arguments, nil).StructuredContent) }
	for bid, rank := range map[string]float64{"1.00": 2, "9.00": 1} {
		if d := check(`{"name":"New","url":"https://new.dev/","kind":"agent","bid":"` + bid + `"}`); at(t, d, "taken") != true || at(t, d, "leaderboard_rank") != rank {
			t.Errorf("with a bid of %s: %v", bid, d)
		}
	}
	if d := check(`{"name":"New","url":"https://new.dev/","kind":"robot"}`); at(t, d, "taken") != false || at(t, d, "errors", 0, "pointer") != "/kind" {
		t.Errorf("%v", d)
	}
	if d := check(`{"name":"New","url":"https://by-tool.dev/","kind":"agent"}`); at(t, d, "taken") != false || at(t, d, "refusal", "code") != "already_registered" {
		t.Errorf("%v", d)
	}

	// A challenge is for one tool and one set of arguments, in whichever order.
	const bid, again = `{"member":"by-tool","amount":"2.00"}`, `{ "amount" : "2.00", "member" : "by\u002dtool" }`
	offer := e.call("ring_bid", bid, nil)
	if offer.code(t) != "payment_required" || offer.Meta.Asked.HTTPStatus != 402 || len(offer.Meta.Asked.Challenges) != 1 {
		t.Fatalf("%+v", offer)
	}
	authorization := signedBy(w, offer.Meta.Asked.Challenges[0].overHTTP(t))
	sentField("Authorization", authorization)
	credential := asMetadata(t, authorization)
	for _, other := range []struct{ tool, arguments string }{
		{"ring_bid", `{"member":"by-tool","amount":"2.01"}`},
		{"ring_join", `{"name":"Other","url":"https://other.dev/","kind":"agent","bid":"1.00"}`},
		{"ring_change", `{"slug":"by-tool","name":"Other"}`},
	} {
		if r := o.call(other.tool, other.arguments, credential); r.code(t) != "invalid_challenge" || r.Meta.Asked.Failure == nil {
			t.Errorf("%s %s: %+v", other.tool, other.arguments, r)
		}
	}
	if r := e.call("ring_check", draft, credential); r.IsError || r.Meta.Receipt != nil {
		t.Errorf("a free tool took a credential: %+v", r)
	}

	// One credential at both nodes, over both transports, at once.
	var copies sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 20 {
		copies.Go(func() {
			node, what := []*origin{o, e}[i%2], "granted"
			if i%4 < 2 {
				if r := node.call("ring_bid", again, credential); r.IsError {
					what = r.code(t)
				}
			} else if r := node.post("/api/bid", `{"amount":"2.00","member":"by-tool"}`, "Authorization", authorization); r.Status >= 300 {
				what = r.code(t)
			}
			mu.Lock()
			defer mu.Unlock()
			told[what]++
		})
	}
	copies.Wait()
	if told["granted"] != 1 || told["credential_reused"] != 19 {
		t.Errorf("answers: %v", told)
	}

	// A client loses the answer. It repeats its call, with the credential or without.
	const key = "0123456789-of-the-tests"
	keyed := fmt.Sprintf(`{"member":"by-tool","amount":"3.00","idempotency_key":%q}`, key)
	sentField("Idempotency-Key", key)
	offer = e.call("ring_bid", keyed, nil)
	authorization = signedBy(w, offer.Meta.Asked.Challenges[0].overHTTP(t))
	sentField("Authorization", authorization)
	credential = asMetadata(t, authorization)
	e.callAndHangUp("ring_bid", keyed, credential)
	var kept toolResult
	eventually(t, "the outcome", longEnough, func() bool {
		kept = e.call("ring_bid", keyed, credential)
		if !kept.IsError {
			return true
		}
		if code := kept.code(t); code != "credential_reused" && code != "payment_pending" {
			t.Fatalf("%+v", kept)
		}
		return false
	})
	if kept.Meta.Receipt == nil || at(t, value(t, kept.StructuredContent), "bid", "amount_usd") != "3.00" {
		t.Errorf("%+v", kept)
	}
	if r := o.call("ring_bid", keyed, nil); r.code(t) != "idempotency_key_used" {
		t.Errorf("without the credential: %+v", r)
	}
	if r := e.call("ring_bid", `{"member":"by-tool","amount":"3.00"}`, credential); r.code(t) != "credential_reused" {
		t.Errorf("without the key: %+v", r)
	}
	o.confirmed()
	o.balanced()
	if got := o.received(); got != 250+125+100+100+200+300 {
		t.Errorf("%d cents were received", got)
	}
	alike(t, o, e)
}

// callAndHangUp calls a tool and is gone before there is an answer.
func (o *origin) callAndHangUp(tool, arguments string, credential json.RawMessage) {
	o.t.Helper()
	body, header := message(tool, arguments, credential)
	conn, err := net.Dial("tcp", strings.TrimPrefix(o.base, "http://"))
	if err != nil {
		o.t.Fatal(err)
	}
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", len(body))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	if _, err := conn.Write([]byte(b.String() + "\r\n" + string(body))); err != nil {
		o.t.Fatal(err)
	}
}
