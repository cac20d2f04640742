package paid

import (
	"time"

	"webring/server/ledger"
)

// A network's payments are stepped by its watcher alone, after their first step: those that are open and those
// that can still be undone. Nothing becomes known between two blocks, so steps wait for blocks.

// Timing of the steps of payments.
const (
	// openEvery is the longest interval between two questions about a payment while its request is
	// held, and openRarely the longest after that.
	openEvery, openRarely = 2 * time.Second, 30 * time.Second
	// confirmedAtOnce bounds the questions about those that have their effect that run at a time: there can be
	// thousands, and no open payment waits for them.
	confirmedAtOnce = 8
)

// add has the watcher step w from now on, whose first step is under way.
func (n *network) add(w *work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.busy, w.seen = true, n.last.block
	n.live[w.ID] = w
}

// rest ends a step of w, and says when the next one is due.
func (n *network) rest(w *work, now time.Time) {
	pause := w.pause(now)
	n.mu.Lock()
	defer n.mu.Unlock()
	w.busy, w.due = false, time.Now().Add(pause)
	w.attempts++
	if w.confirms {
		w.confirms = false
		n.confirming--
	}
	if w.state() == final || w.over {
		delete(n.live, w.ID)
	} else if w.due.Before(n.looks) {
		n.want()
	}
}

// want has the network asked for its newest block soon. The caller holds mu.
func (n *network) want() {
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}

// next gives the payments that are to be stepped now, at a block, and how long the others can wait, at
// most for [clockEvery]. A payment waits for another block than that of its last step, or for [blockPatience].
func (n *network) next(now, block time.Time) (some []*work, rest time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest = clockEvery
	for _, w := range n.live {
		wait := w.due.Sub(now)
		switch {
		case w.busy:
		case wait > 0:
			rest = min(rest, wait)
		case w.state() == settled && n.confirming >= confirmedAtOnce, block.Equal(w.seen) && -wait < blockPatience:
			rest = 0
		default:
			w.busy, w.seen, w.confirms = true, block, w.state() == settled
			if w.confirms {
				n.confirming++
			}
			some = append(some, w)
		}
	}
	n.looks = now.Add(rest)
	return some, rest
}

// pause is the least time until w is asked for again. It grows while nothing is known, but little while
// its request is held. When the block that decides is expected, it is asked for then, and after that at
// intervals no longer than it is late.
func (w *work) pause(now time.Time) time.Duration {
	released, longest := w.payment.ValidBefore.Add(holdAfter), openEvery
	switch wait := w.decides.Sub(now); {
	case now.Before(released):
		if w.attempts > 4 {
			longest = 2 * openEvery // it has been open for six seconds
		}
	case wait > 0:
		longest = min(openRarely, wait)
	default:
		late := now.Sub(released)
		if !w.decides.IsZero() {
			late = min(late, -wait)
		}
		longest = min(openRarely, max(openEvery, late))
	}
	return min(250*time.Millisecond<<min(w.attempts, 7), longest)
}

// resume takes up every payment that an earlier process left open, or that can still be undone.
func (s *Service) resume() {
	var open []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { open = append(v.Open(), v.Unconfirmed()...) })
	for _, r := range open {
		at, err := rowOf(r)
		n := s.network(at.payment.Method)
		switch {
		case err != nil || n == nil && r.State == ledger.Reserved:
			s.Log.Error("open payment cannot be taken up; it stays reserved", "payment", r.ID, "method", at.payment.Method, "err", err)
		case n != nil: // that of another may be configured again
			w := &work{row: at, network: n, brought: *r, client: r.Client, began: r.Created, done: make(chan struct{}), due: time.Now()}
			if w.state() == sent {
				s.Log.Info("open payment taken up", w.log())
			}
			n.live[r.ID] = w
		}
	}
}
