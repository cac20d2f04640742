package edge

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// While a shell drains, everything is answered, and each answer is the last of its
// connection, whichever way it came.
func TestADrainAnswersAndEndsConnections(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	requests := map[string]string{
		"a plain read":  "GET /api HTTP/1.1\r\nHost: x\r\n\r\n",
		"three at once": strings.Repeat("GET /next HTTP/1.1\r\nHost: x\r\n\r\n", 3),
		"a page":        "GET /join HTTP/1.1\r\nHost: x\r\n\r\n",
		"a refusal":     "DELETE /api HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	before := map[string]net.Conn{}
	for name, request := range requests {
		c := s.Dial()
		io.WriteString(c, request)
		for r, n := bufio.NewReader(c), strings.Count(request, "HTTP/1.1"); n > 0; n-- {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Read(resp)
		}
		before[name] = c
	}
	s.Drain()
	for name, request := range requests {
		for at, c := range map[string]net.Conn{"one that was open": before[name], "a new one": s.Dial()} {
			io.WriteString(c, request)
			answer, err := io.ReadAll(c)
			if err != nil || strings.Count(string(answer), "\r\nConnection: close\r\n") != 1 || strings.Count(string(answer), "HTTP/1.1 ") != strings.Count(request, "HTTP/1.1") {
				t.Errorf("%s on %s: %v, %s", name, at, err, answer)
			}
		}
	}
}
