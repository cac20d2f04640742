package edge

import (
	"strings"
	"testing"

	"webring/edge/front"
	"webring/edge/voucher"
)

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
