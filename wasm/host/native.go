package host

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"webring/core/abi"
)

// Record is one entry of the ledger; see [abi.Record].
type Record = abi.Record

// Response is what Serve writes; see [abi.Response].
type Response = abi.Response

// backstep is how far the wall clock may go back before the head follows it:
// less is what clocks do when they are set right little by little.
const backstep = 5 * time.Second

// Native is one core, compiled in, behind a lock that readers share. All its
// functions may be called concurrently.
type Native struct {
	mu   sync.RWMutex
	core *abi.Core
	wall int64 // highest second that Tick was given since the last rewind
}

// NewNative gives an empty core, in which no more than capacity members can
// ever join.
func NewNative(capacity int) *Native { return &Native{core: abi.New(capacity)} }

// Apply folds records, which follow the ones applied before, and then shows
// them, all at once. On an error, which names the position, the records before
// it have been applied and shown, and the host must not go on: either it holds
// another ledger than the writer, or one of them is wrong.
func (n *Native) Apply(records []Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.core.Advance(n.wall) }()
	for _, r := range records {
		if err := n.core.Apply(r.Event, r.Texts); err != nil {
			return fmt.Errorf("host: record %d: %w", n.core.Seq(), err)
		}
	}
	return nil
}

// Tick tells the wall clock, at least once a second. A head that is ahead of it
// stays, unless the clock has stepped back by more than 5 seconds since an
// earlier Tick: then all that depends on time is set back to now, though not
// before the last event.
func (n *Native) Tick(now time.Time) {
	second := now.Unix()
	n.mu.Lock()
	defer n.mu.Unlock()
	if second < n.wall-int64(backstep/time.Second) {
		n.wall = second
		n.core.Rewind(second)
		return
	}
	n.wall = max(n.wall, second)
	n.core.Advance(n.wall)
}

// Serve answers a GET for target at the head; see [abi.Core.Serve].
func (n *Native) Serve(target []byte, r *Response) {
	// The runtime seeds this generator from the system and keeps one for each
	// thread, so that workers do not meet here.
	random := rand.Uint64()
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.core.Serve(target, random, r)
}

// Head gives what is served: the number of records applied, and the second
// since 1970, UTC.
func (n *Native) Head() (seq uint64, second int64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.core.Seq(), n.core.Second()
}

// BaseURL is what links begin with; see [abi.Core.BaseURL].
func (n *Native) BaseURL() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.core.BaseURL()
}
