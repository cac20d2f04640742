package follow

import (
	"fmt"
	"sync"

	"webring/core/snap"
)

// writes is what has yet to be written to disk. A write takes three syncs, which is longer
// than all else that a checkpoint takes. So checkpoints are accepted meanwhile, and the
// next write takes all that have come by then.
type writes struct {
	mu      sync.Mutex
	next    *update
	busy    bool
	writing sync.WaitGroup
}

// update is a new position, and the records from the one before.
type update struct {
	signed  []byte
	records []snap.Record
	anew    bool // the records do not follow what is on disk
}

// persist has a position written to disk soon. The caller holds accepting.
func (r *Replica) persist(n update) {
	if r.store == nil {
		return
	}
	k := &r.writes
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil {
		n.records = append(k.next.records, n.records...)
		n.anew = n.anew || k.next.anew
	}
	if len(n.records) > maxTail {
		n.records, n.anew = nil, true // a disk that slow must not fill the memory
	}
	k.next = &n
	if !k.busy {
		k.busy = true
		k.writing.Go(r.write)
	}
}

// write writes until nothing is left to be written.
func (r *Replica) write() {
	for {
		k := &r.writes
		k.mu.Lock()
		n := k.next
		k.next, k.busy = nil, n != nil
		k.mu.Unlock()
		if n == nil {
			return
		}
		r.store.save(n, r.rewrite)
	}
}

// rewrite writes a whole state: the core, and the records that are held. It returns the
// checkpoint of both. Nothing is accepted meanwhile: a copy of the core is as large as the
// ring, and there is to be only one at a time.
func (r *Replica) rewrite() (signed []byte, err error) {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.writes.mu.Lock()
	r.writes.next = nil // it leads to here
	r.writes.mu.Unlock()
	if err := checkState(r.shown, r.at); err != nil {
		return nil, fmt.Errorf("follow: the core that is shown is not where the checkpoint is: %w", err)
	}
	rows := r.shown.Snapshot()
	if rows == nil {
		return nil, errNoSnapshot
	}
	return r.signed, r.store.begin(r.at.Size, r.tree.Append(rows), r.base, r.tail)
}
