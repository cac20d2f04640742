package edge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/wasm/host"
)

// echo answers with what it was asked, spelled so that no answer looks like the
// beginning of another, in every form that an answer of a core has.
func echo(target []byte, r *api.Response) {
	*r = api.Response{Status: 200, Seq: 7, Body: fmt.Appendf(r.Body[:0], "%x", target), Unknown: len(target)%5 == 0}
	if isList(target) && len(target)%3 > 0 {
		r.Body = bytes.Repeat(r.Body, leastCoded/len(r.Body)*(1+len(target)%7)) // worth compressing, or hardly
	}
	switch len(target) % 4 {
	case 0:
		r.Status, r.Media, r.Location = 302, api.HTML, []byte("https://a.example/")
	case 1:
		r.Validity, r.Since, r.Until, r.Next = api.Timed, epoch-9, epoch+9, []byte(base+"/api/ring?page=2")
	case 2:
		r.Status, r.Media, r.Validity = 404, api.Problem, api.Never
	}
}

// noPages answers what pages ask for: there is no ring to speak of.
func noPages(_ []byte, r *api.Response) {
	*r = api.Response{Status: 500, Media: api.Problem, Seq: 7, Body: r.Body[:0]}
}

// trio is three shells alike. The first serves sockets, and the second
// connections that are none, on the fast path; the third is fasthttp alone, from the
// first byte of a connection.
type trio struct {
	clock *handClock
	addrs [3]string
}

func newTrio(t testing.TB, core Core, field string) *trio {
	t.Helper()
	three, dir := &trio{clock: newClock()}, t.TempDir()
	for i := range three.addrs {
		tell := func(ctx *fasthttp.RequestCtx, client string, secure bool) {
			fmt.Fprintf(ctx, "%s %x %s %t %x", ctx.Method(), ctx.RequestURI(), client, secure, ctx.Request.Body())
		}
		s, err := New(Config{Core: core, RateLimit: 8, Now: three.clock.Now, TrustedProxies: proxies(t, field, "unix", "10.0.0.0/8"), EdgeSecrets: sharedSecrets,
			Paid: map[string]Handler{"/api/bid": tell}, Others: map[string]Handler{"GET /reports/{id}": tell},
			Sync: map[string]SyncHandler{"/sync/keys": func(ctx *fasthttp.RequestCtx, client string, known bool) { fmt.Fprint(ctx, client, known) }},
			Log:  slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		three.addrs[i] = filepath.Join(dir, fmt.Sprint(i))
		// Of a Unix socket all that was written can be read, whatever its end does
		// with what it was sent.
		l, err := net.Listen("unix", three.addrs[i])
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 1:
			l = noSockets{l}
		case 2:
			clear(s.plain) // all is for fasthttp
		}
		go s.Serve(l)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return three
}

// noSockets hides that connections are sockets.
type noSockets struct{ net.Listener }

func (l noSockets) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

// talk sends pieces one after the other, then that this was all, and gives the
// answers.
func talk(addr string, pieces [][]byte) ([]byte, error) {
	c, err := net.Dial("unix", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	go func() {
		for _, p := range pieces {
			if _, err := c.Write(p); err != nil {
				return // refused before it was read
			}
		}
		c.(*net.UnixConn).CloseWrite()
	}()
	b, err := io.ReadAll(c)
	if len(b) > 0 {
		err = nil // it may have been closed on bytes that nobody wanted
	}
	return b, err
}

var statusLine = regexp.MustCompile(`HTTP/1\.1 \d\d\d `)

// madeID matches the line of an id that no client has chosen.
var madeID = regexp.MustCompile(`^X-Request-Id: [a-z2-7]{12}-[0-9a-z]+$`)

// answersIn takes what came over a connection apart: each answer with its
// fields in order, but the time.
func answersIn(b []byte) (answers []string) {
	starts := statusLine.FindAllIndex(b, -1)
	for i, at := range starts {
		end := len(b)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		head, body, _ := bytes.Cut(b[at[0]:end], []byte("\r\n\r\n"))
		lines := strings.Split(string(head), "\r\n")
		named := requestShown.Match(body) // an error page; ids differ in length
		body = requestShown.ReplaceAll(body, []byte("Request"))
		lines = slices.DeleteFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "Date: ") || named && strings.HasPrefix(l, "Content-Length: ")
		})
		for i := range lines {
			lines[i] = madeID.ReplaceAllString(lines[i], "X-Request-Id: made")
		}
		slices.Sort(lines[1:])
		answers = append(answers, strings.Join(lines, "\n")+"\n\n"+string(body))
	}
	if len(starts) == 0 && len(b) > 0 || len(starts) > 0 && starts[0][0] > 0 {
		answers = append(answers, fmt.Sprintf("no answer: %q", b))
	}
	return answers
}

// lost matches requests with a body. When the end comes in the middle of one,
// fasthttp does not send all that it has already answered, and may cut the last answer
// short. What the fast path has answered is sent; the rest of a connection that it has handed
// over is fasthttp's, which may hold back more there than on a connection of its own.
var lost = regexp.MustCompile(`(?i)content.length|transfer.encoding|expect`)

// alike sends the same bytes to all three and compares what they answer. It
// gives the answers of fasthttp.
func (three *trio) alike(t *testing.T, pieces [][]byte) []string {
	t.Helper()
	var want []string
	for i := len(three.addrs) - 1; i >= 0; i-- {
		b, err := talk(three.addrs[i], pieces)
		if err != nil {
			t.Fatalf("%q: %v", pieces, err)
		}
		got := answersIn(b)
		if i == len(three.addrs)-1 {
			want = got
		} else if whole := max(min(len(got), len(want))-1, 0); !slices.Equal(got, want) &&
			!(lost.Match(bytes.Join(pieces, nil)) && slices.Equal(got[:whole], want[:whole])) {
			t.Errorf("%q\nshell %d answers\n%s\nand fasthttp\n%s", pieces, i, strings.Join(got, "\n----\n"), strings.Join(want, "\n----\n"))
		}
	}
	return want
}

// dialect makes requests: mostly plain ones, and such as strangers send who
// hope that two readers of one request disagree about it.
type dialect struct{ *rand.Rand }

func (d dialect) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d dialect) request() string {
	var b strings.Builder
	calm := d.IntN(2) == 0
	rare := func(usual string, others ...string) string {
		if calm || d.IntN(15) > 0 {
			return usual
		}
		return d.pick(others...)
	}
	end := rare("\r\n", "\n", "\r\r\n", "\r", "\n\r\n")
	b.WriteString(rare("", "\r\n", "\n", " ", "\x00", "\r\n\r\n"))
	method := rare("GET", "HEAD", "OPTIONS", "POST", "PUT", "get", "GETT", "", "G\x00T", "PRI")
	b.WriteString(method + rare(" ", "  ", "\t", ""))
	target := d.pick("/next?from=a", "/api", "/api/ring?limit=2&page=1", "/api/ring/a-1", "/api/ring/next", "/api/widget?from=https%3A%2F%2Fa.com%2F", "/random", "/api/leaderboard", "/prev/?from=a")
	target = rare(target, "/", "/nowhere", "/reports/1", "/api/ring/A", "/api/ring/%61", "/api/ring/a/b", "/api/ring/", "/next/?from=a", "/api/", "//evil.example/", "//", "//api", "/./api", "/api/../next", "/api#x", "/api?a#b", "*", "",
		"http://x/api", "HTTP://x:1/next?a", "http://x?y", "https://", "api", "/api/ring?a b", "/api?\x7f", "/api?\xff", "/api?"+strings.Repeat("x", d.IntN(5000)), "/sync/keys", "/api/bid", "/next;a", "/next%3Ffrom=a", "/%6eext")
	b.WriteString(target + rare(" ", "  ", "\t", "") + rare("HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/01.1", "HTTP/1.10", "", "HTTP/1.1 HTTP/1.1") + end)
	b.WriteString(rare("Host: ring.example"+end, "", "Host: a"+end+"Host: b"+end, "Host:"+end, "host:x:80"+end, "Host: a b"+end, "Host: a/b"+end, "Host : x"+end,
		"Host: [::1]:80"+end, "Host: x:999999"+end, "Host: x@y"+end, "Host: x\x00"+end, " Host: x"+end, "Host: \t x \t"+end, "Host: x:"+end, "Host: a_b"+end, "Host: x,y"+end))
	body := ""
	for range d.IntN(4) {
		line := d.pick("User-Agent: x", "Accept: */*", "Accept: "+browsers, "If-None-Match: *", "If-None-Match: \"a\", W/\"b\"", "X-Forwarded-For: 192.0.2."+fmt.Sprint(d.IntN(9)), "Cookie: a=b; c", "Api-Version: 1", "Connection: keep-alive", "Accept-Encoding: gzip", "accept-encoding: gzip, deflate, br, zstd", "Accept-Encoding: zstd;q=0, br",
			"X-Request-Id: Abc_1234.x-9", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		which := d.IntN(8)
		if calm {
			which = 8
		}
		switch which {
		case 0:
			line = d.pick("Content-Length: 0", "Content-Length: 5", "content-length: +5", "Content-Length: 05", "Content-Length: 5, 5", "Content-Length: 5\r\nContent-Length: 6", "Content-Length:", "Content-Length : 5", "Content-Length: 99999999999999999999",
				"Content-Length: -1", "Content-Length: 0x5", "Content-Length\t: 5", "\tContent-Length: 5", "Content_Length: 5")
			body = d.pick("", "abcde", "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
		case 1:
			line = d.pick("Transfer-Encoding: chunked", "transfer-encoding:chunked", "Transfer-Encoding: identity", "Transfer-Encoding : chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding:\tchunked",
				"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "Transfer-Encoding: chunked\r\nContent-Length: 5", "X: y\rTransfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Trailer: x", "TE: trailers")
			body = d.pick("", "5\r\nabcde\r\n0\r\n\r\n", "0\r\n\r\n", "5;x\r\nabcde\r\n0\r\nX: y\r\n\r\n", "0\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n", "5\nabcde\n0\n\n", "-1\r\n")
		case 2:
			line = d.pick("Connection: close", "Connection: Keep-Alive, close", "Connection: upgrade\r\nUpgrade: h2c", "Connection:", "Connection: keep-alive\r\nConnection: close", "Connection: Host", "Keep-Alive: timeout=1", "Proxy-Connection: close", "Connection: CLOSE", "Upgrade: websocket")
		case 3:
			line = d.pick("Expect: 100-continue", "Expect: 100-Continue", "Expect: x", "expect:", "Api-Version: 2", "Api-Version: 1\r\nApi-Version: 2", "Api-Version:", "Api-Version: 1 ", "api-version:1", "Api-Version: 1, 1", "Webring-Edge: t=1", "webring-edge:", "If-None-Match: *", "If-None-Match:", "If-None-Match: \"a", "If-None-Match: x\r\nif-none-match: *",
				"X-Request-Id: short", "X-Request-Id: abcdefgh\r\nx-request-id: abcdefgi", "x-request-id: abcdefg\xff", "X-Request-Id: abcd efgh", "X-Request-Id:", "X-Request-Id: "+strings.Repeat("x", 60+d.IntN(9)), "X-Request-Id:\tabcdefgh\t",
				"Traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01", "TRACEPARENT: ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Traceparent: x", "Traceparent: 01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-y")
		case 4:
			line = d.pick("Forwarded: for=192.0.2.1", "Forwarded: for=\"[2001:db8::1]:80\";proto=https", "Forwarded: for=\"", "forwarded: for=10.0.0.1, for=192.0.2.3", "X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-For:", "X-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2",
				"X-Forwarded-Proto: https", "X-Forwarded-For: unknown", "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.2", "X-Forwarded-For: \t192.0.2.4 ", "X_Forwarded_For: 192.0.2.9", "X-Forwarded-For : 192.0.2.9",
				"CF-Connecting-IP: 192.0.2.1", "cf-connecting-ip: 192.0.2.1\r\nCF-Connecting-IP: 192.0.2.2", "CF-Connecting-IP: 192.0.2.1, 192.0.2.2", "CF-Connecting-IP:", "CF-Connecting-IP: x")
		case 5:
			line = d.pick("A: b\r\n c", ": x", "A", "A:", "A b: c", "A: \x00", "A: \x7f", "A: \xff", "A: \xc3\xa4", "\xc3\xa4: a", "A: b\rC: d", "A: b\nC: d", "", "A(b): c", "A: "+strings.Repeat("y", d.IntN(6000)), strings.Repeat("Z", 300)+": a", "A:\tb", "A: b\t", "Authorization: Basic x")
		}
		b.WriteString(line + end)
	}
	b.WriteString(rare(end, "", end+end, "\n", " "+end))
	b.WriteString(body)
	out := []byte(b.String())
	if !calm && d.IntN(12) == 0 && len(out) > 0 {
		at := d.IntN(len(out))
		switch d.IntN(4) {
		case 0:
			out[at] ^= 1 << d.IntN(8)
		case 1:
			out = out[:at]
		case 2:
			out = slices.Insert(out, at, d.pick("\r", "\n", " ", "\x00", ":", "\t")[0])
		case 3:
			out = slices.Delete(out, at, at+1)
		}
	}
	return string(out)
}

// pieces cuts a text anywhere.
func (d dialect) pieces(text string) (pieces [][]byte) {
	for len(text) > 0 {
		n := len(text)
		if d.IntN(3) == 0 {
			n = 1 + d.IntN(n)
		}
		pieces, text = append(pieces, []byte(text[:n])), text[n:]
	}
	return pieces
}

// Whatever a client sends, in however many pieces, the fast path answers byte for byte
// what fasthttp's handlers would: as many answers with the same fields, count and
// end.
func TestTheFastPathAnswersWhateverComesAsHandlersDo(t *testing.T) {
	core := &fakeCore{serve: echo, second: epoch, pages: noPages}
	trios := []*trio{newTrio(t, core, ""), newTrio(t, core, "Forwarded"), newTrio(t, core, "CF-Connecting-IP")}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := dialect{rand.New(rand.NewPCG(seed, 0))}
	met := map[string]int{}
	for i := range 3000 {
		if t.Failed() {
			return
		}
		three := trios[i%len(trios)]
		var text strings.Builder
		for range 1 + d.IntN(6) {
			text.WriteString(d.request())
		}
		for _, answer := range three.alike(t, d.pieces(text.String())) {
			met[answer[len("HTTP/1.1 "):][:3]]++
		}
		if d.IntN(10) == 0 {
			three.clock.Move(time.Duration(d.IntN(70)) * time.Second)
		}
	}
	t.Logf("answers by status: %v", met)
	for _, status := range []string{"200", "302", "304", "308", "404", "400", "405", "429"} {
		if met[status] < 10 {
			t.Errorf("only %d answers had the status %s", met[status], status)
		}
	}
}

// The front page is no document of the core: it comes in forms and codings, and
// the ring may not be there yet.
func TestTheFastPathShowsTheFrontPageAsHandlersDo(t *testing.T) {
	ring := newRing(t)
	for name, core := range map[string]Core{"a ring": ring, "none": host.NewNative(1)} {
		three := newTrio(t, core, "")
		seed := rand.Uint64()
		t.Logf("%s: seed %d", name, seed)
		d := dialect{rand.New(rand.NewPCG(seed, 0))}
		tags := []string{`"x"`}
		met := map[string]int{}
		for range 300 {
			var text strings.Builder
			for range 1 + d.IntN(5) {
				text.WriteString("GET " + d.pick("/", "/", "/?", "/?page=2", "//", "/?/", "/ring", "/nothing", "/ring/") + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2." + fmt.Sprint(d.IntN(9)) + "\r\n")
				for range d.IntN(5) {
					text.WriteString(d.pick("Accept: */*", "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "accept: text/markdown", "Accept: text/markdown;q=0.1, text/html", "Accept:", "Accept: TEXT/MARKDOWN, */*",
						"Accept-Encoding: gzip, deflate, br, zstd", "Accept-Encoding: gzip", "accept-encoding: br;q=0, gzip;q=0.5", "Accept-Encoding:", "Accept-Encoding: identity", "Accept-Encoding: br;q=2",
						"If-None-Match: "+d.pick(tags...), "If-None-Match: W/"+d.pick(tags...), "If-None-Match: *") + "\r\n")
				}
				text.WriteString("\r\n")
			}
			for _, answer := range three.alike(t, d.pieces(text.String())) {
				met[answer[len("HTTP/1.1 "):][:3]]++
				if _, tag, tagged := strings.Cut(answer, "\nETag: "); tagged {
					tag, _, _ = strings.Cut(tag, "\n")
					tags = append(tags, tag)
				}
			}
			if t.Failed() {
				return
			}
			if d.IntN(10) == 0 {
				three.clock.Move(time.Duration(d.IntN(70)) * time.Second)
				ring.Tick(three.clock.Now())
			}
		}
		t.Logf("answers by status: %v", met)
		want := []string{"200", "304", "404", "429"}
		if core != ring {
			want = []string{"500", "429"}
		}
		for _, status := range want {
			if met[status] < 10 {
				t.Errorf("%s: only %d answers had the status %s", name, met[status], status)
			}
		}
	}
}

func FuzzFastPathAndHandlers(f *testing.F) {
	three := newTrio(f, &fakeCore{serve: echo, second: epoch, pages: noPages}, "")
	d := dialect{rand.New(rand.NewPCG(1, 0))}
	for range 200 {
		f.Add([]byte(d.request()+d.request()), d.IntN(100))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = min(max(cut, 0), len(b))
		three.clock.Move(time.Minute) // all have what they may ask
		three.alike(t, [][]byte{b[:cut], b[cut:]})
	})
}
