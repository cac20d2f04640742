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

// Native is one core, compiled in, behind a lock that readers share. All its
// functions may be called concurrently.
type Native struct {
	mu    sync.RWMutex
	core  *abi.Core
	clock clock

	capacity int
	dirty    bool  // the core has folded records that were refused; readers must not see it
	second   int64 // of the core before those records
}

// NewNative gives an empty core, in which no more than capacity members can
// ever join.
func NewNative(capacity int) *Native {
	return &Native{core: abi.New(capacity, rand.Uint64()), capacity: capacity}
}

// LoadNative gives the core that a snapshot was taken of, after checking all of it. The
// core does not refer to the snapshot.
func LoadNative(capacity int, snapshot []byte) (*Native, error) {
	return loadNative(capacity, snapshot, 0, nil)
}

// loadNative is [LoadNative], and advances the core to a second. The core lies in what
// memory gives; see [abi.Means].
func loadNative(capacity int, snapshot []byte, second int64, memory func(size int) []byte) (*Native, error) {
	c, err := abi.Load(capacity, rand.Uint64(), snapshot, abi.Means{Beside: beside, Memory: memory})
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c.Advance(second)
	return &Native{core: c, capacity: capacity}, nil
}

// beside runs steps on as many processors as there are.
func beside(steps ...func()) {
	var all sync.WaitGroup
	for _, step := range steps {
		all.Go(step)
	}
	all.Wait()
}

// Apply folds records, which follow the ones applied before, and then publishes them all
// at once. An error names the position of the record at fault. The records before it have
// then been applied and published, and the caller must not go on: it has another ledger
// than the writer, or one of them is wrong.
func (n *Native) Apply(records []Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.core.Advance(n.clock.second) }()
	return fold(n.core, records)
}

func fold(c *abi.Core, records []Record) error {
	for _, r := range records {
		if err := c.Apply(r.Event, r.Texts); err != nil {
			return fmt.Errorf("host: record %d: %w", c.Seq(), err)
		}
	}
	return nil
}

// Tick tells the wall clock, at least once a second. A head that is ahead of it
// stays, unless the clock has stepped back by more than 5 seconds since an
// earlier Tick: then all that depends on time is set back to now, though not
// before the last event.
func (n *Native) Tick(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.clock.tick(now) {
		n.core.Rewind(n.clock.second)
		return
	}
	n.core.Advance(n.clock.second)
}

// Serve answers a GET for target at the head; see [abi.Core.Serve].
func (n *Native) Serve(target []byte, r *Response) {
	// The runtime has a generator for each thread, so goroutines do not contend for one.
	random := rand.Uint64()
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.dirty {
		abi.Fail(n.core.Seq(), n.core.BaseURL(), r)
		return
	}
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

// Digest gives 128 bits over all that the records applied determine, and their
// number; see [abi.Core.Digest].
func (n *Native) Digest() (seq uint64, digest [16]byte) {
	n.mu.Lock() // it writes a buffer of the core's
	defer n.mu.Unlock()
	return n.core.Digest()
}

// Snapshot gives a snapshot at the present position, which the caller owns. Apply, Tick
// and readers wait meanwhile.
func (n *Native) Snapshot() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.AppendSnapshot(nil)
}

// Close does nothing: a core that is compiled in holds nothing but memory.
func (n *Native) Close() error { return nil }
