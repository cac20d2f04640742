package forward

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"webring/core/api"
)

// Every refusal of a presented x402 payment says so in the field that its client reads; other
// refusals do not have it.
func TestX402ClientsReadWhatBecameOfTheirPayment(t *testing.T) {
	payment := base64.StdEncoding.EncodeToString([]byte(`{"x402Version":2,"accepted":{"network":"eip155:1"},"payload":{"authorization":{"from":"0xAb"}}}`))
	for name, c := range map[string]struct {
		condition int
		method    string
		fields    []string
		code      api.Code
		reason    string // "" for no field
		network   string
	}{
		"not sent":        {away, "POST", []string{x402Field, payment}, api.PaymentsUnavailable, "payments_unavailable", "eip155:1"},
		"lost":            {dies, "POST", []string{x402Field, payment}, api.PaymentPending, "settlement_pending", "eip155:1"},
		"nobody leads":    {standsBy, "POST", []string{x402Field, payment}, api.NotLeader, "not_leader", "eip155:1"},
		"without padding": {away, "POST", []string{x402Field, strings.TrimRight(payment, "=")}, api.PaymentsUnavailable, "payments_unavailable", "eip155:1"},
		"two payments":    {away, "POST", []string{x402Field, payment, x402Field, payment}, api.PaymentsUnavailable, "payments_unavailable", ""},
		"malformed":       {away, "POST", []string{x402Field, "!"}, api.PaymentsUnavailable, "payments_unavailable", ""},
		"of no network":   {away, "POST", []string{x402Field, base64.StdEncoding.EncodeToString([]byte(`{"accepted":{"network":"<script>"}}`))}, api.PaymentsUnavailable, "payments_unavailable", ""},
		"a longer name":   {away, "POST", []string{x402Field, base64.StdEncoding.EncodeToString([]byte(`{"accepted":{"network":"eip155:` + strings.Repeat("1", 33) + `"}}`))}, api.PaymentsUnavailable, "payments_unavailable", ""},
		"a folded line":   {away, "POST", []string{x402Field, payment, "X", "a\r\n b"}, api.Malformed, "bad_request", "eip155:1"},
		"by MPP":          {away, "POST", []string{"Authorization", "Payment x"}, api.PaymentsUnavailable, "", ""},
		"nothing is paid": {away, "POST", nil, api.PaymentsUnavailable, "", ""},
		"a read with one": {away, "GET", []string{x402Field, payment}, api.PaymentsUnavailable, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, 1)
				n.become("a", c.condition)
				f := n.between(Config{Origins: []string{"http://a:1"}})
				defer f.Close()
				_, code, res := ask(t, f.Paid, c.method, "", c.fields...)
				if code != c.code {
					t.Errorf("%s: %s", code, res.Body())
				}
				field := res.Header.Peek(x402ResponseField)
				if c.reason == "" {
					if len(field) > 0 {
						t.Errorf("the field %s", field)
					}
					return
				}
				text, err := base64.StdEncoding.DecodeString(string(field))
				var got, problem map[string]any
				if err != nil || json.Unmarshal(text, &got) != nil || json.Unmarshal(res.Body(), &problem) != nil {
					t.Fatalf("%q: %v", field, err)
				}
				if got["success"] != false || got["errorReason"] != c.reason || got["network"] != c.network || got["transaction"] != "" || got["errorMessage"] != problem["detail"] {
					t.Errorf("%s with %s", text, res.Body())
				}
			})
		})
	}
}
