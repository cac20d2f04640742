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
	"syscall"
	"testing"
	"time"
)

// peak is the most that the process held in memory since the last call, in bytes.
func (o *origin) peak() int {
	o.t.Helper()
	folder := fmt.Sprintf("/proc/%d/", o.cmd.Process.Pid)
	status, err := os.ReadFile(folder + "status")
	if err == nil {
		err = os.WriteFile(folder+"clear_refs", []byte("5"), 0) // begins anew
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ = strings.Cut(line, "kB")
	kilobytes, wrong := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || wrong != nil {
		o.t.Skipf("needs /proc: %v, %v", err, wrong)
	}
	return kilobytes << 10
}

// Crowds ask for the longest answers and do not read them, or read them slowly, or all at once:
// at an origin and at an edge that holds no more than the handbook says, and an honest client
// of the same kind is answered all the time.
func TestUnreadAnswersTakeNeitherMemoryNorPlaces(t *testing.T) {
	const clients, each, most = 32, 60, 512 << 20
	o := syntheticRing(t, "5000")
	e := o.follow(t, o.verifier())
	_, member, _ := strings.Cut(string(o.get("/api/leaderboard?limit=1").Body), `"slug":"`)
	member, _, _ = strings.Cut(member, `"`)
	tool := func(i int) string {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ring_leaderboard","arguments":{"limit":100,"offset":%[1]d}}}`, i)
		return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	read := func(form string) func(int) string {
		return func(i int) string { return "GET " + fmt.Sprintf(form, i) + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	}
	idle := map[*origin]int{o: o.memory(), e: e.memory()}
	for _, c := range []struct {
		name    string
		request func(i int) string
		pace    int // bytes that a client reads every tenth of a second
	}{
		{"other offsets, unread", read("/api/leaderboard?limit=500&offset=%d"), 0},
		{"an unknown parameter, unread", read("/api/ring?limit=500&x=%d"), 0},
		{"other offsets, read slowly", read("/api/ring?limit=500&offset=%d"), 100},
		{"other offsets, read", read("/api/leaderboard?limit=500&offset=%d"), 1 << 30},
		{"over fasthttp, unread", func(i int) string {
			return strings.Replace(read("/api/leaderboard?limit=500&offset=%d")(i), "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		}, 0},
		{"results of tools, unread", tool, 0},
		{"pages, unread", read("/members/" + member + "?amount=%d.01"), 0},
	} {
		for name, n := range map[string]*origin{"origin": o, "edge": e} {
			t.Run(c.name+" at the "+name, func(t *testing.T) {
				n.peak()
				crowd, answered := n.flood(t, clients, each, c.request, c.pace, member)
				grown := n.peak() - idle[n]
				crowd()
				t.Logf("%d MiB when idle and %d more at most; %d honest answers", idle[n]>>20, grown>>20, answered)
				if grown > most {
					t.Errorf("the node has grown by %d MiB", grown>>20)
				}
			})
		}
	}
}

// flood has clients ask from connections each, and gives how many answers an honest client got
// meanwhile, of which each must be right. Only end closes the connections.
func (o *origin) flood(t *testing.T, clients, each int, request func(i int) string, pace int, member string) (end func(), answered int) {
	address := strings.TrimPrefix(o.base, "http://")
	conns := make([]net.Conn, clients*each)
	var sent, readers sync.WaitGroup
	var over atomic.Bool
	small := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}
	for d := range 8 {
		sent.Go(func() {
			for i := d; i < len(conns); i += 8 {
				from := net.Dialer{Timeout: longEnough, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i%clients), 1)}}
				if pace < 1<<20 {
					from.Control = small
				}
				c, err := from.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = c
				io.WriteString(c, request(i)) // it may be closed by now
				if pace > 0 {
					readers.Go(func() {
						for room := make([]byte, min(pace, 64<<10)); ; {
							if _, err := c.Read(room); err != nil {
								return
							}
							if pace < 1<<20 {
								time.Sleep(100 * time.Millisecond)
							}
						}
					})
				}
			}
		})
	}
	go func() { sent.Wait(); over.Store(true) }()
	client := &http.Client{Timeout: longEnough, CheckRedirect: noRedirects.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: true}}
	for last := 0; last < 8; answered += 4 {
		if over.Load() {
			last++ // the crowd has asked for all
		}
		for path, want := range map[string]int{"/next?from=" + member: 302, "/members/" + member: 200, "/api/ring?limit=500&offset=" + strconv.Itoa(answered): 200, "/api/leaderboard": 200} {
			res, err := client.Get(o.base + path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != want {
				t.Errorf("%s: %d, %d bytes, %v", path, res.StatusCode, len(text), err)
			}
		}
	}
	return func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
		readers.Wait()
	}, answered
}
