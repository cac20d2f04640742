package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/pay/paytest"
	"webring/server/pay/x402"
)

// settlement reads the PAYMENT-RESPONSE field.
func settlement(t *testing.T, h http.Header) (r x402.Response) {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(h.Get(x402.ResponseField))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Errorf("%s %q: %v", x402.ResponseField, h.Get(x402.ResponseField), err)
	}
	return r
}

// TestX402ClientsPayAtTheOriginAndThroughAnEdge has two clients of x402 join and bid through
// an edge and at the origin, and holds what is refused: signatures that were altered,
// that come with another request, in another envelope, in two places at once, or from a
// stranger who has read them.
func TestX402ClientsPayAtTheOriginAndThroughAnEdge(t *testing.T) {
	t.Parallel()
	_, client := chain(t)
	secret := secretFile(t)
	s := evmShop(t, "--core", "native", "--edge-secret-file", secret)
	edge := &shop{origin: s.follow(t, s.verifier(), "--core", "native", "--edge-secret-file", secret), chain: s.chain, gas: s.gas}

	pay := func(by string, at *shop, path, body string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		account := devchain.Account{Key: s.payer().Key}
		p, err := client.Pay(ctx, account.HexKey(), devchain.Request{By: []string{by}, Method: http.MethodPost, URL: at.base + path,
			Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
		if err != nil || p.Status != status || len(p.Earlier) != 1 {
			t.Fatalf("%s: POST %s: %v, %d %s after %d\n%s", by, path, err, p.Status, p.Body, len(p.Earlier), s.log)
		}
		sentField(x402.SignatureField, p.Authorization)
		if r := settlement(t, p.Header); !r.Success || r.Network != "eip155:8453" || len(r.Transaction) != 66 || !strings.EqualFold(r.Payer, freshAddress(account)) {
			t.Errorf("%s: POST %s: %+v", by, path, r)
		}
		if r := at.post(path, body, x402.SignatureField, p.Authorization); r.Status != 409 || r.code(t) != "credential_reused" || settlement(t, r.Header).Success {
			t.Errorf("%s: POST %s again: %d %s", by, path, r.Status, r.Body)
		}
	}
	pay("x402", edge, "/api/register", `{"name":"Exactly","url":"https://exactly.dev/","kind":"agent","bid":"2.00"}`, 201)
	pay("x402", s, "/api/register", `{"name":"Other","url":"https://other-one.dev/","kind":"agent"}`, 201)
	pay("x402", edge, "/api/bid", `{"member":"other","amount":"1.50"}`, 200)
	pay("x402", s, "/api/bid", `{"member":"exactly","amount":"1.00"}`, 200)
	pay("axios", edge, "/api/register", `{"name":"Axle","url":"https://axle.dev/","kind":"agent","bid":"2.00"}`, 201)
	pay("axios", s, "/api/register", `{"name":"Hub","url":"https://hub-one.dev/","kind":"agent"}`, 201)
	pay("axios", edge, "/api/bid", `{"member":"hub","amount":"1.50"}`, 200)
	pay("axios", s, "/api/bid", `{"member":"axle","amount":"1.00"}`, 200)

	// A client that signs late, or has a clock that is half a minute off, pays, and base64 may be spelled
	// in any way. Over MCP it is the same payment.
	const bid = `{"member":"exactly","amount":"1.00"}`
	spell := func(e *base64.Encoding) func(string) string {
		return func(field string) string {
			text, err := base64.StdEncoding.DecodeString(field)
			if err != nil {
				t.Fatal(err)
			}
			return e.EncodeToString(text)
		}
	}
	for name, c := range map[string]struct {
		ends  time.Duration
		spell func(string) string
	}{
		"presented after 35 seconds":          {55 * time.Second, spell(base64.StdEncoding)},
		"a clock that is 30 seconds behind":   {60 * time.Second, spell(base64.RawStdEncoding)},
		"a clock that is 30 seconds ahead":    {120 * time.Second, spell(base64.RawURLEncoding)},
		"presented in the last of 70 seconds": {22 * time.Second, spell(base64.URLEncoding)},
	} {
		if r := edge.present("/api/bid", bid, c.spell(s.payer().Exact(s.exact("/api/bid", bid), paytest.ValidFor(c.ends)).Header())); r.Status != 200 || !settlement(t, r.Header).Success {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	byTool(t, edge, s)
	const taken, submitted = 2*(300+100+150+100) + 4*100 + 100, 2*4 + 4 + 1
	if s.authorized() != taken || s.submissions() != submitted {
		t.Errorf("%d cents in %d transactions, want %d in %d", s.authorized(), s.submissions(), taken, submitted)
	}

	edge.fields(edge.send(http.MethodOptions, "/api/bid", nil, "Origin", "https://elsewhere.dev", "Access-Control-Request-Method", "POST"),
		"Access-Control-Allow-Headers", "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Accept-Payment, Wallet-Account, Api-Version, X-Request-Id, PAYMENT-SIGNATURE, Access-Control-Expose-Headers")
	// Offers say what they are for, and stay short: clients repeat them, and so must fit proxies.
	longest := s.post("/api/register", `{"name":"`+strings.Repeat("N", 80)+`","url":"https://long.dev/`+strings.Repeat("u", 280)+`","kind":"agent","category":"general","description":"`+strings.Repeat("d", 300)+`"}`)
	if field := longest.Header.Get(x402.RequiredField); longest.Status != 402 || len(field) > 6_000 {
		t.Errorf("%d with %d characters of %s: %s", longest.Status, len(field), x402.RequiredField, longest.Body)
	} else {
		t.Logf("the longest %s has %d characters", x402.RequiredField, len(field))
	}
	owner := s.send(http.MethodDelete, "/api/ring/exactly", nil)
	if owner.Status != 402 || owner.Header.Get(x402.RequiredField) != "" {
		t.Errorf("of an owner: %d with %s %q", owner.Status, x402.RequiredField, owner.Header.Get(x402.RequiredField))
	}

	// Each of these is refused, and no money moves.
	for name, c := range map[string]struct {
		alter func(*paytest.Exact)
		code  string
	}{
		"another amount accepted":    {func(x *paytest.Exact) { x.Accepted.Amount = "1" }, "invalid_challenge"},
		"another recipient accepted": {func(x *paytest.Exact) { x.Accepted.PayTo = x.Wallet.Address().Hex() }, "invalid_challenge"},
		"another token accepted":     {func(x *paytest.Exact) { x.Accepted.Asset = x.Wallet.Address().Hex() }, "invalid_challenge"},
		"another network accepted":   {func(x *paytest.Exact) { x.Accepted.Network = "eip155:1" }, "invalid_challenge"},
		"an altered challenge": {func(x *paytest.Exact) {
			x.Accepted.Extra["challenge"].(map[string]any)["expires"] = "2099-01-01T00:00:00Z"
		}, "invalid_challenge"},
		"no challenge of x402":       {func(x *paytest.Exact) { x.Accepted.Extra["challenge"].(map[string]any)["intent"] = "charge" }, "invalid_challenge"},
		"another amount signed":      {func(x *paytest.Exact) { x.Draft.Value.SetInt64(999_999) }, "verification_failed"},
		"another recipient signed":   {func(x *paytest.Exact) { x.Draft.To = x.Wallet.Address() }, "verification_failed"},
		"another token signed":       {func(x *paytest.Exact) { x.Draft.Token[19]++ }, "verification_failed"},
		"another chain signed":       {func(x *paytest.Exact) { x.Draft.ChainID.SetInt64(1) }, "verification_failed"},
		"somebody else's signature":  {func(x *paytest.Exact) { x.Draft.Sign = s.payer().Sign }, "verification_failed"},
		"valid for ten minutes":      {func(x *paytest.Exact) { paytest.ValidFor(10 * time.Minute)(x.Draft) }, "verification_failed"},
		"valid no more":              {func(x *paytest.Exact) { paytest.ValidFor(-time.Minute)(x.Draft) }, "payment_expired"},
		"valid for too little":       {func(x *paytest.Exact) { paytest.ValidFor(15 * time.Second)(x.Draft) }, "payment_expired"},
		"a clock that is far behind": {func(x *paytest.Exact) { paytest.ValidFor(-time.Second)(x.Draft) }, "payment_expired"},
		"a clock that is far ahead":  {func(x *paytest.Exact) { paytest.ValidFor(130 * time.Second)(x.Draft) }, "verification_failed"},
	} {
		payment := s.payer().Exact(s.exact("/api/bid", bid))
		c.alter(&payment)
		r := edge.present("/api/bid", bid, payment.Header())
		if required, err := paytest.ReadRequired(r.Header.Get(x402.RequiredField)); r.Status != 402 || r.code(t) != c.code || err != nil || required.Error == "" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		if told := settlement(t, r.Header); told.Success || told.ErrorReason == "" || told.Network != "eip155:8453" {
			t.Errorf("%s: %+v", name, told)
		}
	}
	// What cannot be read is 400, and so is what is of version 1.
	shapeless := s.payer().Exact(s.exact("/api/bid", bid))
	shapeless.Draft.Payload = func(p map[string]any) { delete(p, "authorization") }
	for name, c := range map[string]struct{ field, value, code, reason string }{
		"a payload of another scheme": {x402.SignatureField, shapeless.Header(), "bad_request", x402.InvalidPayload},
		"no base64":                   {x402.SignatureField, "no base64", "bad_request", x402.InvalidPayload},
		"version 1":                   {x402.OldField, spell(base64.StdEncoding)(base64.StdEncoding.EncodeToString([]byte(`{"x402Version":1}`))), "unsupported_method", x402.InvalidVersion},
	} {
		if r := edge.post("/api/bid", bid, c.field, c.value); r.Status != 400 || r.code(t) != c.code || settlement(t, r.Header).ErrorReason != c.reason {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	payer := s.payer()
	signed := payer.Exact(s.exact("/api/bid", bid)).Header()
	for name, r := range map[string]reply{
		"another body":   s.present("/api/bid", `{"member":"exactly","amount":"1.01"}`, signed),
		"another member": edge.present("/api/bid", `{"member":"other","amount":"1.00"}`, signed),
		"another route":  s.present("/api/register", `{"name":"Third","url":"https://third-one.dev/","kind":"agent"}`, signed),
	} {
		if r.Status != 402 || r.code(t) != "invalid_challenge" || settlement(t, r.Header).ErrorReason != "invalid_challenge" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	if s.authorized() != taken || s.submissions() != submitted {
		t.Errorf("%d cents in %d transactions, want %d in %d", s.authorized(), s.submissions(), taken, submitted)
	}

	// One authorisation in both envelopes, at two nodes at once: one effect.
	both := s.payer()
	challenge := s.offer("/api/bid", bid)
	sameNonce := func(d *paytest.EVMDraft) { d.Nonce = noncePaying(challenge.ID, challenge.Realm) }
	expires, err := challenge.ExpiresAt()
	if err != nil {
		t.Fatal(err)
	}
	until := paytest.ValidFor(time.Until(expires) - time.Second)
	copies := []string{both.Header(challenge, until), both.Exact(s.exact("/api/bid", bid), sameNonce, until).Header(), both.Exact(s.exact("/api/bid", bid), sameNonce, until).Header()}
	var wg sync.WaitGroup
	replies := make([]reply, 2*len(copies))
	for i := range replies {
		wg.Go(func() {
			credential := copies[i%len(copies)]
			node := []*shop{s, edge}[i/len(copies)]
			var err error
			if replies[i], err = node.try(http.MethodPost, "/api/bid", []byte(bid), credentialField(credential), credential, "Content-Type", "application/json"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	effects := 0
	for i, r := range replies {
		if r.Status == 200 {
			effects++
		} else if r.Status != 409 || r.code(t) != "credential_reused" {
			t.Errorf("copy %d: %d %s", i, r.Status, r.Body)
		}
	}
	if effects != 1 || s.authorized() != taken+100 || s.submissions() != submitted+1 {
		t.Errorf("%d effects, %d cents in %d transactions", effects, s.authorized(), s.submissions())
	}

	// A signature that somebody has read and submitted has no effect for whoever presents
	// it, and is the operator's to credit.
	stolen := s.payer().Exact(s.exact("/api/bid", bid))
	s.submit(stolen.Submission())
	var r reply
	for _, at := range []*shop{edge, s} { // until its block is final, and then again
		eventually(t, "a final block", longEnough, func() bool {
			r = at.present("/api/bid", bid, stolen.Header())
			return r.code(t) != "payment_pending"
		})
		if r.Status != 409 || r.code(t) != "payment_unapplied" || settlement(t, r.Header).Transaction == "" {
			t.Fatalf("%d %s\n%s", r.Status, r.Body, s.log)
		}
		stolen.Accepted = s.exact("/api/bid", bid)
	}
	reference, _ := at(t, r.document(t), "reference").(string)
	if out, err := s.operate("payments", "list"); err != nil || strings.Count(out, reference) != 1 {
		t.Errorf("payments list: %v %s", err, out)
	}
	if out, err := s.operate("payments", "adjust", reference, "--credit", "other", "--reason", "submitted before it was presented"); err != nil {
		t.Errorf("payments adjust: %v %s", err, out)
	}
	if out, err := s.operate("payments", "list"); err != nil || strings.Contains(out, reference) {
		t.Errorf("payments list: %v %s", err, out)
	}
	if total := at(t, s.get("/api/ring/other").document(t), "member", "paid_total_usd"); total != "4.50" || s.authorized() != taken+200 || s.submissions() != submitted+1 {
		t.Errorf("total %v, %d cents in %d transactions of ours", total, s.authorized(), s.submissions())
	}
	s.confirmed()
	if out, err := s.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("verify: %v %s", err, out)
	}

	// Without the offer there is none, and what was paid keeps its answers.
	s.stop()
	s.args = append(s.args, "--x402=false")
	s.launch()
	if r := s.post("/api/bid", bid); r.Status != 402 || r.Header.Get(x402.RequiredField) != "" {
		t.Errorf("%d with %s %q", r.Status, x402.RequiredField, r.Header.Get(x402.RequiredField))
	}
	if r := s.present("/api/bid", bid, copies[1]); r.Status != 409 || r.code(t) != "credential_reused" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// byTool pays for a call of a tool at an edge as an x402 client does over MCP, and repeats it at
// the origin.
func byTool(t *testing.T, edge, origin *shop) {
	t.Helper()
	type result struct {
		IsError           bool
		StructuredContent struct {
			Accepts    []paytest.Accepted         `json:"accepts"`
			Extensions map[string]json.RawMessage `json:"extensions"`
			Resource   struct{ URL string }       `json:"resource"`
			Bid        struct {
				Amount string `json:"amount_usd"`
			}
		}
		Meta struct {
			Response *x402.Response `json:"x402/payment-response"`
		} `json:"_meta"`
	}
	call := func(at *shop, meta string) (r result) {
		t.Helper()
		reply := at.post("/mcp?pay=x402", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ring_bid","arguments":{"member":"other","amount":"1.00"}`+meta+`}}`)
		answer := struct{ Result *result }{&r}
		if err := json.Unmarshal(reply.Body, &answer); err != nil {
			t.Fatalf("%d %s: %v", reply.Status, reply.Body, err)
		}
		return r
	}
	asked := call(edge, "")
	if asks := asked.StructuredContent; !asked.IsError || len(asks.Accepts) != 1 || !strings.HasSuffix(asks.Resource.URL, "/mcp") || asks.Extensions[x402.Bazaar] == nil {
		t.Fatalf("%+v", asked)
	}
	payment, err := base64.StdEncoding.DecodeString(edge.payer().Exact(asked.StructuredContent.Accepts[0]).Header())
	if err != nil {
		t.Fatal(err)
	}
	meta := `,"_meta":{"x402/payment":` + string(payment) + `}`
	if paid := call(edge, meta); paid.IsError || paid.StructuredContent.Bid.Amount != "1.00" || paid.Meta.Response == nil || !paid.Meta.Response.Success {
		t.Errorf("%+v, %+v", paid, paid.Meta.Response)
	}
	if again := call(origin, meta); !again.IsError || again.Meta.Response == nil || again.Meta.Response.Success || again.Meta.Response.ErrorReason != "credential_reused" {
		t.Errorf("%+v, %+v", again, again.Meta.Response)
	}
}

func freshAddress(a devchain.Account) string { return paytest.EVM{Key: a.Key}.Address().Hex() }
