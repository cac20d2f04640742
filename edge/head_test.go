package edge

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/core/api"
)

// hurried has an hour for every wait: what it answers or ends, it does at once.
func hurried(t *testing.T) *site {
	return serve(t, Config{Core: newRing(t), ReadTimeout: time.Hour, IdleTimeout: time.Hour, Paid: map[string]Handler{"/api/bid": paidOK}})
}

// begins are what may come before a request on its connection: nothing, one that the fast
// path answers, and one that it does not.
var begins = map[string]string{"first": "", "after a plain read": "GET /api HTTP/1.1\r\nHost: x\r\n\r\n", "after another": "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"}

// exchange sends a request, in pieces if there are several, and gives the last of the
// answers that come until the connection ends.
func exchange(t *testing.T, s *site, answers int, pieces ...string) reply {
	t.Helper()
	c := s.Dial()
	for _, piece := range pieces {
		io.WriteString(c, piece) // it may be refused before all is sent
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %v after %q", pieces, err, all)
	}
	at := strings.LastIndex(string(all), "HTTP/1.1 ")
	if n := strings.Count(string(all), "HTTP/1.1 "); n != answers {
		t.Fatalf("%q: %d answers: %q", pieces, n, all)
	}
	var of *http.Request
	if answers == 1 && strings.HasPrefix(pieces[0], "HEAD ") && strings.Contains(string(all), " 200 OK\r\n") {
		of = &http.Request{Method: http.MethodHead}
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(all[at:]))), of)
	if err != nil {
		t.Fatal(err)
	}
	return s.Read(resp)
}

// A head that is not as HTTP/1 has it is refused at once, and whatever follows it is no
// request.
func TestHeadsThatAreNotHTTPAreRefusedAtOnce(t *testing.T) {
	s := hurried(t)
	for head, code := range map[string]api.Code{
		"GET /api HTTP/1.1\n": api.Malformed, "GET /api HTTP/1.1\nHost: x\n\n": api.Malformed, "GET /api HTTP/1.1\nHost: x\r\n\r\n": api.Malformed,
		"GET /api HTTP/1.1\r\nHost: x\n": api.Malformed, "GET /api HTTP/1.1\r\nHost: x\r\n\n": api.Malformed, "GET /api HTTP/1.1\r\n\n": api.Malformed,
		"POST /api/bid HTTP/1.1\r\nHost: x\nContent-Length: 2\n\n{}": api.Malformed, "\nGET /api HTTP/1.1\r\nHost: x\r\n\r\n": api.Malformed,
		"GET / HTTP/1.0\n\n": api.Malformed, "GET /api HTTP/1.1\rHost: x\r\r": api.Malformed, "GET /api HTTP/1.1\r\r\n": api.Malformed,
		"POST /api/bid HTTP/1.1\r\nHost: x\r\nA: b\rc": api.Malformed, "GET /api HTTP/1.1\r\nHost: x\r\nA: \x00": api.Malformed, "HEAD /api HTTP/1.1\r\nHost: \x7f": api.Malformed,
		"GET /api\r\n": api.Malformed, "GET /api \r\n": api.Malformed, "GET /api http/1.1\r\n": api.Malformed, "GET /api HTTP/1.1 \r\n": api.Malformed, "GET /api HTTP/11\r\n": api.Malformed,
		"GET /api HTTP/1.10\r\n": api.Malformed, "GET /api HTTP/01.1\r\n": api.Malformed, "GET /api HTTP/1,1\r\n": api.Malformed, "GET /api HTTP/1.x\r\n": api.Malformed, "GET /api XHTTP/1.1\r\n": api.Malformed,
		"HTTP/1.1\r\n": api.Malformed, "hello\r\n": api.Malformed, "\x16\x03\x01\x02\x00\x01\x00": api.Malformed, "SSH-2.0-x\r\n": api.Malformed,
		"GET /api HTTP/2.0\r\n": api.UnsupportedHTTP, "POST /api/bid HTTP/3.0\r\nHost: x\r\nContent-Length: 9\r\n\r\n": api.UnsupportedHTTP, "GET /api HTTP/0.9\r\n": api.UnsupportedHTTP,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": api.UnsupportedHTTP, "DELETE /api/x HTTP/9.9\r\n": api.UnsupportedHTTP,
	} {
		for name, begin := range begins {
			const next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
			for _, pieces := range [][]string{{begin + head}, {begin + head + next}, append([]string{begin}, strings.SplitAfter(head, "\n")...)} {
				answers := 2
				if begin == "" {
					answers = 1
				}
				r := exchange(t, s, answers, pieces...)
				if r.Header.Get("Content-Type") != "application/problem+json" || !r.Closed {
					t.Errorf("%s, %q: closed %v, %v", name, pieces, r.Closed, r.Header)
				}
				wantProblem(t, r, code)
			}
		}
	}
}

// Heads that are odd and right are answered, and the connection goes on.
func TestOddHeadsAreRead(t *testing.T) {
	s := hurried(t)
	for _, head := range []string{
		"\r\nGET /api HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n\r\nPOST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"GET /api HTTP/1.2\r\nHost: x\r\n\r\n", "GET /api HTTP/1.9\r\nHost: x\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x\r\nA:\tb\xff\r\n\r\n",
		"POST /api/bid HTTP/1.1\r\nHost: x\r\ncontent-LENGTH:  4 \r\nContent-Type: application/json\r\n\r\n{\n\r}", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /api HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	} {
		for name, begin := range begins {
			answers := 3
			if begin == "" {
				answers = 2
			}
			r := exchange(t, s, answers, begin+head+"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if r.Status != 302 {
				t.Errorf("%s, %q: what follows it gets %d", name, head, r.Status)
			}
		}
	}
}

// A connection ends with the answer to a request that says so, in whatever way it says it.
func TestCloseIsSaidInAnyCaseAndInLists(t *testing.T) {
	s := hurried(t)
	const keep = "Connection: keep-alive\r\n"
	for fields, closes := range map[string]bool{
		"Connection: close\r\n": true, "Connection: Close\r\n": true, "connection: CLOSE\r\n": true, "Connection:cLoSe\r\n": true, "Connection: close \t\r\n": true,
		"Connection: keep-alive, close\r\n": true, "Connection: close, keep-alive\r\n": true, "Connection: te,Close,\r\n": true, "Connection: ,\tclose\r\n": true,
		"Connection: close\r\n" + keep: true, keep + "Connection: Close\r\n": true, "Connection: te\r\nConnection: close, te\r\n" + keep: true,
		"Connection: keep-alive,\r\n Close\r\n": true,
		keep:                                    false, "Connection: Keep-Alive\r\n": false, "Connection: closed\r\n": false, "Connection: te, not-close\r\n": false, "X-Connection: close\r\n": false, "Connection: \r\n": false, "Connection: \"close\"\r\n": false,
	} {
		for request, answer := range map[string]int{
			"GET /api HTTP/1.1\r\nHost: x\r\n": 200, "GET / HTTP/1.1\r\nHost: x\r\n": 200, "GET /next HTTP/1.1\r\nHost: x\r\n": 302, "GET /nowhere HTTP/1.1\r\nHost: x\r\n": 404,
			"GET /ring HTTP/1.1\r\nHost: x\r\n": 200, "HEAD /api HTTP/1.1\r\nHost: x\r\n": 200, "DELETE /api HTTP/1.1\r\nHost: x\r\n": 405,
			"POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n": 200,
			"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n":     400,
			"GET /api HTTP/1.0\r\n": 200,
		} {
			body := ""
			if strings.HasPrefix(request, "POST") {
				body = "{}"
			}
			one := request + fields + "\r\n" + body
			closes := closes || strings.Contains(request, "HTTP/1.0") && !strings.Contains(strings.ToLower(fields), "connection: keep-alive")
			if closes {
				r := exchange(t, s, 1, one+"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
				if r.Status != answer || !r.Closed {
					t.Errorf("%q: %d, and it says that it closes: %v", one, r.Status, r.Closed)
				}
			} else if r := exchange(t, s, 2, one+"GET /next HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n"); r.Status != 302 {
				t.Errorf("%q: what follows it gets %d", one, r.Status)
			}
		}
	}
}
