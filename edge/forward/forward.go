package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/follow"
	"webring/edge/front"
	"webring/edge/share"
	"webring/edge/voucher"
)

const (
	// readOwnWrites bounds how long the answer to a payment waits for this
	// node to see what was paid for.
	readOwnWrites = 2 * time.Second
	// holdPaid bounds how long the origin may hold a paid request: until its payment can
	// no longer be mined, which is at the end of a challenge's five minutes at the latest,
	// and some seconds more.
	holdPaid = 330 * time.Second
	// holdCheck bounds how long the check of a draft may take, which looks at a whole
	// site; the origin gives it 25 seconds. holdRead bounds other requests.
	holdCheck = 30 * time.Second
	holdRead  = 15 * time.Second
	// paymentsPerClient is how many payments of one client may be under way: a client can
	// make the origin hold them for minutes. othersPerClient, for other requests, is how
	// many connections a client may have, and so may wait. Slots for other requests are
	// shared by the rule of package share; a client with half is refused while half of them
	// are taken.
	paymentsPerClient = 16
	othersPerClient   = 256
	half              = 4
	// alike is a half for requests that are not weighed: all of them have the same right.
	alike = 1 << 20
	// mostConns is how many connections there are to an origin, which may not know that this
	// node is an edge: fewer than one client may have. There are some more than slots, for
	// requests by which payments stop waiting, and for questions whether an origin is there.
	mostConns = othersPerClient - 1
	// maxAnswer is the longest answer that is passed on, in bytes. Some 1,000 early events of
	// the ledger, which /verify asks for, are the longest.
	maxAnswer = 2 << 20
)

// MaxPayments and MaxAsks, and maxChecks and maxReads, are how many requests of each kind
// are under way at a time. Asks are paid operations without a credential. The origin holds
// asks, and payments with a bad credential, while it scores a site, but fewer at a time
// than either number: a test in server/cmd/webring checks that.
const MaxPayments, MaxAsks, maxChecks, maxReads = 112, 64, 32, 16

// Config says where requests go. BaseURL is needed.
type Config struct {
	// Origins are the URLs of the origin's nodes. One of them is asked at a time, the first one at first, and the next when that one certainly
	// did nothing with a request. Without any, requests are refused as not_leader, until
	// [Forwarder.SetOrigins].
	Origins []string
	// ToLeader is for a node of a cluster that does not lead: its requests go to the node
	// that leads and no further ([voucher.ToLeaderField]), and one that cannot be delivered
	// is refused as not_leader. It needs Secrets.
	ToLeader bool
	// Secrets are shared with the origin, for vouchers. Without them the origin takes
	// all requests as this node's own, so those that did not come over a secure
	// connection are refused here.
	Secrets *voucher.Secrets
	// Reach waits until this node shows a ledger position, and reports whether it
	// did before ctx ended. nil does not wait.
	Reach func(ctx context.Context, seq uint64) bool
	// Answered is called when the origin has answered a request, of any kind and
	// before it is passed on: it is there. nil does nothing.
	Answered func()
	// TrustedProxies are this node's. The field in which they name their clients is not
	// passed on.
	TrustedProxies front.Proxies
	// BaseURL is what the types of problem documents begin with.
	BaseURL func() string
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Forwarder sends to the origin what only the origin answers: the target, the body and all
// fields as they came. It leaves out fields that belong to the connection, and those in
// which proxies name their clients: the origin would take them for this node's word, and
// the voucher replaces them. A request that cannot be sent on like this is a bad_request.
// No payment is sent twice, and nothing is queued for more than seconds. It may be used
// concurrently.
type Forwarder struct {
	cfg                           Config
	payments, asks, checks, reads *slots
	own                           *slots // of this node's own requests
	transport                     *http.Transport
	origins                       *follow.Origins
	life                          *life
	refused                       atomic.Pointer[error] // why no origin took the last request; nil if one did
	log                           *slog.Logger
	crowds, moves                 atomic.Int64 // second of the last log line about slots, and about another origin
	open                          context.Context
	end                           context.CancelFunc
}

// New prepares a forwarder.
func New(cfg Config) (*Forwarder, error) {
	origins, err := follow.NewOrigins(cfg.Origins...)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	if cfg.ToLeader && cfg.Secrets == nil {
		return nil, errors.New("forward: without a secret the node that leads does not know this one")
	}
	if cfg.Secrets != nil {
		if err := cfg.Secrets.Check(); err != nil {
			return nil, err
		}
	}
	past := share.NewPast()
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		// Well below what the origin keeps idle connections for.
		IdleConnTimeout:     5 * time.Second,
		MaxIdleConnsPerHost: mostConns,
		MaxConnsPerHost:     mostConns,
		DisableCompression:  true,
	}
	f := &Forwarder{cfg: cfg, log: cfg.Log, origins: origins, transport: transport,
		life:     &life{transport: transport, last: map[*follow.Origin]time.Time{}},
		payments: newSlots(share.Rule{Most: MaxPayments, Half: alike}, paymentsPerClient),
		asks:     newSlots(share.Rule{Most: MaxAsks, Half: half, Past: past}, othersPerClient),
		checks:   newSlots(share.Rule{Most: maxChecks, Half: half, Past: past}, othersPerClient),
		reads:    newSlots(share.Rule{Most: maxReads, Half: half, Past: past}, othersPerClient),
		own:      newSlots(share.Rule{Most: maxOwn, Half: alike}, maxOwn),
	}
	f.open, f.end = context.WithCancel(context.Background())
	if f.log == nil {
		f.log = slog.Default()
	}
	return f, nil
}

// Close ends all requests under way and closes idle connections. Payers that have sent a
// payment are told to send it again.
func (f *Forwarder) Close() {
	f.end()
	f.transport.CloseIdleConnections()
}

// SetOrigins makes these the origins, as [Config.Origins] has them. It ends requests under way
// at other origins: payers that have sent a payment are told to send it again, and requests
// without a payment go to the next origin.
func (f *Forwarder) SetOrigins(urls ...string) error {
	if err := f.origins.Replace(urls...); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	return nil
}

// Asked gives all origins in the order in which they are asked, and why none of them took
// the last request that no origin answered, nil if one has answered since.
func (f *Forwarder) Asked() (origins []string, refused error) {
	for _, o := range f.origins.Round() {
		origins = append(origins, o.URL)
	}
	if why := f.refused.Load(); why != nil {
		refused = *why
	}
	return origins, refused
}

// Paid is the handler of every paid operation of an edge. client and secure are what
// the edge's shell says of the request.
func (f *Forwarder) Paid(ctx *fasthttp.RequestCtx, client string, secure bool) {
	switch {
	case f.cfg.Secrets == nil && !secure:
		f.problem(ctx, api.TLSRequired, "Challenges are issued and credentials taken only over TLS. Use https.")
	case toLeader(ctx):
		f.noLeader(ctx)
	case len(ctx.Request.Header.Peek(voucher.StopField)) > 0:
		f.passStop(ctx, client, secure)
	case hasCredential(ctx):
		f.await(ctx, f.pass(ctx, client, secure, f.payments, holdPaid))
	default:
		f.await(ctx, f.pass(ctx, client, secure, f.asks, holdPaid))
	}
}

// Pass is the handler of everything else that only the origin answers. What the origin
// says of caching is passed on.
func (f *Forwarder) Pass(ctx *fasthttp.RequestCtx, client string, secure bool) {
	switch {
	case toLeader(ctx):
		f.noLeader(ctx)
	case ctx.IsPost():
		f.pass(ctx, client, secure, f.checks, holdCheck)
	default:
		f.pass(ctx, client, secure, f.reads, holdRead)
	}
}

// pass returns the origin's answer with its body read, or nil if there is none.
func (f *Forwarder) pass(ctx *fasthttp.RequestCtx, client string, secure bool, by *slots, hold time.Duration) *http.Response {
	req, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return nil
	}
	// The request does not end with its client: what has been sent may cost money.
	open, end := context.WithCancelCause(f.open)
	defer end(nil)
	own := &holder{asker: share.AskerOf(client)}
	if by == f.payments {
		own.account = payingAccount(&ctx.Request.Header)
		own.stop = func() { f.stop(req, func() { end(errStopped) }) }
	}
	if !by.acquire(own) {
		f.crowded(ctx, by)
		return nil
	}
	defer by.release(own)
	held, cancel := context.WithTimeout(open, hold)
	defer cancel()
	a := f.send(held, req)
	switch {
	case errors.Is(a.err, errNotLeader), a.err != nil && f.cfg.ToLeader && !a.sent:
		f.noLeader(ctx)
	case a.err != nil && context.Cause(held) == errStopped:
		f.pushedOut(ctx, a.sent)
	case a.err != nil:
		f.unanswered(ctx, by, a.sent, a.err)
	default:
		answer(ctx, a.res, a.body)
	}
	return a.res
}

// answer gives the client the origin's answer.
func answer(ctx *fasthttp.RequestCtx, res *http.Response, body []byte) {
	ctx.SetStatusCode(res.StatusCode)
	for name, values := range res.Header {
		if hopByHop(name) || writtenHere(name) {
			continue
		}
		for _, value := range values {
			if name == "Content-Type" {
				ctx.SetContentType(value)
			} else {
				ctx.Response.Header.Add(name, value)
			}
		}
	}
	ctx.Response.SetBodyRaw(body)
	if ctx.IsHead() && res.ContentLength >= 0 {
		ctx.Response.Header.SetContentLength(int(res.ContentLength))
	}
}

// await waits until this node shows what the client paid for, if there is an answer.
func (f *Forwarder) await(ctx *fasthttp.RequestCtx, res *http.Response) {
	if res == nil {
		return
	}
	seq, err := strconv.ParseUint(res.Header.Get("Webring-Seq"), 10, 64)
	if err != nil || res.StatusCode/100 != 2 || f.cfg.Reach == nil {
		return
	}
	// A node between this one and the leader may have set the field for itself.
	const stale = "Webring-Stale"
	ctx.Response.Header.Del(stale)
	wait, cancel := context.WithTimeout(context.Background(), readOwnWrites)
	defer cancel()
	if !f.cfg.Reach(wait, seq) {
		ctx.Response.Header.Set(stale, "true")
		f.log.Warn("forward: answered before what was paid for is seen here", requestOf(ctx), "seq", seq)
	}
}
