// Package edge is the HTTP shell around the read surface: any number of
// processes may run it, one of them at the origin.
//
// The documents are not made here. A [Core] answers every GET of the service
// interface with a status, bytes and how long they hold; the shell turns that
// into header fields and moves the bytes. What is its own: routing and methods,
// the rate limit, the version check, CORS, validators and caching, sizes
// and timeouts, and the promise that whatever goes wrong, on
// any layer, is answered by a problem document of the one table in
// [webring/core/api].
//
// Every connection begins in [webring/edge/fastpath], which answers plain reads and the
// front page, and hands the connection over to fasthttp with the first request of any
// other kind: fastpath.go says which reads are plain and answers them, fields.go writes
// the header fields of all answers.
//
// From there, [Shell] in shell.go takes each request through limiter, version check
// and route, with panics contained around all of it, of which log.go tells. config.go
// says what a shell is made of; routes.go finds the handler; read.go turns an answer
// of the core into HTTP, [webring/edge/uri] reads what is asked and puts its hosts into A-labels;
// cached.go keeps documents in [webring/edge/cache] for as long as they hold, long ones in
// the codings of [webring/edge/content];
// validator.go says which entity tags they have; body.go undoes the coding of what is posted,
// and paid.go lets a payment handler in; problem.go writes problems, those of requests that
// could not be read among them; headers.go adds what every answer
// carries. [webring/edge/limit] counts requests, [webring/edge/clientaddr] says whose they are,
// listener.go bounds connections. pages.go serves what [webring/edge/pages] draws for people
// and for programs; the tests in edge/browser look at the pages as people do. mcp.go lets
// [webring/edge/mcp] answer. swap.go replaces the core while it is read.
//
// An edge passes paid operations on to the origin by [webring/edge/forward], and says with
// [webring/edge/voucher] for whom. What an edge reads from is kept by [webring/edge/replica].
//
// # What is decided here
//
//   - Every path is matched exactly: no redirects for slashes or case. A
//     target that is not a path, has a fragment, or names another scheme than
//     http(s) is a bad_request.
//   - Without a rate limit there are no RateLimit fields.
//   - Documents depend on no request field but the target and Api-Version.
//     Pages come as HTML or Markdown, and they, the files beside them, and those
//     documents that may be long compressed or not: these carry Vary, and an entity
//     tag for each coding. Errors are not stored.
//   - A request body may come in gzip or zstd. It is decoded once, before any
//     handler, and no further than a body may be long; another coding is
//     unsupported_encoding. What a voucher or a challenge binds, and what an edge
//     passes on, are the bytes as they were received.
//   - A slash that is escaped separates no segments: no path has one.
//   - A browser may call the MCP server only under a name of the ring's.
//   - Documents may be kept for 5 seconds, those that show standings no longer
//     than these hold, and shown stale while they are fetched anew or cannot
//     be.
//   - A page is drawn again when a document it shows may have changed. While that
//     is done, others get the one before, if nothing but a second has passed.
//   - All documents of a page are of one position and second: one call of the core gives
//     them.
//   - The form of the join page is answered with 200 whatever it finds: the check
//     is what was asked for.
//   - An answer that may be behind the ring carries "Webring-Stale: true": the
//     node has heard nothing new from its origin for a while, or was not done
//     in time with showing what the answer says was paid for.
//   - A voucher (Webring-Edge) that does not hold is dropped and logged, and
//     the request is its peer's.
//   - Vouchers are taken with every method: readers whom an edge passes on are
//     counted for themselves too. Below /sync/ a voucher says that an edge of
//     this ring follows, which is admitted whatever strangers do.
//   - A read is the same for everyone, so CORS fields stand on every answer.
package edge
