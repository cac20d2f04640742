package main

import (
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/pay/mpp"
)

var challengeParam = regexp.MustCompile(`([a-z]+)="((?:[^"\\]|\\.)*)"(, |$)`)

// challenge reads the one offer of a 402.
func (o *origin) challenge(r reply) mpp.Challenge {
	o.t.Helper()
	list, ok := strings.CutPrefix(r.Header.Get("WWW-Authenticate"), "Payment ")
	if !ok || challengeParam.ReplaceAllString(list, "") != "" {
		o.t.Fatalf("%d is no challenge: %q %s", r.Status, list, r.Body)
	}
	p := map[string]string{}
	for _, m := range challengeParam.FindAllStringSubmatch(list, -1) {
		p[m[1]] = m[2]
	}
	return mpp.Challenge{ID: p["id"], Realm: p["realm"], Method: p["method"], Intent: p["intent"], Request: p["request"],
		Expires: p["expires"], Digest: p["digest"], Opaque: p["opaque"], Description: p["description"]}
}

// asked gives what a challenge asks for, in base units of six decimals.
func asked(t *testing.T, c mpp.Challenge) string {
	t.Helper()
	var request struct {
		Amount string `json:"amount"`
	}
	if err := mpp.DecodeJSON(c.Request, &request); err != nil {
		t.Fatal(err)
	}
	return request.Amount
}

// TestInterfaceChallenge holds what a 402 carries.
func TestInterfaceChallenge(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--realm", "ring.dev")...)
	for _, q := range []struct{ rule, path, body, units, usd string }{
		{"register: the fee", "/api/register", registration(t, nil), "1000000", "1.00"},
		{"register: one payment covers fee plus bid", "/api/register", registration(t, map[string]any{"bid": "2.5"}), "3500000", "3.50"},
		{"bid: the amount", "/api/bid", `{"member":"beta","amount":"1.37"}`, "1370000", "1.37"},
		{"bid: the highest amount", "/api/bid", `{"member":"beta","amount":"1000000"}`, "1000000000000", "1000000.00"},
	} {
		t.Run(q.rule, func(t *testing.T) {
			o := o.in(t)
			before := time.Now()
			r := o.post(q.path, q.body)
			after := time.Now()
			o.offered(r, "payment_required")
			doc := r.document(t)
			if doc["type"] != "https://paymentauth.org/problems/payment-required" || doc["amount_usd"] != q.usd {
				t.Errorf("problem: %v", doc)
			}
			ch := o.challenge(r)
			if ch.Realm != "ring.dev" || ch.Method != "tempo" || ch.Intent != "charge" || ch.Digest != mpp.Digest([]byte(q.body)) || ch.ID == "" || ch.Opaque == "" {
				t.Errorf("challenge: %+v", ch)
			}
			if got := asked(t, ch); got != q.units {
				t.Errorf("it asks for %s units, want %s", got, q.units)
			}
			expires, err := ch.ExpiresAt()
			const life, rounding = 5 * time.Minute, 2 * time.Second
			if err != nil || expires.Before(before.Add(life-rounding)) || expires.After(after.Add(life+rounding)) {
				t.Errorf("made from %s to %s, it lives until %s, %v, want 5 minutes", before, after, expires, err)
			}
			if again := o.challenge(o.post(q.path, q.body)); again.ID == ch.ID {
				t.Error("two payers got one challenge")
			}
		})
	}
	t.Run("Accept-Payment: what matches nothing or is malformed gets all offers", func(t *testing.T) {
		o := o.in(t)
		for _, accept := range []string{"tempo/charge", "*/*;q=0.1", "tempo/charge;q=0", "evm/charge", "nonsense", ",,", "tempo/charge;q=7"} {
			o.offered(o.post("/api/bid", `{"member":"beta","amount":"1.00"}`, "Accept-Payment", accept), "payment_required")
		}
	})
	t.Run("the realm is that of the configuration, never of the Host field", func(t *testing.T) {
		o := o.in(t)
		body := `{"member":"beta","amount":"1.00"}`
		r := o.raw("POST /api/bid HTTP/1.1\r\nHost: evil.dev\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
		if ch := o.challenge(r); ch.Realm != "ring.dev" {
			t.Errorf("realm %q", ch.Realm)
		}
	})
	t.Run("a 402 is no promise without payment: nothing has changed", func(t *testing.T) {
		o := o.in(t)
		if n := o.read("/api/ring")["total"]; n != 6.0 || o.received() != 0 {
			t.Errorf("%v members, %d cents", n, o.received())
		}
	})
}

// TestInterfaceCredentials holds the codes of credentials that pay for nothing.
// None of them leaves a trace.
func TestInterfaceCredentials(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	body := `{"member":"beta","amount":"1.00"}`
	keyText, err := os.ReadFile(filepath.Join(o.data, "mpp-secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(keyText)))
	if err != nil {
		t.Fatal(err)
	}
	signed := o.sign(wallet(t), "/api/bid", body)
	// bent is the signed credential with something changed; the id is made
	// anew if the origin itself shall have issued what comes out.
	bent := func(reissue bool, change func(*mpp.Credential)) string {
		var cred mpp.Credential
		if err := mpp.DecodeJSON(strings.TrimPrefix(signed, "Payment "), &cred); err != nil {
			t.Fatal(err)
		}
		change(&cred)
		if reissue {
			mpp.Keys{Current: key}.Sign(&cred.Challenge)
		}
		field, err := cred.Header()
		if err != nil {
			t.Fatal(err)
		}
		return field
	}
	// reissued answers a challenge that the origin might have issued.
	payer := wallet(t)
	reissued := func(change func(*mpp.Challenge)) string {
		ch := o.challenge(o.post("/api/bid", body))
		change(&ch)
		mpp.Keys{Current: key}.Sign(&ch)
		return signedBy(payer, ch)
	}
	for _, q := range []struct {
		rule, path, body string
		authorization    []string
		status           int
		code             string
	}{
		{"not base64", "/api/bid", body, []string{"Payment !!!"}, 402, "malformed_credential"},
		{"no JSON", "/api/bid", body, []string{"Payment aGFsbG8"}, 402, "malformed_credential"},
		{"empty", "/api/bid", body, []string{"Payment"}, 402, "malformed_credential"},
		{"padded", "/api/bid", body, []string{signed + "="}, 402, "malformed_credential"},
		{"another scheme is none", "/api/bid", body, []string{"Bearer abc"}, 402, "payment_required"},
		{"a payload of no known type", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Payload = []byte(`{"type":"iou"}`) })}, 402, "malformed_credential"},
		{"a forged id", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Challenge.ID = strings.Repeat("A", 43) })}, 402, "invalid_challenge"},
		{"a changed request", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Challenge.Request += "A" })}, 402, "invalid_challenge"},
		{"another realm", "/api/bid", body, []string{reissued(func(c *mpp.Challenge) { c.Realm = "other.dev" })}, 402, "invalid_challenge"},
		{"another body", "/api/bid", `{"member":"alpha","amount":"1.00"}`, []string{signed}, 402, "invalid_challenge"},
		{"a dearer body", "/api/bid", `{"member":"beta","amount":"2.00"}`, []string{signed}, 402, "invalid_challenge"},
		{"the same body spelled otherwise", "/api/bid", body + " ", []string{signed}, 402, "invalid_challenge"},
		{"another operation", "/api/register", registration(t, nil), []string{signed}, 402, "invalid_challenge"},
		{"an expired challenge", "/api/bid", body, []string{reissued(func(c *mpp.Challenge) { c.Expires = "2025-01-01T00:00:00Z" })}, 402, "payment_expired"},
		{"a transaction that is none", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Payload = []byte(`{"type":"transaction","signature":"0x76c0"}`) })}, 402, "verification_failed"},
		{"a transaction for another challenge", "/api/bid", body, []string{bent(true, func(c *mpp.Credential) {
			c.Challenge.Expires = time.Now().Add(4 * time.Minute).UTC().Format(time.RFC3339)
		})}, 402, "verification_failed"},
		{"another source than the signer", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Source = "did:pkh:eip155:42431:0x0000000000000000000000000000000000000001" })}, 402, "verification_failed"},
		{"an empty wallet", "/api/bid", body, []string{o.sign(freshAccount(t), "/api/bid", body)}, 402, "verification_failed"},
		{"a method that was not offered", "/api/bid", body, []string{bent(false, func(c *mpp.Credential) { c.Challenge.Method = "evm" })}, 400, "unsupported_method"},
		{"two credentials", "/api/bid", body, []string{signed, signed}, 400, "multiple_credentials"},
		{"two credentials in one field", "/api/bid", body, []string{signed + ", " + signed}, 400, "multiple_credentials"},
		{"above 16 KiB", "/api/bid", body, []string{"Payment " + strings.Repeat("A", 16<<10+1)}, 431, "credential_too_large"},
		{"a wrong body under a bad credential", "/api/bid", `{"member":"beta","amount":"0.50"}`, []string{"Payment !!!"}, 422, "bid_too_low"},
		{"an unknown member under a bad credential", "/api/bid", `{"member":"nobody","amount":"1.00"}`, []string{"Payment !!!"}, 404, "unknown_member"},
	} {
		t.Run(q.rule, func(t *testing.T) {
			o := o.in(t)
			var header []string
			for _, a := range q.authorization {
				header = append(header, "Authorization", a)
			}
			r := o.post(q.path, q.body, header...)
			if q.status == 402 {
				o.offered(r, q.code) // each has a fresh challenge
			} else {
				o.refused(r, q.status, q.code)
			}
		})
	}
	t.Run("nothing was charged, reserved or granted, and the credential is still good", func(t *testing.T) {
		o := o.in(t)
		if out, err := o.operate("version"); err != nil || !strings.Contains(out, "0 open reservations") || o.received() != 0 {
			t.Errorf("%v, %d cents: %s", err, o.received(), out)
		}
		if total := at(t, o.read("/api/ring/beta"), "member", "bid_total_usd"); total != "5.00" {
			t.Errorf("bid_total_usd %v", total)
		}
		if r := o.post("/api/bid", body, "Authorization", signed); r.Status != 200 || o.received() != 100 {
			t.Errorf("%d %s, %d cents", r.Status, r.Body, o.received())
		}
	})
}

// TestInterfacePaymentsNeedTLS holds when challenges are issued and credentials
// taken; otherwise 403 tls_required without a challenge.
func TestInterfacePaymentsNeedTLS(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	direct := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	proxied := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1")...)
	elements := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1", "--client-ip-header", "Forwarded")...)
	secret := signedFor(t, direct, wallet(t))
	for _, q := range []struct {
		rule   string
		o      *origin
		header []string
		secure bool
	}{
		{"a loopback peer", direct, nil, true},
		{"a loopback peer with X-Forwarded-For", direct, []string{"X-Forwarded-For", "203.0.113.1"}, false},
		{"a loopback peer with X-Forwarded-Proto: https", direct, []string{"X-Forwarded-Proto", "https"}, false},
		{"a loopback peer with Forwarded", direct, []string{"Forwarded", "for=203.0.113.1;proto=https"}, false},
		{"a loopback peer with Via", direct, []string{"Via", "1.1 proxy"}, false},
		{"a trusted proxy that says https", proxied, []string{"X-Forwarded-For", "203.0.113.1", "X-Forwarded-Proto", "https"}, true},
		{"a trusted proxy that says https in Forwarded, where that is believed", elements, []string{"Forwarded", "for=203.0.113.1;proto=https"}, true},
		{"in X-Forwarded-Proto instead", elements, []string{"Forwarded", "for=203.0.113.1", "X-Forwarded-Proto", "https"}, false},
		{"in Forwarded, where that is not believed", proxied, []string{"Forwarded", "for=203.0.113.1;proto=https"}, false},
		{"a loopback peer with CF-Connecting-IP", direct, []string{"CF-Connecting-IP", "203.0.113.1"}, false},
		{"a trusted proxy that says http", proxied, []string{"X-Forwarded-For", "203.0.113.1", "X-Forwarded-Proto", "http"}, false},
		{"a trusted proxy that says nothing", proxied, []string{"X-Forwarded-For", "203.0.113.1"}, false},
		{"a trusted proxy without any field", proxied, nil, false},
	} {
		t.Run(q.rule, func(t *testing.T) {
			o := q.o.in(t)
			for path, body := range map[string]string{"/api/bid": `{"member":"beta","amount":"1.00"}`, "/api/register": registration(t, nil)} {
				r := o.post(path, body, q.header...)
				if q.secure {
					o.offered(r, "payment_required")
					continue
				}
				o.refused(r, 403, "tls_required")
				o.refused(o.post(path, body, append([]string{"Authorization", secret}, q.header...)...), 403, "tls_required")
			}
			if o.get("/api/ring", q.header...).Status != 200 {
				t.Error("reads need TLS too")
			}
		})
	}
	if direct.received() != 0 {
		t.Error("something was charged")
	}
}

// signedFor is a credential for a bid on beta.
func signedFor(t *testing.T, o *origin, w devchain.Account) string {
	t.Helper()
	return o.in(t).sign(w, "/api/bid", `{"member":"beta","amount":"1.00"}`)
}

// TestInterfaceWithoutPayments holds 503 payments_unconfigured without a method
// and payments_unavailable with one on a network that does not answer.
func TestInterfaceWithoutPayments(t *testing.T) {
	t.Parallel()
	unconfigured := founded(t, reference, freely...)
	unavailable := founded(t, reference, append(freely, "--tempo-rpc", (&url.URL{Scheme: "http", Host: devchain.FreeAddress()}).String())...)
	for code, o := range map[string]*origin{"payments_unconfigured": unconfigured, "payments_unavailable": unavailable} {
		for path, body := range map[string]string{"/api/bid": `{"member":"beta","amount":"1.00"}`, "/api/register": registration(t, nil)} {
			t.Run("503 "+code+" with Retry-After "+path, func(t *testing.T) {
				o := o.in(t)
				for _, header := range [][]string{nil, {"Authorization", "Payment !!!"}} {
					r := o.post(path, body, header...)
					o.refused(r, 503, code)
					if r.Header.Get("Retry-After") == "" {
						t.Error("no Retry-After")
					}
				}
			})
		}
		t.Run(code+": reads work", func(t *testing.T) { o.in(t).read("/api/leaderboard") })
	}
	t.Run("the directory says so", func(t *testing.T) {
		payments := at(t, unconfigured.in(t).read("/api"), "payments")
		if n := at(t, payments, "networks").([]any); len(n) != 0 || !strings.Contains(at(t, payments, "how").(string), "payments_unconfigured") {
			t.Errorf("%v", payments)
		}
		if n := at(t, unavailable.in(t).read("/api"), "payments", "networks").([]any); len(n) != 1 || n[0] != "eip155:42431" {
			t.Errorf("networks %v", n)
		}
	})
	for code, o := range map[string]*origin{"payments_unconfigured": unconfigured, "payments_unavailable": unavailable} {
		t.Run(code+": an invalid request is told so", func(t *testing.T) {
			o := o.in(t)
			o.refused(o.post("/api/register", registration(t, map[string]any{"kind": "x"})), 422, "invalid_request")
			o.refused(o.post("/api/register", registration(t, map[string]any{"bid": "0.99"})), 422, "bid_too_low")
			o.refused(o.post("/api/register", registration(t, map[string]any{"url": "http://alpha.dev"})), 409, "already_registered")
			o.refused(o.post("/api/bid", ""), 422, "invalid_request")
			o.refused(o.post("/api/bid", `{"member":"nobody","amount":"1.00"}`), 404, "unknown_member")
			o.refused(o.post("/api/bid", `{"member":"eta","amount":"1.00"}`), 410, "member_removed")
		})
	}
}
