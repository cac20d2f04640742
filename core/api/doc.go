// Package api writes the documents of the read surface, as bytes.
//
// There is one function to know: [Serve] takes a state of the ring, the target
// of a GET as it stood on the wire, and 64 random bits, and fills a
// [Response]. It has no clock, no randomness and no network of its own, so the
// same three inputs give the same bytes wherever it runs: natively next to the
// ledger, or as WebAssembly at an edge. A host routes requests to it ([Serves],
// [Paths]), turns a Response into header fields, and moves bytes.
//
// To read the package, begin with serve.go, which routes. straight.go is a short cut past
// routing and parameters for the few targets that most requests have. response.go has the
// Response; query.go reads parameters; member.go writes the Member object that nearly
// every document contains; ring.go, leaderboard.go, widget.go and directory.go write the
// documents of their names, forecast.go what becomes of standings, and search.go the list of
// members that a host has found. problem.go is the one table of problems for the whole
// service, the paid operations included. json.go, money.go and time.go write strings, amounts
// and instants.
//
// The paid operations render their answers with the same functions:
// [AppendMember], [AppendUSD], [AppendString], [AppendProblem].
//
// # What the documents promise
//
// Fields stand in a fixed order, that of the tables of the service interface.
// Absent optional strings are left out; agentic_score, agentic_report and
// last_bid_at are null instead, and so are verified and owner. Every link is absolute and begins with the
// base URL of the rules. Documents that show a standing, a rank or a quote say
// from which second until which they are valid ([Timed]), at most for the UTC day of their
// forecasts; the others depend on the ledger position alone ([Position]).
//
// # What the interface leaves open, as this package has it
//
//   - A parameter without a value counts as absent.
//   - Of a repeated parameter the first that has a value counts; the others are
//     ignored.
//   - Parameters that an endpoint does not know are ignored, format on /next
//     among them.
//   - A from that is not UTF-8 is taken as it was sent, and mostly unknown.
//   - With offset, page is ignored, even an invalid one.
//   - An offset beyond 2^53 is invalid. A page that would begin beyond it is as
//     empty as any beyond the end, and begins there.
//   - Beyond the last page, links.prev leads back to the last page that has
//     items. Before an offset smaller than the limit it leads to offset 0.
//   - from is looked up before filters apply: with an unknown from,
//     /api/ring/next answers unknown_member also when no member matches. An
//     empty ring is an empty_ring whatever from says.
//   - A path is compared after percent-decoding, segment by segment: a slash that
//     is escaped is no separator. No path has a trailing slash.
//   - A state without rules, which no host serves, answers everything with
//     the problem internal.
package api
