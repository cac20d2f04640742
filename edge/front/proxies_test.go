package front

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
		if got := ClientOf(canonical(netip.MustParseAddr(in))).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, a := range []net.Addr{&net.UnixAddr{Name: "/run/x"}, nil, &net.TCPAddr{}, &net.IPAddr{}} {
		if got := ClientOf(Peer(a)).String(); got != "local" {
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

// proxies gives trusted ones that name their client in a field, "" for the usual one.
func proxies(t testing.TB, field string, words ...string) *Proxies {
	t.Helper()
	p, err := ParseProxies(words)
	if err == nil && field != "" {
		err = p.NameClientsIn(field)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// asked names a client, and says so of a proxy that asks on its own account.
func asked(c Client) string {
	if c.IsProxy() {
		return c.String() + " itself"
	}
	return c.String()
}

func TestTheClientIsTheLastUntrustedHopOfOneField(t *testing.T) {
	const proxy, nobody = "10.0.0.1", "behind 10.0.0.1"
	for _, c := range []struct {
		rule, field, peer string
		fields            []string
		want              string
	}{
		{"peers that are no proxy are not believed", "", "198.51.100.1", []string{"X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1"}, "198.51.100.1"},
		{"a proxy without fields speaks for itself", "", proxy, nil, "10.0.0.1 itself"},
		{"one hop", "", proxy, []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"what the client wrote before is not looked at", "", proxy, []string{"X-Forwarded-For", "1.1.1.1, 2.2.2.2, 192.0.2.1"}, "192.0.2.1"},
		{"trusted hops are skipped", "", proxy, []string{"X-Forwarded-For", "1.1.1.1, 192.0.2.1, 10.9.9.9 ,172.16.3.4"}, "192.0.2.1"},
		{"lines are one list", "", proxy, []string{"X-Forwarded-For", "1.1.1.1,192.0.2.1", "X-Forwarded-For", "10.9.9.9"}, "192.0.2.1"},
		{"an unreadable line of the client's", "", proxy, []string{"X-Forwarded-For", "unknown,,\"", "X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"empty elements do not count", "", proxy, []string{"X-Forwarded-For", ",, 192.0.2.1 , ,"}, "192.0.2.1"},
		{"all hops trusted: the first", "", proxy, []string{"X-Forwarded-For", "10.3.3.3, 10.4.4.4"}, "10.3.3.3 itself"},
		{"port", "", proxy, []string{"X-Forwarded-For", "192.0.2.1:55555"}, "192.0.2.1"},
		{"IPv6", "", proxy, []string{"X-Forwarded-For", "2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{"IPv6 with port", "", proxy, []string{"X-Forwarded-For", "[2001:db8:1:2:3::4]:80"}, "2001:db8:1:2::/64"},
		{"mapped IPv4", "", proxy, []string{"X-Forwarded-For", "::ffff:192.0.2.1"}, "192.0.2.1"},
		{"zone", "", proxy, []string{"X-Forwarded-For", "fe80::1%eth0"}, "fe80::/64"},
		{"a proxy by single address", "", "203.0.113.9", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"an IPv6 proxy", "", "2001:db8:aaaa::5", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"a mapped proxy", "", "::ffff:10.0.0.1", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"unknown hop", "", proxy, []string{"X-Forwarded-For", "1.1.1.1, unknown"}, nobody},
		{"garbage hop", "", proxy, []string{"X-Forwarded-For", "1.1.1.1, \x80\xff"}, nobody},
		{"number too many", "", proxy, []string{"X-Forwarded-For", "1.1.1.1, 1.2.3.4.5"}, nobody},
		{"unclosed bracket", "", proxy, []string{"X-Forwarded-For", "[2001:db8::1"}, nobody},
		{"word after bracket", "", proxy, []string{"X-Forwarded-For", "[2001:db8::1]x"}, nobody},
		{"very long hop", "", proxy, []string{"X-Forwarded-For", strings.Repeat("1", 5000)}, nobody},
		{"nothing in it", "", proxy, []string{"X-Forwarded-For", ""}, nobody},
		{"nobody, behind an IPv6 proxy", "", "2001:db8:aaaa::5", []string{"X-Forwarded-For", "-"}, "behind 2001:db8:aaaa::/64"},
		{"other fields do not contradict it", "", proxy, []string{"X-Forwarded-For", "192.0.2.1", "Forwarded", "for=unknown", "X-Real-IP", "1.1.1.1"}, "192.0.2.1"},
		{"other fields do not stand in for it", "", proxy, []string{"Forwarded", "for=192.0.2.1", "CF-Connecting-IP", "1.1.1.1"}, "10.0.0.1 itself"},
		{"nor for one that is unreadable", "", proxy, []string{"X-Forwarded-For", "unknown", "Forwarded", "for=192.0.2.1"}, nobody},

		{"Forwarded", "Forwarded", proxy, []string{"Forwarded", "for=192.0.2.1;proto=https"}, "192.0.2.1"},
		{"quoted", "Forwarded", proxy, []string{"Forwarded", `By=_x; FOR="[2001:db8:1:2::9]:4711" ;host=a`}, "2001:db8:1:2::/64"},
		{"list", "Forwarded", proxy, []string{"Forwarded", `for=1.1.1.1, for=192.0.2.1, for="10.1.1.1:80"`}, "192.0.2.1"},
		{"comma and semicolon in quotes", "Forwarded", proxy, []string{"Forwarded", `for=192.0.2.1;host="a,for=1.1.1.1;for=2.2.2.2"`}, "192.0.2.1"},
		{"lines", "Forwarded", proxy, []string{"Forwarded", "for=192.0.2.1", "Forwarded", "for=10.2.2.2"}, "192.0.2.1"},
		{"good last line after a bad one", "Forwarded", proxy, []string{"Forwarded", `for="`, "Forwarded", "for=192.0.2.1"}, "192.0.2.1"},
		{"X-Forwarded-For beside it", "forwarded", proxy, []string{"Forwarded", "for=192.0.2.1", "X-Forwarded-For", "unknown"}, "192.0.2.1"},
		{"X-Forwarded-For alone", "Forwarded", proxy, []string{"X-Forwarded-For", "192.0.2.1"}, "10.0.0.1 itself"},
		{"hidden hop", "Forwarded", proxy, []string{"Forwarded", "for=1.1.1.1, for=_hidden"}, nobody},
		{"unknown hop of Forwarded", "Forwarded", proxy, []string{"Forwarded", "for=unknown"}, nobody},
		{"unclosed quote", "Forwarded", proxy, []string{"Forwarded", `for="192.0.2.1`}, nobody},
		{"quote that swallows the proxy's element", "Forwarded", proxy, []string{"Forwarded", `for=1.1.1.1;x=", for=192.0.2.1`}, nobody},
		{"backslash", "Forwarded", proxy, []string{"Forwarded", `for="192.0.2\.1"`}, nobody},
		{"for twice", "Forwarded", proxy, []string{"Forwarded", "for=1.1.1.1;for=192.0.2.1"}, nobody},
		{"no for", "Forwarded", proxy, []string{"Forwarded", "proto=https"}, nobody},
		{"element without a value", "Forwarded", proxy, []string{"Forwarded", "for"}, nobody},

		{"one address", "CF-Connecting-IP", proxy, []string{"cf-connecting-ip", "192.0.2.1", "X-Forwarded-For", "1.1.1.1", "Forwarded", "for=_x"}, "192.0.2.1"},
		{"one IPv6 address", "X-Real-IP", proxy, []string{"X-Real-IP", "2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{"an address that is a proxy's", "X-Real-IP", proxy, []string{"X-Real-IP", "10.7.7.7"}, "10.7.7.7 itself"},
		{"a list where one address belongs", "X-Real-IP", proxy, []string{"X-Real-IP", "1.1.1.1, 192.0.2.1"}, nobody},
		{"two lines where one belongs", "X-Real-IP", proxy, []string{"X-Real-IP", "1.1.1.1", "X-Real-IP", "192.0.2.1"}, nobody},
		{"no address where one belongs", "X-Real-IP", proxy, []string{"X-Real-IP", "unknown"}, nobody},
		{"no such field", "X-Real-IP", proxy, []string{"X-Forwarded-For", "192.0.2.1"}, "10.0.0.1 itself"},

		{"a Unix socket is no proxy unless named", "", "", []string{"X-Forwarded-For", "192.0.2.1"}, "local"},
	} {
		p := proxies(t, c.field, "10.0.0.0/8", "::ffff:172.16.0.0/108", "2001:db8:aaaa::/48", "203.0.113.9")
		if got := asked(p.Client(withPeer(c.peer, false, c.fields...))); got != c.want {
			t.Errorf("%s: %q from %s: %s, want %s", c.rule, c.fields, c.peer, got, c.want)
		}
	}
	u := proxies(t, "", "unix")
	for value, want := range map[string]string{"192.0.2.1": "192.0.2.1", "192.0.2.1, unknown": "behind local"} {
		if got := asked(u.Client(withPeer("", false, "X-Forwarded-For", value))); got != want {
			t.Errorf("%q from a Unix socket that is named: %s, want %s", value, got, want)
		}
	}
	if got := asked(u.Client(withPeer("", false))); got != "local itself" {
		t.Errorf("a Unix socket that is named, without the field: %s", got)
	}
}

func TestPaymentsNeedASecureConnection(t *testing.T) {
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
		{"a field that this proxy does not write says https", proxy, false, []string{"Forwarded", `for=192.0.2.1;proto="https"`}, false},
		{"and beside it the proxy says http", proxy, false, []string{"Forwarded", "for=192.0.2.1;proto=https", "X-Forwarded-Proto", "http"}, false},
		{"a stranger's Forwarded takes nothing from the proxy's word", proxy, false, []string{"Forwarded", "for=unknown;proto=http", "X-Forwarded-Proto", "https"}, true},
		{"proxy says http", proxy, false, []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy over TLS says http", proxy, true, []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy over TLS says nothing of the protocol", proxy, true, []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"proxy says nothing of the protocol", proxy, false, []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"a proxy by itself, over TLS", proxy, true, nil, true},
		{"a proxy by itself, in the clear", proxy, false, nil, false},
		{"one proxy spoke http", proxy, false, []string{"X-Forwarded-Proto", "https, http"}, false},
		{"the client claims https, the proxy adds http", proxy, false, []string{"X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http"}, false},
		{"a proxy over TLS that says nothing but Via", proxy, true, []string{"Via", "1.1 x"}, false},
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
		{"loopback with the field of a tunnel's end", "127.0.0.1", false, []string{"CF-Connecting-IP", "192.0.2.1"}, false},
		{"loopback with X-Forwarded-Port", "127.0.0.1", false, []string{"X-Forwarded-Port", "443"}, false},
		{"loopback with a field that is nobody's", "127.0.0.1", false, []string{"X-Elsewhere", "192.0.2.1"}, true},
		{"loopback that is a trusted proxy", "127.0.0.9", false, nil, false},
		{"loopback proxy that says https", "127.0.0.9", false, []string{"X-Forwarded-Proto", "https"}, true},
		{"a private address is not this machine", "192.168.0.1", false, nil, false},
	} {
		p := proxies(t, "", "10.0.0.0/8", "127.0.0.9")
		if got := p.Secure(withPeer(c.peer, c.tls, c.fields...)); got != c.want {
			t.Errorf("%s: %q from %s: %v", c.rule, c.fields, c.peer, got)
		}
	}
}

func TestTheSchemeComesFromTheFieldThatIsBelieved(t *testing.T) {
	for _, c := range []struct {
		rule, field, peer string
		fields            []string
		want              bool
	}{
		{"Forwarded says https", "Forwarded", "10.0.0.1", []string{"Forwarded", `for=192.0.2.1;proto="HTTPS"`}, true},
		{"Forwarded says https, of nobody in particular", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=unknown;proto=https"}, true},
		{"the hop of the client counts", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=192.0.2.1;proto=http, for=10.0.0.2;proto=https"}, false},
		{"what the client wrote does not", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=1.1.1.1;proto=https, for=192.0.2.1;proto=http"}, false},
		{"proto twice", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=192.0.2.1;proto=http;proto=https"}, false},
		{"Forwarded cannot be read", "Forwarded", "10.0.0.1", []string{"Forwarded", `for="192.0.2.1;proto=https`}, false},
		{"no proto", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=192.0.2.1"}, false},
		{"X-Forwarded-Proto beside it", "Forwarded", "10.0.0.1", []string{"Forwarded", "for=192.0.2.1;proto=http", "X-Forwarded-Proto", "https"}, false},
		{"X-Forwarded-Proto instead", "Forwarded", "10.0.0.1", []string{"X-Forwarded-Proto", "https"}, false},
		{"one address, and X-Forwarded-Proto", "X-Real-IP", "10.0.0.1", []string{"X-Real-IP", "192.0.2.1", "X-Forwarded-Proto", "https"}, true},
		{"one address, and Forwarded", "X-Real-IP", "10.0.0.1", []string{"X-Real-IP", "192.0.2.1", "Forwarded", "for=192.0.2.1;proto=https"}, false},
		{"one address alone", "X-Elsewhere", "10.0.0.1", []string{"X-Elsewhere", "192.0.2.1"}, false},
		{"loopback that is no trusted proxy, with the field that is chosen", "X-Elsewhere", "127.0.0.1", []string{"X-Elsewhere", "192.0.2.1"}, false},
		{"with one that is not", "X-Elsewhere", "127.0.0.1", []string{"X-Forwarded-For", "192.0.2.1"}, false},
		{"with none", "X-Elsewhere", "127.0.0.1", nil, true},
	} {
		p := proxies(t, c.field, "10.0.0.0/8")
		if got := p.Secure(withPeer(c.peer, false, c.fields...)); got != c.want {
			t.Errorf("%s: %q from %s: %v", c.rule, c.fields, c.peer, got)
		}
	}
}

func TestAFieldIsNamedByAToken(t *testing.T) {
	for _, field := range []string{"", "X Real IP", "X-Real-IP:", "\u00fc", "a\r\nb"} {
		var p Proxies
		if err := p.NameClientsIn(field); err == nil {
			t.Errorf("%q names a field", field)
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
	p, elements := proxies(f, "", "10.0.0.0/8", "unix"), proxies(f, "Forwarded", "10.0.0.0/8", "unix")
	f.Fuzz(func(t *testing.T, forwarded, forwardedFor string) {
		for _, s := range []string{forwarded, forwardedFor} {
			if strings.ContainsAny(s, "\r\n") {
				t.Skip("no header field has line breaks")
			}
		}
		const proxy, nobody, want = "10.0.0.1", "behind 10.0.0.1", "198.51.100.7"
		// Whatever a client sends, it does not choose who it is.
		x := withPeer(proxy, false, "Forwarded", forwarded, "X-Forwarded-For", forwardedFor+", "+want)
		if got := p.Client(x).String(); got != want {
			t.Errorf("X-Forwarded-For: %s", got)
		}
		if p.Secure(x) {
			t.Error("secure although the proxy did not say so")
		}
		one := withPeer(proxy, false, "Forwarded", forwarded+", for="+want+";proto=http")
		if got := elements.Client(one).String(); got != want && got != nobody {
			t.Errorf("Forwarded: %s", got)
		}
		if elements.Secure(one) {
			t.Error("secure although the proxy said http")
		}
		two := withPeer(proxy, false, "X-Forwarded-For", forwardedFor, "Forwarded", forwarded, "Forwarded", "for="+want)
		if got := elements.Client(two).String(); got != want {
			t.Errorf("Forwarded on two lines: %s", got)
		}
	})
}
