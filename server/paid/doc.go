// Package paid takes an operation from its first request to its stored effect. It takes no
// money without an effect, and none twice for one effect. A request that the owner of a
// member proves is a payment of 0: it gets a 402, answers it with a credential, and takes
// effect once.
//
// A payment is one row and one step. The row is what the ledger has of it, a
// [ledger.Reservation]; [step] gives the row that follows and what is to be done, from the row and
// what is known, and is pure. Whatever happens to a payment is a caller of step: its request, a block,
// a restart, the node that leads next, and the operator.
//
// The story of a payment, in the order of its files:
//
//   - service.go: what a service is made of, and what it asks a payment method
//   - pay.go: [Service.Handle], where every request comes in. A request gets an answer or a
//     problem, and a problem with the status 402 comes with offers. A credential is checked,
//     cheap checks first. Credentials and Idempotency-Keys that come again
//   - order.go: what a request is for: a registration, a bid, or an owner's request
//   - offer.go: the 402
//   - held.go: a credential is claimed, and its request waits for the answer
//   - gates.go: all that refuses a payment. work.go: what is asked of its network before it is sent, and its
//     reservation
//   - row.go: the row and its step. run.go: what follows from a step
//   - watch.go: each network's payments are stepped when it has a new block, or a process begins
//   - answer.go: what a payer is told, a function of the row
//
// Owners' requests are payments of 0. They share the request, the offer, the row and the answer:
//
//   - owner.go: a proof takes the place of a payment, and one turn of the writer that of gates and steps. Its
//     row is final from the start, and is deleted after a day
//   - owner_requests.go: change, leave, return, visit and claim
//
// What the workflow relies on:
//
//   - hold.go: for how long a payment may hold a URL; gas.go: what this service pays for.
//     What others can cost the ring is in package risk
//   - reconcile.go: looks for money without an event. adjust.go: what the operator asks for: credits and
//     voids, and a comparison of all events with the networks
//   - network.go: the newest block of each network, so that no offer waits for a node
//   - x402.go: what differs for payments in the envelope of x402; record.go: the log
//
// Package form reads the bodies of requests. Owners' requests and reconciliation are not
// packages of their own: they append events, hold orders and ask networks as the workflow
// does, and would need most of its insides.
//
// # A step
//
// A payment is held while its credential is claimed in memory, and gates and network are asked. It is
// sent from when it is stored, with everything that is needed to finish: from then on it may be mined, and
// a process that finds it goes on as the one that stored it would. It is settled once it has its
// effect, and final when nothing undoes that any more, or when it has none. That it lapsed, and whether it has
// an end, are facts of its row.
//
// Each cell says what is done, what becomes of the payment, and what the request is told that waits for it
// ("as refused": what the gate says). A gate refuses what is held, but for the first line.
//
//	what is known               | held                                 | sent                                   | settled             | final
//	----------------------------|--------------------------------------|----------------------------------------|---------------------|-------------------
//	no gate refuses it          | reserve → sent, 503 payment_pending  | send → sent, 503 payment_pending       | send → settled, 2xx | wait → final, 2xx
//	its network is silent       | refuse → held, 503 payment_pending   | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	it is not mined             | refuse → held, as refused            | send → sent, 503 payment_pending       | send → settled, 2xx | wait → final, 2xx
//	not mined, and just sent    | refuse → held, as refused            | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	not mined, and gas barred   | refuse → held, as refused            | wait → sent, 503 payment_pending       | send → settled, 2xx | wait → final, 2xx
//	not mined, and it was used  | refuse → held, 503 payment_pending   | send → sent, 503 payment_pending       | send → settled, 2xx | wait → final, 2xx
//	not mined, its time over    | refuse → held, 503 payment_pending   | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	the same, without an end    | refuse → held, 503 payment_pending   | store → sent, 503 payment_pending      | send → settled, 2xx | wait → final, 2xx
//	the same, for an hour       | refuse → held, 503 payment_pending   | store → final, 409 credential_reused   | store → final, 2xx  | wait → final, 2xx
//	can never be mined          | refuse → held, as refused            | store → final, 402 verification_failed | store → final, 2xx  | wait → final, 2xx
//	mined and reverted          | refuse → held, as refused            | store → final, 402 verification_failed | store → final, 2xx  | wait → final, 2xx
//	mined, paid somebody else   | refuse → held, 409 payment_mismatch  | store → final, 409 payment_mismatch    | store → final, 2xx  | wait → final, 2xx
//	it had settled, silent now  | wait → held, as refused              | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	it had settled, gone now    | refuse → held, 503 payment_pending   | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	settled                     | reserve → sent, 503 payment_pending  | carry out → settled, 2xx               | wait → settled, 2xx | wait → final, 2xx
//	settled, deep               | reserve → sent, 503 payment_pending  | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	settled to a stranger       | refuse → held, 409 payment_unapplied | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	settled, of a bearer        | keep → final, 409 payment_unapplied  | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	settled for another ring    | keep → final, 409 payment_unapplied  | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	settled for another request | refuse → held, 409 payment_unapplied | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	its event is back           | reserve → sent, 503 payment_pending  | adopt → settled, 2xx                   | wait → settled, 2xx | wait → final, 2xx
//	settled, money given        | reserve → sent, 503 payment_pending  | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	deep, money given           | reserve → sent, 503 payment_pending  | inquire → sent, 503 payment_pending    | store → final, 2xx  | wait → final, 2xx
//	the same, and no more       | reserve → sent, 503 payment_pending  | store → final, 409 payment_unapplied   | store → final, 2xx  | wait → final, 2xx
//	the same, and some more     | reserve → sent, 503 payment_pending  | carry out → final, 2xx                 | store → final, 2xx  | wait → final, 2xx
//	given by the operator       | reserve → sent, 503 payment_pending  | store → final, 409 payment_unapplied   | store → final, 2xx  | wait → final, 2xx
//	lapsed, and not now         | refuse → held, 503 payment_pending   | wait → sent, 503 payment_pending       | store → final, 2xx  | wait → final, 2xx
//	lapsed, and never           | wait → held, as refused              | wait → sent, 503 payment_pending       | wait → settled, 2xx | wait → final, 2xx
//	deep, and never             | keep → final, 409 payment_unapplied  | store → final, 409 payment_unapplied   | store → final, 2xx  | wait → final, 2xx
//	the operator accounted for  | refuse → held, as refused            | send → sent, 503 payment_pending       | send → settled, 2xx | store → final, 2xx
//
// Effects: reserve stores a row before it is sent, and keep one that can have no effect, for the operator.
// Send sends the payment (again): the same bytes have the same hash, so that cannot pay twice. Inquire asks
// what its transaction brought all payees. Carry out appends its event, and adopt takes the one that came back
// from an edge without its row ([ledger.View.Restored]). The event, the answer and the row are stored in one turn of the
// writer, in which the step is taken anew by what the ledger says then.
//
// That a payment has settled is not stored by itself: after a crash its network is asked again. The answer to
// an open payment is never a 402, because clients pay again on one. One that has lapsed holds nothing any
// more, so what it is for may be somebody else's, or the ring be full, when it settles: then it has no effect.
// An event that came back from an edge can take it from one that has not lapsed, too. While it is open,
// another payment of its account that has to wait for it is told its transaction, and gets no 402 either. A
// payment can be made without this process knowing: its record was lost with a disk, or its payer sent the
// transaction. So no answer says that nothing was charged before its network was asked, and money that came in
// time has its effect, whatever refuses its credential, if that is possible.
// A bid counts for its member whether or not that is still in the ring, so leaving, hiding, moving
// and returning wait for no payment.
//
// # Gates
//
// What refuses a payment is a gate, and gates.go has all of them. They are asked in this order: offering, before
// a 402 is made; naming, for each network that it may name; claiming, when a credential has come; sending,
// before its network is asked about it; asking, by what that says; covering, the same, again if it has changed
// meanwhile; reserving, in the turn of the writer that stores the row; and settling, in the turn that gives a
// payment its effect which had been refused or has lapsed.
//
//	gate        | offering   | naming     | claiming   | sending    | asking     | covering   | reserving  | settling
//	claimed     | asked      |            |            |            |            |            |            |
//	known       |            |            | asked      |            |            |            |            |
//	poor        |            |            | asked      |            |            |            |            |
//	credential  |            |            |            | asked      |            |            |            |
//	gas         |            | asked      |            | asked      |            |            |            |
//	key         | asked      |            |            |            |            |            | asked      |
//	possible    | asked      |            |            | asked      |            |            | asked      | asked
//	admitted    | asked      |            |            | asked      |            |            | asked      |
//	first       |            |            |            | asked      |            |            | asked      |
//	ready       |            | asked      |            | asked      |            |            |            |
//	simulated   |            |            |            |            | asked      |            |            |
//	unused      |            |            |            |            | asked      |            |            |
//	site        |            |            |            |            |            | asked      |            |
//	covered     |            |            |            |            |            | asked      |            |
//	expired     |            |            |            |            |            | asked      |            |
//	open        |            |            |            |            |            |            | asked      |
//	lapsed      |            |            |            |            |            |            | asked      |
//	nonce       |            |            |            |            |            |            | asked      |
//	url         |            |            |            |            |            |            | asked      |
//
// The package knows no transport: server turns HTTP into a [Call] and an
// [Answer] into HTTP.
package paid
