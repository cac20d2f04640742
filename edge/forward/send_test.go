package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/voucher"
)

// What a node of several does with requests.
const (
	leads    = iota
	standsBy // says so
	away     // refuses connections
	dies     // takes a request and ends the connection, with or without the effect
	mute     // takes connections, and says nothing
	gateway  // is behind a proxy, and dead
	conditions
)

// nodes are several origins by their names, of which one leads at most.
type nodes struct {
	t      *testing.T
	mu     sync.Mutex
	is     map[string]int // condition by name
	random *rand.Rand
	took   map[string]int         // how many nodes took the request of an Authorization, or may have
	paid   map[string]bool        // the effects
	conns  map[string][]net.Conn  // by name
	fields map[string]http.Header // the newest by name
}

func newNodes(t *testing.T, seed uint64) *nodes {
	return &nodes{t: t, is: map[string]int{}, random: rand.New(rand.NewPCG(seed, 2)), took: map[string]int{}, paid: map[string]bool{},
		conns: map[string][]net.Conn{}, fields: map[string]http.Header{}}
}

// told gives how many nodes took the request of an Authorization, or may have, and whether it
// had its effect.
func (n *nodes) told(credential string) (took int, paid bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.took[credential], n.paid[credential]
}

// newest gives the fields of the newest request to a node.
func (n *nodes) newest(name string) http.Header {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fields[name]
}

// become changes the condition of a node. Connections of one that dies end.
func (n *nodes) become(name string, condition int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.is[name] = condition
	if condition == away {
		for _, c := range n.conns[name] {
			c.Close()
		}
		n.conns[name] = nil
	}
}

func (n *nodes) dial(_ context.Context, _, address string) (net.Conn, error) {
	name, _, _ := net.SplitHostPort(address)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.is[name] == away {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	n.conns[name] = append(n.conns[name], there)
	go answerOn(there, func(r *http.Request) (int, string, string) { return n.answer(name, r) })
	return here, nil
}

// answer gives the status 0 for none, and -1 for none as long as the connection lasts.
func (n *nodes) answer(name string, r *http.Request) (status int, media, body string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	condition, credential := n.is[name], r.Header.Get("Authorization")
	if condition == mute {
		if credential != "" {
			n.took[credential]++
			n.paid[credential] = n.paid[credential] || n.random.IntN(2) == 0
		}
		return -1, "", ""
	}
	if r.URL.Path == "/sync/checkpoint" {
		return 200, "text/plain", "a checkpoint"
	}
	n.fields[name] = r.Header
	switch {
	case condition == standsBy:
		return 503, "application/problem+json", `{"code":"not_leader"}`
	case credential != "":
		n.took[credential]++
		if condition == leads || n.random.IntN(2) == 0 {
			n.paid[credential] = true
		}
	}
	switch condition {
	case leads:
		if credential == "" {
			return 402, "application/problem+json", `{"code":"payment_required"}`
		}
		return 200, "application/json", "{}"
	case gateway:
		return 502, "text/html", "<h1>Bad Gateway</h1>"
	}
	return 0, "", ""
}

// between gives a forwarder to these origins.
func (n *nodes) between(cfg Config) *Forwarder {
	n.t.Helper()
	cfg.Secrets, cfg.BaseURL, cfg.Log = sharedSecrets, func() string { return base }, slog.New(slog.DiscardHandler)
	f, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	f.transport.DialContext = n.dial
	return f
}

// ask sends a request as a client does, and gives the answer and its code.
func ask(t *testing.T, do func(*fasthttp.RequestCtx, string, bool), method, credential string, fields ...string) (status int, code api.Code, res *fasthttp.Response) {
	t.Helper()
	text := method + " /api/bid HTTP/1.1\r\nHost: ring.example\r\nContent-Type: application/json\r\n"
	if credential != "" {
		text += "Authorization: " + credential + "\r\n"
	}
	for i := 0; i < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	if method == "POST" {
		text += "Content-Length: 2\r\n\r\n{}"
	} else {
		text += "\r\n"
	}
	var ctx fasthttp.RequestCtx
	if err := ctx.Request.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	do(&ctx, front.Client{}.String(), true)
	header := http.Header{"Content-Type": {string(ctx.Response.Header.ContentType())}}
	code, _ = problemOf(&http.Response{Header: header}, ctx.Response.Body())
	return ctx.Response.StatusCode(), code, &ctx.Response
}

// Whatever becomes of the nodes of an origin while payments are under way, each payment is
// given to one of them at most, its payer is told the truth, and while a node leads and
// none is lost, every request is answered by it.
func TestPaymentsGoToWhoeverLeadsAndToNobodyElse(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNodes(t, seed)
				names := []string{"a", "b", "c", "d"}
				f := n.between(Config{Origins: []string{"http://a:1", "http://b:1", "http://c:1", "http://d:1"}})
				defer f.Close()
				random := rand.New(rand.NewPCG(seed, 3))
				for step := range 25 {
					for _, name := range names {
						n.become(name, 1+random.IntN(conditions-1))
					}
					leader := random.IntN(len(names) + 1)
					if leader < len(names) {
						n.become(names[leader], leads)
					}
					synctest.Wait() // for connections that have ended
					var all sync.WaitGroup
					for i := range 8 {
						all.Go(func() {
							credential, method := "", "POST"
							if i%2 == 0 {
								credential = fmt.Sprintf("Payment %d-%d", step, i)
							}
							status, code, res := ask(t, f.Paid, method, credential)
							took, paid := n.told(credential)
							if credential == "" {
								if leader < len(names) && status != 402 || leader == len(names) && code != api.NotLeader && code != api.PaymentsUnavailable {
									t.Errorf("step %d: without a payment, %d %s", step, status, res.Body())
								}
								return
							}
							told := string(res.Body())
							switch {
							case took > 1:
								t.Errorf("step %d: %d nodes took one request", step, took)
							case status == 402, paid && status != 200 && code != api.PaymentPending:
								t.Errorf("step %d: paid, and told %d %s", step, status, told)
							case status == 200 && !paid, took == 0 && (status != 503 || code != api.NotLeader && code != api.PaymentsUnavailable || !strings.Contains(told, "not delivered")),
								took == 1 && status != 200 && code != api.PaymentPending:
								t.Errorf("step %d: taken by %d nodes, paid: %t, and told %d %s", step, took, paid, status, told)
							}
							if retry := res.Header.Peek("Retry-After"); status == 503 && len(retry) == 0 {
								t.Errorf("step %d: no Retry-After with %s", step, told)
							}
						})
					}
					all.Wait()
					if t.Failed() {
						t.Fatalf("step %d: %v", step, n.is)
					}
				}
				for _, name := range names {
					n.become(name, away)
				}
				n.become("c", leads)
				synctest.Wait()
				for range 2 { // the first one may have been at a node that was lost
					ask(t, f.Paid, "POST", "Payment last")
				}
				if origins, refused := f.Asked(); origins[0] != "http://c:1" || refused != nil {
					t.Errorf("%v are asked, %v", origins, refused)
				}
			})
		})
	}
}

// A request that a mute node holds ends within seconds if there is another node: with the
// truth if it may have paid, and otherwise with the other's answer. A node that holds
// payments for minutes and answers other questions is waited for.
func TestAMuteOriginHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		n.become("a", mute)
		n.become("b", leads)
		f := n.between(Config{Origins: []string{"http://a:1", "http://b:1"}})
		defer f.Close()
		for _, c := range []struct {
			credential string
			status     int
			code       api.Code
			within     time.Duration
		}{
			{"", 402, api.PaymentRequired, quietTime + lifeTime},
			{"", 402, api.PaymentRequired, 0},
			{"Payment x", 200, "", 0},
		} {
			began := time.Now()
			if status, code, res := ask(t, f.Paid, "POST", c.credential); status != c.status || code != c.code || time.Since(began) != c.within {
				t.Errorf("%q: %d %s after %s", c.credential, status, res.Body(), time.Since(began))
			}
		}
		n.become("b", mute)
		n.become("a", leads)
		began := time.Now()
		if status, code, res := ask(t, f.Paid, "POST", "Payment y"); status != 503 || code != api.PaymentPending || time.Since(began) != quietTime+lifeTime {
			t.Errorf("%d %s after %s", status, res.Body(), time.Since(began))
		}
		if status, _, res := ask(t, f.Paid, "POST", "Payment y"); status != 200 {
			t.Errorf("again: %d %s", status, res.Body())
		}
	})
}

// A node of a cluster says that a request goes to the one that leads. It refuses what comes
// like this itself, and what it cannot deliver, and goes on when another one leads.
func TestANodePassesOnToTheLeaderAndNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, 1)
		n.become("a", standsBy)
		n.become("b", leads)
		n.become("c", away)
		n.become("d", mute)
		f := n.between(Config{ToLeader: true})
		defer f.Close()
		refused := func(rule, method string, do func(*fasthttp.RequestCtx, string, bool), fields ...string) {
			t.Helper()
			status, code, res := ask(t, do, method, "Payment "+rule, fields...)
			if _, paid := n.told("Payment " + rule); status != 503 || code != api.NotLeader || string(res.Header.Peek("Retry-After")) != "2" || paid {
				t.Errorf("%s: %d %s", rule, status, res.Body())
			}
		}
		refused("nobody leads", "POST", f.Paid)
		for name, rule := range map[string]string{"a": "the leader stands by", "c": "the leader is away"} {
			if err := f.SetOrigins("http://" + name + ":1"); err != nil {
				t.Fatal(err)
			}
			refused(rule, "POST", f.Paid)
			refused(rule, "GET", f.Pass)
		}
		held := make(chan api.Code)
		if err := f.SetOrigins("http://d:1"); err != nil {
			t.Fatal(err)
		}
		for _, credential := range []string{"Payment held", ""} {
			go func() {
				_, code, _ := ask(t, f.Paid, "POST", credential)
				held <- code
			}()
		}
		time.Sleep(time.Minute)
		if err := f.SetOrigins("http://b:1"); err != nil {
			t.Fatal(err)
		}
		if codes := []api.Code{<-held, <-held}; !slices.Contains(codes, api.PaymentPending) || !slices.Contains(codes, api.PaymentsUnavailable) {
			t.Errorf("held by a node that leads no more: %s", codes)
		}
		refused("for the leader", "POST", f.Paid, voucher.ToLeaderField, "1")
		refused("for the leader", "GET", f.Pass, voucher.ToLeaderField, "1")
		if status, _, _ := ask(t, f.Paid, "POST", "Payment x"); status != 200 || n.newest("b").Get(voucher.ToLeaderField) != "1" || n.newest("b").Get(voucher.Field) == "" {
			t.Errorf("%d, the leader got %v", status, n.newest("b"))
		}
	})
}
