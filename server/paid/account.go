package paid

import (
	"encoding/json"
	"fmt"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/hosts"
	"webring/server/ledger"
)

// Limits for each account. They are checked when a credential names the account, before
// anything is charged. A payment that has come already is not refused for them.

const (
	// maxAccounts is how many members by different accounts may be on one registrable
	// domain. Beyond them only the account that came first there has more.
	maxAccounts = 3
	// maxCategories is how many new categories one account opens in categoriesSpan.
	maxCategories  = 3
	categoriesSpan = 24 * time.Hour
)

// sharesDomain refuses one account too many on the registrable domain of an identity key:
// for a dollar, a stranger could have a name that readers take for one of the domain's
// owner. member is the one that is to move there, nil for a registration.
//
// The root of the domain itself is open to every account, so strangers below it cannot
// keep its owner away. A member whose site is verified takes nobody's place.
func (s *Service) sharesDomain(v *ledger.View, key string, account core.Account, member *core.Ordinal) error {
	st, domain := v.State(), domainOf(key)
	if key == domain {
		return nil
	}
	first, some := account, false
	taken := 0 // members by others than the first, and one for all of the first
	s.domains.members(st, domain, func(at core.Ordinal) (more bool) {
		if member != nil && at == *member {
			return true
		}
		by, verified := st.Owner(at), st.Member(at).Proof != 0
		switch {
		case !some:
			first, some = by, true
			if !verified {
				taken = 1
			}
		case !by.Is(first) && !verified:
			taken++
		}
		return !first.Is(account) && taken < maxAccounts
	})
	if some && first.Is(account) {
		return nil
	}
	v.Registrations(func(r *ledger.Reservation) {
		if domainOf(r.URLKey) == domain && !core.AccountOf(r.Payer).Is(first) {
			taken++
		}
	})
	if taken < maxAccounts {
		return nil
	}
	return accountProblem(api.InvalidRequest, "/url", fmt.Sprintf("lies on %s, where another account was first; at most %d members by different accounts are taken on one domain. Nothing was charged", domain, maxAccounts))
}

// opensCategory refuses an account that opens one new category after another, because
// their number is bounded. The default category does not count.
func (s *Service) opensCategory(v *ledger.View, category string, account core.Account) error {
	st := v.State()
	if category == defaultCategory || st.Select(0, []byte(category)).Len() > 0 {
		return nil
	}
	opened := map[string]bool{}
	since := s.Now().Add(-categoriesSpan).UnixMilli()
	for _, other := range st.Categories() {
		first := st.Select(0, []byte(other)).At(0)
		m := st.Member(first)
		if m.Owner.Is(account) && (m.Joined > since || m.Changed > since && openedSince(v, m.Slug, other, account, since)) {
			opened[other] = true
		}
	}
	v.Registrations(func(r *ledger.Reservation) {
		var open struct{ Category string }
		if core.AccountOf(r.Payer).Is(account) && json.Unmarshal(r.Pinned, &open) == nil && st.Select(0, []byte(open.Category)).Len() == 0 {
			opened[open.Category] = true
		}
	})
	delete(opened, defaultCategory)
	if opened[category] || len(opened) < maxCategories {
		return nil
	}
	return accountProblem(api.CategoryUnavailable, "/category", fmt.Sprintf("is new, and an account opens at most %d new categories a day. Choose one that /api/categories lists, or come back tomorrow. Nothing was charged", maxCategories))
}

// accountProblem says which field of a request this account may not have.
func accountProblem(code api.Code, pointer, detail string) *Problem {
	return &Problem{Code: code, Detail: "The field " + pointer[1:] + " " + detail + ".", More: map[string]any{"errors": []FieldError{{pointer, detail}}}}
}

// domainOf gives the registrable domain of a site by its identity key.
func domainOf(key string) string { return hosts.Domain(string(core.KeyHost([]byte(key)))) }
