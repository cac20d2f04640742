// Package forward passes on to the origin what only the origin answers: paid
// operations above all, and drafts to be checked and reports.
//
// A [Forwarder] copies each request byte for byte, puts a voucher with it (package
// voucher) and sends it once. Requests of each kind have a semaphore of their own, so
// that nothing free keeps payments away. When payments hold all slots of theirs, one of the
// client with most is ended early: the origin answers it at once, and keeps its result.
//
// # What is decided here
//
//   - An edge passes a request on as it came or refuses it as a bad_request: one
//     with a folded field line, which no recipient may take as it is (RFC 9112,
//     5.2), or with a field name or value that is none.
//   - An edge never sends a payment twice. If the origin is lost with one, the
//     answer is payment_pending, and its owner sends the same again.
//   - An edge does not queue payments. One that gets no slot within two seconds, and one
//     of a client that has 16 already, is refused as payments_unavailable.
//   - While all slots are taken, a payment that has waited for half a second ends another
//     one early: the one held longest of the client, and of its account, that has most.
//     The origin is told (Webring-Let-Go), answers that one with payment_pending, and
//     keeps the result for the next request with its credential. To drop the connection
//     would not do: the origin would go on holding the request.
package forward
