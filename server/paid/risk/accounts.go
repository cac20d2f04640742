package risk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/sites/fetch"
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

// Limits are those of accounts. They hold for payments that are not made yet.
type Limits struct {
	Now func() time.Time
	domains
}

// NamedBy are the accounts that a site names before its URL has a member.
type NamedBy []core.Account

// Includes says whether an account is named.
func (n NamedBy) Includes(account core.Account) bool { return slices.ContainsFunc(n, account.Is) }

// pinNamed names the accounts in the opaque parameter.
const pinNamed = "named"

// Pin names the accounts in pinned.
func (n NamedBy) Pin(pinned map[string]string) {
	var all []string
	for _, a := range n {
		all = append(all, a.String())
	}
	if len(all) > 0 {
		pinned[pinNamed] = strings.Join(all, " ")
	}
}

// PinnedNames reads what Pin has written.
func PinnedNames(pinned map[string]string) (n NamedBy) {
	for text := range strings.FieldsSeq(pinned[pinNamed]) {
		n = append(n, core.AccountOf(text))
	}
	return n
}

// SharesDomain refuses one account too many on the registrable domain of an identity key:
// for a dollar, a stranger could have a name that readers take for one of the domain's
// owner. member is the one that is to move there, nil for a registration.
//
// The root of the domain itself is open to every account, so strangers below it cannot
// keep its owner away. A member with a verified site takes no other's place, and an account
// that the site names needs none.
func (l *Limits) SharesDomain(v *ledger.View, key string, account core.Account, member *core.Ordinal, named NamedBy) error {
	st, domain := v.State(), domainOf(key)
	if key == domain || named.Includes(account) {
		return nil
	}
	first, some := account, false
	taken := 0 // members by others than the first, and one for all of the first
	l.members(st, domain, func(at core.Ordinal) (more bool) {
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
	return form.Invalid(api.InvalidRequest, "/url", fmt.Sprintf("lies on %s, where another account was first; at most %d members by different accounts are taken on one domain. Nothing was charged. "+
		"If the site is yours, have it name your account, and send the request again without a payment: put the address of the account (0x and 40 digits) into a line of /.well-known/webring-online.txt, "+
		"into a TXT record of _webring-online at its host, or into <meta name=\"webring-account\" content=\"0x…\"> in the head of the page", domain, maxAccounts))
}

// OpensCategory refuses an account that opens one new category after another. The default
// category does not count.
func (l *Limits) OpensCategory(v *ledger.View, category string, account core.Account) error {
	st := v.State()
	if !opens(st, category) {
		return nil
	}
	opened := map[string]bool{}
	since := l.Now().Add(-categoriesSpan).UnixMilli()
	for _, other := range st.Categories() {
		m := st.Member(st.Select(0, []byte(other)).At(0))
		if m.Owner.Is(account) && (m.Joined > since || m.Changed > since && openedSince(v, m.Slug, other, account, since)) {
			opened[other] = true
		}
	}
	v.Registrations(func(r *ledger.Reservation) {
		var open struct{ Category string }
		if core.AccountOf(r.Payer).Is(account) && json.Unmarshal(r.Pinned, &open) == nil && opens(st, open.Category) {
			opened[open.Category] = true
		}
	})
	delete(opened, form.DefaultCategory)
	if opened[category] || len(opened) < maxCategories {
		return nil
	}
	return form.Invalid(api.CategoryUnavailable, "/category", fmt.Sprintf("is new, and an account opens at most %d new categories a day. Choose one that /api/categories lists, or come back tomorrow. Nothing was charged", maxCategories))
}

// opens says whether a member in a category would open it.
func opens(st *core.State, category string) bool {
	return category != form.DefaultCategory && st.Select(0, []byte(category)).Len() == 0
}

// CategoryLeft refuses a new category when [core.MaxCategories] are in use. Each open
// registration may open one, so it counts. What a challenge has promised may go beyond that:
// the fold takes four times as many, and one is kept for the default.
func CategoryLeft(v *ledger.View, category string, promised bool) error {
	limit := core.MaxCategories
	if promised {
		limit = 4*core.MaxCategories - 1
	}
	if opens(v.State(), category) && len(v.State().Categories())+v.OpenRegistrations() >= limit {
		return form.Invalid(api.CategoryUnavailable, "/category", "is new, and the ring has as many categories as it takes. Choose one that /api/categories lists. Nothing was charged")
	}
	return nil
}

// domainOf gives the registrable domain of a site by its identity key.
func domainOf(key string) string { return fetch.Domain(string(core.KeyHost([]byte(key)))) }
