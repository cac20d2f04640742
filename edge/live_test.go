package edge

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/front"
	"webring/edge/pages"
	"webring/edge/voucher"
)

// openPage reads the stream of a page.
type openPage struct {
	t    *testing.T
	resp *http.Response
	r    *bufio.Reader
}

func openLive(t *testing.T, s *site) *openPage {
	t.Helper()
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	resp, err := s.Client.Get(scheme + s.Addr + livePath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &openPage{t, resp, bufio.NewReader(resp.Body)}
}

// next gives the next drawing that comes.
func (p *openPage) next() (d pages.Drawing) {
	p.t.Helper()
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			p.t.Fatal(err)
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(text), &d); err != nil {
				p.t.Fatal(err)
			}
			return d
		}
	}
}

func TestOpenPagesSeeWhatChanges(t *testing.T) {
	for _, secure := range []bool{false, true} {
		n := newRing(t)
		cfg := Config{Core: n, RateLimit: 9}
		if secure {
			cfg.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
		}
		s := serve(t, cfg)
		first, second := openLive(t, s), openLive(t, s)
		wantFields(t, reply{Status: 200, Header: first.resp.Header}, "Content-Type", "text/event-stream", "Cache-Control", "no-store", "Api-Version", "1", "RateLimit-Limit", "9")
		for _, p := range []*openPage{first, second} {
			if d := p.next(); !d.Whole || d.Members != 3 || len(d.Marks) != 3 || strings.Join(d.First, " ") != "alpha beta gamma" {
				t.Fatalf("the first event is %+v", d)
			}
		}
		join(t, n, 2000, "Delta", core.Joined{Slug: "delta", Bid: 9000})
		for _, p := range []*openPage{first, second} {
			d := p.next()
			if d.Whole || d.Members != 4 || len(d.Marks) != 1 || d.First[0] != "delta" {
				t.Fatalf("a join comes as %+v", d)
			}
			if want := (pages.DrawnMark{Slug: "delta", Name: "Delta", Host: "delta.example", Kind: "agent", Position: 4, Paid: 9100, Counts: 9100}); d.Marks[0] != want {
				t.Errorf("%+v, want %+v", d.Marks[0], want)
			}
		}
		// Draining lets them go, and no more are taken.
		s.Drain()
		for _, p := range []*openPage{first, second} {
			if _, err := io.ReadAll(p.r); err != nil {
				t.Error(err)
			}
		}
		wantProblem(t, s.Get(livePath), api.Overloaded)
	}
}

func TestOpenPagesOfAClientAreBounded(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	all := make([]*openPage, maxLivePerClient)
	for i := range all {
		all[i] = openLive(t, s)
	}
	for _, p := range all {
		p.next() // it has its place
	}
	// None of them has a place among those that hold memory for a request.
	s.room.mu.Lock()
	holding := len(s.room.holding.in)
	s.room.mu.Unlock()
	if holding > 0 {
		t.Errorf("%d connections of pages hold memory", holding)
	}
	wantProblem(t, s.Get(livePath), api.Overloaded)
	if r := s.Do("HEAD", livePath, ""); r.Status != 503 {
		t.Errorf("HEAD: %d", r.Status)
	}
}

// A crowd opens as many pages as it may, and a newcomer gets a place, be the crowd of many networks
// or of one.
func TestCrowdsLeaveRoomForOpenPages(t *testing.T) {
	for name, crowd := range map[string]func(i int) string{
		"192 networks": func(i int) string { return fmt.Sprintf("%d.1.0.1", 1+i%192) },
		"a /22":        func(i int) string { return fmt.Sprintf("198.51.%d.%d", i%4, i/4%256) },
		"a /40":        func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i%192) },
	} {
		l := serve(t, Config{Core: newRing(t)}).live
		l.running = true // nothing is sent here
		page := func(addr string) *livePage { return &livePage{client: front.ClientOf(netip.MustParseAddr(addr))} }
		var all []*livePage
		for i := range 2 * maxLive {
			if p := page(crowd(i)); l.enter(p) {
				all = append(all, p)
			}
		}
		for i := range 1000 {
			p := page(fmt.Sprintf("203.%d.113.1", i%256))
			if !l.enter(p) {
				t.Errorf("%s has %d places, and newcomer %d has none", name, len(all), i)
				break
			}
			all = append(all, p)
		}
		for _, p := range all {
			l.leave(p)
		}
		if len(l.open) > 0 || l.places.Taken() > 0 {
			t.Errorf("%s: %d places of %d are not given back", name, l.places.Taken(), len(l.open))
		}
	}
}

// What an edge passes on is not answered with a stream.
func TestAWorkerGetsNoStream(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), EdgeSecrets: sharedSecrets})
	v := voucher.New(sharedSecret, time.Now(), "192.0.2.1", true, voucher.Request{Method: []byte("GET"), Target: []byte(livePath)})
	if r := s.Get(livePath, voucher.Field, v); r.Status != 204 || r.Body != "" {
		t.Errorf("%d %q", r.Status, r.Body)
	}
}

// A connection that takes no more is closed, and nothing waits for it.
func TestASlowPageIsLetGo(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := &boundedConn{Conn: c, prompt: true}
	for piece, sent := make([]byte, 64<<10), 0; ; sent += len(piece) {
		if sent > 64<<20 {
			t.Fatal("all was taken")
		}
		if n, err := b.Write(piece); err != nil {
			if n == len(piece) {
				t.Error("what went out failed")
			}
			return
		}
	}
}
