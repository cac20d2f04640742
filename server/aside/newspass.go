package aside

import (
	"context"
	"log/slog"
	"time"

	"webring/core"
	"webring/server/ledger"
)

const (
	// worked and found bound one turn of a pass, in rows of the ring and in news.
	worked, found = 1 << 16, 200
	// caughtUp is how many events one turn catches up with.
	caughtUp = 64
	// rests is how long RunNews waits from one pass to the next.
	rests = time.Hour
)

// RunNews writes what time changes once an hour, until ctx ends. A process that starts waits
// until the last pass, of whichever process, is an hour ago.
func RunNews(ctx context.Context, l *ledger.Ledger, now func() time.Time, log *slog.Logger) {
	next := time.NewTimer(due(l, now()))
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if err := PassNews(ctx, l); err != nil && ctx.Err() == nil {
			log.Warn("news of standings that fade are not written yet", "err", err)
		}
		next.Reset(rests)
	}
}

// due is how long the first pass of a process waits.
func due(l *ledger.Ledger, now time.Time) (wait time.Duration) {
	l.View(func(v *ledger.View) {
		if s, err := readStatus(v); err == nil && s != nil && s.until == 0 && s.seq == v.State().Seq() {
			wait = min(max(time.Unix(s.since, 0).Add(rests).Sub(now), 0), rests)
		}
	})
	return wait
}

// CatchUpNews writes the news of events that came without [ObserveNews], of the last [Batches] of them
// where nothing was ever written. They say nothing of ranks, but for one change from what they
// were at the last news to the present ones.
func CatchUpNews(ctx context.Context, l *ledger.Ledger) error {
	for {
		var from uint64
		var err error
		there := false
		l.View(func(v *ledger.View) {
			var s *status
			if s, err = readStatus(v); s != nil {
				from, there = s.seq, s.seq == v.State().Seq()
			} else if seq := v.State().Seq(); seq > Batches {
				from = seq - Batches
			}
		})
		if err != nil || there {
			return err
		}
		records, err := l.Records(from, caughtUp)
		if err != nil {
			return err
		}
		if err := l.Do(ctx, func(tx *ledger.Tx) error { return catchUp(tx, from, records) }); err != nil {
			return err
		}
	}
}

func catchUp(tx *ledger.Tx, from uint64, records []ledger.Record) error {
	st := tx.State()
	s, err := readStatus(tx.View())
	if err != nil {
		return err
	}
	if s == nil {
		s = &status{seq: from, since: st.Clock(), board: board(st)}
		if r := st.Rules(); r != nil {
			s.grace = r.Grace
		}
	}
	if s.seq != from {
		return nil
	}
	for _, r := range records {
		e, err := core.DecodeEvent(r.Event)
		if err != nil {
			return err
		}
		s.seq++
		if own, some := told(st, e); some {
			if err := s.add(tx, stamped([]item{own}, e.When(), s.seq), s.board, tx.Stamp()); err != nil {
				return err
			}
		}
	}
	if s.seq == st.Seq() {
		now := board(st)
		if err := s.add(tx, stamped(compare(st, s.board, now, nil), tx.Stamp(), 0), now, tx.Stamp()); err != nil {
			return err
		}
	}
	return s.write(tx)
}

// PassNews writes what time has changed since the last pass: the order of the first hundred, and
// the members that have begun to fade.
func PassNews(ctx context.Context, l *ledger.Ledger) error {
	for over := false; !over; {
		if err := CatchUpNews(ctx, l); err != nil {
			return err
		}
		if err := l.Do(ctx, func(tx *ledger.Tx) (err error) {
			over, err = pass(tx)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// pass does what one turn may of a pass, and reports whether the pass is over.
func pass(tx *ledger.Tx) (over bool, err error) {
	st := tx.State()
	s, err := readStatus(tx.View())
	if err != nil || s == nil || s.seq != st.Seq() {
		return false, err
	}
	rules := st.Rules()
	if rules == nil {
		return true, nil
	}
	if s.until == 0 {
		s.until, s.cursor = max(st.Clock(), s.since), 0
	}
	now := board(st)
	items := stamped(compare(st, s.board, now, nil), tx.Stamp(), 0)
	rows, most, first := uint64(st.Rows()), s.cursor+worked, len(items)
	for ; s.cursor < min(rows, most) && len(items)-first < found; s.cursor++ {
		o := core.Ordinal(s.cursor)
		if at, begins := s.fades(st, o, rules.Grace); begins {
			items = append(items, item{kind: fading, member: o, at: at, rank: st.Rank(o)})
		}
	}
	if over = s.cursor == rows; over {
		s.since, s.until, s.cursor, s.grace = s.until, 0, 0, rules.Grace
	}
	if err := s.add(tx, items, now, tx.Stamp()); err != nil {
		return false, err
	}
	return over, s.write(tx)
}

// fades says whether a standing has begun to fade in the time of a pass, and when in
// milliseconds: that a member is paid for ends its grace, and so do rules with a shorter one.
func (s *status) fades(st *core.State, o core.Ordinal, grace int64) (at int64, begins bool) {
	_, lastBid := st.Paid(o)
	start, before := lastBid/1000+grace, lastBid/1000+s.grace
	if lastBid == 0 || start >= s.until || start < s.since && before < s.since || st.Rank(o) == 0 || st.Member(o).Bids == 0 {
		return 0, false
	}
	return max(start, s.since) * 1000, true
}
