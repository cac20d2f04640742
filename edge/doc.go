// Package edge is the HTTP shell around the read surface. The origin runs one, and so
// does each edge.
//
// A [Core] makes the documents: it answers every GET of the service interface with a
// status, bytes and how long they hold. The shell turns that into header fields and moves
// the bytes. It does routing and methods, the rate limit, the version check, CORS,
// validators and caching, sizes and timeouts. Every error, on any layer, is a problem
// document of the one table in [webring/core/api], which people see as a page.
//
// Every connection begins in [webring/edge/fastpath], which answers plain reads and the
// front page, and hands the connection over to fasthttp with the first request of any
// other kind: fastpath.go says which reads are plain and answers them, fields.go writes
// the header fields of all answers.
//
// From there, [Shell] in shell.go takes each request through a limiter, version check and
// route, and contains panics:
//
//   - config.go says what a shell is made of; routes.go finds the handler; read.go turns an
//     answer of the core into HTTP; swap.go replaces the core while it is read
//   - cached.go caches documents in [webring/edge/cache] while they are valid, long ones
//     in the codings of [webring/edge/content]
//   - body.go decodes what is posted; paid.go counts requests by their clients, and calls
//     the handlers of paid operations
//   - origindata.go serves what the origin has besides the ledger, at an edge by
//     [webring/edge/cache]; [webring/edge/hops] counts redirects
//   - problem.go writes problems, also for requests that could not be read, and makes pages
//     of them for people
//   - [webring/edge/front] finds the client and the target of a request and writes the
//     access log; requests.go gives each request its id and its line in the log
//   - [webring/edge/share] has the limits of clients; room.go accepts connections, and bounds
//     them and what they hold; metrics.go counts answers
//   - pages.go serves what [webring/edge/pages] draws for people and for programs; the tests
//     in edge/browser look at the pages as people do; mcp.go serves [webring/edge/mcp], and
//     a2a.go is the agent of the A2A protocol
//
// An edge passes paid operations on to the origin by [webring/edge/forward], with a
// [webring/edge/voucher] that names the client. What is limited in all, there and at the
// origin, [webring/edge/share] shares between clients and their networks.
// [webring/edge/follow] follows the origin and gives the edge its core.
//
// # What is decided here
//
//   - Every path is matched exactly, but for one slash at its end too many: that is
//     answered with 308 and the path without it, so that query, method and body stay; a
//     preflight is answered as there. A target that is not a path, has a fragment, or names
//     another scheme than http(s) is a bad_request.
//   - Without a rate limit there are no RateLimit fields.
//   - Documents depend on no request field but the target and Api-Version.
//     Pages come as HTML or Markdown. Pages, their files and long documents come
//     compressed or not, and carry Vary and an entity tag for each coding. Errors are not stored.
//   - An error is a page where people come, which is everywhere but below /api, /mcp and
//     /sync, if Accept gives text/html a higher weight than what programs read. It is drawn
//     when the answer is complete, from whatever handler or node the problem document comes.
//   - A request body may come in gzip or zstd. It is decoded once, before any
//     handler, and no further than a body may be long; another coding is
//     unsupported_encoding. What a voucher or a challenge binds, and what an edge
//     passes on, are the bytes as they were received.
//   - A slash that is escaped separates no segments: no path has one, but for the names of MCP
//     servers below /v0.1/servers, where it reads as a slash.
//   - A browser may call the MCP server only under a name of the ring's, a page without a
//     site (Origin null or file://) like that of any site.
//   - Clients may cache a document for 5 seconds, or for less if it shows standings that
//     change earlier. They may show a stale one while they fetch it anew, and when they
//     cannot.
//   - A page is drawn again when a document it shows may have changed. Meanwhile other
//     requests get the page before, if only time has passed since.
//   - All documents of a page are of one position and second: if the ring moves while they
//     are read, one call of the core gives all of them again.
//   - The form of the join page is answered with 200 whatever the check finds.
//   - An answer that may be behind the ring carries "Webring-Stale: true": the
//     node has heard nothing new from its origin for a while, or does not yet show what
//     the answer says was paid for.
//   - A voucher (Webring-Edge) that is not valid is dropped and logged, and the request
//     counts as its peer's.
//   - Vouchers are taken with every method, so readers behind an edge are counted by
//     their own addresses. Below /sync/ a voucher says that the peer is an edge of this
//     ring, which is counted apart from strangers.
//   - A read is the same for everyone, so every answer carries CORS fields.
package edge
