// Package forward passes on to the origin what only the origin answers: paid
// operations above all, and drafts to be checked and reports.
//
// A [Forwarder] copies each request byte for byte, puts a voucher with it (package
// voucher) and sends it once. Requests of each kind have a semaphore of their own, so
// that nothing free keeps payments away. When payments hold all of theirs, one of whoever
// holds most is let go: the origin answers it at once, and keeps what becomes of it.
//
// # What is decided here
//
//   - An edge passes a request on as it came or refuses it as a bad_request: one
//     with a folded field line, which no recipient may take as it is (RFC 9112,
//     5.2), or with a field name or value that is none.
//   - An edge never sends a payment twice. If the origin is lost with one, the
//     answer is payment_pending, and its owner sends the same again.
//   - Nor does it keep one to send it later: what finds no place within two seconds,
//     or finds that its client has 16, is refused as payments_unavailable.
//   - While all places are taken, a payment that waits for half a second has another
//     let go: of the client, and of its account, that has most, the one held longest.
//     The origin is told (Webring-Let-Go), answers that one with payment_pending, and
//     keeps what becomes of it for whoever shows the credential next. A connection that
//     is merely dropped would not do: the origin would go on holding the request, and
//     answer nobody.
package forward
