package risk

import (
	"fmt"
	"math"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
)

// maxRequests is how many changes, visits and departures an owner has in a day, and how many
// claims a member: most are events that stay for ever. What an earlier owner did does not
// count for the present one, or a stranger who paid for a member could keep the owner of its
// site from changing it.
const maxRequests = 10

const day = 24 * time.Hour

// WithinADay says whether a request was made in the day before an instant. For so long it blocks its
// Idempotency-Key, and its proof is kept and counts. The challenge of a proof expires long before.
func WithinADay(r *ledger.Reservation, at time.Time) bool { return at.Sub(r.Created) < day }

// openedSince says whether a change by the account has put the member in a category since an
// instant in milliseconds, which is no longer ago than proofs are kept. A change that names a category
// ends with the event of that.
func openedSince(v *ledger.View, slug, category string, account core.Account, since int64) bool {
	all, err := v.Proofs(slug, nil, math.MaxInt)
	for _, r := range all {
		if err == nil && account.Is(core.AccountOf(r.Payer)) {
			var e core.Event
			e, err = v.Event(r.Seq)
			if c, changed := e.(*core.Changed); changed && c.Member == slug && c.Category == category && c.Stamp > since {
				return true
			}
		}
	}
	return err != nil
}

// RequestsLeft refuses one request of an operation too many within a day. Only those by account
// count; those of all accounts for the zero one.
func RequestsLeft(v *ledger.View, slug, operation string, account core.Account, now time.Time) error {
	all, err := v.Proofs(slug, nil, math.MaxInt)
	count, oldest := 0, now
	for _, r := range all {
		by := account == (core.Account{}) || account.Is(core.AccountOf(r.Payer))
		if by && r.Operation == operation && WithinADay(r, now) {
			if count++; r.Created.Before(oldest) {
				oldest = r.Created
			}
		}
	}
	if err != nil || count < maxRequests {
		return err
	}
	return &form.Problem{Code: api.RateLimited, RetryAfter: Seconds(oldest.Add(day).Sub(now)),
		Detail: fmt.Sprintf("A member takes at most %d requests of this kind a day. Send it again later. Nothing was done.", maxRequests)}
}
