package ledger

import "time"

// index is what of the reservations is kept in memory: those that are open or
// to be confirmed, and who is barred because one failed. All else is asked of the store.
type index struct {
	open     map[string]*Reservation
	urls     map[string]bool // the URL keys of open registrations
	onMember map[string]onMember
	ofPayer  map[string]int       // open reservations
	bars     map[string]time.Time // by [barKey], until when
	// unconfirmed are the applied ones that are to be asked for again.
	unconfirmed map[string]*Reservation
}

// onMember sums the open reservations on one member.
type onMember struct {
	count int
	cents int64
}

func newIndex() index {
	return index{map[string]*Reservation{}, map[string]bool{}, map[string]onMember{}, map[string]int{}, map[string]time.Time{}, map[string]*Reservation{}}
}

// change replaces old by new; nil stands for none. With the arguments
// exchanged it takes a change back.
func (x *index) change(old, new *Reservation) {
	x.drop(old)
	if new == nil {
		return
	}
	switch new.State {
	case Reserved:
		x.open[new.ID] = new
		x.ofPayer[new.Payer]++
		if new.Operation == OperationRegister {
			x.urls[new.URLKey] = true
		} else {
			m := x.onMember[new.Member]
			x.onMember[new.Member] = onMember{m.count + 1, m.cents + new.Cents}
		}
	case Applied:
		if !new.Confirmed {
			x.unconfirmed[new.ID] = new
		}
	case Failed:
		if new.Operation == OperationRegister {
			x.bars[string(new.Bar)] = new.FailedAt.Add(BarPeriod)
		}
	}
}

func (x *index) drop(r *Reservation) {
	if r == nil {
		return
	}
	switch r.State {
	case Reserved:
		delete(x.open, r.ID)
		if x.ofPayer[r.Payer]--; x.ofPayer[r.Payer] == 0 {
			delete(x.ofPayer, r.Payer)
		}
		if r.Operation == OperationRegister {
			delete(x.urls, r.URLKey)
		} else if m := x.onMember[r.Member]; m.count > 1 {
			x.onMember[r.Member] = onMember{m.count - 1, m.cents - r.Cents}
		} else {
			delete(x.onMember, r.Member)
		}
	case Applied:
		delete(x.unconfirmed, r.ID)
	case Failed:
		delete(x.bars, string(r.Bar))
	}
}

// expire forgets bars that have run out.
func (x *index) expire(now time.Time) {
	for k, until := range x.bars {
		if !now.Before(until) {
			delete(x.bars, k)
		}
	}
}

// barred gives the end of the bar on this payer for this URL.
func (x *index) barred(payer, urlKey string, now time.Time) (until time.Time, ok bool) {
	until, ok = x.bars[string(barKey(payer, urlKey))]
	return until, ok && now.Before(until)
}
