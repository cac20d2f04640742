package forward

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/edge/share"
	"webring/edge/voucher"
)

// about is what the vouchers of these tests are about.
var about = voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")}

// An origin, and an edge in between, hears from edges alone that a payment is to stop waiting.
func TestOnlyEdgesHavePaymentsStop(t *testing.T) {
	origin := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Paid: map[string]edge.Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, client string, _ bool) {
		h := &ctx.Request.Header
		fmt.Fprintf(ctx, "%s %s %q %s", client, h.Peek("Authorization"), h.Peek(voucher.StopField), ctx.Request.Body())
	}}})
	near := edgeTo(t, Config{Origins: []string{"http://" + origin.Addr}, Secrets: sharedSecrets}, edge.Config{EdgeSecrets: sharedSecrets})
	vouched := func() string {
		return voucher.New(sharedSecret, time.Now(), "192.0.2.1", true, about)
	}
	other := voucher.New([]byte(strings.Repeat("x", 32)), time.Now(), "192.0.2.1", true, about)
	for _, c := range []struct {
		rule    string
		node    *site
		voucher string
		want    string
	}{
		{"an edge's word", origin, vouched(), `192.0.2.1 Payment x "1" {}`},
		{"a stranger's", origin, "", `127.0.0.1 Payment x "" {}`},
		{"with a voucher that is none", origin, other, `127.0.0.1 Payment x "" {}`},
		{"a stranger's at an edge", near, "", `127.0.0.1 Payment x "" {}`},
	} {
		fields := []string{"Authorization", "Payment x", "webring-let-go", "1"}
		if c.voucher != "" {
			fields = append(fields, voucher.Field, c.voucher)
		}
		if r := c.node.Do("POST", "/api/bid", "{}", fields...); r.Status != 200 || r.Body != c.want {
			t.Errorf("%s: %d %q, want %q", c.rule, r.Status, r.Body, c.want)
		}
	}
}

// An edge that is asked by one behind it asks the origin, and takes no place for it.
func TestEdgesPassOnWhatIsToStop(t *testing.T) {
	var heard []string
	origin := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Paid: map[string]edge.Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Request.Header
		heard = append(heard, fmt.Sprintf("%s %t %s %q %s", client, secure, h.Peek("Authorization"), h.Peek(voucher.StopField), ctx.Request.Body()))
	}}})
	f, err := New(Config{Origins: []string{"http://" + origin.Addr}, Secrets: sharedSecrets, BaseURL: func() string { return base }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for range MaxPayments {
		_ = f.payments.Acquire(t.Context(), share.Asker{})
	}
	near := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Paid: map[string]edge.Handler{"/api/bid": f.Paid}})
	fresh := voucher.New(sharedSecret, time.Now(), "192.0.2.1", true, about)
	r := near.Do("POST", "/api/bid", "{}", "Authorization", "Payment x", voucher.StopField, "1", voucher.Field, fresh)
	if r.Status != 204 || len(heard) != 1 || heard[0] != `192.0.2.1 true Payment x "1" {}` {
		t.Errorf("%d %q, the origin heard %q", r.Status, r.Body, heard)
	}
}
