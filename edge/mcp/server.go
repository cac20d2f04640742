package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"webring/core/api"
	"webring/edge/describe"
)

// Reader is the read surface that the tools call. Its functions must be safe for
// concurrent use.
type Reader interface {
	Serve(target []byte, r *api.Response)
	BaseURL() string
}

// callTime bounds a message that is answered here. Tools answer at once, and nothing is
// streamed. The Ask function bounds what the origin answers.
const callTime = 10 * time.Second

// listTime is for how long clients may keep the list of tools and what the server says of
// itself, in milliseconds. Both come with the binary and with the ring's name.
const listTime = 300_000

// Server answers messages of MCP clients. It is safe for concurrent use.
type Server struct {
	reader  Reader
	version string
	log     *slog.Logger
	latest  [2]atomic.Pointer[endpoint] // by whether it is for the revision without sessions
}

// endpoint is a server of the SDK. Its name and address cannot change.
type endpoint struct {
	as      describe.Server
	handler http.Handler
}

// New makes a server of the tools of package describe. version is that of the program.
func New(r Reader, version string, log *slog.Logger) *Server {
	return &Server{reader: r, version: version, log: log}
}

// endpoint gives the endpoint of a revision for the present name, address and payment
// methods of the ring, which an event may change.
func (s *Server) endpoint(modern bool) (http.Handler, error) {
	as, err := describe.NewSource(s.reader, describe.Site{Version: s.version}, time.Time{}).Server()
	if err != nil {
		return nil, err
	}
	at := &s.latest[0]
	if modern {
		at = &s.latest[1]
	}
	e := at.Load()
	if e == nil || e.as != as {
		e = &endpoint{as, s.handler(as, modern)}
		at.Store(e)
	}
	return e.handler, nil
}

func (s *Server) handler(as describe.Server, modern bool) http.Handler {
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}} // the list never changes
	if methods := as.PaymentMethods(); len(methods) > 0 {
		capabilities.Experimental = map[string]any{"payment": map[string]any{"methods": methods}}
	}
	server := sdk.NewServer(
		&sdk.Implementation{Name: as.Name, Title: as.Title, Version: as.Version, WebsiteURL: as.URL},
		&sdk.ServerOptions{
			Instructions: describe.Instructions(modern),
			Capabilities: capabilities,
			Logger:       slog.New(slog.DiscardHandler), // what clients do wrong is theirs to see
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.TTLMs, c.CacheScope = listTime, "public" },
		})
	server.AddReceivingMiddleware(noSubscriptions)
	for _, t := range describe.Tools() {
		open, overwrites := t.Sends(), t.Overwrites()
		server.AddTool(&sdk.Tool{
			Name: t.Name, Title: t.Title, Description: t.AboutFor(modern), InputSchema: t.Input, OutputSchema: t.Output,
			Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: !t.Changes(), DestructiveHint: &overwrites, IdempotentHint: !t.Varies, OpenWorldHint: &open},
		}, s.tool(t))
	}
	// Package edge has checked the Origin field, and there are no cookies to abuse.
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
	})
}

// noSubscriptions refuses the one method that would hold its request open.
func noSubscriptions(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "subscriptions/listen" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has nothing to subscribe to"}
		}
		return next(ctx, method, req)
	}
}

// tool gives the handler of a tool, which answers with a document.
func (s *Server) tool(t describe.Tool) sdk.ToolHandler {
	return func(ctx context.Context, call *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		// The SDK runs this on a goroutine of its own, where a panic would end the
		// process.
		defer func() {
			if v := recover(); v != nil {
				s.log.Error("mcp: a tool panicked", "tool", t.Name, "panic", v)
				result, err = s.refused(api.Internal, "The call failed here. It is not your fault. Try again later."), nil
			}
		}()
		switch {
		case t.Sends():
			result, err = s.send(ctx, &t, call.Params.Arguments)
		case t.Makes():
			result, err = s.made(&t, call.Params.Arguments)
		default:
			result, err = s.read(&t, call.Params.Arguments)
		}
		var wrong *describe.ArgumentError
		switch {
		case errors.Is(err, describe.ErrNoMember):
			return s.refused(api.UnknownMember, "No member has this slug. ring_list lists the members."), nil
		case errors.As(err, &wrong) && t.Sends():
			return s.refused(api.InvalidRequest, wrong.Detail), nil
		case errors.As(err, &wrong):
			return s.refused(api.InvalidParameter, wrong.Detail), nil
		}
		return result, err
	}
}

// Read gives the document that the tool of this name answers, or a problem document, to a call
// outside of MCP. ok is false if there is no such tool that only reads.
func (s *Server) Read(ctx context.Context, name string, arguments json.RawMessage) (document []byte, ok bool) {
	t, known := tools()[name]
	if !known || t.Sends() || t.Makes() {
		return nil, false
	}
	result, err := s.tool(t)(ctx, &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: t.Name, Arguments: arguments}})
	if err != nil {
		s.log.Error("mcp: a read", "tool", t.Name, "err", err)
		result = s.refused(api.Internal, "The call failed here. It is not your fault. Try again later.")
	}
	return []byte(result.Content[0].(*sdk.TextContent).Text), true
}

// read answers a call with the document of its read.
func (s *Server) read(t *describe.Tool, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	q, err := t.Request(arguments)
	if err != nil {
		return nil, err
	}
	var r api.Response
	s.reader.Serve([]byte(q.Target), &r)
	return document(r.Status == http.StatusOK, r.Body), nil
}

// made answers a call with a document that is made of several reads.
func (s *Server) made(t *describe.Tool, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	body, err := t.Build(describe.NewSource(s.reader, describe.Site{}, time.Time{}), arguments)
	var refused *describe.Problem
	if errors.As(err, &refused) {
		return document(false, refused.Body), nil
	}
	return document(true, body), err
}

// document is the result that has a document as its text. If the call failed, it is a
// problem document, and there is no structured content, which would have to follow the
// tool's output schema.
func document(ok bool, body []byte) *sdk.CallToolResult {
	result := &sdk.CallToolResult{IsError: !ok, Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}}
	if ok {
		result.StructuredContent = json.RawMessage(body)
	}
	return result
}

// refused is a tool error with a problem document as its text.
func (s *Server) refused(code api.Code, detail string) *sdk.CallToolResult {
	return document(false, api.AppendProblem(nil, s.reader.BaseURL(), code, detail, nil))
}

// Answer is an answer over HTTP. Without a Body there is no Media.
type Answer struct {
	Status int
	Media  string
	Body   []byte
}

// MessageError refuses a message that the protocol does not allow. Detail is for the
// client.
type MessageError struct{ Detail string }

// Error gives the text for logs.
func (e *MessageError) Error() string { return "mcp: " + e.Detail }

// Handle answers the body of one POST. fields holds its header fields that begin with
// "Mcp-", in canonical spelling; Handle may change it. The answer is always JSON,
// whatever the client accepts. A message that is refused as a whole, rather than by a
// JSON-RPC error, is a *[MessageError].
func (s *Server) Handle(ctx context.Context, fields http.Header, body []byte, from Sender) (Answer, error) {
	if IsBatch(body) {
		return s.batch(ctx, fields, body, from)
	}
	return s.one(ctx, fields, body, from)
}

// one answers one message.
func (s *Server) one(ctx context.Context, fields http.Header, body []byte, from Sender) (Answer, error) {
	id, body, err := takeID(body)
	if err != nil {
		return Answer{}, errNoMessage
	}
	a, err := s.message(ctx, fields, body, from)
	a.Body = giveID(a.Body, id)
	return a, err
}

var errNoMessage = &MessageError{"The body is not one JSON-RPC 2.0 message: an object with jsonrpc, which is \"2.0\", method and, if it is a call, an id that is a string or a number."}

// message answers a message. Its id, if it has one, is ownID.
func (s *Server) message(ctx context.Context, fields http.Header, body []byte, from Sender) (Answer, error) {
	message, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		return Answer{}, errNoMessage
	}
	c := newCaller(fields, body, from)
	handler, err := s.endpoint(c.modern)
	if err != nil {
		return Answer{}, err
	}
	if !c.sends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	ctx = context.WithValue(ctx, callerKey{}, c)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/mcp", io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return Answer{}, err
	}
	req.Header = fields
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	decodeName(req.Header)
	w := recorder{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(&w, req)
	a := Answer{Status: w.status, Media: w.header.Get("Content-Type"), Body: w.body.Bytes()}
	if a.Media == "text/event-stream" {
		// For a subscription the SDK begins a stream all the same, with the refusal as
		// its one event.
		_, event, _ := bytes.Cut(a.Body, []byte("data: "))
		a.Body, _, _ = bytes.Cut(event, []byte("\n"))
		a.Media = "application/json"
	}
	if len(a.Body) == 0 {
		a.Media = ""
	}
	if call, ok := message.(*jsonrpc.Request); ok && call.IsCall() {
		for begins, code := range asText {
			if why, said := bytes.CutPrefix(a.Body, []byte(begins)); said {
				return refuse(call, code, string(bytes.TrimSpace(why)))
			}
		}
		if misreadParams(a.Body) {
			return refuse(call, jsonrpc.CodeInvalidParams, "invalid params: they do not have the form of those of "+call.Method)
		}
	}
	if a.Status >= 400 && a.Media != "application/json" {
		return Answer{}, &MessageError{"The message is invalid: " + string(bytes.TrimSpace(a.Body)) + "."}
	}
	return a, nil
}

// asText has the beginnings of refusals that the SDK writes as text, and their codes: of an
// unknown method, and of a malformed call. As text they lack the id of the call.
var asText = map[string]int64{
	"JSON RPC not handled:": jsonrpc.CodeMethodNotFound,
	"invalid request:":      jsonrpc.CodeInvalidRequest,
}

// misreadParams says whether an answer is that params could not be read. The SDK writes
// that with the names of its own types.
func misreadParams(answer []byte) bool {
	if !bytes.Contains(answer, []byte("unmarshaling ")) {
		return false
	}
	message, err := jsonrpc.DecodeMessage(answer)
	response, ok := message.(*jsonrpc.Response)
	return err == nil && ok && response.Error != nil
}

// refuse refuses a call as JSON-RPC has it.
func refuse(call *jsonrpc.Request, code int64, message string) (Answer, error) {
	body, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: call.ID, Error: &jsonrpc.Error{Code: code, Message: message}})
	return Answer{http.StatusOK, "application/json", body}, err
}

// recorder keeps an answer until it is whole. The SDK writes it from one
// goroutine at a time.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// Sender is the client of a message.
type Sender struct {
	Ask  Ask
	X402 bool // it pays by x402, in whichever revision
}

// Ask sends a request that only the origin answers, with the credentials of its client, and
// gives the answer. It bounds how long that takes.
type Ask func(r describe.Request, c Credentials) *Reply

// Credentials are the values of the header fields in which a request is paid for.
type Credentials struct{ Authorization, PaymentSignature []string }

// Reply is an answer over HTTP to a request of an [Ask].
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// caller is what a message says to a tool besides its arguments.
type caller struct {
	Sender
	sends       bool              // the message calls a tool that sends
	modern      bool              // it follows the revision 2026-07-28 or a later one
	credentials []json.RawMessage // by MPP
	payments    []json.RawMessage // by x402
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// stateless is the revision of the protocol since which there are no sessions.
const stateless = "2026-07-28"

// tools has all tools by name. They are made once: to make them takes long, and one message may
// name as many as fit into it.
var tools = sync.OnceValue(func() map[string]describe.Tool {
	all := map[string]describe.Tool{}
	for _, t := range describe.Tools() {
		all[t.Name] = t
	}
	return all
})

// newCaller reads the metadata of a message as it was sent: the SDK does not keep what
// is next to params, nor the spelling of a credential.
func newCaller(fields http.Header, body []byte, from Sender) *caller {
	c := &caller{Sender: from, modern: fields.Get("Mcp-Protocol-Version") >= stateless}
	params := member(body, "params")
	var method, name string
	_ = json.Unmarshal(member(body, "method"), &method)
	_ = json.Unmarshal(member(params, "name"), &name)
	t, known := tools()[name]
	if c.sends = method == "tools/call" && known && t.Sends(); !c.sends {
		return c
	}
	// MPP has it in params for MCP, and next to params for any JSON-RPC.
	for _, at := range [...]json.RawMessage{params, body} {
		if found := member(member(at, "_meta"), credentialKey); len(found) > 0 {
			c.credentials = append(c.credentials, found)
		}
	}
	if found := member(member(params, "_meta"), paymentKey); len(found) > 0 && string(found) != "null" {
		c.payments = append(c.payments, found)
	}
	return c
}

// member gives a member of an object by its exact name, nil if there is none.
func member(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
}
