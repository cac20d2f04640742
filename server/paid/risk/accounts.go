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
	"webring/server/sites/siteproof"
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

	// provenCategories is how many categories may be in use where those beyond
	// [core.MaxCategories] were opened by sites that name the account. The fold takes more.
	provenCategories = 3 * core.MaxCategories
	// categoriesShare is which part of those that are left may be opened in categoriesSpan.
	categoriesShare = 64
)

// Limits are those of accounts. They hold for payments that are not made yet.
type Limits struct {
	Now func() time.Time
	domains
}

// NamedBy are the accounts that a site names before its URL has a member.
type NamedBy []siteproof.Named

// Includes says whether an account is named; host, for the whole host.
func (n NamedBy) Includes(account core.Account, host bool) bool {
	return slices.ContainsFunc(n, func(a siteproof.Named) bool { return a.Is(account) && (a.Host || !host) })
}

// pinNamed names the accounts in the opaque parameter, those of the whole host with a mark.
const pinNamed = "named"

// Pin names the accounts in pinned.
func (n NamedBy) Pin(pinned map[string]string) {
	var all []string
	for _, a := range n {
		text := a.String()
		if a.Host {
			text += "/"
		}
		all = append(all, text)
	}
	if len(all) > 0 {
		pinned[pinNamed] = strings.Join(all, " ")
	}
}

// PinnedNames reads what Pin has written.
func PinnedNames(pinned map[string]string) (n NamedBy) {
	for text := range strings.FieldsSeq(pinned[pinNamed]) {
		address, host := strings.CutSuffix(text, "/")
		n = append(n, siteproof.Named{Account: core.AccountOf(address), Host: host})
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
	if key == domain || named.Includes(account, false) {
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

// OpensCategory refuses an account that opens one new category after another, because
// their number is bounded. The default category does not count, and is always open.
//
// Money alone opens the first [core.MaxCategories]; twice as many where they were promised.
// The others are for sites that name the account at their host (proven), one for each domain,
// however many names it has. The fewer are left, the fewer a day. So an account that buys all
// that money buys closes none of these. It needs no account to say that no other account
// could open one either.
func (l *Limits) OpensCategory(v *ledger.View, category, key string, account core.Account, proven, promised bool) error {
	st := v.State()
	if !Opens(st, category) {
		return nil
	}
	beyond := BeyondMoney(v, promised)
	if beyond >= 0 && !proven {
		return ErrNoCategory
	}
	domain := fetch.Delegated(string(core.KeyHost([]byte(key))))
	opened, lately := map[string]bool{}, 0
	since := l.Now().Add(-categoriesSpan).UnixMilli()
	for _, other := range st.Categories() {
		first := st.Select(0, []byte(other)).At(0)
		m := st.Member(first)
		if beyond >= 0 && other != form.DefaultCategory && form.IsOrBelow(form.HostOf(m.URL), domain) {
			return form.Invalid(api.CategoryUnavailable, "/category", fmt.Sprintf("is new, and a member on %s has opened another. So many categories are in use that one domain opens one. Nothing was charged", domain))
		}
		if (beyond >= 0 || m.Owner.Is(account)) && (m.Joined > since || m.Changed > since && openedSince(v, m.Slug, other, m.Owner, since)) {
			lately++
			opened[other] = opened[other] || m.Owner.Is(account)
		}
	}
	// Those that money opened before it was met do not count.
	if left := provenCategories - core.MaxCategories - beyond; beyond >= 0 && min(lately, beyond) >= max(1, left/categoriesShare) {
		return form.Invalid(api.CategoryUnavailable, "/category", "is new, and as many categories were opened today as may be. Choose one that /api/categories lists, or come back tomorrow. Nothing was charged")
	}
	v.Registrations(func(r *ledger.Reservation) {
		var open struct{ Category string }
		if core.AccountOf(r.Payer).Is(account) && json.Unmarshal(r.Pinned, &open) == nil && st.Select(0, []byte(open.Category)).Len() == 0 {
			opened[open.Category] = true
		}
	})
	delete(opened, form.DefaultCategory)
	count := 0
	for _, by := range opened {
		if by {
			count++
		}
	}
	if opened[category] || count < maxCategories {
		return nil
	}
	return form.Invalid(api.CategoryUnavailable, "/category", fmt.Sprintf("is new, and an account opens at most %d new categories a day. Choose one that /api/categories lists, or come back tomorrow. Nothing was charged", maxCategories))
}

// Opens says whether a member in a category would open it.
func Opens(st *core.State, category string) bool {
	return category != form.DefaultCategory && st.Select(0, []byte(category)).Len() == 0
}

// BeyondMoney says how many categories are in use beyond those that every account may
// open, and is negative if there are such.
func BeyondMoney(v *ledger.View, promised bool) int {
	// Each registration that is open may open a category.
	inUse, limit := len(v.State().Categories())+v.OpenRegistrations(), core.MaxCategories
	if promised {
		// The state has room for four times as many. What was promised before the limit
		// was met may use some of that.
		limit *= 2
	}
	return inUse - limit
}

// CategoryLeft refuses a new category if there is no room for any.
func CategoryLeft(v *ledger.View, category string, promised bool) error {
	limit := provenCategories
	if promised {
		limit += core.MaxCategories - 1 // one is kept for the default
	}
	if Opens(v.State(), category) && len(v.State().Categories())+v.OpenRegistrations() >= limit {
		return ErrNoCategory
	}
	return nil
}

// ErrNoCategory refuses a new category that money alone does not open.
var ErrNoCategory = &form.Problem{Code: api.CategoryUnavailable, Detail: "So many categories are in use that a new one is opened only by a site that names the paying account. " +
	"Choose one that /api/categories lists, or put the address of the account (0x and 40 digits) into a line of /.well-known/webring-online.txt at your site, or into a TXT record of _webring-online at its host. Nothing was charged."}

// domainOf gives the registrable domain of a site by its identity key.
func domainOf(key string) string { return fetch.Domain(string(core.KeyHost([]byte(key)))) }
