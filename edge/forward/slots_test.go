package forward

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge"
	"webring/edge/share"
	"webring/edge/voucher"
)

// heldOrigin takes payments and answers none before it is told to, or asked to let it
// go. A mute one lets none go.
type heldOrigin struct {
	*pipes
	mute bool

	mu    sync.Mutex
	there []*heldPayment // that came, in turn
}

type heldPayment struct {
	credential string
	answer     chan int // the status, once
}

func (o *heldOrigin) take(r *http.Request) (status int, media, body string) {
	media = "application/json"
	p := &heldPayment{r.Header.Get("Authorization"), make(chan int, 1)}
	o.mu.Lock()
	if letGo := r.Header.Get(voucher.StopField) != ""; letGo {
		defer o.mu.Unlock()
		for _, q := range o.there {
			if q.credential == p.credential && len(q.answer) == 0 && !o.mute {
				q.answer <- 503
			}
		}
		return 204, media, ""
	}
	o.there = append(o.there, p)
	o.mu.Unlock()
	if status = <-p.answer; status == 503 {
		return status, media, `{"code":"payment_pending","detail":"the origin's word"}`
	}
	return status, media, "{}"
}

func (o *heldOrigin) wantCame(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.there) != want {
		t.Errorf("%d payments were sent, want %d", len(o.there), want)
	}
}

// answer answers the payment that came as n-th, and answerFrom those after it, too.
func (o *heldOrigin) answer(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.there[n].answer <- 200
}

func (o *heldOrigin) answerFrom(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; n < len(o.there); n++ {
		select {
		case o.there[n].answer <- 200:
		default: // it was stopped
		}
	}
}

// payerAt is a payer that has sent a payment through an edge.
type payerAt struct {
	conn net.Conn
	said chan said
}

type said struct {
	status int
	body   string
	retry  string
	after  time.Duration
}

func pay(t *testing.T, public *pipes, client int) *payerAt {
	t.Helper()
	return payFrom(t, public, client, "")
}

var credentials atomic.Int64 // that were made

// payFrom is pay with a credential that names an account.
func payFrom(t *testing.T, public *pipes, client int, account string) *payerAt {
	t.Helper()
	credential := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"payload":%d,"source":%q}`, credentials.Add(1), account))
	conn, err := public.Dial()
	if err != nil {
		t.Fatal(err)
	}
	p := &payerAt{conn, make(chan said, 1)}
	began := time.Now()
	go func() {
		fmt.Fprintf(conn, "POST /api/bid HTTP/1.1\r\nHost: ring.example\r\nX-Forwarded-For: 192.0.2.%d\r\nX-Forwarded-Proto: https\r\n"+
			"Content-Type: application/json\r\nAuthorization: Payment %s\r\nContent-Length: 2\r\n\r\n{}", client, credential)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			p.said <- said{body: err.Error()}
			return
		}
		body, _ := io.ReadAll(res.Body)
		p.said <- said{res.StatusCode, string(body), res.Header.Get("Retry-After"), time.Since(began)}
	}()
	synctest.Wait()
	return p
}

func (p *payerAt) wantPaid(t *testing.T) {
	t.Helper()
	if got := <-p.said; got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	p.conn.Close()
}

func (p *payerAt) wantRefused(t *testing.T, after time.Duration) {
	t.Helper()
	got := <-p.said
	if got.status != 503 || got.retry != "5" || got.after != after || !strings.Contains(got.body, string(api.PaymentsUnavailable)) || !strings.Contains(got.body, "not delivered and charges nothing") {
		t.Errorf("after %s, want %s: %d, Retry-After %q, %s", got.after, after, got.status, got.retry, got.body)
	}
	p.conn.Close()
}

// fullEdge is an edge with an origin that holds what it is sent. It runs in a bubble of
// package synctest, and what test leaves unanswered is answered at its end.
func fullEdge(t *testing.T, test func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder)) {
	outside(t)
	synctest.Test(t, func(t *testing.T) {
		origin, public := &heldOrigin{pipes: newPipes()}, newPipes()
		go answerAll(origin, origin.take)
		f, err := New(Config{Origins: []string{"http://origin.example"}, Secrets: sharedSecrets, BaseURL: func() string { return base }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		f.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return origin.Dial() }
		shell, err := edge.New(edge.Config{Core: newRing(t), TrustedProxies: proxies(t, "", "unix"), Paid: map[string]edge.Handler{"/api/bid": f.Paid}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		go shell.Serve(public)
		test(t, origin, public, f)
		synctest.Wait()
		if f.payments.Taken() != 0 || len(f.payments.held) != 0 {
			t.Errorf("%d slots are taken, %d held", f.payments.Taken(), len(f.payments.held))
		}
		f.Close()
		origin.Close()
		if err := shell.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour) // for what runs on by itself
	})
}

// A credential is on its way within seconds or never: its owner may have paid anew
// by then. Nor does one client take the slots of all.
func TestPaymentsWithoutASlotAreNotDelivered(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		var payers []*payerAt
		for client := range MaxPayments / paymentsPerClient {
			for range paymentsPerClient {
				payers = append(payers, pay(t, public, client))
			}
			pay(t, public, client).wantRefused(t, 0)
		}
		origin.wantCame(t, MaxPayments)

		// A payment that waits gets a slot that becomes free, and its client another one.
		late := pay(t, public, 100)
		time.Sleep(crowdedTime / 2)
		origin.answer(0)
		origin.wantCame(t, MaxPayments+1)
		origin.answer(1)
		payers = append(payers, late, pay(t, public, 0))
		origin.wantCame(t, MaxPayments+2)
		origin.answerFrom(2)
		for _, p := range payers {
			p.wantPaid(t)
		}
	})
}

// A place is enough to be sent: no connection of the forwarder's keeps a credential
// back, nor one that is still dialled for a request that has been answered.
func TestPaymentsWithASlotAreSent(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		var payers []*payerAt
		for i := range MaxPayments - 1 {
			payers = append(payers, pay(t, public, i/paymentsPerClient))
		}
		dial, slow := f.transport.DialContext, make(chan struct{})
		var dialled atomic.Int64
		f.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialled.Add(1) == 1 {
				<-slow
			}
			return dial(ctx, network, address)
		}
		payers = append(payers, pay(t, public, 100))
		origin.wantCame(t, MaxPayments-1)
		origin.answer(0) // and its connection serves the one that waits for another
		origin.wantCame(t, MaxPayments)
		payers = append(payers, pay(t, public, 101))
		origin.wantCame(t, MaxPayments+1)
		close(slow)
		origin.answerFrom(1)
		for _, p := range payers {
			p.wantPaid(t)
		}
	})
}

// A few accounts that hold all slots of an edge for minutes do not stop others from paying
// there: each payment that comes stops one of theirs, the one held longest, and its payer may
// ask again. That is so even if they send the next one as soon as a slot is free.
func TestHeldPaymentsMakeRoomForOthers(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		var held []*payerAt // eight payments of each account, from seven clients
		hold := func(i int) {
			held = append(held, payFrom(t, public, i/paymentsPerClient, fmt.Sprint("wallet ", i/8)))
		}
		for i := range MaxPayments {
			hold(i)
		}
		origin.wantCame(t, MaxPayments)
		for i := range 13 {
			came := MaxPayments + 2*i
			p := pay(t, public, 100)
			time.Sleep(crowdedTime)
			origin.wantCame(t, came+1)
			if got := <-held[i].said; got.status != 503 || !strings.Contains(got.body, "the origin's word") {
				t.Errorf("%d is answered with %d %s", i, got.status, got.body)
			}
			held[i].conn.Close()
			time.Sleep(time.Second)
			origin.answer(came)
			p.wantPaid(t)
			hold(i)
			origin.wantCame(t, came+2)
		}
		origin.answerFrom(0)
		for _, p := range held[13:] {
			p.wantPaid(t)
		}
	})
}

// An origin that is silent costs a place for a moment only, and of more payments than
// can be stopped in that, those that were not sent are refused.
func TestPaymentsStopWithoutTheOrigin(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		origin.mute = true
		var held, next []*payerAt
		for i := range MaxPayments {
			held = append(held, pay(t, public, i/paymentsPerClient))
		}
		for i := range MaxPayments {
			next = append(next, pay(t, public, 100+i/paymentsPerClient))
		}
		late := pay(t, public, 200)
		for _, p := range held {
			got := <-p.said
			if got.status != 503 || got.retry != "5" || got.after != crowdedTime+stopTime || !strings.Contains(got.body, string(api.PaymentPending)) || !strings.Contains(got.body, "with the same credential again") {
				t.Errorf("after %s: %d, Retry-After %q, %s", got.after, got.status, got.retry, got.body)
			}
			p.conn.Close()
		}
		late.wantRefused(t, acquireTime)
		origin.wantCame(t, 2*MaxPayments)
		origin.answerFrom(0)
		for _, p := range next {
			p.wantPaid(t)
		}
	})
}

func TestTheClientWithMostSlotsStopsFirst(t *testing.T) {
	for rule, c := range map[string]struct {
		held []holder // the longest held first
		want []int    // which stops, in turn
	}{
		"the longest held":             {[]holder{{asker: share.AskerOf("a")}, {asker: share.AskerOf("b")}, {asker: share.AskerOf("c")}}, []int{0, 1, 2, -1}},
		"of the client that has most":  {[]holder{{asker: share.AskerOf("a")}, {asker: share.AskerOf("b")}, {asker: share.AskerOf("b")}, {asker: share.AskerOf("b")}}, []int{1, 2, 0, 3, -1}},
		"of its account that has most": {[]holder{{asker: share.AskerOf("a"), account: "x"}, {asker: share.AskerOf("a"), account: "y"}, {asker: share.AskerOf("a"), account: "y"}}, []int{1, 0, 2}},
		"whatever others name":         {[]holder{{asker: share.AskerOf("a"), account: "x"}, {asker: share.AskerOf("b"), account: "y"}, {asker: share.AskerOf("c"), account: "y"}}, []int{0, 1, 2}},
		"with an account or without":   {[]holder{{asker: share.AskerOf("a"), account: "x"}, {asker: share.AskerOf("a")}, {asker: share.AskerOf("a")}}, []int{1, 0, 2}},
		"of the network that has most": {[]holder{{asker: share.AskerOf("192.0.2.1")}, {asker: share.AskerOf("198.51.100.1")}, {asker: share.AskerOf("198.51.100.2")},
			{asker: share.AskerOf("198.51.100.3")}, {asker: share.AskerOf("198.51.100.4")}}, []int{1, 0}},
		"many accounts of a client for others": {[]holder{{asker: share.AskerOf("a"), account: "x"}, {asker: share.AskerOf("b"), account: "x"}, {asker: share.AskerOf("b"), account: "y"}}, []int{1, 0, 2}},
	} {
		p := newSlots(share.Rule{Most: len(c.held), Half: alike}, len(c.held))
		got := -1
		for i := range c.held {
			c.held[i].stop = func() { got = i }
			if !p.acquire(&c.held[i]) {
				t.Fatal(rule)
			}
		}
		for n, want := range c.want {
			got = -1
			if p.stopOne(); got != want {
				t.Errorf("%s: %d stops as number %d, want %d", rule, got, n, want)
			}
		}
	}
	p := newSlots(share.Rule{Most: 1}, 1)
	p.acquire(&holder{asker: share.AskerOf("a")})
	p.stopOne() // nothing: what is no payment is held until it is answered
}

func TestTheAccountThatPaysIsReadFromTheCredential(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	long := strings.Repeat("a", maxAccount)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"Payment " + encode([]byte(`{"challenge":{"id":"x"},"payload":{"source":"no"},"source":"did:pkh:eip155:1:0xAb"}`))}, "did:pkh:eip155:1:0xab"},
		{[]string{"payment " + encode([]byte(`{"source":"A"}`))}, "a"},
		{[]string{"Payment " + encode([]byte(`{"source":"`+long+`"}`))}, long},
		{[]string{"Payment " + encode([]byte(`{"source":"`+long+`a"}`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"challenge":{}}`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"source":1}`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"source":"a"`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"source":"a"}`)) + "="}, ""},
		{[]string{"Bearer " + encode([]byte(`{"source":"a"}`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"source":"a","payload":"`+strings.Repeat("x", maxCredential)+`"}`))}, ""},
		{[]string{"Payment " + encode([]byte(`{"source":"a"}`)), "Payment x"}, ""},
		{[]string{"Payment"}, ""}, {[]string{""}, ""}, {nil, ""},
	} {
		var h fasthttp.RequestHeader
		for _, line := range c.lines {
			h.Add("Authorization", line)
		}
		if got := payingAccount(&h); got != c.want {
			t.Errorf("%.80q: %q, want %q", c.lines, got, c.want)
		}
	}
}

func TestTheAccountThatPaysIsReadFromAnX402Payment(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	payment := func(network, from string) string {
		return encode([]byte(`{"x402Version":2,"accepted":{"network":"` + network + `"},"payload":{"authorization":{"from":"` + from + `"}}}`))
	}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{payment("eip155:1", "0xAb")}, "did:pkh:eip155:1:0xab"}, // as in the credentials of the same account
		{[]string{strings.TrimRight(payment("eip155:1", "0xAb"), "=")}, "did:pkh:eip155:1:0xab"},
		{[]string{strings.NewReplacer("+", "-", "/", "_").Replace(payment("eip155:1", "0xAb?>"))}, "did:pkh:eip155:1:0xab?>"},
		{[]string{payment("eip155:1", "")}, ""},
		{[]string{payment("eip155:1", strings.Repeat("a", maxAccount))}, ""},
		{[]string{payment("eip155:1", "0xAb"), payment("eip155:1", "0xAb")}, ""},
		{[]string{encode([]byte(`{"payload":{"authorization":{"from":1}}}`))}, ""},
		{[]string{encode([]byte("{}"))}, ""}, {[]string{"{}"}, ""}, {[]string{strings.Repeat("A", maxCredential+4)}, ""}, {nil, ""},
	} {
		var h fasthttp.RequestHeader
		for _, line := range c.lines {
			h.Add(x402Field, line)
		}
		if got := payingAccount(&h); got != c.want {
			t.Errorf("%.80q: %q, want %q", c.lines, got, c.want)
		}
	}
}

func FuzzPayingAccount(f *testing.F) {
	f.Add("Payment " + base64.RawURLEncoding.EncodeToString([]byte(`{"source":"did:pkh:eip155:1:0xAb"}`)))
	f.Add("payment e30")
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"accepted":{"network":"eip155:1"},"payload":{"authorization":{"from":"0xAb"}}}`)))
	f.Fuzz(func(t *testing.T, line string) {
		for _, name := range []string{"Authorization", x402Field} {
			var h fasthttp.RequestHeader
			h.Set(name, line)
			if got := payingAccount(&h); len(got) > 3*maxAccount || got != strings.ToLower(got) {
				t.Errorf("%s %q", name, got)
			}
		}
	})
}

// Crowds hold each slot for unpaid requests as long as the origin lets them, and ask again at
// once. Others have a slot in time all the same.
func TestACrowdLeavesSlotsForUnpaidRequestsToOthers(t *testing.T) {
	for name, crowd := range map[string]struct {
		clients int
		client  func(i int) string
	}{
		"one client":        {1, func(int) string { return "198.51.100.1" }},
		"a /24":             {256, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }},
		"200 /24s of a /16": {200, func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }},
		"250 /48s of a /40": {250, func(i int) string { return fmt.Sprintf("2001:db8:%x::/64", i) }},
		"64 /16s":           {64, func(i int) string { return fmt.Sprintf("100.%d.0.1", i) }},
		"64 /32s, and a /24": {128, func(i int) string {
			if i < 64 {
				return fmt.Sprintf("198.51.100.%d", i)
			}
			return fmt.Sprintf("2001:%x::/64", i)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := New(Config{Origins: []string{"http://origin.example"}})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				ctx, stop := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for i := range max(crowd.clients, 2*MaxAsks) {
					group.Go(func() {
						for h := (&holder{asker: share.AskerOf(crowd.client(i % crowd.clients))}); ctx.Err() == nil; {
							if !f.asks.acquire(h) {
								time.Sleep(time.Second)
								continue
							}
							time.Sleep(25 * time.Second)
							f.asks.release(h)
						}
					})
				}
				time.Sleep(time.Minute)
				for n := range 20 {
					h, began := &holder{asker: share.AskerOf(fmt.Sprintf("203.%d.0.1", n))}, time.Now()
					if !f.asks.acquire(h) || time.Since(began) > 0 {
						t.Errorf("newcomer %d has no slot after %s", n, time.Since(began))
						continue
					}
					time.Sleep(3 * time.Second)
					f.asks.release(h)
				}
				stop()
				group.Wait()
				if n := f.asks.Taken(); n != 0 {
					t.Errorf("%d slots are not given back", n)
				}
			})
		})
	}
}

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
