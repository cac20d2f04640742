// Package paid takes a paid operation from its first request to its stored effect: it takes
// no money without an effect, and none twice for one. It also takes the requests for which
// the owner of a member proves itself.
//
// The files, in the order of a payment:
//
//   - service.go: what a service is made of, and [Service.Handle], where every
//     request comes in
//   - operation.go: what an operation must do; register.go and bid.go are the two that
//     exist, body.go, site.go, text.go, name.go, money.go and slug.go the rules for what
//     people send
//   - watch.go: each network is asked for its newest block in the background, so that no
//     offer waits for a node, and open payments can wait for blocks
//   - offer.go: a request without a credential gets a challenge, or the reason why it
//     gets none; terms.go: what a challenge asks for, decoded; idempotency.go: it gets
//     none if it was paid already
//   - credential.go: checks a request with a credential, cheap checks first; used.go: the
//     answer to a credential that was used before
//   - work.go: claim, simulate, reserve, broadcast; conclude.go: append and answer,
//     or fail
//   - blocklist.go: what the operator keeps out
//   - account.go, domains.go: limits for each account; hold.go: limits for each URL, and
//     named.go: the accounts that sites name; rank.go: what a rank takes
//   - expenses.go: what may be submitted at this service's expense; waste.go: what was
//     wasted so, how it is divided, and who is refused for it
//   - letgo.go: how many payments may be open, and how a held request ends early
//   - seen.go: a refused payment that was made already
//   - x402.go: what differs for payments in the envelope of x402
//   - resume.go: how the next process goes on with an open reservation
//   - confirm.go: asks again for payments that can still be undone; scan.go: looks for
//     money without an event; adjust.go: the operator credits and voids; verify.go:
//     compares all events with the networks; payee.go: all payees that the ring ever had
//   - check.go: whether a registration would get a 402, without a payment
//   - proof.go: a request of an owner gets a challenge for nothing, and its proof is
//     checked; deed.go: what it allows is done; spent.go: once; change.go,
//     leave.go (with the return), claim.go and visit.go are the requests that exist
//   - record.go: the lines of the log about payments
//   - problem.go: every error becomes a document in one place
//
// # Reservations
//
// Before a transaction is sent, everything needed to finish is stored in the ledger as a
// reservation. It ends when the outcome of the transaction is final:
//
//	the transaction                       the reservation   the answer
//	-----------------------------------   ---------------   -----------------------
//	may still settle, or is not known     reserved          503 payment_pending
//	settled                               applied           the 2xx of the request
//	settled, and its money is used up     failed            409 payment_unapplied
//	was mined and reverted                failed            402 verification_failed
//	can never be mined                    failed            402 verification_failed
//	was mined and paid another recipient  failed            409 payment_mismatch
//
// That a payment has settled is not stored by itself: after a crash the same function asks
// the network again ([Service.drive]). The event, the answer and the end of the
// reservation are stored in one turn of the writer. The answer to an open reservation is
// never a 402, because clients pay again on one.
//
// # Settled payments
//
// A settled payment can have its event already: after a restored backup, events come back
// from edges without their reservations ([ledger.Restored]). And its money can be used up:
// one transaction can hold several payments, and the operator can credit a transaction to
// a member. [work.settlement] takes the first case that holds:
//
//	what the ledger and the network say              what the payment comes to
//	----------------------------------------------   -----------------------------
//	a restored event names its transaction           applied, by that event
//	a restored event names a transaction that is     applied, by that event
//	  not on the network any more
//	its transaction brought enough for all that      applied, by a new event
//	  events gave, and for this payment
//	the operator has adjusted its transaction        failed, [ReasonAdjusted]
//	otherwise                                        failed, a matter for the operator
//
// The network is asked for the second case, and for what the transaction brought all
// payees; the payment stays open until its block is final.
//
// A payment that was refused, has settled nevertheless, and can have no effect is stored
// as failed at once, for the operator ([Service.settleSeen]). So is one of x402 that has
// settled before it was reserved.
//
// The package knows no transport: server turns HTTP into a [Call] and an
// [Answer] into HTTP.
package paid
