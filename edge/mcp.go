package edge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/edge/mcp"
	"webring/edge/voucher"
)

const mcpPath = "/mcp"

// toolReader is the read surface of tools: the core's, and what the origin has besides the
// ledger.
type toolReader struct{ s *Shell }

// BaseURL and Serve are for [mcp.Reader].
func (r toolReader) BaseURL() string { return r.s.core.BaseURL() }
func (r toolReader) Serve(target []byte, to *api.Response) {
	path, query, _ := strings.Cut(string(target), "?")
	var given fasthttp.Args
	given.Parse(query)
	longest := maxOriginParameter
	parameters, known := r.s.originParameters([]byte(path))
	if path == ringPath && r.s.asksForWords(&given) {
		parameters, longest, known = searchParameters, len(query), true
	}
	if !known {
		r.s.core.Serve(target, to)
		return
	}
	d := r.s.originData(context.Background(), path, originQuery(&given, parameters, longest))
	*to = api.Response{Status: d.Status, Body: d.Body}
}

// mayCall says whether a message to the MCP server or the agent is JSON, and from no page that may
// not send it. If it may not be sent, its answer says why.
func (s *Shell) mayCall(ctx *fasthttp.RequestCtx) bool {
	if why := s.foreignOrigin(ctx); why != "" {
		s.problem(ctx, refusal{api.OriginNotAllowed, why, ""})
		return false
	}
	if !jsonBody(&ctx.Request.Header) {
		s.problem(ctx, notJSON)
		return false
	}
	return true
}

// callTool takes one message of an MCP client, or a batch, each message of which is counted as
// a request.
func (s *Shell) callTool(ctx *fasthttp.RequestCtx) {
	if !s.mayCall(ctx) || !s.countMore(ctx, mcp.Messages(Body(ctx))-1) {
		return
	}
	fields := http.Header{}
	for name, value := range ctx.Request.Header.All() {
		if len(name) > 4 && strings.EqualFold(string(name[:4]), "mcp-") {
			fields.Add(string(name), string(value))
		}
	}
	from, ok := ctx.UserValue(senderKey{}).(voucher.Sender)
	if !ok {
		from = voucher.Sender{Client: s.proxies.Client(ctx), HTTPS: s.proxies.Secure(ctx)}
	}
	end, ok := s.turn(ctx, s.tools)
	if !ok {
		return
	}
	defer end()
	id := string(RequestID(ctx))
	var changes atomic.Bool
	// The request's own context ends with the request, and goroutines of the SDK outlive
	// it by a moment.
	a, err := s.mcp.Handle(context.Background(), fields, bytes.Clone(Body(ctx)), mcp.Sender{
		Ask: func(r describe.Request, c mcp.Credentials) *mcp.Reply {
			changes.Store(true)
			end() // a payment takes its time
			return s.ask(from, id, r, c)
		},
		X402: string(ctx.QueryArgs().Peek("pay")) == "x402",
	})
	if changes.Load() {
		ctx.SetUserValue(changesKey{}, true)
	}
	var wrong *mcp.MessageError
	switch {
	case errors.As(err, &wrong):
		s.problem(ctx, refusal{api.Malformed, strings.ToValidUTF8(wrong.Detail, "\uFFFD"), ""})
		return
	case err != nil:
		s.log.Error("edge: mcp", "err", err)
		s.problem(ctx, internal)
		return
	}
	setHeader(ctx, "Cache-Control", "no-store")
	ctx.SetStatusCode(a.Status)
	if a.Media == "" {
		return
	}
	ctx.Response.Header.SetContentType(a.Media)
	s.countBytes(ctx, len(a.Body))
	f := content.Form{Body: a.Body}
	if len(a.Body) >= leastCoded {
		f, _ = new(content.Forms).Pick(&content.Passing, a.Body, &ctx.Request.Header)
	}
	setFields(ctx, f.AppendFields(nil, false))
	ctx.Response.SetBodyRaw(f.Body)
}

// bytesARequest is how long the answer to a message may be for one request of the rate
// limit. A longer one counts as so many more: documents are made into results anew for each
// call.
const bytesARequest = 64 << 10

// countBytes counts a request as several, by the length of its answer.
func (s *Shell) countBytes(ctx *fasthttp.RequestCtx, length int) {
	if more := length / bytesARequest; more > 0 {
		limiter, client := s.countedIn(ctx)
		ctx.SetUserValue(countedKey{}, limiter.Charge(client, s.now(), more))
	}
}

// ask answers a request of a tool as the same one over HTTP, from the client that called the
// tool: by the same handler, which at an edge passes it on to the origin. id is that of the
// call, under which all nodes log it.
func (s *Shell) ask(from voucher.Sender, id string, r describe.Request, c mcp.Credentials) *mcp.Reply {
	// A request that is passed on goes as its bytes say, so there must be bytes.
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s: %s\r\n", r.Method, r.Target, len(r.Body), front.IDField, id)
	for _, value := range c.Authorization {
		fmt.Fprintf(&b, "Authorization: %s\r\n", value)
	}
	for _, value := range c.PaymentSignature {
		fmt.Fprintf(&b, "PAYMENT-SIGNATURE: %s\r\n", value)
	}
	if r.IdempotencyKey != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", r.IdempotencyKey)
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	var sent fasthttp.Request
	if err := sent.Read(bufio.NewReaderSize(&b, b.Len())); err != nil {
		s.log.Error("edge: a request of a tool", "err", err)
		return &mcp.Reply{Status: internal.code.Status(), Body: api.AppendProblem(nil, s.core.BaseURL(), internal.code, internal.detail, nil)}
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&sent, nil, nil)
	ctx.SetUserValue(senderKey{}, from)
	s.dispatch(&ctx)
	reply := &mcp.Reply{Status: ctx.Response.StatusCode(), Header: http.Header{}, Body: bytes.Clone(ctx.Response.Body())}
	for name, value := range ctx.Response.Header.All() {
		reply.Header.Add(string(name), string(value))
	}
	return reply
}

// foreignOrigin says why a request from a browser is refused, "" when it is not. Requests
// without an Origin field do not come from browsers. Everything here is public, so pages
// of any site may call; but an attacker may let a host name of its own point here, so
// that its page reaches a server which it could not reach otherwise (DNS rebinding). Then
// Host has that name. The ring's own names are the host of the base URL, IP addresses and
// localhost. Requests from trusted proxies are not checked. Pages without a site, with null
// or file:// as Origin, may do what pages of any site may.
//
// Document: the Model Context Protocol, "Streamable HTTP", on DNS rebinding.
func (s *Shell) foreignOrigin(ctx *fasthttp.RequestCtx) string {
	h := &ctx.Request.Header
	origins := h.PeekAll("Origin")
	if len(origins) == 0 {
		return ""
	}
	origin, err := url.Parse(string(origins[0]))
	if len(origins) > 1 || err != nil || string(origins[0]) != "null" && origin.Scheme != "file" && (origin.Scheme == "" || origin.Host == "") {
		return "The request has an Origin field, which does not name one site. Ask from a page, or without the field."
	}
	if s.proxies.Trusts(front.Peer(ctx.RemoteAddr())) {
		return ""
	}
	host := (&url.URL{Host: string(h.Host())}).Hostname()
	if base, err := url.Parse(s.core.BaseURL()); err == nil && strings.EqualFold(base.Hostname(), host) {
		return ""
	}
	if _, err = netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return ""
	}
	return "The request has an Origin field, and its Host field is not this ring's. Use the ring's own address."
}
