// Package forward passes requests on that only the origin, or its leader, answers: paid
// operations above all, checks of drafts, and reports.
//
// forward.go has the [Forwarder]; request.go copies a request; send.go chooses an origin,
// sends, and finds lost origins; slots.go shares the slots of payments between clients and
// accounts; problem.go has the refusals, and x402.go what x402 clients read of them.
//
// A [Forwarder] copies each request byte for byte, adds a voucher (package voucher) and
// sends it once. Each kind of request has a semaphore of its own, so free requests do not
// keep payments waiting, and package share shares the slots of free ones between clients and
// networks. While payments hold all their slots, a payment of the client with
// most slots is ended early: the origin answers it at once, and stores its result.
//
// # What is decided here
//
//   - An edge passes a request on as it came or refuses it as a bad_request: one
//     with a folded field line, which no recipient may take as it is (RFC 9112,
//     5.2), or with a field name or value that is none.
//   - An edge never sends a payment twice. If the connection to the origin is lost, the
//     answer is payment_pending, and the client sends the same request again.
//   - Of several origins an edge asks one, and the next only if that one certainly did
//     nothing with a request: there was no connection, or it answered not_leader. What
//     brings no payment has no effect, and goes to the next after any failure (send.go).
//   - An origin may hold a payment for minutes. So if it holds one of several for more than
//     five seconds, the edge asks it something small meanwhile; if that is not answered
//     either, the origin counts as lost (send.go).
//   - An edge does not queue payments. One that gets no slot within two seconds, and one
//     of a client that has 16 already, is refused as payments_unavailable.
//   - While all slots are taken, a payment that has waited for half a second ends another
//     one early: of the client with most slots, networks included, and of its account with
//     most, the one held longest. The edge tells the origin (Webring-Let-Go), which answers that payment with
//     payment_pending and stores its result for the next request with its credential. To
//     close the connection would not be enough: the origin would go on holding the request.
package forward
