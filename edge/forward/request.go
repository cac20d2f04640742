package forward

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"webring/edge/follow"
	"webring/edge/front"
	"webring/edge/voucher"
)

// outgoing is a request for an origin, without what differs for each time that it is sent.
type outgoing struct {
	method, target string
	header         http.Header
	body           []byte
	client         string
	secure         bool
	payment        bool                          // it brings a credential
	at             atomic.Pointer[follow.Origin] // that it was sent to last
}

// request copies a request. It is not ok when the request cannot be sent on byte for byte,
// for example with a folded field line: the next recipient would have to refuse or change
// that (RFC 9112, 5.2).
func (f *Forwarder) request(ctx *fasthttp.RequestCtx, client string, secure bool) (*outgoing, bool) {
	in := &ctx.Request
	target, _ := front.Target(&in.Header)
	if bytes.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, false
	}
	r := &outgoing{method: string(in.Header.Method()), target: string(target), header: http.Header{}, body: bytes.Clone(in.Body()),
		client: client, secure: secure, payment: hasCredential(ctx)}
	for line := range bytes.SplitSeq(in.Header.RawHeaders(), []byte("\r\n")) {
		if len(line) == 0 {
			continue // the end
		}
		raw, value, found := bytes.Cut(line, []byte(":"))
		value = bytes.Trim(value, " \t")
		if !found || !httpguts.ValidHeaderFieldName(string(raw)) || !httpguts.ValidHeaderFieldValue(string(value)) {
			return nil, false
		}
		name := http.CanonicalHeaderKey(string(raw))
		if hopByHop(name) || f.cfg.TrustedProxies.IsProxyField(name) {
			continue
		}
		r.header[name] = append(r.header[name], string(value))
	}
	for _, name := range connectionFields(r.header) {
		r.header.Del(name)
	}
	if _, has := r.header["User-Agent"]; !has {
		r.header["User-Agent"] = nil // or the transport would make one up
	}
	// All nodes log the request under one id, whatever the client has sent.
	if id := in.Header.Peek(front.IDField); len(id) > 0 {
		r.header[front.IDField] = []string{string(id)}
	}
	return r, true
}

// to makes of r a request to an origin, with a voucher of its own.
func (f *Forwarder) to(ctx context.Context, o *follow.Origin, r *outgoing) *http.Request {
	r.at.Store(o)
	scheme, host, _ := strings.Cut(o.URL, "://")
	req := &http.Request{
		// The target is opaque, because parsing could change its spelling.
		Method: r.method, Host: host, URL: &url.URL{Scheme: scheme, Host: host, Opaque: r.target},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.header.Clone(),
	}
	if len(r.body) > 0 || r.method == http.MethodDelete {
		// With a body and without GetBody, the transport never sends the request a second
		// time. Without one it would, where an Idempotency-Key is, and a DELETE without a
		// body has an effect.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	}
	if f.cfg.Secrets != nil {
		about := voucher.Request{Method: []byte(r.method), Target: []byte(r.target), Body: r.body}
		req.Header.Set(voucher.Field, voucher.New(f.cfg.Secrets.Current(), time.Now(), r.client, r.secure, about))
	}
	if f.cfg.ToLeader {
		req.Header.Set(voucher.ToLeaderField, "1")
	}
	return req.WithContext(ctx)
}

// connectionFields gives Connection and the fields that it names.
func connectionFields(h http.Header) (names []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return append(names, "Connection")
}

// hopByHop reports whether a field belongs to one connection (RFC 9110, 7.6.1).
// Connection itself is removed later, after it has been read.
func hopByHop(name string) bool {
	switch name {
	case "Host", "Content-Length", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", voucher.Field, voucher.StopField, voucher.ToLeaderField:
		return true
	}
	return false
}

// writtenHere reports whether this node writes a field of an answer for itself.
func writtenHere(name string) bool {
	return name == "Connection" || name == "Date" || name == front.IDField || strings.HasPrefix(name, "Ratelimit-")
}

// toLeader reports whether another node of the cluster took this one for the leader.
func toLeader(ctx *fasthttp.RequestCtx) bool {
	return len(ctx.Request.Header.Peek(voucher.ToLeaderField)) > 0
}

// hasCredential reports whether any line of a request may bring a payment, and hasX402 whether
// one may by x402.
func hasCredential(ctx *fasthttp.RequestCtx) bool {
	return hasField(ctx, "Authorization") || hasX402(ctx)
}
func hasX402(ctx *fasthttp.RequestCtx) bool { return hasField(ctx, x402Field) }

func hasField(ctx *fasthttp.RequestCtx, name string) bool {
	return slices.ContainsFunc(ctx.Request.Header.PeekAll(name), func(line []byte) bool { return len(line) > 0 })
}
