// Package paid takes an operation from its first request to its stored effect. It takes no
// money without an effect, and none twice for one effect. A request that the owner of a
// member proves is a payment of 0: it gets a 402, answers it with a credential, and takes
// effect once.
//
// The story of a payment, in the order of its files:
//
//   - service.go: what a service is made of, and what it asks a payment method
//   - pay.go: [Service.Handle], where every request comes in. A request gets an answer or a
//     problem, and a problem with the status 402 comes with offers. A credential is checked,
//     cheap checks first. Credentials and Idempotency-Keys that come again
//   - order.go: what a request is for: a registration, a bid, or an owner's request
//   - offer.go: the 402
//   - work.go: claim, read the facts, simulate, reserve, broadcast, and go on after a crash
//   - conclude.go: append and answer, or fail; and payments that had settled before they were
//     presented
//
// Owners' requests are payments of 0, and take the same way up to their effect:
//
//   - owner.go: a proof takes the place of a payment, and one turn of the writer that of work
//   - owner_requests.go: change, leave, return, visit and claim
//
// What the workflow relies on:
//
//   - hold.go: for how long a payment may hold a URL; gas.go: what this service pays for.
//     What others can cost the ring is in package risk
//   - reconcile.go: what runs by itself: it asks again for payments that can still be undone,
//     and looks for money without an event. adjust.go: what the operator asks for: credits and
//     voids, and a comparison of all events with the networks
//   - network.go: the newest block of each network, so that no offer waits for a node
//   - x402.go: what differs for payments in the envelope of x402; record.go: the log
//
// Package form reads the bodies of requests. Owners' requests and reconciliation are not
// packages of their own: they append events, hold orders and ask networks as the workflow
// does, and would need most of its insides.
//
// # Reservations
//
// Before a transaction is sent, everything needed to finish is stored in the ledger as a
// reservation. It ends when the outcome of the transaction is final:
//
//	the transaction                       the reservation   the answer
//	-----------------------------------   ---------------   -----------------------
//	may still settle, or is not known     reserved          503 payment_pending
//	not mined in time, and still can be   reserved, lapsed  503 payment_pending
//	the same, an hour later               failed            409 credential_reused
//	settled                               applied           the 2xx of the request
//	settled, and its money is used up     failed            409 payment_unapplied
//	was mined and reverted                failed            402 verification_failed
//	can never be mined                    failed            402 verification_failed
//	was mined and paid another recipient  failed            409 payment_mismatch
//
// That a payment has settled is not stored by itself: after a crash the same function asks
// the network again ([Service.drive]). The event, the answer and the end of the
// reservation are stored in one turn of the writer. The answer to an open reservation is
// never a 402, because clients pay again on one. One that has lapsed holds nothing any more, so
// what it is for may be somebody else's, or the ring be full, when it settles: then it has no
// effect. While it is open, another payment of its account that has to wait for it is told its
// transaction, and gets no 402 either.
//
// # Settled payments
//
// A settled payment can have its event already: after a restored backup, events come back
// from edges without their reservations ([ledger.View.Restored]). And its money can be used up:
// one transaction can hold several payments, and the operator can credit a transaction to
// a member. [work.settlement] takes the first case that holds:
//
//	what the ledger and the network say              what the payment comes to
//	----------------------------------------------   -----------------------------
//	a restored event has its network, payer and      applied, by that event
//	  binding
//	its transaction brought enough for all that      applied, by a new event
//	  events gave, and for this payment
//	the operator has adjusted its transaction        failed, [ReasonAdjusted]
//	otherwise                                        failed, a matter for the operator
//
// The binding is a function of what was signed: the memo of a transfer, or the nonce of an
// authorisation. Every payment method names one, and no other payment of the account has it.
//
// The network is asked for what the transaction brought all payees; the payment stays open
// until its block is final.
//
// A payment that was refused, has settled nevertheless, and can have no effect is stored
// as failed at once, for the operator ([Service.settleSeen]). So is one of x402 that has
// settled before it was reserved.
//
// The package knows no transport: server turns HTTP into a [Call] and an
// [Answer] into HTTP.
package paid
