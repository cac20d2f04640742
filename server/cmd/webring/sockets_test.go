package main

import (
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
)

// A crowd of sockets, each with a body of 16 KB that stays one byte short: the node holds
// no more memory than it says, a newcomer, a payer and an owner are answered meanwhile, and
// so are clients of the crowd's own network.
func TestACrowdOfSocketsTakesNeitherMemoryNorPlaces(t *testing.T) {
	sockets := 3000 // as many requests hold memory three times over
	if n, err := strconv.Atoi(os.Getenv("WEBRING_TEST_SOCKETS")); err == nil {
		sockets = n
	}
	o := ring(t)
	slug := o.join("Owner", "agent", "")
	before := o.memory()
	address := strings.TrimPrefix(o.base, "http://")
	part := "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 16384\r\n\r\n" + strings.Repeat(" ", 16383)
	var open []net.Conn
	var mu sync.Mutex
	var refused atomic.Int64
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	var dialers sync.WaitGroup
	for d := range 4 {
		dialers.Go(func() {
			for i := d; i < sockets; i += 4 {
				from := net.Dialer{Timeout: longEnough, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 7, byte(i%64), 1)}}
				c, err := from.Dial("tcp", address)
				if err != nil {
					refused.Add(1)
					continue
				}
				io.WriteString(c, part) // it may have to make room meanwhile
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
			}
		})
	}
	full := make(chan struct{})
	go func() { dialers.Wait(); close(full) }()
	most, asked, slowest := 0, 0, time.Duration(0)
	ask := func(method, path, body string, want int) {
		t.Helper()
		began := time.Now()
		req, err := http.NewRequest(method, o.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Close = true // each is a connection of its own
		res, err := noRedirects.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s %s: %d", method, path, res.StatusCode)
		}
		asked++
		slowest = max(slowest, time.Since(began))
		most = max(most, o.memory())
	}
	for i, going := 0, true; going || i < 20; i++ {
		select {
		case <-full:
			going = false
		default:
		}
		ask("GET", "/next", "", 302)
		ask("GET", "/ring", "", 200)
		ask("POST", "/api/register", fmt.Sprintf(`{"url":"https://new%d.dev/","name":"New %[1]d","kind":"agent"}`, i), 402)
	}
	o.bid(slug, "1.00")
	t.Logf("%d sockets (%d not connected): %d MiB before, %d at most; %d honest requests, the slowest took %s", sockets, refused.Load(), before>>20, most>>20, asked, slowest.Round(time.Millisecond))
	// Requests hold 60 KB each as these do, and idle connections 20; the collector lets as
	// much garbage be.
	if grown := most - before; grown > 2*(1024*(60<<10)+sockets*(20<<10)) {
		t.Errorf("the origin has grown by %d MiB", grown>>20)
	}
}
