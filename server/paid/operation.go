package paid

import (
	"context"
	"encoding/json"

	"webring/core"
	"webring/server/ledger"
)

// operation is one kind of paid request.
type operation interface {
	// read parses a body that was never seen before, under the rules in force.
	// It refuses with an *[InputError] or a *[Problem].
	read(body []byte, rules *core.Rules) (order, error)
	// restore rebuilds an order from its body and from what its challenge
	// pinned, for a request that answers the challenge.
	restore(body []byte, pinned map[string]string) (order, error)
	// load rebuilds an order from the JSON that its reservation stored. It
	// rests on nothing else: configuration may have changed since.
	load(stored json.RawMessage) (order, error)
}

// order is one request of an operation: what somebody wants to pay for. It can be
// stored as JSON.
type order interface {
	// decide finds everything that is to be pinned in the challenge, such as a site's
	// score.
	decide(ctx context.Context, client string) error
	// check asks the ledger whether the order could be carried out now. It is
	// asked before the challenge, before the simulation, and once more in the
	// transaction that reserves. All its refusals are before any payment.
	check(v *ledger.View) error
	// ranks says why the payment would not give the rank without which it was not
	// to be made; nil when it would, or none was named. It is asked when check is,
	// but not of money that has come already: that cannot be left unpaid.
	ranks(st *core.State) error
	// payableBy asks the ledger whether this account may have the order carried out. It
	// is asked with check once the account is known, but not for a payment that has come.
	payableBy(v *ledger.View, payer string) error
	// pin gives what restore needs besides the body. The map is the caller's.
	pin() map[string]string
	// cents is the price.
	cents() int64
	// describe says in a few words what is paid for. It shows no member's words.
	describe() string
	// subject fills in what the reservation blocks while it is open.
	subject(r *ledger.Reservation)
	// carryOut appends the event and renders the answer. It runs in the writer's
	// transaction after the payment has settled.
	carryOut(tx *ledger.Tx, payment core.Payment) (effect, error)
	// carriedOut names the member of e if e is an event that carryOut may have
	// appended for this order, by all that is still known of it, and is "" otherwise.
	carriedOut(st *core.State, e core.Event) (slug string)
}

// possible says why a payment for an order may not be made.
func possible(o order, v *ledger.View) error {
	if err := o.check(v); err != nil {
		return err
	}
	return o.ranks(v.State())
}

// effect is what an order has done.
type effect struct {
	status   int
	slug     string
	location string // address of what was made, or ""
	body     []byte
}
