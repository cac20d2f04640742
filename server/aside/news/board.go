package news

import "webring/core"

// board gives the first hundred.
func board(st *core.State) []core.Ordinal {
	return st.AppendRanked(make([]core.Ordinal, 0, boardSize), 0, boardSize)
}

// compare gives the news of those whose rank among the first hundred has changed. paid is the
// payment that changed it, nil without one: who was passed by its member was outbid, and of
// the member itself it says all.
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
