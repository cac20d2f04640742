package edge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"

	"webring/core/api"
	"webring/edge/clientaddr"
)

const (
	// readOwnWrites bounds how long the answer to a payment waits for this
	// node to see what was paid for.
	readOwnWrites = 2 * time.Second
	// holdForwarded bounds how long the origin may hold a request: until its
	// payment can no longer be mined, which may be as late as the end of a
	// challenge's five minutes, and some.
	holdForwarded = 330 * time.Second
	// holdRead bounds how long a reader waits for what only the origin has, and
	// holdCheck how long whoever has a draft checked, which takes a look at a
	// whole site.
	holdRead  = 15 * time.Second
	holdCheck = checkTime + 5*time.Second
	// maxPaymentsPerClient is how many of the payments may be one client's: the
	// origin holds them for minutes if it is so chosen.
	maxPaymentsPerClient = 16
	// spareConns is how many connections payments may have beyond their places; those
	// that are let go need one for a moment.
	spareConns = 24
	// maxForwarded is the longest answer that is passed on, in bytes.
	maxForwarded = 1 << 20
	// retryForwarded is after how many seconds who could not pay may try again.
	retryForwarded = "5"
)

// MaxPayments and MaxAsks, and maxChecks and maxReads, are how many requests of each
// kind are under way at a time: nothing that is free stands in the way of payments.
// Asks are paid operations without a credential. While a site is scored the origin
// holds these, and those whose credential is no good, but fewer of them at a time than
// there are places of either kind, as a test in server/cmd/webring has it. All of them,
// spareConns, and what follows are fewer connections than maxConnsPerClient: the origin
// may not know this node.
const MaxPayments, MaxAsks, maxChecks, maxReads = 112, 64, 32, 16

// ForwardConfig says where paid operations go. Origin and BaseURL are needed.
type ForwardConfig struct {
	// Origin is the URL of the origin, or of an edge that forwards to it.
	Origin string
	// Secret is shared with the origin; see [Config.EdgeSecret]. Without it the
	// origin takes all requests as this node's own, so those that did not come
	// over a secure connection are refused here.
	Secret []byte
	// Reach waits until this node shows a ledger position, and says whether it
	// did before ctx ended. nil does not wait.
	Reach func(ctx context.Context, seq uint64) bool
	// Answered is called when the origin has answered a request, of any kind and
	// before it is passed on: it is there. nil does nothing.
	Answered func()
	// TrustedProxies are those of this node's [Config]. The field in which they name
	// their clients is not passed on.
	TrustedProxies clientaddr.Proxies
	// BaseURL is what the types of problem documents begin with.
	BaseURL func() string
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Forwarder sends to the origin what only the origin answers: the target, the
// body and all fields as they came, except those that belong to the connection,
// and those by which proxies tell for whom they speak, which the Webring-Edge
// field replaces: passed on, they would be this node's word. A request that cannot
// be sent on like this is a bad_request. Nothing is ever sent twice, nor later than
// within seconds. It may be used concurrently.
type Forwarder struct {
	cfg                           ForwardConfig
	payments, asks, checks, reads *places
	log                           *slog.Logger
	complained                    atomic.Int64 // second of the last line about places
	open                          context.Context
	end                           context.CancelFunc
}

// NewForwarder prepares a forwarder.
func NewForwarder(cfg ForwardConfig) (*Forwarder, error) {
	u, err := url.Parse(cfg.Origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("edge: the origin %q is not an http or https URL without path", cfg.Origin)
	}
	cfg.Origin = u.Scheme + "://" + u.Host
	if cfg.Secret != nil {
		if err := checkSecret(cfg.Secret); err != nil {
			return nil, err
		}
	}
	f := &Forwarder{cfg: cfg, log: cfg.Log}
	f.open, f.end = context.WithCancel(context.Background())
	if f.log == nil {
		f.log = slog.Default()
	}
	f.payments, f.asks = newPlaces(MaxPayments, maxPaymentsPerClient), newPlaces(MaxAsks, maxConnsPerClient)
	f.checks, f.reads = newPlaces(maxChecks, maxConnsPerClient), newPlaces(maxReads, maxConnsPerClient)
	// Payments may have more connections than places, or a credential could wait for one
	// that is still dialled for a request which another has served.
	f.payments.MaxConnsPerHost = MaxPayments + spareConns
	return f, nil
}

// Close has nobody wait for the origin any longer: who has sent a payment is told to
// send it again. It gives idle connections up.
func (f *Forwarder) Close() {
	f.end()
	f.payments.CloseIdleConnections()
	f.asks.CloseIdleConnections()
	f.checks.CloseIdleConnections()
	f.reads.CloseIdleConnections()
}

// Paid is the handler of every paid operation of an edge: a [Handler].
func (f *Forwarder) Paid(ctx *fasthttp.RequestCtx, client string, secure bool) {
	if f.cfg.Secret == nil && !secure {
		f.problem(ctx, api.TLSRequired, "Challenges are issued and credentials taken only over TLS. Use https.")
		return
	}
	if len(ctx.Request.Header.Peek(letGoField)) > 0 {
		f.passLetGo(ctx, client, secure)
		return
	}
	places := f.asks
	if hasCredential(ctx) {
		places = f.payments
	}
	if res := f.pass(ctx, client, secure, places, holdForwarded); res != nil {
		f.await(ctx, res)
	}
}

// Pass is the handler of everything else that only the origin answers: a
// [Handler]. What the origin says of caching is passed on.
func (f *Forwarder) Pass(ctx *fasthttp.RequestCtx, client string, secure bool) {
	if ctx.IsPost() {
		f.pass(ctx, client, secure, f.checks, holdCheck)
	} else {
		f.pass(ctx, client, secure, f.reads, holdRead)
	}
}

// pass gives the origin's answer, whose body has been read, or nil when there is
// none.
func (f *Forwarder) pass(ctx *fasthttp.RequestCtx, client string, secure bool, places *places, hold time.Duration) *http.Response {
	req, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return nil
	}
	// Not the client's to end: what has been sent may cost money.
	open, end := context.WithCancelCause(f.open)
	defer end(nil)
	own := &place{client: client}
	if places == f.payments {
		own.account = payingAccount(&ctx.Request.Header)
		own.letGo = func() { f.letGo(req, func() { end(errLetGo) }) }
	}
	if !places.take(own) {
		f.crowded(ctx)
		return nil
	}
	defer places.leave(own)
	held, cancel := context.WithTimeout(open, hold)
	defer cancel()
	sent := false // or may have been; nothing is without a connection
	held = httptrace.WithClientTrace(held, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	res, err := places.RoundTrip(req.WithContext(held))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(http.MaxBytesReader(nil, res.Body, maxForwarded))
		res.Body.Close()
	}
	if err != nil && context.Cause(held) == errLetGo {
		f.pushedOut(ctx, sent)
		return nil
	}
	if err != nil {
		// A restarted origin must not be met through connections to the one before.
		places.CloseIdleConnections()
		f.unanswered(ctx, sent, err)
		return nil
	}
	// What fails may be the word of something that stands before an origin which
	// is gone.
	if f.cfg.Answered != nil && res.StatusCode < 500 {
		f.cfg.Answered()
	}
	ctx.SetStatusCode(res.StatusCode)
	for name, values := range res.Header {
		if hopByHop(name) || ownWord(name) {
			continue
		}
		for _, value := range values {
			if name == "Content-Type" {
				ctx.Response.Header.SetContentType(value)
			} else {
				ctx.Response.Header.Add(name, value)
			}
		}
	}
	ctx.Response.SetBodyRaw(body)
	if ctx.IsHead() && res.ContentLength >= 0 {
		ctx.Response.Header.SetContentLength(int(res.ContentLength))
	}
	return res
}

// request copies what came. It is not ok when that cannot be sent on byte for
// byte. A field line that is folded is one of these: passed on as it is, the
// next recipient would have to refuse it or change it (RFC 9112, 5.2), and
// unfolded it would be another.
func (f *Forwarder) request(ctx *fasthttp.RequestCtx, client string, secure bool) (*outgoing, bool) {
	in := &ctx.Request
	target, _ := requestTarget(&in.Header)
	if bytes.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, false
	}
	r := &outgoing{body: bytes.Clone(in.Body()), client: client, secure: secure}
	scheme, host, _ := strings.Cut(f.cfg.Origin, "://")
	// The target is put in as it is: parsing would spell it anew.
	req := &http.Request{
		Method: string(in.Header.Method()), Host: host, URL: &url.URL{Scheme: scheme, Host: host, Opaque: string(target)},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}
	if len(r.body) > 0 {
		// Without a way to read it again, the transport never sends it again.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	}
	for line := range bytes.SplitSeq(in.Header.RawHeaders(), []byte("\r\n")) {
		if len(line) == 0 {
			continue // the end
		}
		raw, value, found := bytes.Cut(line, []byte(":"))
		value = trim(value)
		if !found || !httpguts.ValidHeaderFieldName(string(raw)) || !httpguts.ValidHeaderFieldValue(string(value)) {
			return nil, false
		}
		name := http.CanonicalHeaderKey(string(raw))
		if hopByHop(name) || f.cfg.TrustedProxies.IsProxyField(name) {
			continue
		}
		req.Header[name] = append(req.Header[name], string(value))
	}
	for _, name := range connectionFields(req.Header) {
		req.Header.Del(name)
	}
	if _, has := req.Header["User-Agent"]; !has {
		req.Header["User-Agent"] = nil // or a name would be made up
	}
	r.Request = req
	f.vouch(req, r)
	return r, true
}

// vouch says on req for whom r is sent.
func (f *Forwarder) vouch(req *http.Request, r *outgoing) {
	if f.cfg.Secret != nil {
		req.Header.Set(voucherField, newVoucher(f.cfg.Secret, time.Now(), r.client, r.secure,
			passedOn{[]byte(req.Method), []byte(req.URL.Opaque), r.body}))
	}
}

// connectionFields takes the Connection field away and gives the fields that it
// says belong to the connection too.
func connectionFields(h http.Header) (names []string) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return append(names, "Connection")
}

// hopByHop says which fields belong to one connection (RFC 9110, 7.6.1).
// Connection itself is kept until it has been read.
func hopByHop(name string) bool {
	switch name {
	case "Host", "Content-Length", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", voucherField, letGoField:
		return true
	}
	return false
}

// ownWord says which fields of an answer this node writes for itself.
func ownWord(name string) bool {
	return name == "Connection" || name == "Date" || strings.HasPrefix(name, "Ratelimit-")
}

// await has the client see what it paid for when it reads here next.
func (f *Forwarder) await(ctx *fasthttp.RequestCtx, res *http.Response) {
	seq, err := strconv.ParseUint(res.Header.Get("Webring-Seq"), 10, 64)
	if err != nil || res.StatusCode/100 != 2 || f.cfg.Reach == nil {
		return
	}
	// An edge further inside that is behind says so for itself.
	ctx.Response.Header.Del(staleField)
	wait, cancel := context.WithTimeout(context.Background(), readOwnWrites)
	defer cancel()
	if !f.cfg.Reach(wait, seq) {
		setHeader(ctx, staleField, "true")
		f.log.Warn("edge: answered before what was paid for is seen here", "seq", seq)
	}
}

// hasCredential says whether a request may bring a payment: in any of its lines.
func hasCredential(ctx *fasthttp.RequestCtx) bool {
	return slices.ContainsFunc(ctx.Request.Header.PeekAll("Authorization"), func(line []byte) bool { return len(line) > 0 })
}

const cannotBePassedOn = "The request target or a header field has a form that cannot be passed on as it is."

const sendAgain = "Send the same request with the same credential again: it has one effect, and its answer is kept."

const notDelivered = "so this request was not delivered and charges nothing. " +
	"If you sent a credential before, do not pay anew: send the same request with the same credential again later. Reads go on."

// crowded refuses what has no place. Nothing of it is kept to be sent later.
func (f *Forwarder) crowded(ctx *fasthttp.RequestCtx) {
	if f.complains() {
		f.log.Warn("edge: as many requests are on their way to the origin as may be, of one client or of all")
	}
	const crowded = "As many requests like this one are on their way to the origin of this ring as may be, of this client or of all"
	if ctx.IsPost() {
		f.problem(ctx, api.PaymentsUnavailable, crowded+", "+notDelivered)
	} else {
		f.problem(ctx, api.PaymentsUnavailable, crowded+". Other reads go on.")
	}
	setHeader(ctx, "Retry-After", retryForwarded)
}

// complains says whether there may be a line about places: strangers do not fill the log.
func (f *Forwarder) complains() bool {
	now := time.Now().Unix()
	return f.complained.Swap(now) != now
}

// unanswered says that the origin did not answer. A payment that has been sent
// may have been taken, and its credential may be sent again: the origin then
// gives the answer that was lost.
func (f *Forwarder) unanswered(ctx *fasthttp.RequestCtx, sent bool, err error) {
	happened, lost := "edge: the origin does not answer", "The origin of this ring was lost before it answered."
	if f.open.Err() != nil {
		happened, lost = "edge: ending before the origin has answered", "This node ends, and the origin of this ring has not answered yet."
	}
	f.log.Warn(happened, "err", err)
	switch {
	case !ctx.IsPost():
		f.problem(ctx, api.PaymentsUnavailable, "Only the origin of this ring has what is at this address, and it cannot be reached. Other reads go on.")
	case !sent:
		f.problem(ctx, api.PaymentsUnavailable, "The origin of this ring cannot be reached, "+notDelivered)
	case hasCredential(ctx):
		f.problem(ctx, api.PaymentPending, lost+" "+sendAgain)
	default:
		f.problem(ctx, api.PaymentsUnavailable, lost+" This request brought no payment and charges nothing. Reads go on.")
	}
	setHeader(ctx, "Retry-After", retryForwarded)
}

func (f *Forwarder) problem(ctx *fasthttp.RequestCtx, code api.Code, detail string) {
	(&refusal{code: code, detail: detail}).write(ctx, f.cfg.BaseURL())
}
