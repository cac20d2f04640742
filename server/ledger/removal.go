package ledger

import "sync"

// AnnounceRemoval says that a member is to be removed as soon as no payment for
// it is open. Until withdraw is called, which must happen however the attempt
// ends, [View.RemovalAnnounced] reports it, and no new payment for the member
// should begin: while others keep coming, there may never be a moment without
// one. It is remembered in memory only. Announcements of one member are
// counted, so that a caller that gives up does not end the wait of another.
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

// RemovalAnnounced reports whether somebody waits to remove the member.
func (v *View) RemovalAnnounced(slug string) bool { return v.l.leaving[slug] > 0 }
