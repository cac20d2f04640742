package risk

import (
	"sync"
	"time"
)

// An account that has never paid, and holds less than it is to pay, costs a question to its network, and nobody
// anything. So for a while it is not asked about again.

const (
	// poorFor is for how long.
	poorFor = 15 * time.Second
	// maxPoor bounds how many such accounts are remembered.
	maxPoor = 4096
)

// Poor are the accounts of a network that held too little a moment ago. Its zero value is empty; it is safe for
// concurrent use.
type Poor struct {
	mu sync.Mutex
	by map[string]shortage
}

// shortage is that an account held less than so many cents.
type shortage struct {
	cents int64
	until time.Time
}

// Put notes that an account holds less than so many cents.
func (x *Poor) Put(payer string, cents int64, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.by) >= maxPoor {
		for k, s := range x.by {
			if !now.Before(s.until) {
				delete(x.by, k)
			}
		}
	}
	if _, known := x.by[payer]; known || len(x.by) < maxPoor {
		if x.by == nil {
			x.by = map[string]shortage{}
		}
		x.by[payer] = shortage{cents, now.Add(poorFor)}
	}
}

// Until gives for how long an account is not asked for so many cents, the zero time if it is.
func (x *Poor) Until(payer string, cents int64, now time.Time) (until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, known := x.by[payer]; known && cents >= s.cents && now.Before(s.until) {
		until = s.until
	}
	return until
}
