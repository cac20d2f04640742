package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate stands between an origin and the chain. While it is shut, transactions
// that are sent wait in it.
type gate struct {
	*httptest.Server
	waits func(request []byte) bool // which transactions do; nil: all
	mu    sync.Mutex
	open  chan struct{} // closed when transactions pass
}

func newGate(t *testing.T) *gate {
	c, _ := chain(t)
	node, err := url.Parse(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{})}
	close(g.open)
	pass := httputil.NewSingleHostReverseProxy(node)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte("eth_sendRawTransaction")) && (g.waits == nil || g.waits(body)) {
			g.mu.Lock()
			open := g.open
			g.mu.Unlock()
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// shut holds transactions back until the function that it gives is called.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.open = held
	return sync.OnceFunc(func() { close(held) })
}

// underWay sends a credential and waits until its payment is reserved.
func (o *origin) underWay(path, body, credential string) chan reply {
	o.t.Helper()
	answered := make(chan reply, 1)
	go func() {
		r, err := o.try("POST", path, []byte(body), "Content-Type", "application/json", "Authorization", credential)
		if err != nil {
			r = reply{}
		}
		answered <- r
	}()
	eventually(o.t, "a reservation", time.Minute, func() bool {
		select {
		case r := <-answered:
			o.t.Fatalf("answered at once: %d %s\n%s", r.Status, r.Body, o.log)
		default:
		}
		out, err := o.operate("version")
		return err == nil && strings.Contains(out, " 1 open reservations")
	})
	return answered
}

// TestInterfacePending holds what others are answered while a payment is being
// settled: 503 payment_pending with Retry-After, no challenge, nothing charged.
func TestInterfacePending(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", g.URL)...)
	pending := func(r reply) {
		t.Helper()
		if o.refused(r, 503, "payment_pending"); r.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}

	join := registration(t, nil)
	first, second := o.sign(wallet(t), "/api/register", join), o.sign(wallet(t), "/api/register", join)
	open := g.shut()
	defer open()
	answered := o.underWay("/api/register", join, first)
	pending(o.post("/api/register", join))
	pending(o.post("/api/register", registration(t, map[string]any{"name": "Rival", "url": "http://www.newcomer.dev/index.html"})))
	pending(o.post("/api/register", join, "Authorization", second))
	copied := o.refused(o.post("/api/register", join, "Authorization", first), 409, "credential_reused")
	if copied["outcome"] != "pending" {
		t.Errorf("a copy is told %v", copied)
	}
	o.offered(o.post("/api/register", registration(t, map[string]any{"url": "https://elsewhere.dev/"})), "payment_required")
	o.offered(o.post("/api/bid", `{"member":"beta","amount":"1.00"}`), "payment_required")
	o.read("/api/leaderboard")
	open()
	if r := <-answered; r.Status != 201 {
		t.Errorf("the first: %d %s", r.Status, r.Body)
	}
	o.refused(o.post("/api/register", join, "Authorization", second), 409, "already_registered")
	if o.received() != 100 {
		t.Errorf("%d cents were paid, want 100", o.received())
	}

	// A removal waits for open reservations on the member.
	bid := `{"member":"delta","amount":"1.00"}`
	credential := o.sign(wallet(t), "/api/bid", bid)
	open = g.shut()
	defer open()
	answered = o.underWay("/api/bid", bid, credential)
	removed := make(chan string, 1)
	go func() {
		out, err := o.operate("members", "remove", "delta", "--reason", "asked to")
		if err != nil {
			out = err.Error() + out
		}
		removed <- out
	}()
	// A member that is to go takes no new bids, or its removal might wait for ever.
	other := `{"member":"delta","amount":"2.00"}`
	eventually(t, "a removal that waits", time.Minute, func() bool { return o.post("/api/bid", other).Status == 503 })
	pending(o.post("/api/bid", other))
	o.offered(o.post("/api/bid", `{"member":"beta","amount":"1.00"}`), "payment_required")
	// It has had time enough not to wait.
	select {
	case out := <-removed:
		t.Errorf("the removal did not wait: %s", out)
	case <-time.After(1500 * time.Millisecond):
	}
	open()
	if r := <-answered; r.Status != 200 {
		t.Errorf("the bid: %d %s", r.Status, r.Body)
	}
	if out := <-removed; !strings.Contains(out, "until what is being paid for delta is settled (payments: 1)") || !strings.Contains(out, "delta was removed") {
		t.Errorf("the removal: %s", out)
	}
	o.refused(o.get("/api/ring/delta"), 410, "member_removed")
	o.refused(o.post("/api/bid", other), 410, "member_removed")
	if o.received() != 200 {
		t.Errorf("%d cents were paid, want 200", o.received())
	}
}

// TestInterfacePaymentsOverTLS holds that TLS that ends here is enough, whatever
// a peer that is no proxy says.
func TestInterfacePaymentsOverTLS(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	cert, key, pool := certificate(t)
	o := prepared(t, append(freely, "--tempo-rpc", c.RPC, "--tls-cert", cert, "--tls-key", key)...)
	o.base = strings.Replace(o.base, "http://", "https://", 1)
	o.args = append(o.args, "--base-url", o.base)
	o.boot()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	send := func(header ...string) (r reply, err error) {
		req, err := http.NewRequest("POST", o.base+"/api/register", strings.NewReader(registration(t, nil)))
		if err != nil {
			return r, err
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			return r, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return reply{res.StatusCode, res.Header, body}, err
	}
	var r reply
	eventually(t, "an answer over TLS", time.Minute, func() (answered bool) {
		var err error
		r, err = send()
		return err == nil
	})
	o.offered(r, "payment_required")
	r, err := send("X-Forwarded-For", "203.0.113.1", "X-Forwarded-Proto", "http")
	if err != nil {
		t.Fatal(err)
	}
	o.offered(r, "payment_required")
}
