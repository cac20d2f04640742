package edge

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/voucher"
)

// Every answer names its request: those of the fast path, of handlers and of what could
// not be read, errors, 304s and panics.
func TestEveryAnswerNamesItsRequest(t *testing.T) {
	broken := &fakeCore{serve: func([]byte, *api.Response) { panic("broken") }}
	var told string
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		told = string(RequestID(ctx))
		ctx.Response.Header.Set("X-Request-Id", "another's")
	}}})
	bad := serve(t, Config{Core: broken})
	tag := s.Get("/api").Header.Get("ETag")
	const mine, trace = "my.request_1-", "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		s              *site
		begins, fields string
		status         int
	}{
		{s, "GET /next HTTP/1.1", "", 302},
		{s, "GET /api HTTP/1.1", "If-None-Match: " + tag + "\r\n", 304},
		{s, "GET / HTTP/1.1", "", 200},
		{s, "GET /api/ring/nobody HTTP/1.1", "", 404},
		{bad, "GET /api HTTP/1.1", "", 500},
		{s, "GET /api HTTP/1.1", unusual, 200},
		{s, "HEAD /api HTTP/1.1", "", 200},
		{s, "OPTIONS /api HTTP/1.1", "", 204},
		{s, "DELETE /api HTTP/1.1", "", 405},
		{s, "GET /nowhere HTTP/1.1", "", 404},
		{s, "GET /api HTTP/1.1", "Api-Version: 2\r\n", 400},
		{s, "GET /robots.txt HTTP/1.1", "", 200},
		{bad, "GET /api HTTP/1.1", unusual, 500},
		{s, "POST /api/bid HTTP/1.1", "Content-Length: 0\r\n", 200},
		{s, "POST /api/bid HTTP/1.1", "Content-Length: 99999\r\n", 413},
	} {
		for i, naming := range []string{"X-Request-Id: " + mine + "\r\n", "traceparent: 00-" + trace + "-00f067aa0ba902b7-01\r\n", "", "X-Request-Id: <script>\r\n"} {
			r := c.s.Raw(c.begins + "\r\nHost: x\r\n" + naming + c.fields + "\r\n")
			ids := r.Header.Values("X-Request-Id")
			if r.Status != c.status || len(ids) != 1 {
				t.Errorf("%s %q %q: status %d, ids %q", c.begins, c.fields, naming, r.Status, ids)
				continue
			}
			want := [...]string{mine, trace}
			if i < len(want) && ids[0] != want[i] || i >= len(want) && !madeID.MatchString("X-Request-Id: "+ids[0]) {
				t.Errorf("%s %q %q: the id is %q", c.begins, c.fields, naming, ids[0])
			}
			if strings.HasPrefix(c.begins, "POST") && c.status == 200 && told != ids[0] {
				t.Errorf("the handler was told %q and the client %q", told, ids[0])
			}
		}
	}
	r := s.Raw("garbage\r\n\r\n")
	wantProblem(t, r, api.Malformed)
	wantCommon(t, r)
}

// The access log has one line for each request, also for those of the fast path and those
// that cannot be read, and no whole address.
func TestTheAccessLogHasALineForEachRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	log, err := front.OpenAccessLog(front.AccessConfig{Path: path, JSON: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{Core: newRing(t), Access: log, RateLimit: 1000, TrustedProxies: proxies(t, "", "127.0.0.1")})
	const asker = "X-Forwarded-For: 203.0.113.77\r\nUser-Agent: \"curl\"\r\n"
	want := []struct {
		request, method, path, from string
		status                      float64
	}{
		{"GET /next?kind=agent&from=al%20pha HTTP/1.1\r\nHost: x\r\n" + asker, "GET", "/next", "al%20pha", 302},
		{"GET /api?secret=x HTTP/1.1\r\nHost: x\r\n" + asker + unusual, "GET", "/api", "", 200},
		{"HEAD /api/ring/nobody HTTP/1.1\r\nHost: x\r\n" + asker, "HEAD", "/api/ring/nobody", "", 404},
		{"GET / HTTP/1.1\r\nHost: x\r\n" + asker, "GET", "/", "", 200},
		{"POST /api HTTP/1.1\r\nHost: x\r\n" + asker + "Content-Length: 99999\r\n", "POST", "/api", "", 413},
	}
	var replies []reply
	for _, w := range want {
		replies = append(replies, s.Raw(w.request+"\r\n"))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines for %d requests:\n%s", len(lines), len(want), text)
	}
	for i, w := range want {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		from, _ := got["from"].(string)
		length := float64(len(replies[i].Body))
		if got["method"] != w.method || got["path"] != w.path || from != w.from || got["status"] != w.status || got["client"] != "203.0.113.0/24" ||
			got["agent"] != `"curl"` || got["request"] != replies[i].Header.Get("X-Request-Id") || got["bytes"] != length {
			t.Errorf("%q, answered with %d bytes:\n%s", w.request, len(replies[i].Body), lines[i])
		}
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["time"])); err != nil || time.Since(at).Abs() > time.Hour || got["took_us"].(float64) < 0 {
			t.Errorf("%s", lines[i])
		}
	}
	if strings.Contains(string(text), "203.0.113.77") || strings.Contains(string(text), "secret") {
		t.Errorf("%s", text)
	}
}

// What is dropped from a request does not change which line of the proxies' field is the
// last one.
func TestDroppedFieldsDoNotChangeTheClient(t *testing.T) {
	for name, dropped := range map[string]string{
		"nothing":              "",
		"an id twice":          front.IDField + ": abcdefgh\r\n" + front.IDField + ": abcdefgi\r\n",
		"an id that is none":   front.IDField + ": x\r\n",
		"a voucher":            voucher.Field + ": t=1\r\n",
		"a word between nodes": voucher.StopField + ": 1\r\n" + voucher.ToLeaderField + ": 1\r\n",
	} {
		three := newTrio(t, &fakeCore{serve: echo, second: epoch}, "") // with its own limits
		fields := "Host: ring.example\r\n" + dropped + "X-Forwarded-For: 192.0.2.1\r\nA: b\r\nX-Forwarded-For: 192.0.2.2\r\n"
		for i, addr := range three.addrs {
			for _, request := range []string{"GET /reports/1 HTTP/1.1\r\n" + fields + "\r\n", "POST /api/bid HTTP/1.1\r\n" + fields + "Content-Length: 2\r\n\r\n{}"} {
				b, err := talk(addr, [][]byte{[]byte(request)})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(b), " 192.0.2.2 ") {
					t.Errorf("%s, shell %d: %q", name, i, b)
				}
			}
		}
	}
}
