package edge

import (
	"io"
	"net"
	"strings"
	"testing"
)

// While a shell drains, everything is answered, and each answer is the last of its
// connection, whichever way it came.
func TestADrainAnswersAndEndsConnections(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	requests := map[string]string{
		"a plain read": "GET /api HTTP/1.1\r\nHost: x\r\n\r\n",
		"a page":       "GET /join HTTP/1.1\r\nHost: x\r\n\r\n",
		"a refusal":    "DELETE /api HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	before := map[string]net.Conn{}
	for name, request := range requests {
		c := s.Dial()
		io.WriteString(c, request)
		readReply(t, s, c)
		before[name] = c
	}
	s.Drain()
	for name, request := range requests {
		for at, c := range map[string]net.Conn{"one that was open": before[name], "a new one": s.Dial()} {
			io.WriteString(c, request)
			answer, err := io.ReadAll(c)
			if err != nil || !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
				t.Errorf("%s on %s: %v, %s", name, at, err, answer)
			}
		}
	}
}
