package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"code.dny.dev/ssrf"
	"golang.org/x/net/dns/dnsmessage"
)

// listener is a server on the loopback that nobody may reach, with a count of
// the connections that did.
type listener struct {
	*httptest.Server
	port    uint16
	reached atomic.Int64
}

func listen(t *testing.T, address string, h http.HandlerFunc) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.reached.Add(1)
		if h != nil {
			h(w, r)
		}
	}))
	inner, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.Listener.Close()
	l.Listener = inner
	l.port = netip.MustParseAddrPort(inner.Addr().String()).Port()
	l.Start()
	t.Cleanup(l.Close)
	return l
}

// names is a name server on the loopback. It answers with the next of a name's
// addresses each time it is asked, and goes on with the last. Those that a comma
// separates, it gives at once. What begins with "txt:" is a text.
func names(t *testing.T, answers map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	asked := map[string]int{}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			name := strings.TrimSuffix(q.Name.String(), ".")
			m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}
			m.Additionals = nil
			list := answers[name]
			if list == nil {
				m.RCode = dnsmessage.RCodeNameError
			} else {
				next := list[min(asked[name+q.Type.String()], len(list)-1)]
				asked[name+q.Type.String()]++
				header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}
				for address := range strings.SplitSeq(next, ",") {
					if text, ok := strings.CutPrefix(address, "txt:"); ok {
						if q.Type == dnsmessage.TypeTXT {
							m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.TXTResource{TXT: []string{text}}})
						}
						continue
					}
					switch a := netip.MustParseAddr(address); {
					case q.Type == dnsmessage.TypeA && a.Is4():
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
					case q.Type == dnsmessage.TypeAAAA && a.Is6():
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
					}
				}
			}
			if reply, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func get(t *testing.T, c *Client, url string) (*Response, error) {
	t.Helper()
	return c.Get(t.Context(), Request{URL: url})
}

func TestAddressesThatNoListenerHereHas(t *testing.T) {
	own := netip.MustParseAddr("8.8.4.4")
	d := newClient(Config{Own: []netip.Addr{own}}, 80, 443).dialer
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{"127.0.0.1", "127.9.9.9", "0.0.0.0", "::ffff:127.0.0.1", "::1", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "168.63.129.16", "8.8.4.4",
		"192.0.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "fe80::1", "fd00::1", "ff02::1", "64:ff9b::7f00:1",
		"2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::7f00:1", "3fff::1", "5f00::1", "2001:db8::1", "::ffff:8.8.8.8", "::127.0.0.1", "fec0::1", "100::1"}
	for _, i := range list {
		forbidden = append(forbidden, netip.MustParsePrefix(i.String()).Addr().String())
	}
	for _, a := range forbidden {
		network := "tcp4"
		if strings.Contains(a, ":") {
			network = "tcp6"
		}
		if d.control(t.Context(), network, net.JoinHostPort(a, "443"), nil) == nil {
			t.Errorf("%s may be dialled", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "2606:4700::1111"} {
		network := "tcp4"
		if strings.Contains(a, ":") {
			network = "tcp6"
		}
		if err := d.control(t.Context(), network, net.JoinHostPort(a, "443"), nil); err != nil {
			t.Errorf("%s: %v", a, err)
		}
		for _, port := range []string{"22", "25", "8080", "0"} {
			if d.control(t.Context(), network, net.JoinHostPort(a, port), nil) == nil {
				t.Errorf("port %s may be dialled", port)
			}
		}
		if d.control(t.Context(), "udp", net.JoinHostPort(a, "443"), nil) == nil {
			t.Error("udp may be used")
		}
	}
}

// TestManyAddressesOfOneName has a name with many addresses, to have them all connected to.
func TestManyAddressesOfOneName(t *testing.T) {
	var addresses []string
	for i := range 40 {
		addresses = append(addresses, fmt.Sprintf("127.0.1.%d", i+1))
	}
	l := listen(t, "127.0.0.1:0", nil)
	c := newClient(Config{Resolver: names(t, map[string][]string{"many.acme.com": {strings.Join(addresses, ",")}})}, l.port)
	var sockets atomic.Int64
	c.dialer.guard = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.1.0/24")))
	control := c.dialer.ControlContext
	c.dialer.ControlContext = func(ctx context.Context, network, address string, raw syscall.RawConn) error {
		err := control(ctx, network, address, raw)
		if err == nil {
			sockets.Add(1)
		}
		return err
	}
	if _, err := get(t, c, fmt.Sprintf("http://many.acme.com:%d/", l.port)); !errors.Is(err, ErrUnreachable) || sockets.Load() != maxSockets {
		t.Errorf("%v, %d addresses were tried", err, sockets.Load())
	}
}

// mappedTo is a client for which every name below acme.com is at l.
func mappedTo(l *listener) *Client {
	to := netip.MustParseAddrPort(l.Listener.Addr().String())
	return New(Config{Map: map[string]netip.AddrPort{"*.acme.com": to, "acme.com": to}, Limits: Limits{PerMinute: -1}})
}

func TestRedirects(t *testing.T) {
	inner := listen(t, "127.0.0.1:0", nil)
	innerURL := fmt.Sprintf("127.0.0.1:%d", inner.port)
	var mu atomic.Value
	l := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Cookie"]) > 0 || len(r.Header["Referer"]) > 0 || len(r.Header["Authorization"]) > 0 {
			t.Errorf("a request carries %v", r.Header)
		}
		switch {
		case r.URL.Path == "/start":
			w.Header().Set("Set-Cookie", "a=b; Domain=acme.com")
			w.Header().Set("Location", mu.Load().(string))
			w.WriteHeader(302)
		case strings.HasPrefix(r.URL.Path, "/hop"):
			n := int(r.URL.Path[4] - '0')
			if n > 1 {
				w.Header().Set("Location", fmt.Sprintf("/hop%d", n-1))
				w.WriteHeader(301)
			}
		case r.URL.Path == "/loop":
			w.Header().Set("Location", "/loop")
			w.WriteHeader(307)
		}
	})
	c := mappedTo(l)
	for _, to := range []string{
		"http://" + innerURL + "/", "//" + innerURL + "/", "http://localhost/", "http://[::1]/", "http://[::ffff:127.0.0.1]/",
		"http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://①②⑦.⓪.⓪.①/", "http://user@www.acme.com/", "http://user:pw@www.acme.com/",
		"http://evil.com/", "http://notacme.com/", "http://www.acme.com:8080/", "ftp://www.acme.com/", "file:///etc/passwd", "gopher://www.acme.com/",
		"javascript:alert(1)", "http://[fe80::1%25lo]/", "http:///", "http://www.acme.com\\@127.0.0.1/", "/loop", "http://%31%32%37.0.0.1/",
	} {
		mu.Store(to)
		if r, err := get(t, c, "http://acme.com/start"); !errors.Is(err, ErrRedirect) {
			t.Errorf("to %s: %v, %v", to, r, err)
		}
	}
	if inner.reached.Load() != 0 {
		t.Errorf("the forbidden listener was reached %d times", inner.reached.Load())
	}
	for to, hops := range map[string]int{"/hop1": 1, "http://www.acme.com/hop1": 1, "/hop3": 3} {
		mu.Store(to)
		if r, err := get(t, c, "http://acme.com/start"); err != nil || r.Redirects != hops || r.Status != 200 {
			t.Errorf("to %s: %+v, %v", to, r, err)
		}
	}
	mu.Store("/hop4")
	if _, err := get(t, c, "http://acme.com/start"); !errors.Is(err, ErrRedirect) {
		t.Errorf("four hops: %v", err)
	}
}

func TestTargetsThatAreNotFetched(t *testing.T) {
	c := New(Config{})
	for _, url := range []string{
		"", "acme.com", "//acme.com/", "ftp://acme.com/", "http://", "http:acme.com", "http://user@acme.com/", "http://u:p@acme.com/",
		"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://①②⑦.⓪.⓪.①/",
		"http://127。0。0。1/", "http://[::1]/", "http://[::ffff:7f00:1]/", "http://[fe80::1%25eth0]/", "http://1.2.3.4/", "http://8.8.8.8/", "http://acme.0x1/",
		"http://localhost/", "http://localhost./", "http://printer/", "http://printer.local/", "http://db.internal/", "http://x.test/", "http://com/", "http://co.uk/",
		"http://acme.com:22/", "http://acme.com:8080/", "http://acme.com:0/", "http://acme.com:65616/", "http://acme.com:080/", "http://ac me.com/", "http://acme_.com/",
		"http://acme.com" + strings.Repeat("/x", 1024), "http://\x00acme.com/", "http://acme.com%2f@127.0.0.1/",
		"http://\xc8.com/", "http://xn--zn7c.com/",
	} {
		if r, err := get(t, c, url); !errors.Is(err, ErrTarget) {
			t.Errorf("%.60q: %v, %v", url, r, err)
		}
	}
	for url, want := range map[string]string{
		"http://BÜCHER.de/a?b#c": "http://xn--bcher-kva.de/a?b", "https://Acme.COM.:443/": "https://acme.com:443/", "http://user.github.io/": "http://user.github.io/",
	} {
		if u, err := c.target(url); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v, want %s", url, u, err, want)
		}
	}
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	proxy := listen(t, "127.0.0.1:0", nil)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	l := listen(t, "127.0.0.1:0", nil)
	resolver := names(t, map[string][]string{"open.acme.com": {"127.0.0.1"}})
	c := newClient(Config{Resolver: resolver}, l.port)
	c.dialer.ControlContext = nil // so that the way is open, and the proxy the only other one
	if _, err := get(t, c, fmt.Sprintf("http://open.acme.com:%d/", l.port)); err != nil || proxy.reached.Load() != 0 || l.reached.Load() != 1 {
		t.Errorf("%v, the proxy was reached %d times", err, proxy.reached.Load())
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	s.Config.ErrorLog = nil
	to := netip.MustParseAddrPort(s.Listener.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	cfg := Config{Map: map[string]netip.AddrPort{"example.com": to, "acme.com": to}, Roots: roots}
	if r, err := get(t, New(cfg), "https://example.com/"); err != nil || r.Status != 200 {
		t.Errorf("a certificate for this name: %v", err)
	}
	if _, err := get(t, New(cfg), "https://acme.com/"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a certificate for another name: %v", err)
	}
	cfg.Roots = x509.NewCertPool()
	if _, err := get(t, New(cfg), "https://example.com/"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

func TestNoDowngrade(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/", http.StatusFound)
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Config{Map: map[string]netip.AddrPort{"example.com": netip.MustParseAddrPort(s.Listener.Addr().String())}, Roots: roots})
	if _, err := get(t, c, "https://example.com/"); !errors.Is(err, ErrRedirect) {
		t.Errorf("%v", err)
	}
}

func TestOtherRequestsThanThoseForDocuments(t *testing.T) {
	l := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/kept":
			http.Redirect(w, r, "/told", http.StatusTemporaryRedirect)
		case "/changed":
			http.Redirect(w, r, "/told", http.StatusFound)
		case "/told":
			fmt.Fprint(w, r.Method, " ", r.Header.Get("X-Y"), " ", string(body))
		case "/endless":
			for r.Context().Err() == nil {
				fmt.Fprint(w, "word ")
				w.(http.Flusher).Flush()
			}
		}
	})
	c := mappedTo(l)
	post := func(path string) (*Response, error) {
		return c.Get(t.Context(), Request{URL: "http://acme.com" + path, Exchange: &Exchange{Method: "POST", Body: []byte("body"), Fields: map[string]string{"X-Y": "z"}}})
	}
	for _, path := range []string{"/told", "/kept"} {
		if r, err := post(path); err != nil || string(r.Body) != "POST z body" {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	if r, err := post("/changed"); err != nil || r.Status != http.StatusFound {
		t.Errorf("a redirect that changes the method: %+v, %v", r, err)
	}
	enough := &Exchange{Enough: func(h http.Header, body []byte) bool { return strings.Contains(string(body), "word word") }}
	if r, err := c.Get(t.Context(), Request{URL: "http://acme.com/endless", Exchange: enough}); err != nil || len(r.Body) == 0 || r.Truncated {
		t.Errorf("a body without end: %v", err)
	}
}
