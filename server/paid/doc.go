// Package paid takes a paid operation from its first request to its stored
// effect: money is never taken without its effect, and never twice for one.
//
// A tour, in the order of a payment:
//
//   - service.go: what a service is made of, and [Service.Handle], where every
//     request comes in
//   - operation.go: what an operation must do; register.go and bid.go are the two that
//     exist, body.go, site.go, text.go, money.go and slug.go the rules for what people
//     send
//   - watch.go: each network is asked for its newest block in the background, so that no
//     offer waits for a node, and open payments can wait for blocks
//   - offer.go: a request without a credential gets a reason or a challenge;
//     idempotency.go: but no second challenge for a payment that was made
//   - credential.go: a request with one is checked, cheap checks first; used.go: what is
//     said to a credential that was used before
//   - work.go: claim, simulate, reserve, broadcast; conclude.go: append and answer,
//     or fail
//   - hold.go: what a reservation may keep others from, and for how long
//   - expenses.go: what may be submitted at this service's expense before it is known to
//     pay; waste.go: what was wasted so, and which accounts and clients are refused for it
//   - letgo.go: how many payments may be open, and the end of a held request before its
//     payment is decided
//   - seen.go: a refused payment that was made already
//   - resume.go: how the next process goes on with an open reservation
//   - confirm.go: payments that can still be undone are asked for again; scan.go: money
//     without an event is looked for; adjust.go: the operator credits and voids,
//     verify.go compares all events with the networks, and payee.go keeps the names of
//     all payees that the ring ever had
//   - check.go: whether a registration would get a 402, without a payment
//   - problem.go: every error becomes a document in one place
//
// # Reservations
//
// Before a transaction is sent, everything needed to finish is stored in the ledger as a
// reservation. It ends when the outcome of the transaction is final:
//
//	the transaction                       the reservation   the answer
//	-----------------------------------   ---------------   -----------------------
//	may still settle, or nobody knows     reserved          503 payment_pending
//	settled                               applied           the 2xx of the request
//	settled, and its money is used up     failed            409 payment_unapplied
//	was mined and reverted                failed            402 verification_failed
//	can never be mined                    failed            402 verification_failed
//	was mined and paid somebody else      failed            409 payment_mismatch
//
// That a payment has settled is not stored by itself: after a crash the network is asked
// again, by the same function as before ([Service.drive]). The event, the answer and the
// end of the reservation are one transaction. An open reservation is never answered with
// a 402, because clients pay again on one.
//
// # Settled payments
//
// A settled payment can have its event already: after a restored backup, events come
// back from edges without their reservations. And its money can be used up: whoever
// submits a payment can put several into one transaction, and the operator can credit
// that transaction to somebody. [work.settlement] takes the first case that holds:
//
//	what the ledger and the network say              what the payment comes to
//	----------------------------------------------   -----------------------------
//	an event that came back names its transaction    applied, by that event
//	an event that came back names a transaction      applied, by that event
//	  that is not on the network any more
//	its transaction brought enough for all that      applied, by a new event
//	  events gave, and for this payment
//	the operator has adjusted its transaction        failed, [ReasonAdjusted]
//	otherwise                                        failed, a matter for the operator
//
// For the second case, and for what the transaction brought all payees, the network is
// asked; the payment stays open until its block is final.
//
// A refused payment that has settled all the same, and can have no effect, is stored as
// failed at once, for the operator ([Service.settleSeen]).
//
// The package knows no transport: server turns HTTP into a [Call] and an
// [Answer] into HTTP.
package paid
