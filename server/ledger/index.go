package ledger

import (
	"slices"
	"time"
)

// index is what of the reservations is kept in memory: those that are open or
// to be confirmed, and what follows from those that failed a while ago. All else is
// asked of the store.
type index struct {
	open     map[string]*Reservation
	urls     map[string]*Reservation // open registrations, by URL key
	onMember map[string]sum          // open reservations
	ofPayer  map[string]sum          // open reservations
	bars     map[string]time.Time    // by [barKey], until when
	failed   map[string][]time.Time  // when registrations failed, in order, by [urlMark]
	// unconfirmed are the applied ones that are to be asked for again.
	unconfirmed map[string]*Reservation
}

// sum is of some open reservations.
type sum struct {
	count int
	cents int64
}

// add adds to the sum of a name; one that comes to nothing is dropped.
func add(sums map[string]sum, name string, count int, cents int64) {
	s := sums[name]
	if s = (sum{s.count + count, s.cents + cents}); s.count == 0 {
		delete(sums, name)
		return
	}
	sums[name] = s
}

func newIndex() index {
	return index{map[string]*Reservation{}, map[string]*Reservation{}, map[string]sum{}, map[string]sum{},
		map[string]time.Time{}, map[string][]time.Time{}, map[string]*Reservation{}}
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
		add(x.ofPayer, new.Payer, 1, new.Cents)
		if new.Operation == OperationRegister {
			x.urls[new.URLKey] = new
		} else {
			add(x.onMember, new.Member, 1, new.Cents)
		}
	case Applied:
		if !new.Confirmed {
			x.unconfirmed[new.ID] = new
		}
	case Failed:
		if new.Operation == OperationRegister {
			x.bars[string(new.Bar)] = new.FailedAt.Add(BarPeriod)
			times := x.failed[string(new.URLMark)]
			at, _ := slices.BinarySearchFunc(times, new.FailedAt, time.Time.Compare)
			x.failed[string(new.URLMark)] = slices.Insert(times, at, new.FailedAt)
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
		add(x.ofPayer, r.Payer, -1, -r.Cents)
		if r.Operation == OperationRegister {
			delete(x.urls, r.URLKey)
		} else {
			add(x.onMember, r.Member, -1, -r.Cents)
		}
	case Applied:
		delete(x.unconfirmed, r.ID)
	case Failed:
		delete(x.bars, string(r.Bar))
		times := x.failed[string(r.URLMark)]
		if at, found := slices.BinarySearchFunc(times, r.FailedAt, time.Time.Compare); found {
			x.failed[string(r.URLMark)] = slices.Delete(times, at, at+1)
		}
	}
}

// expire forgets what has run out.
func (x *index) expire(now time.Time) {
	for k, until := range x.bars {
		if !now.Before(until) {
			delete(x.bars, k)
		}
	}
	for k, times := range x.failed {
		if n := len(times); n == 0 || !now.Before(times[n-1].Add(FailurePeriod)) {
			delete(x.failed, k)
		}
	}
}

// barred gives the end of the bar on this payer for this URL.
func (x *index) barred(payer, urlKey string, now time.Time) (until time.Time, ok bool) {
	until, ok = x.bars[string(barKey(payer, urlKey))]
	return until, ok && now.Before(until)
}

// failures is described at [View.URLFailures].
func (x *index) failures(urlKey string, now time.Time) (count int, until time.Time) {
	times := x.failed[string(urlMark(urlKey))]
	n := len(times)
	if n == 0 || !now.Before(times[n-1].Add(FailurePeriod)) {
		return 0, time.Time{}
	}
	count = 1
	if n > 1 && times[n-1].Sub(times[n-2]) < FailurePeriod {
		count = 2
	}
	return count, times[n-1].Add(FailurePeriod)
}
