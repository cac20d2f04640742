package ledger

import (
	"cmp"
	"slices"
	"time"
)

// index is what memory holds in addition to the state: the blocklist, the reservations that are open or
// to be confirmed, and when others failed in the last hour. Everything else is read from the store.
type index struct {
	open     map[string]*Reservation
	lapsed   map[string]*Reservation // of those
	urls     map[string]*Reservation // open registrations that hold theirs, by URL key
	onMember map[string]sum          // open reservations that have not lapsed
	ofPayer  map[string]sum          // open reservations that have not lapsed
	failed   map[string][]failure    // of registrations, in order, by [urlMark]
	// unconfirmed are the applied ones that are to be asked for again.
	unconfirmed map[string]*Reservation
	blocks      blocks
}

// failure is of one registration.
type failure struct {
	at       time.Time
	id       string
	bar      string // [barKey] of its payer
	stranger bool   // its payer had never paid here
}

func (f failure) compare(to failure) int {
	return cmp.Or(f.at.Compare(to.at), cmp.Compare(f.id, to.id))
}

// failureOf gives that of a reservation, if it is one of a registration that bars its payer.
func failureOf(r *Reservation) (f failure, ok bool) {
	at := r.FailedAt
	if !r.Lapsed.IsZero() {
		at = r.Lapsed
	}
	return failure{at, r.ID, string(r.Bar), !r.HadPaid}, r.Operation == OperationRegister && len(r.Bar) > 0
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
	return index{open: map[string]*Reservation{}, lapsed: map[string]*Reservation{}, urls: map[string]*Reservation{}, onMember: map[string]sum{}, ofPayer: map[string]sum{},
		failed: map[string][]failure{}, unconfirmed: map[string]*Reservation{}, blocks: blocks{}}
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
		if !new.holds() {
			x.lapsed[new.ID] = new
			x.fail(new)
			return
		}
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
		x.fail(new)
	}
}

// fail adds the failure of r.
func (x *index) fail(r *Reservation) {
	if f, ok := failureOf(r); ok {
		all := x.failed[string(r.URLMark)]
		at, _ := slices.BinarySearchFunc(all, f, failure.compare)
		x.failed[string(r.URLMark)] = slices.Insert(all, at, f)
	}
}

// forgive takes the failure of r back.
func (x *index) forgive(r *Reservation) {
	f, _ := failureOf(r)
	all := x.failed[string(r.URLMark)]
	if at, found := slices.BinarySearchFunc(all, f, failure.compare); found {
		x.failed[string(r.URLMark)] = slices.Delete(all, at, at+1)
	}
}

func (x *index) drop(r *Reservation) {
	if r == nil {
		return
	}
	switch r.State {
	case Reserved:
		delete(x.open, r.ID)
		if !r.holds() {
			delete(x.lapsed, r.ID)
			x.forgive(r)
			return
		}
		add(x.ofPayer, r.Payer, -1, -r.Cents)
		if r.Operation == OperationRegister {
			delete(x.urls, r.URLKey)
		} else {
			add(x.onMember, r.Member, -1, -r.Cents)
		}
	case Applied:
		delete(x.unconfirmed, r.ID)
	case Failed:
		x.forgive(r)
	}
}

// replace takes a reservation as it is stored now, whatever was known of it.
func (x *index) replace(r *Reservation) {
	old := cmp.Or(x.open[r.ID], x.unconfirmed[r.ID])
	if old == nil && r.State == Failed {
		old = r
	}
	x.change(old, r)
}

// expire forgets what has run out. A failure can count with one that is an hour younger, which a
// follower may apply later.
func (x *index) expire(now time.Time) {
	for k, all := range x.failed {
		if n := len(all); n == 0 || !now.Before(all[n-1].at.Add(2*FailurePeriod)) {
			delete(x.failed, k)
		}
	}
}

// barred gives the end of the bar on this payer for this URL.
func (x *index) barred(payer, urlKey string, now time.Time) (until time.Time, ok bool) {
	bar := string(barKey(payer, urlKey))
	for _, f := range slices.Backward(x.failed[string(urlMark(urlKey))]) {
		if f.bar != bar {
			continue
		}
		until = f.at.Add(BarPeriod)
		if count, _ := x.failures(urlKey, now); count > 1 {
			until = f.at.Add(FailurePeriod)
		}
		return until, now.Before(until)
	}
	return until, false
}

// failures is described at [View.URLFailures].
func (x *index) failures(urlKey string, now time.Time) (count int, until time.Time) {
	all := x.failed[string(urlMark(urlKey))]
	n := len(all)
	if n == 0 || !now.Before(all[n-1].at.Add(FailurePeriod)) {
		return 0, time.Time{}
	}
	count = 1
	if n > 1 && all[n-1].at.Sub(all[n-2].at) < FailurePeriod {
		count = 2
	}
	for _, f := range slices.Backward(all) {
		if f.stranger {
			return count, f.at.Add(FailurePeriod)
		}
	}
	return count, time.Time{}
}
