// Package edgetest serves what edges are made of, for tests: a small ring, a server on
// loopback or in memory, and what each answer must have.
package edgetest

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/front"
)

// Server is what a [Site] serves.
type Server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// Site is a server on loopback.
type Site struct {
	T      testing.TB
	Addr   string
	Client *http.Client
	Served chan error // what Serve has returned
	scheme string
}

// Serve starts a server, which is shut down when the test ends.
func Serve(t testing.TB, server Server, secure bool) *Site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{T: t, Addr: ln.Addr().String(), Served: make(chan error, 1), scheme: "http://"}
	if secure {
		s.scheme = "https://"
	}
	s.Client = &http.Client{
		Transport:     &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
	go func() { s.Served <- server.Serve(ln) }()
	ShutDown(t, server)
	t.Cleanup(s.Client.CloseIdleConnections)
	return s
}

// ShutDown has a server end when the test does.
func ShutDown(t testing.TB, server Server) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Reply is an answer that was read to its end.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Closed bool // the connection was announced to close
}

// Do sends a request. fields alternate names and values.
func (s *Site) Do(method, target, body string, fields ...string) Reply {
	s.T.Helper()
	req, err := http.NewRequest(method, s.scheme+s.Addr+target, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Read(resp)
}

// Get sends a GET.
func (s *Site) Get(target string, fields ...string) Reply {
	s.T.Helper()
	return s.Do("GET", target, "", fields...)
}

// Read reads an answer to its end.
func (s *Site) Read(resp *http.Response) Reply {
	s.T.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return Reply{resp.StatusCode, resp.Header, string(b), resp.Close}
}

// Dial opens a connection, which is closed when the test ends.
func (s *Site) Dial() net.Conn {
	s.T.Helper()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// Raw sends bytes on a connection of their own, and reads one answer.
func (s *Site) Raw(request string) Reply {
	s.T.Helper()
	c := s.Dial()
	defer c.Close()
	// The server may refuse before it has read all; what it says still counts.
	go io.WriteString(c, request)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		s.T.Fatalf("%.60q: %v", request, err)
	}
	return s.Read(resp)
}

// RawHead sends bytes and reads the header of the answer as it was written.
func (s *Site) RawHead(request string) string {
	s.T.Helper()
	c := s.Dial()
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.T.Fatal(err)
	}
	var head strings.Builder
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			s.T.Fatal(err)
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String()
		}
	}
}

// WantProblem holds a reply to everything that every problem must have.
func WantProblem(t testing.TB, r Reply, code api.Code) {
	t.Helper()
	var doc struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if r.Body != "" {
		if err := json.Unmarshal([]byte(r.Body), &doc); err != nil {
			t.Errorf("%s: body %.100q: %v", code, r.Body, err)
		}
		if doc.Code != string(code) || doc.Status != code.Status() || doc.Title != code.Title() || doc.Detail == "" ||
			doc.Type != Base+"/problems/"+string(code) {
			t.Errorf("%s: document %+v", code, doc)
		}
	}
	if r.Status != code.Status() {
		t.Errorf("%s: status %d, want %d", code, r.Status, code.Status())
	}
	WantFields(t, r, "Content-Type", "application/problem+json", "Cache-Control", "no-store")
	WantCommon(t, r)
}

// WantCommon holds a reply to the fields that every answer has.
func WantCommon(t testing.TB, r Reply) {
	t.Helper()
	WantFields(t, r, "Api-Version", "1", "Access-Control-Allow-Origin", "*", "X-Content-Type-Options", "nosniff", "Server", "")
	for _, name := range []string{"ETag", "Link", "Location", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining",
		"RateLimit-Reset", "RateLimit-Policy", "WWW-Authenticate", "Payment-Receipt", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Api-Version", "X-Request-Id"} {
		if !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not exposed to scripts", name)
		}
	}
	if ids := r.Header.Values("X-Request-Id"); len(ids) != 1 || !front.ValidID([]byte(ids[0])) {
		t.Errorf("status %d: the request's ids are %q", r.Status, ids)
	}
}

// WantFields holds a reply to the values of fields, "" for none.
func WantFields(t testing.TB, r Reply, fields ...string) {
	t.Helper()
	for i := 0; i < len(fields); i += 2 {
		if got := strings.Join(r.Header.Values(fields[i]), " | "); got != fields[i+1] {
			t.Errorf("status %d: %s: %q, want %q", r.Status, fields[i], got, fields[i+1])
		}
	}
}
