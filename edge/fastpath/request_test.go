package fastpath

import (
	"bufio"
	"bytes"
	"slices"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/voucher"
)

// Whatever is taken for a plain read, fasthttp reads as the same request of
// the same length.
func FuzzPlainRead(f *testing.F) {
	for _, s := range []string{
		"GET /next?from=a HTTP/1.1\r\nHost: x\r\n\r\n", "GET /api/ring/a-1 HTTP/1.1\r\nhost: x:80\r\nif-none-match: \"a\"\r\n\r\nGET",
		"GET /api HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na",
		"GET /api HTTP/1.1\nHost: x\n\n", "GET /api HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n",
		"GET /api HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-Proto: https\r\n\r\n",
		"GET /api HTTP/1.1\r\nHost: x\r\nWebring-Edge: x\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x:99999\r\nApi-Version: 1\r\n\r\n", "GET /api?x HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	served := []string{"/", "/api", "/next", "/api/ring/a-1"}
	cfg := &Config{APIVersion: "1", Serves: func(target []byte) (int, bool, bool) {
		return 0, false, slices.Contains(served, string(front.Path(target)))
	}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		n, what := q.parse(b, cfg, "X-Forwarded-For")
		if what != isPlain {
			return
		}
		var req fasthttp.Request
		rest := bytes.NewReader(b)
		in := bufio.NewReaderSize(rest, 64<<10)
		if err := req.ReadLimitBody(in, 16<<10); err != nil {
			t.Fatalf("%q: fasthttp refuses it: %v", b[:n], err)
		}
		if read := len(b) - rest.Len() - in.Buffered(); read != n {
			t.Errorf("%q: fasthttp reads %d bytes, the fast path %d", b, read, n)
		}
		h := &req.Header
		target, ok := front.Target(h)
		if !ok || !bytes.Equal(target, q.Target) || !h.IsGet() || !h.IsHTTP11() || h.ConnectionClose() || len(req.Body()) > 0 || h.Peek(voucher.Field) != nil || slices.ContainsFunc(h.PeekAll("Api-Version"), func(v []byte) bool { return string(v) != "1" }) || req.MayContinue() {
			t.Errorf("%q: fasthttp reads another request", b[:n])
		}
		if _, _, served := cfg.Serves(target); !served {
			t.Errorf("%q is not served", target)
		}
		equal := func(name string, got [][]byte) {
			if want := h.PeekAll(name); !slices.EqualFunc(want, got, bytes.Equal) {
				t.Errorf("%q: %s is %q, and %q to fasthttp", b[:n], name, got, want)
			}
		}
		equal("If-None-Match", q.IfNoneMatch)
		equal("X-Forwarded-For", q.proxyLines)
		for _, name := range []string{"Accept", "Accept-Encoding", "If-None-Match"} {
			equal(name, q.PeekAll(name))
		}
		// No piece of it is a request, and no piece is refused.
		for cut := range n {
			if _, what := q.parse(b[:cut], cfg, "X-Forwarded-For"); what != isPart && !(what == isOther && cut >= maxRequest) {
				t.Fatalf("%q: its first %d bytes are %d", b[:n], cut, what)
			}
		}
	})
}
