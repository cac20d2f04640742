package follow

import (
	"slices"

	"webring/core"
	"webring/core/snap"
)

// forget looks through the newest records for redactions, and drops the redacted words from
// all records that are held. It reports whether there were any. Records that were handed out
// do not change.
func (r *Replica) forget(records []snap.Record) (some bool) {
	redacted := map[string]bool{}
	for _, record := range records {
		if e, err := core.DecodeEvent(record.Event); err == nil {
			if gone, ok := e.(*core.Removed); ok && gone.Redacted {
				redacted[gone.Member] = true
			}
		}
	}
	if len(redacted) == 0 {
		return false
	}
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
