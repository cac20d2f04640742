package replica

import (
	"sync"

	"webring/core/snap"
)

// keeping is what has yet to be written to disk. That takes three syncs, which is
// longer than all else that is done for a checkpoint. So what comes next is accepted
// meanwhile, and whatever has come when one write ends is the next one.
type keeping struct {
	mu      sync.Mutex
	next    *news
	busy    bool
	writing sync.WaitGroup
}

// news is a position that was come to, by the records from the one before it.
type news struct {
	signed  []byte
	at      snap.Checkpoint
	records []snap.Record
	anew    bool // what is on disk is no beginning for them
}

// keep has a position written to disk soon. The caller holds accepting.
func (r *Replica) keep(n news) {
	if r.store == nil {
		return
	}
	k := &r.keeping
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
		k := &r.keeping
		k.mu.Lock()
		n := k.next
		k.next, k.busy = nil, n != nil
		k.mu.Unlock()
		if n == nil {
			return
		}
		r.store.keep(n, r.begins)
	}
}

// begins has begin write what a restart begins with: the core, and the records that
// followers may ask for, who begin with the newest snapshot. The core is nil when it
// cannot be had, or stands elsewhere than the checkpoint. Nothing is accepted meanwhile:
// the core is as large as the ring, and the next one to be copied would double that.
func (r *Replica) begins(begin func(n *news, contents []byte, from uint64, tail []snap.Record) error) error {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.keeping.mu.Lock()
	r.keeping.next = nil // it leads to here
	r.keeping.mu.Unlock()
	from := max(r.base, r.at.Snapshot.Size)
	var contents []byte
	if checkState(r.shown, r.at) == nil {
		contents = r.shown.Snapshot()
	}
	if contents != nil {
		contents = r.tree.Append(contents)
	}
	return begin(&news{signed: r.signed, at: r.at}, contents, from, r.tail[from-r.base:])
}
