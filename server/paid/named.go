package paid

import (
	"context"
	"fmt"
	"sync"
	"time"

	"webring/core"
	"webring/server/ledger"
)

// What a site proves beats what payers prove, before it joins, too. Where payments for a URL
// have come to nothing, its site can name the account that is to register it ([namedBy]). Then that
// account is barred by no failures, and for a while no other account can reserve the URL.

const (
	// namedFor is for how long the account that a site names has the URL to itself.
	namedFor = 10 * time.Minute
	// maxNamed bounds how many such URLs are remembered. The accounts of others may
	// register theirs all the same, and others may be quicker.
	maxNamed = 1024
	// lookFor bounds how long a payment waits for the site.
	lookFor = 8 * time.Second
)

// names are the accounts that sites have named for their URLs, by identity key. Its zero
// value is empty; it is safe for concurrent use.
type names struct {
	mu sync.Mutex
	by map[string]naming
}

type naming struct {
	account core.Account
	until   time.Time
}

// put notes that the site of a URL names an account.
func (x *names) put(key string, account core.Account, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, n := range x.by {
		if !now.Before(n.until) {
			delete(x.by, k)
		}
	}
	if _, known := x.by[key]; known || len(x.by) < maxNamed {
		if x.by == nil {
			x.by = map[string]naming{}
		}
		x.by[key] = naming{account, now.Add(namedFor)}
	}
}

// get gives the account that the site of a URL has named, with the end of that.
func (x *names) get(key string, now time.Time) (n naming, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, ok = x.by[key]
	return n, ok && now.Before(n.until)
}

// named looks whether the site of a URL for which payments have failed names an account, and
// notes it. It asks nothing for any other URL.
func (s *Service) named(ctx context.Context, client string, o order, account core.Account) bool {
	r, ok := o.(*registration)
	if !ok || s.MemberSites == nil || account == (core.Account{}) {
		return false
	}
	var failed int
	s.Ledger.View(func(v *ledger.View) { failed, _ = v.URLFailures(r.Key) })
	if failed < 2 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	if !s.accountsAt(ctx, client, r.URL).includes(account, false) {
		return false
	}
	s.names.put(r.Key, account, s.Now())
	return true
}

// howToBeNamed says how the site at a URL names an account. Without one, it says how that is
// asked.
func (s *Service) howToBeNamed(url string, account core.Account) string {
	if s.MemberSites == nil {
		return ""
	}
	at, err := s.MemberSites.Place(url)
	if err != nil {
		return ""
	}
	if account == (core.Account{}) {
		return " So can the account that the site names; a request with an account in Wallet-Account is told how."
	}
	return fmt.Sprintf(" So can %s at once, if the site names it: by the line %[1]s in %s, or in the TXT record %s.", account, at.File, at.Name)
}
