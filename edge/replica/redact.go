package replica

import (
	"fmt"
	"slices"

	"webring/core"
	"webring/core/snap"
)

// forget looks through the last records for redactions. It drops the redacted words
// from the records that are kept for followers, and the snapshots that hold them, and
// says whether there were any. Records that were handed out do not change.
func (r *Replica) forget(records []snap.Record) (some bool) {
	redacted, least := map[string]bool{}, uint64(0)
	for i, record := range records {
		if e, err := core.DecodeEvent(record.Event); err == nil {
			if gone, ok := e.(*core.Removed); ok && gone.Redacted {
				redacted[gone.Member] = true
				least = r.at.Size - uint64(len(records)-i-1)
			}
		}
	}
	if len(redacted) == 0 {
		return false
	}
	r.forgetSnapshots(least)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = slices.Clone(r.tail)
	for i, record := range r.tail {
		if len(record.Texts) == 0 {
			continue
		}
		if e, err := core.DecodeEvent(record.Event); err == nil {
			if redacted[core.MemberOf(e)] {
				r.tail[i].Texts = nil
			}
		}
	}
	return true
}

// withdraw looks through records that lead to a position, before readers see it, for events
// that take words away.
func (r *Replica) withdraw(records []snap.Record, to uint64) {
	for i, record := range slices.Backward(records) {
		e, err := core.DecodeEvent(record.Event)
		if err != nil {
			continue // no core folds it
		}
		switch e.(type) {
		case *core.Left, *core.Departed, *core.Removed, *core.Hidden, *core.Changed, *core.Moved:
			r.withdrawn.Store(to - uint64(len(records)-i-1))
			return
		}
	}
}

// forgetSnapshots drops the snapshots of fewer events, and takes no such ones from then
// on. A restart does not need them. Followers that would begin with one wait for the next,
// which an origin makes after a redaction.
func (r *Replica) forgetSnapshots(least uint64) {
	r.files.end(func(f *files) {
		f.least = max(f.least, least)
		if f.held.Size < f.least {
			f.held = heldFile{}
		}
	})
	if r.store == nil {
		return
	}
	but := ""
	if named := r.at.Snapshot; named.Size >= least {
		but = fmt.Sprintf("snapshot-%x", named.Digest)
	}
	r.store.remove("snapshot-", but)
}
