package fetch

import (
	"bufio"
	"bytes"
	"cmp"
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

	"webring/edge/share"
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
	// Map gives hosts an address and port to be fetched from, which need not be
	// public. Its keys are patterns of [MatchHost], in lower case. For development
	// only.
	Map map[string]netip.AddrPort
	// Own are public addresses that lead back to the operator's machines, in addition to
	// those of this machine's interfaces. They are never connected to.
	Own    []netip.Addr
	Limits Limits

	// Resolver finds the addresses of names; nil stands for the system's. Its answers
	// are checked.
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

// New makes a client.
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

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is a request, a GET unless Exchange says otherwise. Requests can be compared.
type Request struct {
	URL       string
	Accept    string    // the Accept field; "" for anything
	UserAgent string    // "" for [Agent]
	MaxBody   int64     // bytes of the decoded body; 0 for [MaxBody]
	Exchange  *Exchange // nil: a GET that reads up to MaxBody
}

// Exchange is what a request has in addition to those that only read documents.
type Exchange struct {
	Method string // "" for GET
	Body   []byte
	Fields map[string]string // more header fields
	// Enough ends the reading early, for bodies that need not end. It is asked with what has
	// come of the decoded body, each time that more has. nil reads on.
	Enough func(header http.Header, body []byte) bool
}

// Agent is the User-Agent field of a [Request] that names none.
const Agent = "webring/1 (agent-readiness)"

// Response is an answer. Its body is decoded, and cut at the limit of its request.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool     // the body went on after the limit
	URL       *url.URL // that answered in the end
	Redirects int
}

// Get sends a request. It follows redirects within one site, and returns the last
// answer whatever its status. A request other than GET is sent on by a redirect of 307 or 308
// only, and another redirect is its answer. See the errors of this package.
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
		return nil, c.public(ctx, err)
	}
	defer leave()
	for hops := 0; ; hops++ {
		resp, next, err := c.once(bounded, u, r)
		if err != nil {
			err = c.public(ctx, err)
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

// once sends one request. If the answer is a redirect, next is its target.
func (c *Client) once(ctx context.Context, u *url.URL, r Request) (*Response, string, error) {
	x := cmp.Or(r.Exchange, &Exchange{})
	var sent io.Reader
	if len(x.Body) > 0 {
		sent = struct{ io.Reader }{bytes.NewReader(x.Body)} // the transport never sends it a second time
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(x.Method, http.MethodGet), u.String(), sent)
	if err != nil {
		return nil, "", err
	}
	req.ContentLength = int64(len(x.Body))
	for name, value := range x.Fields {
		req.Header.Set(name, value)
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
		// Switching protocols was not asked for, and no context would end the bare
		// connection that follows.
		return nil, "", errNoAnswer
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		keeps := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
		if next := resp.Header.Get("Location"); next != "" && (keeps || req.Method == http.MethodGet) {
			return nil, next, nil
		}
	}
	limit := r.MaxBody
	if limit == 0 {
		limit = MaxBody
	}
	body, err := decoded(resp, limit+1, x.Enough)
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

// count counts a request to a host that is about to be sent on conn; nil for a question
// about its name.
func (c *Client) count(ctx context.Context, host string, conn net.Conn) error {
	var address net.Addr
	if _, mapped := c.mapped(host); !mapped && conn != nil {
		address = conn.RemoteAddr()
	}
	return c.limits.send(share.FromContext(ctx), c.counted(host), address)
}

// send sends a request, unless the site or its address has had as many as it may. The
// dialer counts the first request of each connection, so a request that finds no
// connection is not counted.
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

// maxPacked is by how many bytes a body may be longer compressed than decoded.
const maxPacked = 64 << 10

// maxAsked is how often it is asked whether a body is enough already: that reads all of it,
// and a body can come byte by byte.
const maxAsked = 256

var gzipMark = []byte("\x1f\x8b")

// IsGzip says whether a body begins as a gzip file does (RFC 1952).
func IsGzip(body []byte) bool { return bytes.HasPrefix(body, gzipMark) }

// Gunzip unpacks up to most bytes of a gzip file, as far as it can be read.
func Gunzip(body []byte, most int64) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(z, most))
	return text
}

// decoded reads the first most bytes of a body. It bounds the bytes that it reads and
// those that they decode to: a megabyte can decode to gigabytes of zeros, and endless
// empty gzip members to nothing.
func decoded(resp *http.Response, most int64, enough func(http.Header, []byte) bool) ([]byte, error) {
	var body io.Reader = resp.Body
	if coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); coding == "gzip" || coding == "x-gzip" {
		packed := bufio.NewReader(io.LimitReader(resp.Body, most+maxPacked))
		body = packed
		// Some servers put the label on bodies that are not packed.
		if start, _ := packed.Peek(len(gzipMark)); IsGzip(start) {
			z, err := gzip.NewReader(packed)
			if err != nil {
				return nil, err
			}
			body = z
		}
	}
	body = io.LimitReader(body, most)
	if enough == nil {
		return io.ReadAll(body)
	}
	var all []byte
	for part, asked := make([]byte, 4096), 0; ; asked++ {
		n, err := body.Read(part)
		all = append(all, part[:n]...)
		switch {
		case errors.Is(err, io.EOF), n > 0 && asked < maxAsked && enough(resp.Header, all):
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// follow gives the target of a redirect, or refuses it.
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

// public turns an error into one of those that callers may see. They must not learn
// what is behind an address that gave no whole answer.
func (c *Client) public(ctx context.Context, err error) error {
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
