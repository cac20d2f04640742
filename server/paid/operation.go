package paid

import (
	"cmp"
	"context"
	"encoding/json"

	"webring/core"
	"webring/server/ledger"
)

// operation is one kind of paid request.
type operation interface {
	// read parses the body of a request without a credential, under the rules in force.
	// It refuses with an *[InputError] or a *[Problem].
	read(body []byte, rules *core.Rules) (order, error)
	// restore rebuilds an order from its body and from what its challenge pinned, for a
	// request that answers the challenge.
	restore(body []byte, pinned map[string]string) (order, error)
	// load rebuilds an order from the JSON in its reservation, and from nothing else:
	// the configuration may have changed.
	load(stored json.RawMessage) (order, error)
}

// order is one request of an operation: what a client wants to pay for. It can be
// stored as JSON.
type order interface {
	// decide finds everything that the challenge is to pin, such as a site's score.
	decide(ctx context.Context, client string) error
	// check says why the order cannot be carried out now, by what the ledger holds. It
	// runs before the challenge, before the simulation, and again in the turn of the
	// writer that reserves.
	check(v *ledger.View) error
	// checkUnpaid says what else stands against a payment that is not made yet: the operator
	// keeps it out, it would not give the rank that was wanted, or its account may not have
	// the order. payer is "" until the account is known. Money that has come already is not
	// refused so.
	checkUnpaid(v *ledger.View, payer string) error
	// pin gives what restore needs besides the body. The map is the caller's.
	pin() map[string]string
	// cents is the price.
	cents() int64
	// describe says in a few words what is paid for. It shows no member's words.
	describe() string
	// subject fills in what the reservation blocks while it is open.
	subject(r *ledger.Reservation)
	// carryOut appends the event and renders the answer. It runs in a turn of the writer
	// after the payment has settled.
	carryOut(tx *ledger.Tx, payment core.Payment) (effect, error)
	// carriedOut gives the member of e if carryOut may have appended e for this order,
	// by all that is still known of it, and "" otherwise.
	carriedOut(st *core.State, e core.Event) (slug string)
}

// possible says why a payment for an order may not be made. payer is "" if it is not
// known yet.
func possible(o order, v *ledger.View, payer string) error {
	return cmp.Or(o.check(v), o.checkUnpaid(v, payer))
}

// effect is what an order has done.
type effect struct {
	status   int
	slug     string
	location string // address of what was made, or ""
	body     []byte
}
