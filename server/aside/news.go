package aside

import (
	"errors"

	"webring/core"
	"webring/server/ledger"
)

// ObserveNews is [ledger.Config.Observe]: it writes the news of each event, if those of all events
// before it are written.
func ObserveNews(tx *ledger.Tx, e core.Event) (applied func(seq uint64) error) {
	st := tx.State()
	s, err := readStatus(tx.View())
	if err != nil || s == nil || s.seq != st.Seq() {
		return func(uint64) error { return err }
	}
	before, was := board(st), 0
	faded := stamped(compare(st, s.board, before, nil), tx.Stamp(), 0)
	if o, known := st.BySlug([]byte(core.MemberOf(e))); known {
		was = st.Rank(o)
	}
	return func(seq uint64) error {
		s.seq = seq + 1
		if _, back := e.(*core.SetBack); back {
			s.since, s.until, s.cursor = min(s.since, e.When()/1000), 0, 0 // the next pass begins then
		}
		now := board(st)
		items := append(faded, stamped(newsOf(st, e, was, before, now), e.When(), s.seq)...)
		err := s.add(tx, items, now, e.When())
		if err == nil {
			err = s.write(tx)
		}
		if errors.Is(err, ledger.ErrTurn) {
			return nil // the status is as it was, so CatchUpNews writes them
		}
		return err
	}
}

// newsOf returns the news of an event that has been applied: first for its member, then for the
// members that changed rank among the first hundred by it. was is the member's rank before it.
// A payment for a member that has left is no news.
func newsOf(st *core.State, e core.Event, was int, before, now []core.Ordinal) []item {
	own, some := told(st, e)
	if !some {
		return compare(st, before, now, nil)
	}
	switch own.kind {
	case joined, bid, credited:
		own.was, own.rank = was, st.Rank(own.member)
		if own.rank != 0 {
			return append([]item{own}, compare(st, before, now, &own)...)
		}
		if st.Member(own.member).Removed {
			return nil
		}
	case left, removed:
		own.was = was
	}
	return append([]item{own}, compare(st, before, now, nil)...)
}

// told gives what an event says of its member, if that is news.
func told(st *core.State, e core.Event) (i item, some bool) {
	switch e := e.(type) {
	case *core.Joined:
		i.kind, i.cents = joined, e.Fee+e.Bid
	case *core.Bid:
		i.kind, i.cents = bid, e.Amount
	case *core.Adjusted:
		if e.Adjustment != core.Credit {
			return i, false
		}
		i.kind, i.cents = credited, e.Amount
	case *core.Asleep:
		i.kind = asleep
	case *core.Awake:
		i.kind = awake
	case *core.Changed:
		i.kind = changed
	case *core.Moved:
		i.kind = moved
	case *core.Claimed:
		i.kind, i.proof = claimed, e.Proof
	case *core.Verified:
		i.kind, i.proof = verified, e.Proof
	case *core.Unverified:
		i.kind = unverified
	case *core.Left, *core.Departed:
		i.kind = left
	case *core.Returned:
		if i.kind = returned; e.Owner != (core.Account{}) {
			i.kind = takenBack
		}
	case *core.Removed:
		i.kind = removed
	default:
		return i, false
	}
	i.member, some = st.BySlug([]byte(core.MemberOf(e)))
	return i, some
}

// stamped gives news an instant and the number of their event.
func stamped(items []item, at int64, event uint64) []item {
	for i := range items {
		items[i].at, items[i].event = at, event
	}
	return items
}

// board gives the first hundred.
func board(st *core.State) []core.Ordinal {
	return st.AppendRanked(make([]core.Ordinal, 0, boardSize), 0, boardSize)
}

// compare returns the news of members that changed rank among the first hundred. paid is the
// payment that changed it, nil without one. A member that paid's member passed was outbid; of
// the member itself paid says all.
func compare(st *core.State, before, now []core.Ordinal, paid *item) (items []item) {
	was := make(map[core.Ordinal]int, len(before))
	for i, o := range before {
		was[o] = i + 1
	}
	still := make(map[core.Ordinal]bool, len(now))
	tell := func(o core.Ordinal, rank int) {
		i := item{kind: ranked, member: o, was: was[o], rank: rank}
		switch {
		case rank == 0 || rank == i.was || paid != nil && o == paid.member:
			return
		case paid != nil && i.was != 0 && (paid.was == 0 || i.was < paid.was) && paid.rank < rank:
			i.kind, i.by = outbid, paid.member
		}
		items = append(items, i)
	}
	for i, o := range now {
		still[o] = true
		tell(o, i+1)
	}
	for _, o := range before {
		if !still[o] {
			tell(o, st.Rank(o))
		}
	}
	return items
}
