package fetch

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"webring/server/fair"
)

const (
	dialTime  = 3 * time.Second
	tlsTime   = 5 * time.Second
	firstByte = 5 * time.Second
	wholeTime = 10 * time.Second

	maxHeader    = 64 << 10 // bytes of a response's header
	maxRedirects = 3

	// MaxBody is how much of a decoded body is read unless the request says
	// otherwise, in bytes.
	MaxBody = 1 << 20
)

// Config is what a [Client] is made of. The zero value fetches public sites.
type Config struct {
	// Map sends fetches of hosts to one address and port each, which may be any.
	// Its keys are patterns as [hosts.Matches] takes them, in lower case. Development
	// only.
	Map map[string]netip.AddrPort
	// Allow are such patterns of hosts that are fetched although their names
	// are not public. Their addresses must be. Development only.
	Allow []string
	// Own are public addresses that lead back to the operator's machines, beside
	// those of this machine's interfaces. They are never connected to.
	Own    []netip.Addr
	Limits Limits

	// Resolver finds addresses of names; nil is the system's. Its answers need
	// no trust.
	Resolver *net.Resolver
	// Roots verify certificates; nil is the system's.
	Roots *x509.CertPool
}

// Client fetches from strangers' sites. It is safe for concurrent use.
type Client struct {
	cfg       Config
	limits    *limiter
	ports     []uint16      // that are ever connected to, but for mapped hosts
	whole     time.Duration // for one fetch
	dialer    *dialer
	transport *http.Transport
}

// New prepares a client.
func New(cfg Config) *Client { return newClient(cfg, 80, 443) }

func newClient(cfg Config, ports ...uint16) *Client {
	c := &Client{cfg: cfg, limits: newLimiter(cfg.Limits), ports: ports, whole: wholeTime}
	c.dialer = newDialer(c)
	c.transport = &http.Transport{
		Proxy:                  nil, // whatever the environment says
		DialContext:            c.dialer.dial,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTime,
		ResponseHeaderTimeout:  firstByte,
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        c.limits.limits.PerSite,
		MaxIdleConnsPerHost:    c.limits.limits.PerSite,
		MaxIdleConns:           c.limits.limits.InAll,
		IdleConnTimeout:        5 * time.Second,
		// Bodies are decoded here, where what comes is bounded, too.
		DisableCompression: true,
		// HTTP/1.1 only: a connection carries one answer at a time, so that
		// the bounds on each answer bound the connection.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return c
}

// Close gives idle connections up.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is one thing to read, by GET.
type Request struct {
	URL       string
	Accept    string // the Accept field; "" for anything
	UserAgent string // "" for [Agent]
	MaxBody   int64  // bytes of the decoded body; 0 for [MaxBody]
}

// Agent is the User-Agent field of requests that speak for nobody else.
const Agent = "webring/1 (agent-readiness)"

// Response is what came. The body is decoded and ends where the limit was met.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool     // the body went on after the limit
	URL       *url.URL // that answered in the end
	Redirects int
}

// Get reads what r asks for. It follows redirects and returns whatever status
// ends them.
func (c *Client) Get(ctx context.Context, r Request) (*Response, error) {
	u, err := c.target(r.URL)
	if err != nil {
		return nil, err
	}
	site := Site(u.Hostname())
	bounded, cancel := context.WithTimeoutCause(ctx, c.whole, ErrTooSlow)
	defer cancel()
	leave, err := c.limits.enter(bounded, c.counted(u.Hostname()))
	if err != nil {
		return nil, c.judge(ctx, err)
	}
	defer leave()
	for hops := 0; ; hops++ {
		resp, next, err := c.once(bounded, u, r)
		if err != nil {
			err = c.judge(ctx, err)
			if hops > 0 && errors.Is(err, ErrNoConnection) {
				err = ErrUnreachable // something was sent
			}
			return nil, err
		}
		if next == "" {
			resp.Redirects = hops
			return resp, nil
		}
		if hops == maxRedirects {
			return nil, fmt.Errorf("%w: there are more than %d", ErrRedirect, maxRedirects)
		}
		if u, err = c.follow(u, next, site); err != nil {
			return nil, err
		}
	}
}

// once sends one request. When the answer leads elsewhere it gives where.
func (c *Client) once(ctx context.Context, u *url.URL, r Request) (*Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("User-Agent", r.UserAgent)
	if r.UserAgent == "" {
		req.Header.Set("User-Agent", Agent)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, "", err
	}
	// Closing without reading on ends the connection: a body without end costs
	// no more than its limit.
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols:
		// Nobody asked for it, and what follows is a bare connection that no
		// context ends.
		return nil, "", errNoAnswer
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if next := resp.Header.Get("Location"); next != "" {
			return nil, next, nil
		}
	}
	limit := r.MaxBody
	if limit == 0 {
		limit = MaxBody
	}
	body, err := decoded(resp, limit+1)
	if err != nil {
		return nil, "", err
	}
	got := &Response{Status: resp.StatusCode, Header: resp.Header, Body: body, URL: u}
	if int64(len(body)) > limit {
		got.Body, got.Truncated = body[:limit], true
	}
	return got, "", nil
}

// counted is the name under which requests to a host are counted.
func (c *Client) counted(host string) string {
	if _, mapped := c.mapped(host); mapped {
		return host // the operator's own, each for itself
	}
	return Site(host)
}

// count counts a request to a host that is about to be sent on conn.
func (c *Client) count(ctx context.Context, host string, conn net.Conn) error {
	address := conn.RemoteAddr()
	if _, mapped := c.mapped(host); mapped {
		address = nil
	}
	return c.limits.send(fair.FromContext(ctx), c.counted(host), address)
}

// send sends a request, unless enough were sent to the site or to the address that
// it leads to. The dialer counts the first request of each connection, so that what
// never connects costs nothing.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	var refused error
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			return
		}
		// Nothing was sent, and nothing can be on a closed connection.
		if refused = c.count(req.Context(), req.URL.Hostname(), got.Conn); refused != nil {
			got.Conn.Close()
		}
	}})
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	if refused != nil {
		if err == nil { // it spoke before it was asked
			resp.Body.Close()
		}
		return nil, refused
	}
	return resp, err
}

// maxPacked is by how much a body may be longer as it comes than decoded.
const maxPacked = 64 << 10

// decoded reads the first bytes of a body. Both what comes and what it decodes to
// are bounded: zeros by the gigabyte come in a megabyte, and nothing at all in
// pieces of gzip without end.
func decoded(resp *http.Response, most int64) ([]byte, error) {
	var body io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(io.LimitReader(resp.Body, most+maxPacked))
		if errors.Is(err, io.EOF) {
			return nil, nil // no body, and so nothing that is packed
		}
		if err != nil {
			return nil, err
		}
		body = z
	}
	return io.ReadAll(io.LimitReader(body, most))
}

// follow says where a redirect leads, if it may.
func (c *Client) follow(from *url.URL, location, site string) (*url.URL, error) {
	ref, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("%w: its target is no URL", ErrRedirect)
	}
	to, err := c.target(from.ResolveReference(ref).String())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: its target is no public http or https URL", ErrRedirect)
	case from.Scheme == "https" && to.Scheme != "https":
		return nil, fmt.Errorf("%w: it leads from https to http", ErrRedirect)
	case Site(to.Hostname()) != site:
		return nil, fmt.Errorf("%w: it leads to another site", ErrRedirect)
	}
	return to, nil
}

// judge turns what went wrong into what callers may know. What stands behind an
// address that answers in no way is nobody's business.
func (c *Client) judge(ctx context.Context, err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("fetch: %w", context.Cause(ctx))
	case errors.As(err, new(*Busy)):
		return err
	case errors.Is(err, ErrNoConnection):
		// How long a port keeps silent is not told.
		return ErrNoConnection
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrTooSlow),
		errors.As(err, &timeout) && timeout.Timeout():
		return ErrTooSlow
	}
	return ErrUnreachable
}
