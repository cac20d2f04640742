package replica

import (
	"slices"

	"webring/core"
	"webring/core/snap"
)

// forget drops the words of members that records redact from the records that
// are kept for followers, and says whether there were any. What has been handed
// out is not changed.
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
			if joined, ok := e.(*core.Joined); ok && redacted[joined.Slug] {
				r.tail[i].Texts = nil
			}
		}
	}
	return true
}
