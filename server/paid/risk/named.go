package risk

import (
	"sync"
	"time"

	"webring/core"
)

// What a site proves beats what payers prove, before it joins, too. Where payments for a URL
// have come to nothing, its site can name the account that is to register it ([NamedBy]). Then that
// account is barred by no failures, and for a while no other account can reserve the URL.

const (
	// namedFor is for how long the account that a site names has the URL to itself.
	namedFor = 10 * time.Minute
	// maxNamed bounds how many such URLs are remembered. The accounts of others may
	// register theirs all the same, and others may be quicker.
	maxNamed = 1024
)

// Names are the accounts that sites have named for their URLs, by identity key. Its zero
// value is empty; it is safe for concurrent use.
type Names struct {
	mu sync.Mutex
	by map[string]Naming
}

// Naming is an account that has a URL to itself until then.
type Naming struct {
	Account core.Account
	Until   time.Time
}

// Put notes that the site of a URL names an account.
func (x *Names) Put(key string, account core.Account, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, n := range x.by {
		if !now.Before(n.Until) {
			delete(x.by, k)
		}
	}
	if _, known := x.by[key]; known || len(x.by) < maxNamed {
		if x.by == nil {
			x.by = map[string]Naming{}
		}
		x.by[key] = Naming{account, now.Add(namedFor)}
	}
}

// Get gives the account that the site of a URL has named, with the end of that.
func (x *Names) Get(key string, now time.Time) (n Naming, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, ok = x.by[key]
	return n, ok && now.Before(n.Until)
}
