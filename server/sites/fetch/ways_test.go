package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// TestEachWayLeadsThereWithoutTheGuard goes every way to a listener on the
// loopback twice: by net/http alone, which must reach it, and by a client, which
// must not.
func TestEachWayLeadsThereWithoutTheGuard(t *testing.T) {
	l := listen(t, "127.0.0.1:0", nil)
	outer := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	to := netip.MustParseAddrPort(outer.Listener.Addr().String())
	const harmless = "93.184.215.14"
	for name, way := range map[string]string{
		"plain address":                      "http://127.0.0.1:PORT/",
		"v4-mapped v6":                       "http://[::ffff:127.0.0.1]:PORT/",
		"v4-mapped v6 in hexadecimal":        "http://[::ffff:7f00:1]:PORT/",
		"Unicode digits":                     "http://①②⑦.⓪.⓪.①:PORT/",
		"ideographic full stops":             "http://127。0。0。1:PORT/",
		"full-width digits":                  "http://１２７.0.0.1:PORT/",
		"userinfo that looks like the host":  "http://acme.com@127.0.0.1:PORT/",
		"userinfo before a name":             "http://user:password@inner.acme.com:PORT/",
		"localhost":                          "http://localhost:PORT/",
		"a name":                             "http://inner.acme.com:PORT/",
		"a name with a dot":                  "http://inner.acme.com.:PORT/",
		"a name that changes":                "http://rebind.acme.com:PORT/",
		"a redirect to an address":           "http://start.acme.com/?to=http://127.0.0.1:PORT/",
		"a redirect to Unicode digits":       "http://start.acme.com/?to=http://①②⑦.⓪.⓪.①:PORT/",
		"a redirect to userinfo":             "http://start.acme.com/?to=http://acme.com@127.0.0.1:PORT/",
		"a redirect to a name of the site":   "http://start.acme.com/?to=http://inner.acme.com:PORT/",
		"a redirect to a name that changes":  "http://start.acme.com/?to=//rebind.acme.com:PORT/",
		"a redirect to a name of elsewhere":  "http://start.acme.com/?to=http://inner.evil.com:PORT/",
		"a redirect to a redirect to a name": "http://start.acme.com/?to=/%3Fto=http://inner.acme.com:PORT/",
	} {
		t.Run(name, func(t *testing.T) {
			url := strings.ReplaceAll(way, "PORT", fmt.Sprint(l.port))
			// Looked up once to see whether it is harmless, a name may lead anywhere.
			loopback := []string{"127.0.0.1"}
			resolver := func() *net.Resolver {
				r := names(t, map[string][]string{"inner.acme.com": loopback, "inner.evil.com": loopback, "rebind.acme.com": {harmless, "127.0.0.1"}})
				if found, err := r.LookupHost(t.Context(), "rebind.acme.com"); err != nil || found[0] != harmless {
					t.Fatalf("%v, %v", found, err)
				}
				return r
			}
			before := l.reached.Load()
			c := newClient(Config{Resolver: resolver(), Map: map[string]netip.AddrPort{"start.acme.com": to}}, 80, l.port)
			if r, err := get(t, c, url); err == nil || strings.Contains(err.Error(), "127.0.0.1") || l.reached.Load() != before {
				t.Errorf("guarded: %+v, %v, reached %d times", r, err, l.reached.Load()-before)
			}
			alone := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == "start.acme.com:80" {
					address = to.String()
				}
				return (&net.Dialer{Resolver: resolver()}).DialContext(ctx, network, address)
			}}}
			defer alone.CloseIdleConnections()
			res, err := alone.Get(url)
			if err != nil || l.reached.Load() != before+1 {
				t.Fatalf("the way leads nowhere: %v", err)
			}
			res.Body.Close()
		})
	}
}
