package paid

import (
	"encoding/json"
	"fmt"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// state is how far a payment has come.
type state uint8

const (
	// held: its credential is claimed, in memory. Gates and network are asked, nothing was sent.
	held state = iota
	// sent: it is stored with all that is needed to finish, and may be mined from here on.
	sent
	// settled: it has its effect, and the block that paid for it may yet be dropped.
	settled
	// final: it has its effect permanently, or none.
	final
)

var states = [...]string{"held", "sent", "settled", "final"}

func (s state) String() string { return states[s] }

// row is a payment: what the ledger has of it, or is to have.
type row struct {
	ledger.Reservation
	payment mpp.Payment
	// refused is the answer to a payment of which nothing is stored; nil for any other.
	refused *Problem
}

// rowOf reads a stored payment.
func rowOf(r *ledger.Reservation) (at row, err error) {
	if at.Reservation = *r; r.Payment != nil { // a proof has none
		at.payment, err = StoredPayment(r)
	}
	return at, err
}

// stored is r as the ledger keeps it.
func (r *row) stored() (*ledger.Reservation, error) {
	s := r.Reservation
	return &s, setPayment(&s, r.payment)
}

func (r *row) state() state {
	switch {
	case r.State == "":
		return held
	case r.State == ledger.Reserved:
		return sent
	case r.State == ledger.Applied && !r.Confirmed:
		return settled
	}
	return final
}

// facts are what is known of a payment at a step, besides its row.
type facts struct {
	now time.Time

	// What its network says: said, or silent if it gave no answer. block is the newest before it was asked.
	// waited says that the network works, and had [givenUpAfter] to mine what it does not have.
	said   mpp.Outcome
	silent bool
	block  time.Time
	waited bool

	// tried says that the payment was sent in this step, and barred that its account has wasted gas.
	tried, barred bool

	// What is known of a credential that is refused: why, and of its challenge.
	refused  *Problem
	claim    claimed
	had      bool   // its network had it before
	accounts string // why the operator need not look at a payment any more: [ReasonAdjusted] or [ReasonElsewhere]

	books books
}

// claimed is what the challenge of a credential says about its payment.
type claimed struct {
	issued   bool // this process has issued it
	realm    bool // it is of this ring, as it is called now
	payee    bool // it names an account that is, or was, the ring's
	request  bool // it was issued for the request that came with it
	underWay bool // its payer may have sent it, and only its time or the configuration are against it
}

// books are what the ledger says of the money of a payment that has settled.
type books struct {
	event      core.Event // that is about this payment, and came back from an edge without it; nil for none
	seq        uint64     // of the event
	given      int64      // cents that events gave for its transaction
	brought    int64      // cents that its transaction brought all payees; 0: not asked
	adjusted   bool       // the operator has adjusted the transaction
	impossible *Problem   // why what it pays for cannot be done; nil if it can
	never      bool       // nor at any later time
}

// effect is what a step asks for.
type effect uint8

const (
	wait     effect = iota // for the next block, or for nothing
	refuse                 // answer with refused: nothing is stored
	reserve                // store the row, before it is sent
	keep                   // store the row for the operator: it can have no effect
	send                   // send it (again)
	inquire                // ask what its transaction brought in all
	carryOut               // append its event, and store the row with the answer
	adopt                  // store the row with the event that is there
	store                  // store the row
)

var effects = [...]string{"wait", "refuse", "reserve", "keep", "send", "inquire", "carry out", "adopt", "store"}

func (e effect) String() string { return effects[e] }

// step is all that can happen to a payment: see the table in the package documentation. It is
// pure. The row that it gives is stored by the effect, if that stores; until then the old one holds.
func step(r row, f facts) (row, effect) {
	switch r.state() {
	case held:
		return r.claimed(f)
	case sent:
		return r.open(f)
	case settled:
		return r.confirm(f)
	}
	if f.accounts != "" {
		r.Reason = f.accounts
		return r, store
	}
	return r, wait
}

// claimed is the step of a payment of which nothing is stored. One that is refused may have been
// made all the same, by its payer or by a process whose record was lost.
func (r row) claimed(f facts) (row, effect) {
	if f.refused == nil {
		r.State = ledger.Reserved
		return r, reserve
	}
	o, over := f.said, !f.now.Before(r.payment.ValidBefore)
	r.refused = f.refused
	switch {
	case f.had && f.silent:
		return r, wait
	case f.had && o.State != mpp.Settled: // its block was dropped
		r.refused = errPending
	case f.silent && f.refused == errUnavailable:
		r.refused = errNotTaken
	case f.silent:
		r.refused = errUndecided
	case o.State == mpp.Settled:
		return r.arrived(f)
	case o.State == mpp.Mismatched:
		r.refused = errMismatched
	case o.State != mpp.Pending:
	case f.refused.Reason == mpp.ReasonUsed: // perhaps by this payment
		r.refused = errUndecided
	case r.payment.Bearer && f.claim.issued: // neither this process nor an earlier one has sent it
	case over && r.payment.Endless:
		r.refused = lapsed(r.payment)
	case over || f.claim.underWay:
		r.refused = errUndecided
	}
	return r, refuse
}

// arrived is the step of a payment that was refused, and that its network has. Its money counts
// if that is possible, whatever refuses the credential.
func (r row) arrived(f facts) (row, effect) {
	why := ""
	switch b := f.books; {
	case !f.claim.payee:
		// Another ring can have the key that signed the challenge, such as one that was
		// restored from a backup as a trial.
		r.refused = &Problem{Code: api.PaymentUnapplied, More: r.reference(f),
			Detail: "The transaction of this credential paid a recipient that this ring does not know, so it has no effect here. Do not pay again. Give the reference to the operator."}
		return r, refuse
	case r.payment.Bearer:
		why = ReasonForeign
	case !f.claim.realm:
		why = string(api.InvalidChallenge)
	case f.refused == errUnreadable:
		why = string(errUnreadable.Code)
	case !f.claim.request:
		r.refused = &Problem{Code: api.PaymentUnapplied, More: r.reference(f),
			Detail: "The transaction of this credential has paid for another request. Send that request, unchanged, with this credential. Do not pay again."}
		return r, refuse
	case b.impossible == nil:
		r.State, r.refused = ledger.Reserved, nil
		return r, reserve
	case !b.never:
		r.refused = errPending
		return r, refuse
	default:
		why = string(b.impossible.Code)
	}
	if !f.said.Deep {
		return r, wait // its block may yet be dropped
	}
	if f.books.given+r.Cents > max(f.said.Received, r.Cents) {
		r.refused = accounted(f.books.adjusted, r.settledBy(f.said))
		return r, refuse
	}
	r.refused = nil
	return r.end(f.said, why), keep
}

// open is the step of a payment that may be mined.
func (r row) open(f facts) (row, effect) {
	p, o := r.payment, f.said
	switch o.State {
	case mpp.Settled:
		return r.paid(f)
	case mpp.Failed, mpp.Mismatched, mpp.Gone:
		return r.end(o, o.Detail), store
	}
	late := f.now.After(p.ValidBefore.Add(holdAfter))
	switch {
	case o.Wasted == nil && !f.tried && f.now.Before(p.ValidBefore) && (len(p.Submissions) > 0 || !f.barred):
		return r, send
	case f.silent || !late || !p.Outlives() || !f.block.After(p.ValidBefore):
		return r, wait
	case r.Lapsed.IsZero(): // its network works, and it is not mined
		r.Lapsed = f.now.UTC()
		return r, store
	case f.waited:
		r = r.end(o, "not mined in "+givenUpAfter.String()+"; if it is mined, the daily look finds its money")
		r.Outcome = outcomeGivenUp
		return r, store
	}
	return r, wait
}

// paid is the step of a payment that its network has.
func (r row) paid(f facts) (row, effect) {
	b, o := f.books, f.said
	short := b.given+r.Cents > max(o.Received, r.Cents, b.brought)
	barred := b.impossible != nil // it has lapsed, or an event came back, and others have what it held
	switch {
	case b.event != nil:
		r.State, r.Outcome, r.Reason, r.Seq, r.Member = ledger.Applied, mpp.Settled.String(), "its event was restored", b.seq, core.MemberOf(b.event)
		// If the money came in another transaction, [row.confirm] finds it.
		its, _ := core.PaymentOf(b.event)
		r.payment.Reference = its.Transaction
		return r, adopt
	case (short && b.brought == 0 || barred) && !o.Deep, barred && !short && !b.never:
		return r, wait
	case short && b.brought == 0:
		return r, inquire
	case short && b.adjusted:
		return r.end(o, ReasonAdjusted), store
	case short:
		return r.end(o, fmt.Sprintf("events gave %d cents for its transaction, which brought %d", b.given, b.brought)), store
	case barred:
		return r.end(o, string(b.impossible.Code)), store
	}
	r.payment.Reference = r.settledBy(o)
	r.State, r.Outcome, r.Confirmed = ledger.Applied, o.State.String(), o.Deep
	return r, carryOut
}

// confirm is the step of a payment that has its effect.
func (r row) confirm(f facts) (row, effect) {
	o := f.said
	switch {
	case f.silent, o.State == mpp.Settled && !o.Deep:
		return r, wait
	case o.State == mpp.Pending && r.payment.Endless && f.waited:
		r.Confirmed, r.Outcome, r.Reason = true, outcomeGivenUp, "not on its network for "+givenUpAfter.String()
		return r, store
	case o.State == mpp.Pending && !f.tried && o.Wasted == nil && r.payment.CanBeMined(f.now):
		return r, send
	case o.State == mpp.Pending:
		return r, wait
	}
	r.Confirmed, r.Outcome, r.Reason = true, o.State.String(), o.Detail
	return r, store
}

// end makes r a payment without effect. It deletes the words of the request, because a
// redaction would not find them here, and the signed transaction, because payments that
// cost their sender nothing must not fill the disk.
func (r row) end(o mpp.Outcome, why string) row {
	if r.State, r.Outcome, r.Reason = ledger.Failed, o.State.String(), why; o.State == mpp.Settled {
		r.payment.Reference = r.settledBy(o)
	}
	r.Body, r.Pinned, r.payment.Raw, r.payment.Submissions = nil, nil, nil, nil
	return r
}

// settledBy names the transaction in which a payment has settled.
func (r *row) settledBy(o mpp.Outcome) string {
	if o.Reference != "" {
		return o.Reference
	}
	return r.payment.Reference
}

func (r *row) reference(f facts) map[string]any {
	return map[string]any{"reference": r.settledBy(f.said)}
}

// vanished says that a payment with an effect turned out to have paid for nothing.
func (r *row) vanished() bool {
	return r.State == ledger.Applied && r.Confirmed && r.Outcome != mpp.Settled.String()
}

// givenUpAfter is how long a payment that has lapsed is waited for: nodes of the network do not
// hold on to a transaction for as long, and some forget after that what they would need to
// show what became of it. outcomeGivenUp is the outcome in its row then. If it is mined
// all the same, the operator is told of money without an event.
const (
	givenUpAfter   = time.Hour
	outcomeGivenUp = "given up"
)

// Reasons of payments that have settled without effect. Any other needs the operator's attention.
const (
	// ReasonAdjusted: or it was diverted.
	ReasonAdjusted = "the operator has adjusted its transaction"
	// ReasonForeign is that of an x402 payment that was made before this ring has reserved it.
	ReasonForeign = "it was on the chain before it was presented here, where anybody can read it"
	// ReasonElsewhere is that of a payment that was kept like that, and that its payer has
	// then presented in another way.
	ReasonElsewhere = "it took effect by another credential"
)

// setPayment puts the payment into r, as [StoredPayment] reads it.
func setPayment(r *ledger.Reservation, p mpp.Payment) (err error) {
	r.Payment, err = json.Marshal(p)
	return err
}

// StoredPayment reads the payment that a reservation holds.
func StoredPayment(r *ledger.Reservation) (p mpp.Payment, err error) {
	err = json.Unmarshal(r.Payment, &p)
	return p, err
}
