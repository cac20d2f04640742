package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/core/snap"
)

const (
	// maxBlocks is how many bytes of early events are cached for followers. [pace.spare]
	// lets at most 90 blocks come in a blockLife, of some 300 KB each.
	maxBlocks = 32 << 20
	// blockLife is for how long a block is cached. The records are not checked against a
	// signed root here: only a follower that has all events before them can do that, and
	// it asks again when they are wrong. So a wrong block must not live long.
	blockLife = time.Minute
)

// blocks caches early events that were fetched upstream for followers: whole blocks, or
// as much of one as was signed. Followers check them against a signed root, as they
// check what comes from the origin.
type blocks struct {
	flights singleflight.Group

	mu      sync.Mutex
	cached  []block // the oldest first
	bytes   int
	forgets uint64 // how often forget was called
}

// block is a block as it came. The records alias one piece of memory of size bytes.
type block struct {
	number  uint64
	records []snap.Record
	size    int
	came    time.Time
}

// block gives the first events of a block, at least as many as needed. It asks upstream
// once for all followers that want the block at the same time.
func (r *Replica) block(n, need uint64) ([]snap.Record, error) {
	v, err, _ := r.blocks.flights.Do(strconv.FormatUint(n, 10), func() (any, error) {
		records, forgets := r.blocks.get(n)
		if records != nil && uint64(len(records)) >= need {
			return records, nil
		}
		if from := r.origin(); from == nil || !from.pace.spare() {
			return nil, snap.ErrBusy
		}
		ctx, cancel := context.WithTimeout(context.Background(), passOn)
		defer cancel()
		b, err := r.get(ctx, fmt.Sprintf("/sync/events?from=%d", n*snap.BlockEvents), snap.MaxRange, false)
		if err != nil {
			return nil, errors.Join(snap.ErrNotHeld, err)
		}
		records, err = snap.DecodeRecords(b)
		if err == nil {
			err = add(new(snap.Tree), records)
		}
		if err != nil {
			return nil, errors.Join(snap.ErrNotHeld, err)
		}
		r.blocks.put(block{n, records, len(b), time.Now()}, forgets)
		return records, nil
	})
	if err != nil {
		return nil, err
	}
	return v.([]snap.Record), nil
}

// get gives a cached block, nil for none, and how often the cache was emptied so far.
func (b *blocks) get(number uint64) (records []snap.Record, forgets uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim()
	for _, block := range b.cached {
		if block.number == number {
			records = block.records
		}
	}
	return records, b.forgets
}

// put caches a block, unless the cache was emptied since the get before it was fetched.
func (b *blocks) put(block block, forgets uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forgets == forgets {
		b.cached = append(b.cached, block)
		b.bytes += block.size
		b.trim()
	}
}

// trim drops the blocks that are too old, and the oldest while all take too many bytes.
// The caller holds mu.
func (b *blocks) trim() {
	for len(b.cached) > 0 && (b.bytes > maxBlocks || time.Since(b.cached[0].came) > blockLife) {
		b.bytes -= b.cached[0].size
		b.cached[0] = block{}
		b.cached = b.cached[1:]
	}
}

// forget empties the cache, because words beside events were redacted.
func (b *blocks) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgets++
	b.cached, b.bytes = nil, 0
}
