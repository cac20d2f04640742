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
	lapsed   map[string]*Reservation   // of those
	urls     map[string]*Reservation   // open registrations that hold theirs, by URL key
	onMember map[string]sum            // open reservations that have not lapsed
	ofPayer  map[string][]*Reservation // the open ones, the oldest first
	failed   map[string][]Failure      // of registrations, in order, by [urlMark]
	// unconfirmed are the applied ones that are to be asked for again.
	unconfirmed map[string]*Reservation
	blocks      blocks
}

// Failure is a registration that failed or lapsed.
type Failure struct {
	At    time.Time
	Payer string
	id    string
}

func (f Failure) compare(to Failure) int {
	return cmp.Or(f.At.Compare(to.At), cmp.Compare(f.id, to.id))
}

// failureOf gives that of a reservation, if it is one of a registration that counts against its URL.
func failureOf(r *Reservation) (f Failure, ok bool) {
	at := r.FailedAt
	if !r.Lapsed.IsZero() {
		at = r.Lapsed
	}
	return Failure{at, r.Payer, r.ID}, len(r.URLMark) > 0
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
	return index{open: map[string]*Reservation{}, lapsed: map[string]*Reservation{}, urls: map[string]*Reservation{}, onMember: map[string]sum{}, ofPayer: map[string][]*Reservation{},
		failed: map[string][]Failure{}, unconfirmed: map[string]*Reservation{}, blocks: blocks{}}
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
		x.ofPayer[new.Payer] = append(x.ofPayer[new.Payer], new)
		slices.SortStableFunc(x.ofPayer[new.Payer], older)
		if !new.holds() {
			x.lapsed[new.ID] = new
			x.fail(new)
			return
		}
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
		at, _ := slices.BinarySearchFunc(all, f, Failure.compare)
		x.failed[string(r.URLMark)] = slices.Insert(all, at, f)
	}
}

// forgive takes the failure of r back.
func (x *index) forgive(r *Reservation) {
	f, _ := failureOf(r)
	all := x.failed[string(r.URLMark)]
	if at, found := slices.BinarySearchFunc(all, f, Failure.compare); found {
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
		left := slices.DeleteFunc(slices.Clone(x.ofPayer[r.Payer]), func(o *Reservation) bool { return o.ID == r.ID })
		if x.ofPayer[r.Payer] = left; len(left) == 0 {
			delete(x.ofPayer, r.Payer)
		}
		if !r.holds() {
			delete(x.lapsed, r.ID)
			x.forgive(r)
			return
		}
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

// expire forgets what has run out.
func (x *index) expire(now time.Time) {
	for k, all := range x.failed {
		if all = recent(all, now); len(all) == 0 {
			delete(x.failed, k)
		} else {
			x.failed[k] = all
		}
	}
}

// recent gives those of some failures, in order, that still count.
func recent(all []Failure, now time.Time) []Failure {
	n := slices.IndexFunc(all, func(f Failure) bool { return now.Sub(f.At) < FailurePeriod })
	if n < 0 {
		return nil
	}
	return all[n:]
}
