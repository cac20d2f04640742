// Package paid takes a paid operation from its first request to its stored
// effect: money is never taken without its effect, and never twice for one.
//
// A tour, in the order of a payment:
//
//   - service.go: what a service is made of, and [Service.Handle], where every
//     request comes in
//   - operation.go: what an operation has to say for itself; register.go and
//     bid.go are the two there are, body.go, site.go, text.go, money.go and
//     slug.go the rules for what people send
//   - watch.go: each network is asked for its newest block in the background, so that
//     offers need not wait for its node, and open payments can wait for blocks
//   - offer.go: a request without a credential gets a reason or a challenge
//   - credential.go: a request with one is checked, from cheap to dear
//   - work.go: claim, simulate, reserve, broadcast; conclude.go: append and answer,
//     or fail
//   - hold.go: what a reservation may keep others from, and for how long
//   - expenses.go: what may be submitted at this service's expense before it is known to
//     pay; waste.go: what was wasted so, and whoever did that is refused for a while
//   - letgo.go: how many payments may be open, and requests that are not waited for
//   - seen.go: a payment that is refused, and was made already
//   - resume.go: how an open reservation is taken up by the next process
//   - confirm.go: payments that may be undone are asked for again; scan.go: money
//     without an event is looked for; adjust.go is the operator's hand in it,
//     verify.go holds all events against the networks, and payee.go knows whom
//     payments ever reached
//   - check.go: what a registration would meet, told without a payment
//   - problem.go: every error becomes a document in one place
//
// # Reservations
//
// Before a transaction is sent, everything needed to finish is stored in the
// ledger as a reservation:
//
//	            ┌──────────── the transaction settled ───▶ applied
//	reserved ───┤
//	            └── it provably never will, or reverted,
//	                or did not pay this ring, or others,
//	                as a rule the operator by hand,
//	                have been given what it brought ─────▶ failed
//
// A payment that came and can have no effect is stored as failed at once, with the
// outcome settled: it is the operator's to credit.
//
// That a payment has settled is not stored by itself: the chain is asked again
// after a crash, by the same function as before it ([Service.drive]). The event,
// the answer and the end of the reservation are one transaction. An outcome that
// is not known leaves the reservation open; it is never answered with a 402,
// because clients pay again on one.
//
// The package knows no transport: server turns HTTP into a [Call] and an
// [Answer] into HTTP.
package paid
