package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"webring/core"
)

// View reads what the writer has applied, including the group that it is working on: if
// that group fails to become durable, the process ends. A view is valid until the function
// that got it returns.
type View struct {
	l   *memory
	get func(key []byte) ([]byte, error)
	own Batch // rows of the turn that the view belongs to, if any
}

// View calls fn with the present state. Any number of views run at once; the
// writer waits for them, so fn must be quick and must not call [Ledger.Do].
func (m *memory) View(fn func(v *View)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	fn(&View{m, m.get, nil})
}

// CheckClock says why nothing may be written for the clock's sake; see [Clock.Check].
func (l *Ledger) CheckClock() (err error) {
	l.View(func(v *View) { err = l.cfg.Clock.Check(v.State().LastStamp()) })
	return err
}

// State is the state with every event so far, at the instant of the writer's
// last turn. The caller must neither change nor retain it.
func (v *View) State() *core.State { return v.l.state }

// URLPending says whether a registration of the URL with this identity key is open,
// and until when its payment can be mined.
func (v *View) URLPending(urlKey string) (until time.Time, pending bool) {
	if r := v.l.index.urls[urlKey]; r != nil {
		return r.ValidBefore, true
	}
	return until, false
}

// URLFailures gives the registrations of the URL with this identity key that failed or
// lapsed in the last hour ([FailurePeriod]), the oldest first.
func (v *View) URLFailures(urlKey string) []Failure {
	return slices.Clone(recent(v.l.index.failed[string(urlMark(urlKey))], v.l.cfg.Now()))
}

// OpenOnMember says how many payments for a member are open and have not lapsed, and their sum in
// cents.
func (v *View) OpenOnMember(slug string) (count int, cents int64) {
	m := v.l.index.onMember[slug]
	return m.count, m.cents
}

// OpenOf gives the open reservations of a payer, those that have lapsed, too, the oldest first. They
// must not be changed.
func (v *View) OpenOf(payer string) []*Reservation { return v.l.index.ofPayer[payer] }

// OpenPayments is how many payments are open in all and have not lapsed.
func (v *View) OpenPayments() int { return len(v.l.index.open) - len(v.l.index.lapsed) }

// OpenSince is when the oldest open payment was brought that has not lapsed, if there is one.
func (v *View) OpenSince() (since time.Time, some bool) {
	for _, r := range v.l.index.open {
		if r.holds() && (!some || r.Created.Before(since)) {
			since, some = r.Created, true
		}
	}
	return since, some
}

// UnconfirmedPayments is how many applied payments are still to be asked for.
func (v *View) UnconfirmedPayments() int { return len(v.l.index.unconfirmed) }

// OpenRegistrations is how many registrations are open and have not lapsed.
func (v *View) OpenRegistrations() int { return len(v.l.index.urls) }

// Registrations calls f with each open registration that has not lapsed, in no order. f must not
// change it.
func (v *View) Registrations(f func(r *Reservation)) {
	v.EachHolding(func(r *Reservation) {
		if r.Operation == OperationRegister {
			f(r)
		}
	})
}

// EachHolding calls f with each open reservation that has not lapsed, in no order. f must not
// change it.
func (v *View) EachHolding(f func(r *Reservation)) {
	v.EachOpen(func(r *Reservation) {
		if r.holds() {
			f(r)
		}
	})
}

// EachOpen calls f with each open reservation, those that have lapsed, too, in no order. f must
// not change it.
func (v *View) EachOpen(f func(r *Reservation)) {
	for _, r := range v.l.index.open {
		f(r)
	}
}

// Open gives all open reservations, those that have lapsed, too, the oldest first.
func (v *View) Open() []*Reservation { return oldestFirst(v.l.index.open) }

func oldestFirst(some map[string]*Reservation) []*Reservation {
	all := make([]*Reservation, 0, len(some))
	for _, r := range some {
		copied := *r
		all = append(all, &copied)
	}
	slices.SortFunc(all, older)
	return all
}

func older(a, b *Reservation) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Unconfirmed gives the applied payments that are still to be asked for, the
// oldest first.
func (v *View) Unconfirmed() []*Reservation { return oldestFirst(v.l.index.unconfirmed) }

// Get gives the reservation with this id, or [ErrNoReservation].
func (v *View) Get(id string) (*Reservation, error) { return reservation(v.get, id) }

// Proofs gives up to n proofs about a member, about any for "", in the order of their members: those
// after another one, if it is not nil.
func (v *View) Proofs(member string, after *Reservation, n int) (some []*Reservation, err error) {
	prefix := []byte{prefixProof}
	if member != "" {
		prefix = rowKey(prefixProof, member, "")
	}
	from := prefix
	if after != nil {
		from = append(proofKey(after), 0)
	}
	rows, err := v.rows(prefix, from, n)
	for _, row := range rows {
		_, id, _ := strings.Cut(row.Key, "\x00")
		r, err := v.Get(id)
		if err != nil {
			return nil, err
		}
		some = append(some, r)
	}
	return some, err
}

// ByReplayKey gives the reservation that claimed key, or [ErrNoReservation].
func (v *View) ByReplayKey(key string) (*Reservation, error) {
	return reservationBy(v.get, prefixReplay, key)
}

// ByIdempotency gives the reservations made under this hash of an idempotency key:
// the latest of each payer.
func (v *View) ByIdempotency(hash string) (some []*Reservation, err error) {
	rows, err := v.under(rowKey(prefixIdempotency, hash))
	for _, row := range rows {
		r, err := v.Get(string(row.Value))
		if err != nil {
			return nil, err
		}
		some = append(some, r)
	}
	return some, err
}
