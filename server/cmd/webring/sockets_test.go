package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/core"
	"webring/server/devchain"
)

// A crowd of sockets, each with a body of 16 KB that stays one byte short: the node holds
// no more memory than it says, a newcomer, a payer and an owner are answered meanwhile, and
// so are clients of the crowd's own network. It is the same behind a proxy, where one address
// connects for all.
func TestACrowdOfSocketsTakesNeitherMemoryNorPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		args          []string
		crowd, honest string // who a proxy says that they are
	}{
		"from many addresses": {},
		"behind a proxy":      {[]string{"--trusted-proxy", "127.0.0.0/8"}, "2001:db8:0:%x::1", "2001:db9::1"}, // a /58
	} {
		t.Run(name, func(t *testing.T) {
			o := ring(t, c.args...)
			var from []string
			if c.honest != "" {
				from = []string{"X-Forwarded-For", c.honest, "X-Forwarded-Proto", "https"}
			}
			owner := wallet(t)
			if p := o.pay(owner, "/api/register", `{"name":"Owner","url":"https://owner.dev/","kind":"agent"}`, from...); p.Status != http.StatusCreated {
				t.Fatalf("%d %s", p.Status, p.Body)
			}
			crowd := o.sockets(func(i int) string {
				field := ""
				if c.crowd != "" {
					field = "X-Forwarded-For: " + fmt.Sprintf(c.crowd, i%64) + "\r\nX-Forwarded-Proto: https\r\n"
				}
				return "POST /api/bid HTTP/1.1\r\nHost: x\r\n" + field + "Content-Type: application/json\r\nContent-Length: 16384\r\n\r\n" + strings.Repeat(" ", 16383)
			}, from...)
			if p := o.pay(wallet(t), "/api/bid", `{"member":"owner","amount":"1.00"}`, from...); p.Status != http.StatusOK {
				t.Errorf("a bid: %d %s", p.Status, p.Body)
			}
			o.prove(owner, http.MethodPatch, "/api/ring/owner", `{"description":"changed"}`, from...).does(t, 200, "")
			crowd.end()
			// Requests hold 60 KB each as these do, and idle connections 20; the collector lets as
			// much garbage be.
			if grown := crowd.most - crowd.before; grown > 2*(1024*(60<<10)+crowd.sockets*(20<<10)) {
				t.Errorf("the origin has grown by %d MiB", grown>>20)
			}
		})
	}
}

// Over TLS, sockets of a crowd send 64 KB of a greeting that never ends: that holds memory, too,
// and clients that are done with theirs are answered.
func TestACrowdThatNeverEndsItsTLSHandshake(t *testing.T) {
	cert, key, pool := certificate(t)
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: folder(t), base: "https://" + listen}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0", "--tls-cert", cert, "--tls-key", key}
	o.write(func(f *founding) {
		f.own(nil, func(now int64) core.Event {
			return &core.Rules{Stamp: now, Name: "Ring", BaseURL: o.base, Fee: 100, MinBid: 100, Decay: 7 * 24 * 3600, Scorer: "none"}
		})
		f.own(&core.Texts{Name: core.Text{Value: "Owner"}, URL: core.Text{Value: "https://owner.dev/"}}, func(now int64) core.Event {
			return &core.Joined{Stamp: now, Slug: "owner", Kind: core.Agent, Category: "general", Fee: 100}
		})
	})
	o.env = []string{"GOMEMLIMIT=400MiB"} // the collector lets no more be, if what is held is less
	o.boot()
	t.Cleanup(o.kill)
	o.trusts = pool
	eventually(t, "an answer over TLS", longEnough, func() bool {
		c, err := tls.Dial("tcp", listen, &tls.Config{RootCAs: pool})
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	record := "\x16\x03\x01\x40\x00"
	greeting := record + "\x01\x00\xff\xff" + strings.Repeat("x", 1<<14-4) + strings.Repeat(record+strings.Repeat("x", 1<<14), 2) + record
	crowd := o.sockets(func(int) string { return greeting })
	crowd.end()
	// 1024 of them hold 140 KB each, and all of them would hold 820 MB.
	if crowd.most > 550<<20 {
		t.Errorf("the origin has %d MiB", crowd.most>>20)
	}
}

// socketCrowd are sockets that have sent a part of what they announce.
type socketCrowd struct {
	sockets, before, most int // how many, and the memory of the origin
	open                  []net.Conn
}

func (c *socketCrowd) end() {
	for _, s := range c.open {
		s.Close()
	}
}

// sockets opens connections that send what part gives for each, while an honest client, with
// these fields, reads and asks to join, over a connection of its own each time.
func (o *origin) sockets(part func(i int) string, from ...string) *socketCrowd {
	t := o.t
	t.Helper()
	crowd := &socketCrowd{sockets: 6000, before: o.memory()} // six times as many as may hold memory
	if n, err := strconv.Atoi(os.Getenv("WEBRING_TEST_SOCKETS")); err == nil {
		crowd.sockets = n
	}
	_, address, _ := strings.Cut(o.base, "://")
	var mu sync.Mutex
	var refused atomic.Int64
	var dialers sync.WaitGroup
	for d := range 4 {
		dialers.Go(func() {
			for i := d; i < crowd.sockets; i += 4 {
				from := net.Dialer{Timeout: longEnough, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 7, byte(i%64), 1)}}
				c, err := from.Dial("tcp", address)
				if err != nil {
					refused.Add(1)
					continue
				}
				io.WriteString(c, part(i)) // it may have to make room meanwhile
				mu.Lock()
				crowd.open = append(crowd.open, c)
				mu.Unlock()
			}
		})
	}
	full := make(chan struct{})
	go func() { dialers.Wait(); close(full) }()
	client := &http.Client{Timeout: longEnough, CheckRedirect: noRedirects.CheckRedirect,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: o.trusts}}}
	asked, slowest := 0, time.Duration(0)
	ask := func(method, path, body string, want int) {
		t.Helper()
		began := time.Now()
		req, err := http.NewRequest(method, o.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(from); i += 2 {
			req.Header.Set(from[i], from[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
		}
		asked++
		slowest = max(slowest, time.Since(began))
		crowd.most = max(crowd.most, o.memory())
	}
	joins := 402
	if o.recipient == (common.Address{}) {
		joins = 503 // the ring takes no payments
	}
	for i, going := 0, true; going || i < 20; i++ {
		select {
		case <-full:
			going = false
		default:
		}
		ask("GET", "/next", "", 302)
		ask("GET", "/ring", "", 200)
		ask("POST", "/api/register", fmt.Sprintf(`{"url":"https://new%d.dev/","name":"New %[1]d","kind":"agent"}`, i), joins)
	}
	t.Logf("%d sockets (%d not connected): %d MiB before, %d at most; %d honest requests, the slowest took %s", crowd.sockets, refused.Load(), crowd.before>>20, crowd.most>>20, asked, slowest.Round(time.Millisecond))
	return crowd
}
