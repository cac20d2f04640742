package paid

import (
	"context"
	"errors"
	"sort"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/sites/score"
)

// Draft is what [Service.Check] found about a registration.
type Draft struct {
	// Request is the registration in the form in which the ring would keep it,
	// when nothing is wrong with its fields.
	Request RegisterRequest
	// Fields is what is wrong, as [FieldError] says.
	Fields []FieldError
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
	r, err := s.first(body, rules)
	d := Draft{Required: int(rules.RequiredScore)}
	var input *InputError
	if errors.As(err, &input) {
		d.Fields = input.Fields
		return d
	}
	o := &registration{service: s, RegisterRequest: r, Fee: rules.Fee}
	d.Request, d.Price = r, o.cents()
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
	Detail: "This ring is not configured to take payments, so nobody can join or bid at the moment. Reading works."}
