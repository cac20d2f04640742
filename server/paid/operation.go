package paid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/sites/score"
)

// parser reads the requests of one operation. Without pinned, a request is a new one, and the
// rules in force apply. With pinned, it answers a challenge that has promised what it pinned,
// and the rules do not apply again. A parser refuses with a *[Problem].
type parser[R any] func(c *Call, rules *core.Rules, pinned map[string]string) (R, error)

// order is what a client wants to pay for. It is stored as JSON with the reservation; see
// [Service.load].
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
	// pin gives what the parser needs in addition to the body. The map is the caller's.
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

// load rebuilds an order from its reservation, and from nothing else: the configuration may
// have changed.
func (s *Service) load(r *ledger.Reservation) (o order, err error) {
	switch r.Operation {
	case OpRegister:
		o = &registration{service: s, promised: true}
	case OpBid:
		o = &bid{}
	default:
		return nil, fmt.Errorf("paid: no operation %q", r.Operation)
	}
	return o, json.Unmarshal(r.Pinned, o)
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

// Draft is what [Service.Check] found about a registration.
type Draft struct {
	// Request is the registration in the form in which the ring would keep it,
	// when nothing is wrong with its fields.
	Request form.RegisterRequest
	// Fields is what is wrong, as [form.FieldError] says.
	Fields []form.FieldError
	// Refusal is any other reason why paying would be of no use. Without one,
	// and with nothing wrong, a paid request gets a 402.
	Refusal *Problem
	// Score is nil when it is not known. Required is the least that may join.
	Score    *score.Result
	Required int
	// Price is the fee and the opening bid in cents.
	Price int64
	// Slug is the slug that the member would get if it joined now, and Rank its rank; 0
	// when the registration is refused.
	Slug string
	Rank int
}

// checkTime bounds the check of a draft: a scorer reads a whole site for it.
const checkTime = 25 * time.Second

// Check says what would become of a registration with this body. It applies the
// validation, limits and scores of a request that is to be paid, but makes no challenge
// and reserves nothing. It does not ask whether a payment network answers at the moment. It
// takes checkTime at most.
func (s *Service) Check(ctx context.Context, client string, body []byte) Draft {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var rules *core.Rules
	s.Ledger.View(func(v *ledger.View) { rules = v.State().Rules() })
	d := Draft{Required: int(rules.RequiredScore)}
	read, err := s.parseRegistration(&Call{Body: body}, rules, nil)
	if wrong, ok := errors.AsType[*Problem](err); ok {
		d.Fields = wrong.Fields
		return d
	}
	o := read.(*registration)
	d.Request, d.Price = o.RegisterRequest, o.cents()
	if d.Refusal = s.refusal(s.check(o)); d.Refusal != nil {
		return d
	}
	scorer := s.DraftScorer
	if scorer == nil {
		scorer = s.Scorer
	}
	d.Refusal = s.refusal(o.measure(ctx, client, scorer))
	if o.Score.Provider != "" {
		d.Score = &o.Score
	}
	if d.Refusal == nil && len(s.Methods) == 0 {
		d.Refusal = unconfigured
	}
	s.Ledger.View(func(v *ledger.View) {
		st := v.State()
		d.Slug = o.slug(st, "")
		if d.Refusal == nil {
			row := core.Ordinal(st.Rows())
			d.Rank = 1 + sort.Search(st.Rows(), func(above int) bool { return st.TotalForRank(row, above+1) <= d.Price })
		}
	})
	return d
}

// check says why a payment for an order may not be made now.
func (s *Service) check(o order) (err error) {
	s.Ledger.View(func(v *ledger.View) { err = possible(o, v, "") })
	return err
}

// refusal gives err as the problem that a paid request would be answered with.
func (s *Service) refusal(err error) *Problem {
	var p *Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	}
	s.Log.Error("checking a draft failed", "err", err)
	return errInternal
}

var unconfigured = &Problem{Code: api.PaymentsUnconfigured, RetryAfter: 3600,
	Detail: "This ring takes no payments right now, so joining and bidding are unavailable. Reading works. Nothing was charged."}
