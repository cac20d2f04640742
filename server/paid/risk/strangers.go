package risk

import (
	"context"
	"sync"
	"time"

	"webring/edge/share"
)

// What an account that has never paid asks of a network costs the operator's node, and the account a signature.
// So such accounts take turns, and of one that holds less than it is to pay the network is not asked again for a
// while.

const (
	// strangersAtOnce is how many payments of such accounts are asked about at a time.
	strangersAtOnce = 8
	// poorFor is for how long it is not asked again of an account.
	poorFor = 15 * time.Second
	// maxPoor bounds how many of these are remembered.
	maxPoor = 4096
)

// Strangers are the accounts of a network that have never paid. It is safe for concurrent use.
type Strangers struct {
	room *share.Semaphore

	mu sync.Mutex
	by map[string]shortage
}

// NewStrangers makes one that remembers nothing.
func NewStrangers() *Strangers {
	return &Strangers{room: share.NewSemaphore(share.Rule{Most: strangersAtOnce, Half: 2}, 0), by: map[string]shortage{}}
}

// Enter waits until it is the turn of a payment that a client brings, or until ctx ends. leave ends its turn.
func (x *Strangers) Enter(ctx context.Context, client string) (leave func(), err error) {
	asker := share.AskerOf(client)
	if err := x.room.Acquire(ctx, asker); err != nil {
		return nil, err
	}
	return func() { x.room.Release(asker) }, nil
}

// shortage is that an account held less than so many cents.
type shortage struct {
	cents int64
	until time.Time
}

// Put notes that an account holds less than so many cents.
func (x *Strangers) Put(payer string, cents int64, now time.Time) {
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
		x.by[payer] = shortage{cents, now.Add(poorFor)}
	}
}

// Until gives for how long an account is not asked for so many cents, the zero time if it is.
func (x *Strangers) Until(payer string, cents int64, now time.Time) (until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, known := x.by[payer]; known && cents >= s.cents && now.Before(s.until) {
		until = s.until
	}
	return until
}
