package edge

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestClientsAreAnAddressOrASixtyFour(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "255.255.255.255": "255.255.255.255",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := ip(in).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, a := range []net.Addr{&net.UnixAddr{Name: "/run/x"}, nil, &net.TCPAddr{}, &net.IPAddr{}} {
		if got := clientOf(remoteAddr(a)).String(); got != "local" {
			t.Errorf("%v: %s, want local", a, got)
		}
	}
}

// withPeer gives a request from addr, "" for a Unix socket.
func withPeer(addr string, secure bool, fields ...string) *fasthttp.RequestCtx {
	var req fasthttp.Request
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	var remote net.Addr = &net.UnixAddr{}
	if addr != "" {
		remote = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4711))
	}
	ctx := new(fasthttp.RequestCtx)
	if secure {
		client, _ := net.Pipe()
		ctx.Init2(tls.Server(peerConn{client, remote}, &tls.Config{}), nil, false)
		req.CopyTo(&ctx.Request)
		return ctx
	}
	ctx.Init(&req, remote, nil)
	return ctx
}

type peerConn struct {
	net.Conn
	remote net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.remote }

func proxies(t testing.TB, words ...string) *Proxies {
	t.Helper()
	p, err := ParseProxies(words)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestTheClientIsTheLastUntrustedHop(t *testing.T) {
	p := proxies(t, "10.0.0.0/8", "::ffff:172.16.0.0/108", "2001:db8:aaaa::/48", "203.0.113.9")
	const proxy = "10.0.0.1"
	for _, c := range []struct {
		rule, peer string
		fields     []string
		want       string
	}{
		{"peers that are no proxy are not believed", "198.51.100.1", []string{"X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1"}, "198.51.100.1"},
		{"a proxy without fields speaks for itself", proxy, nil, "10.0.0.1"},
		{"one hop", proxy, []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"what the client wrote before is not looked at", proxy, []string{"X-Forwarded-For", "1.1.1.1, 2.2.2.2, 192.0.2.1"}, "192.0.2.1"},
		{"trusted hops are skipped", proxy, []string{"X-Forwarded-For", "1.1.1.1, 192.0.2.1, 10.9.9.9 ,172.16.3.4"}, "192.0.2.1"},
		{"lines are one list", proxy, []string{"X-Forwarded-For", "1.1.1.1,192.0.2.1", "X-Forwarded-For", "10.9.9.9"}, "192.0.2.1"},
		{"empty elements do not count", proxy, []string{"X-Forwarded-For", ",, 192.0.2.1 , ,"}, "192.0.2.1"},
		{"all hops trusted: the first", proxy, []string{"X-Forwarded-For", "10.3.3.3, 10.4.4.4"}, "10.3.3.3"},
		{"port", proxy, []string{"X-Forwarded-For", "192.0.2.1:55555"}, "192.0.2.1"},
		{"IPv6", proxy, []string{"X-Forwarded-For", "2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{"IPv6 with port", proxy, []string{"X-Forwarded-For", "[2001:db8:1:2:3::4]:80"}, "2001:db8:1:2::/64"},
		{"mapped IPv4", proxy, []string{"X-Forwarded-For", "::ffff:192.0.2.1"}, "192.0.2.1"},
		{"zone", proxy, []string{"X-Forwarded-For", "fe80::1%eth0"}, "fe80::/64"},
		{"a proxy by single address", "203.0.113.9", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"an IPv6 proxy", "2001:db8:aaaa::5", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"a mapped proxy", "::ffff:10.0.0.1", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},

		{"Forwarded", proxy, []string{"Forwarded", "for=192.0.2.1;proto=https"}, "192.0.2.1"},
		{"Forwarded, quoted", proxy, []string{"Forwarded", `By=_x; FOR="[2001:db8:1:2::9]:4711" ;host=a`}, "2001:db8:1:2::/64"},
		{"Forwarded, list", proxy, []string{"Forwarded", `for=1.1.1.1, for=192.0.2.1, for="10.1.1.1:80"`}, "192.0.2.1"},
		{"Forwarded, comma and semicolon in quotes", proxy, []string{"Forwarded", `for=192.0.2.1;host="a,for=1.1.1.1;for=2.2.2.2"`}, "192.0.2.1"},
		{"Forwarded, lines", proxy, []string{"Forwarded", "for=192.0.2.1", "Forwarded", "for=10.2.2.2"}, "192.0.2.1"},
		{"Forwarded, good last line after a bad one", proxy, []string{"Forwarded", `for="`, "Forwarded", "for=192.0.2.1"}, "192.0.2.1"},

		{"hidden hop", proxy, []string{"Forwarded", "for=1.1.1.1, for=_hidden"}, "10.0.0.1"},
		{"unknown hop", proxy, []string{"X-Forwarded-For", "1.1.1.1, unknown"}, "10.0.0.1"},
		{"garbage hop", proxy, []string{"X-Forwarded-For", "1.1.1.1, \x80\xff"}, "10.0.0.1"},
		{"number too many", proxy, []string{"X-Forwarded-For", "1.1.1.1, 1.2.3.4.5"}, "10.0.0.1"},
		{"unclosed bracket", proxy, []string{"X-Forwarded-For", "[2001:db8::1"}, "10.0.0.1"},
		{"word after bracket", proxy, []string{"X-Forwarded-For", "[2001:db8::1]x"}, "10.0.0.1"},
		{"very long hop", proxy, []string{"X-Forwarded-For", strings.Repeat("1", 5000)}, "10.0.0.1"},
		{"nothing in it", proxy, []string{"X-Forwarded-For", ""}, "10.0.0.1"},
		{"unclosed quote", proxy, []string{"Forwarded", `for="192.0.2.1`}, "10.0.0.1"},
		{"quote that swallows the proxy's element", proxy, []string{"Forwarded", `for=1.1.1.1;x=", for=192.0.2.1`}, "10.0.0.1"},
		{"backslash", proxy, []string{"Forwarded", `for="192.0.2\.1"`}, "10.0.0.1"},
		{"for twice", proxy, []string{"Forwarded", "for=1.1.1.1;for=192.0.2.1"}, "10.0.0.1"},
		{"no for", proxy, []string{"Forwarded", "proto=https"}, "10.0.0.1"},
		{"element without a value", proxy, []string{"Forwarded", "for"}, "10.0.0.1"},

		{"both fields agree", proxy, []string{"Forwarded", "for=192.0.2.1", "X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"the fields contradict each other", proxy, []string{"Forwarded", "for=1.1.1.1", "X-Forwarded-For", "192.0.2.1"}, "10.0.0.1"},
		{"one of them is unreadable", proxy, []string{"Forwarded", "for=_x", "X-Forwarded-For", "192.0.2.1"}, "10.0.0.1"},
		{"a Unix socket is no proxy unless named", "", []string{"X-Forwarded-For", "192.0.2.1"}, "local"},
	} {
		if got := p.client(withPeer(c.peer, false, c.fields...)).String(); got != c.want {
			t.Errorf("%s: %q from %s: %s, want %s", c.rule, c.fields, c.peer, got, c.want)
		}
	}
	u := proxies(t, "unix")
	if got := u.client(withPeer("", false, "X-Forwarded-For", "192.0.2.1")).String(); got != "192.0.2.1" {
		t.Errorf("Unix socket that is named: %s", got)
	}
	if got := u.client(withPeer("", false, "X-Forwarded-For", "192.0.2.1, unknown")).String(); got != "local" {
		t.Errorf("Unix socket and a hop that cannot be told: %s", got)
	}
}

func TestPaymentsNeedASecureConnection(t *testing.T) {
	p := proxies(t, "10.0.0.0/8", "127.0.0.9")
	const proxy = "10.0.0.1"
	for _, c := range []struct {
		rule, peer string
		tls        bool
		fields     []string
		want       bool
	}{
		{"direct over TLS", "198.51.100.1", true, nil, true},
		{"direct over TLS, whatever it forwards", "198.51.100.1", true, []string{"X-Forwarded-Proto", "http"}, true},
		{"direct in the clear", "198.51.100.1", false, nil, false},
		{"a stranger that says https", "198.51.100.1", false, []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1"}, false},

		{"proxy says https", proxy, false, []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1"}, true},
		{"proxy says https without saying for whom", proxy, false, []string{"X-Forwarded-Proto", "HTTPS"}, true},
		{"proxy says https in Forwarded", proxy, false, []string{"Forwarded", `for=192.0.2.1;proto="https"`}, true},
		{"proxy says http", proxy, false, []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy over TLS says http", proxy, true, []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy over TLS says nothing of the protocol", proxy, true, []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy says nothing of the protocol", proxy, false, []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"a proxy by itself, over TLS", proxy, true, nil, true},
		{"a proxy by itself, in the clear", proxy, false, nil, false},
		{"one proxy spoke http", proxy, false, []string{"X-Forwarded-Proto", "https, http"}, false},
		{"the client claims https, the proxy adds http", proxy, false, []string{"X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http"}, false},
		{"the hop of the client counts", proxy, false, []string{"Forwarded", "for=192.0.2.1;proto=http, for=10.0.0.2;proto=https"}, false},
		{"what the client wrote does not", proxy, false, []string{"Forwarded", "for=1.1.1.1;proto=https, for=192.0.2.1;proto=http"}, false},
		{"proto twice", proxy, false, []string{"Forwarded", "for=192.0.2.1;proto=http;proto=https"}, false},
		{"the two fields contradict each other", proxy, false, []string{"Forwarded", "for=192.0.2.1;proto=https", "X-Forwarded-Proto", "http"}, false},
		{"Forwarded cannot be read", proxy, false, []string{"Forwarded", `for="192.0.2.1;proto=http`, "X-Forwarded-Proto", "https"}, false},
		{"another protocol", proxy, false, []string{"X-Forwarded-Proto", "httpsx"}, false},
		{"empty protocol", proxy, false, []string{"X-Forwarded-Proto", ""}, false},

		{"loopback", "127.0.0.1", false, nil, true},
		{"IPv6 loopback", "::1", false, nil, true},
		{"mapped loopback", "::ffff:127.0.0.1", false, nil, true},
		{"Unix socket", "", false, nil, true},
		{"loopback that forwards", "127.0.0.1", false, []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"loopback that says https and is no trusted proxy", "127.0.0.1", false, []string{"X-Forwarded-Proto", "https"}, false},
		{"loopback with Forwarded", "::1", false, []string{"Forwarded", "for=192.0.2.1;proto=https"}, false},
		{"loopback with Via", "127.0.0.1", false, []string{"Via", "1.1 x"}, false},
		{"loopback with X-Real-IP", "127.0.0.1", false, []string{"X-Real-IP", "192.0.2.1"}, false},
		{"loopback that is a trusted proxy", "127.0.0.9", false, nil, false},
		{"loopback proxy that says https", "127.0.0.9", false, []string{"X-Forwarded-Proto", "https"}, true},
		{"a private address is not this machine", "192.168.0.1", false, nil, false},
	} {
		if got := p.secure(withPeer(c.peer, c.tls, c.fields...)); got != c.want {
			t.Errorf("%s: %q from %s: %v", c.rule, c.fields, c.peer, got)
		}
	}
}

func TestParseProxiesRefusesWhatIsNoAddress(t *testing.T) {
	for _, w := range []string{"", "localhost", "10.0.0.0/33", "10.0.0", "fe80::1%eth0", "*", "10.0.0.1:80", "UNIX"} {
		if p, err := ParseProxies([]string{"10.0.0.1", w}); err == nil {
			t.Errorf("%q: %v", w, p)
		} else if w != "" && !strings.Contains(err.Error(), w) {
			t.Errorf("%q: the error does not name it: %v", w, err)
		}
	}
}

func FuzzForwarded(f *testing.F) {
	f.Add("for=1.1.1.1, for=\"[::1]:80\";proto=https", "1.1.1.1, unknown, ")
	f.Add(`for="`, `"`)
	f.Add(";;,=,\"\"", "[")
	p := proxies(f, "10.0.0.0/8", "unix")
	f.Fuzz(func(t *testing.T, forwarded, forwardedFor string) {
		for _, s := range []string{forwarded, forwardedFor} {
			if strings.ContainsAny(s, "\r\n") {
				t.Skip("no header field has line breaks")
			}
		}
		const proxy, want = "10.0.0.1", "198.51.100.7"
		// Whatever a client sends, it does not choose who it is.
		x := withPeer(proxy, false, "X-Forwarded-For", forwardedFor+", "+want)
		if got := p.client(x).String(); got != want {
			t.Errorf("X-Forwarded-For: %s", got)
		}
		if p.secure(x) {
			t.Error("secure although the proxy did not say so")
		}
		one := withPeer(proxy, false, "Forwarded", forwarded+", for="+want+";proto=http")
		if got := p.client(one).String(); got != want && got != proxy {
			t.Errorf("Forwarded: %s", got)
		}
		if p.secure(one) {
			t.Error("secure although the proxy said http")
		}
		two := withPeer(proxy, false, "Forwarded", forwarded, "Forwarded", "for="+want)
		if got := p.client(two).String(); got != want {
			t.Errorf("Forwarded on two lines: %s", got)
		}
		both := withPeer(proxy, false, "Forwarded", forwarded, "X-Forwarded-For", forwardedFor+", "+want)
		if got := p.client(both).String(); got != want && got != proxy {
			t.Errorf("a Forwarded of its own: %s", got)
		}
	})
}
