package edge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// An origin, and an edge in between, hears of payments to be let go from edges alone.
func TestOnlyEdgesHavePaymentsLetGo(t *testing.T) {
	origin := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, client string, _ bool) {
		h := &ctx.Request.Header
		fmt.Fprintf(ctx, "%s %s %q %s", client, h.Peek("Authorization"), h.Peek(letGoField), ctx.Request.Body())
	}}})
	near := edgeTo(t, ForwardConfig{Origin: "http://" + origin.addr, Secret: sharedSecret}, Config{EdgeSecret: sharedSecret})
	vouched := func() string {
		return newVoucher(sharedSecret, time.Now(), "192.0.2.1", true, passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")})
	}
	other := newVoucher([]byte(strings.Repeat("x", minSecret)), time.Now(), "192.0.2.1", true, passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")})
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
			fields = append(fields, voucherField, c.voucher)
		}
		if r := c.node.do("POST", "/api/bid", "{}", fields...); r.status != 200 || r.body != c.want {
			t.Errorf("%s: %d %q, want %q", c.rule, r.status, r.body, c.want)
		}
	}
}

// An edge that is asked by one behind it asks the origin, and takes no place for it.
func TestEdgesPassOnWhatIsToBeLetGo(t *testing.T) {
	var heard []string
	origin := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Request.Header
		heard = append(heard, fmt.Sprintf("%s %t %s %q %s", client, secure, h.Peek("Authorization"), h.Peek(letGoField), ctx.Request.Body()))
	}}})
	f, err := NewForwarder(ForwardConfig{Origin: "http://" + origin.addr, Secret: sharedSecret, BaseURL: func() string { return base }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for range MaxPayments {
		f.payments.taken <- struct{}{}
	}
	near := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Paid: map[string]Handler{"/api/bid": f.Paid}})
	voucher := newVoucher(sharedSecret, time.Now(), "192.0.2.1", true, passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")})
	r := near.do("POST", "/api/bid", "{}", "Authorization", "Payment x", letGoField, "1", voucherField, voucher)
	if r.status != 204 || len(heard) != 1 || heard[0] != `192.0.2.1 true Payment x "1" {}` {
		t.Errorf("%d %q, the origin heard %q", r.status, r.body, heard)
	}
}
