package edge

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/hops"
	"webring/edge/voucher"
	"webring/templates"
)

// Core is the read surface that the shell shows. Its functions are called from
// many goroutines at a time. Answers must not go backwards: a later call sees
// at least the position and second that an earlier one saw, unless the host
// rewound its clock.
type Core interface {
	// Serve answers a GET request for target, in origin form, as it was sent.
	// It overwrites r and keeps neither argument.
	Serve(target []byte, r *api.Response)
	// ServeAll answers a GET for each of the targets, at most 256, into the response in
	// the same place: all at one position and second, which Head gave or will give.
	ServeAll(targets [][]byte, all []api.Response)
	// Head gives the ledger position and the second, since 1970, UTC, that
	// answers speak of.
	Head() (seq uint64, second int64)
	// BaseURL is what links begin with, without a slash at its end.
	BaseURL() string
}

// Handler answers a request that neither the core nor this package does, a paid
// operation above all. The body has been read whole, and [Body] gives it without its
// content coding. It runs inside the shell's limiter, version check and error layer,
// and may hold the request as long as it needs.
//
// client names the sender of the request, for limits of the handler's own: an IPv4
// address, an IPv6 /64, or "local" for a peer without an address. "behind " and one of
// these stands for all clients of a trusted proxy there that it does not name. secure
// says whether a payment may be asked for and taken on this connection. ctx must
// not be kept past the return, and its Done channel closes as soon as the
// shell begins to stop, so work that must finish does not hang on it.
//
// The handler sets status, body, Content-Type and header fields of its own;
// without a Cache-Control the answer is not kept by anybody. Rate limit,
// version and CORS fields are added by the shell.
type Handler func(ctx *fasthttp.RequestCtx, client string, secure bool)

// SyncHandler answers edges that follow this node. client names the sender, as for
// a [Handler]; known says that a voucher made with [Config.EdgeSecrets] came with
// the request, so it is an edge of this ring and no stranger.
type SyncHandler = func(ctx *fasthttp.RequestCtx, client string, known bool)

// Config says what a [Shell] serves and within which bounds. The zero value of
// every field but Core is usable.
type Config struct {
	// Core answers every read. A [Swappable] can be given another one later.
	Core Core
	// CoreDigest names the build of the core. It is part of every validator,
	// so that no cache takes documents of two builds for the same. A
	// [Swappable] brings its own.
	CoreDigest string
	// Paid are the operations that are paid for or proved, by method and path, such as
	// "PATCH /api/ring/{slug}"; POST where only a path is named. A segment in braces takes
	// any, as ctx.UserValue gives it while the request lasts. The body is JSON, or does not
	// say what it is; any other is refused before.
	Paid map[string]Handler
	// Others are further requests, by method and path as in "POST /join" or
	// "GET /reports/{id}"; a segment in braces takes any. The method is GET,
	// which brings HEAD, or POST.
	Others map[string]Handler
	// Check answers the form of the join page: what a registration like this
	// draft would come to, free of charge and without side effects. client is
	// as for a [Handler]. An edge has none and passes the form on, as one of
	// Others.
	Check func(ctx context.Context, client string, draft templates.Draft) templates.Checked
	// Recheck says it of a draft that Check was asked of before, as Check completed it, by what
	// was found then: it asks no site. It reports false when that is not known any more.
	// A node has both or none.
	Recheck func(draft templates.Draft) (templates.Checked, bool)
	// Checks says whether Check can be asked now; while it cannot, the form is passed on
	// as one of Others. It belongs to a node that has both, and is nil for any other.
	Checks func() bool
	// Sync answers edges that follow this node, GET by path below /sync/ or /log/, or another
	// method by method and path as in "POST /sync/hops". A segment in braces takes any,
	// as ctx.UserValue gives it while the request lasts. Other methods and unknown paths
	// are seen to by the shell. Requests are counted apart from all others, ten times as
	// many as RateLimit, and carry no RateLimit fields. Those of edges of this ring are
	// counted apart from those of strangers, a hundred times as many: many edges may share
	// an address.
	//
	// A handler may set a body stream and be read from for as long as it
	// likes. Then it takes ctx.Conn and ctx.Done before it returns, puts off
	// the write deadline of the connection at each read, and ends when Done is
	// closed.
	Sync map[string]SyncHandler

	// Hub is the URL of the WebSub hub that feeds name. "" names none.
	Hub string

	// Contact is the address for security reports, a URI such as
	// "mailto:security@example.org". "" publishes none.
	Contact string
	// Version is that of the program, for documents; "" stands for one of no release.
	Version string
	// ExampleSite is a site that may join this ring, for the example in the
	// OpenAPI document, without a slash at its end.
	ExampleSite string

	// EdgeSecrets are shared by this node and the edges that forward to it. A request
	// with a Webring-Edge field made with one of them counts as coming from the client,
	// and over the scheme, that the field names. Such requests have a count of their own,
	// up to RateLimit for each client. Without a secret, or without a valid field, a
	// request is its peer's. A request below /sync/ always is; there the field shows that
	// the peer is an edge.
	EdgeSecrets *voucher.Secrets

	// Count has the shell count what it answers, for [Shell.Metrics].
	Count bool

	// Hops counts redirects, unless it is nil.
	Hops *hops.Counter
	// OriginData answers what the core does not know: the origin's own, or what an edge has
	// from its origin. nil: there is nothing at these paths.
	OriginData OriginData

	// Witnessed says how many events of the log witnesses have cosigned, 0 for none, and when
	// the last of them did. nil: there is no policy that names some.
	Witnessed func() (size int64, at time.Time)

	// Stale says whether what Core shows may be behind the ring. Then every
	// answer carries "Webring-Stale: true". nil stands for never. It is called
	// for each request.
	Stale func() bool

	// RateLimit is how many requests a client may send in 60 seconds, and a trusted
	// proxy itself ten times as many. 0 switches the limiter off, and then no answer
	// carries RateLimit fields: there is no policy to state. Icons of members, of which a page
	// shows many, are counted apart, ten times as many. [Shell.SetRateLimit] changes it.
	RateLimit int
	// TrustedProxies may name the client that they forward for, in one field that they
	// have to set: [front.Proxies.NameClientsIn].
	TrustedProxies front.Proxies

	// TLS makes the shell speak TLS, HTTP/1.1 only, and of the protocols that it names
	// "acme-tls/1" (RFC 8737), by which an authority sees that a name is this node's.
	// It is cloned.
	TLS *tls.Config

	// ReadTimeout bounds the reading of one request from its first byte to
	// the end of its body, and the wait for the first byte on a connection;
	// IdleTimeout the wait for each further one; WriteTimeout the writing of a
	// response, counted from when the handler has returned. 0 stands for 10,
	// 30 and 30 seconds.
	ReadTimeout, IdleTimeout, WriteTimeout time.Duration

	// Now is the clock of limiters, vouchers and documents, [time.Now] when nil.
	Now func() time.Time
	// Log receives what operators should see, [slog.Default] when nil. Header
	// values, queries and bodies are never written to it.
	Log *slog.Logger
	// Access gets a line for each request that is answered. nil: none are written.
	Access *front.AccessLog
}
