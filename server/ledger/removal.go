package ledger

import "sync"

// AnnounceRemoval says that a member is to leave the ring, removed or hidden, as soon as
// no payment for it is open. [View.RemovalAnnounced] reports that until withdraw is called,
// which must happen however the removal ends. Meanwhile no new payment for the member
// should begin, or one might always be open. Announcements are in memory only. Those of one
// member are counted, so that a caller that gives up does not end another's.
//
// It must not be called from inside [Ledger.Do] or [Ledger.View].
func (l *Ledger) AnnounceRemoval(slug string) (withdraw func()) {
	l.announce(slug, 1)
	return sync.OnceFunc(func() { l.announce(slug, -1) })
}

func (l *Ledger) announce(slug string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving[slug] += n; l.leaving[slug] == 0 {
		delete(l.leaving, slug)
	}
}

// RemovalAnnounced reports whether it is announced that the member is to leave the ring.
func (v *View) RemovalAnnounced(slug string) bool { return v.l.leaving[slug] > 0 }
