package ledger_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
)

// model is the second, obvious account of reservations: a list, and every
// question a walk over it.
type model struct {
	all      []*ledger.Reservation
	urls     map[string]string // by id, for those that failed too
	removed  map[string]bool
	redacted map[string]bool
	hidden   map[string]bool
	blocked  map[string]bool   // hosts
	held     map[string]string // by URL: the member that moved there
}

func (m *model) find(ok func(*ledger.Reservation) bool) *ledger.Reservation {
	if i := slices.IndexFunc(m.all, ok); i >= 0 {
		return m.all[i]
	}
	return nil
}

func (m *model) openOn(slug string) (n int, cents int64) {
	for _, v := range m.all {
		if holds(v) && v.Operation == ledger.OperationBid && v.Member == slug {
			n, cents = n+1, cents+v.Cents
		}
	}
	return n, cents
}

func (m *model) openURL(key string) *ledger.Reservation {
	return m.find(func(v *ledger.Reservation) bool { return holds(v) && v.URLKey == key && key != "" })
}

// holds says whether v is open and has not lapsed, and failed since when it counts as failed,
// if it does.
func holds(v *ledger.Reservation) bool { return v.State == ledger.Reserved && v.Lapsed.IsZero() }

func failed(v *ledger.Reservation) (since time.Time, is bool) {
	switch {
	case v.State == ledger.Applied || holds(v):
		return since, false
	case !v.Lapsed.IsZero():
		return v.Lapsed, true
	}
	return v.FailedAt, true
}

// failures gives the payers of what failed for a URL within an hour, with the instants.
func (m *model) failures(key string, now time.Time) (all []string) {
	for _, v := range m.all {
		if since, is := failed(v); is && m.urls[v.ID] == key && now.Sub(since) < ledger.FailurePeriod {
			all = append(all, fmt.Sprint(since.UnixMilli(), " ", v.Payer))
		}
	}
	slices.Sort(all)
	return all
}

// leave notes that a member holds no URL to which it has moved.
func (m *model) leave(slug string) {
	for key, holder := range m.held {
		if holder == slug {
			delete(m.held, key)
		}
	}
}

func (m *model) reserve(v *ledger.Reservation, now time.Time) error {
	taken := m.find(func(o *ledger.Reservation) bool {
		return o.ID == v.ID || slices.ContainsFunc(o.ReplayKeys, func(k string) bool { return slices.Contains(v.ReplayKeys, k) })
	})
	switch {
	case taken != nil:
		return errReplayed
	case m.held[v.URLKey] != "":
		return core.ErrURLTaken
	case m.openURL(v.URLKey) != nil:
		return ledger.ErrURLPending
	}
	return nil
}

// Any history of reservations, removals, failures, restarts, changes of the leader and passing
// time leaves what the obvious account says, after each step, and the follower holds the same.
func TestHistoriesAgreeWithTheModel(t *testing.T) {
	for range 12 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runHistory(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// redact deletes what may hold the words of a member from a reservation that was applied.
func redact(v *ledger.Reservation) {
	v.Body, v.Pinned, v.URLKey, v.Redacted = nil, nil, "", true
	if v.Response != nil {
		v.Response.Body = nil
	}
}

func runHistory(t *testing.T, rnd *rand.Rand) {
	slugs := []string{"ada", "bob", "cyn"}
	urls := []string{"u0.org", "u1.org", "u2.org"}
	payers := []string{"p0", "p1"}
	r := newRing(t)
	w := follow(r)
	bend := w.bender(rnd, foreignBatches(t, 20))
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	for _, s := range slugs {
		r.join(s)
	}
	m := &model{urls: map[string]string{}, removed: map[string]bool{}, redacted: map[string]bool{}, hidden: map[string]bool{}, blocked: map[string]bool{}, held: map[string]string{}}
	pick := func(s []string) string { return s[rnd.IntN(len(s))] }

	for step := range 120 {
		now := r.now()
		switch op := rnd.IntN(14); {
		case op < 4: // reserve
			v := &ledger.Reservation{ID: fmt.Sprint("id", rnd.IntN(60)), State: ledger.Reserved, Cents: 1 + rnd.Int64N(500),
				Payer: pick(payers), ReplayKeys: []string{fmt.Sprint("challenge", rnd.IntN(120)), fmt.Sprint("tx", rnd.IntN(120))}}
			if rnd.IntN(2) == 0 {
				v.Operation, v.URLKey, v.Body = ledger.OperationRegister, pick(urls), []byte("body")
			} else {
				v.Operation, v.Member, v.Body = ledger.OperationBid, pick(slugs), []byte("body")
			}
			want := m.reserve(v, now)
			drop := rnd.IntN(5) == 0 && want == nil
			if drop {
				want = errRefused
			}
			err := r.do(func(tx *ledger.Tx) error {
				if err := tx.Reserve(v); err != nil || !drop {
					return err
				}
				return errRefused
			})
			if errors.As(err, new(*ledger.ReplayedError)) {
				err = errReplayed
			}
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Fatalf("step %d: reserving %+v: %v, want %v", step, v, err, want)
			}
			if err == nil {
				m.all = append(m.all, v)
				m.urls[v.ID] = v.URLKey
			}
		case op < 7: // settle one that is open
			v := m.find(func(v *ledger.Reservation) bool { return v.State == ledger.Reserved })
			if v == nil {
				continue
			}
			after := *v
			if holds(v) && rnd.IntN(3) == 0 {
				after.Lapsed = now
				r.must(func(tx *ledger.Tx) error { return tx.Update(&after) })
			} else if !holds(v) || rnd.IntN(2) == 0 {
				after.State = ledger.Failed
				r.must(func(tx *ledger.Tx) error { return tx.Update(&after) })
			} else {
				r.must(func(tx *ledger.Tx) (err error) {
					if v.Operation == ledger.OperationRegister {
						// Which member it becomes is of no interest here, only
						// that each is another.
						slug := fmt.Sprintf("s%d", step)
						slugs = append(slugs, slug)
						return applyRegistration(tx, &after, slug)
					}
					after.State = ledger.Applied
					after.Seq, err = tx.Append(bid(tx, v.Member, v.Cents), nil)
					return errors.Join(err, tx.Update(&after))
				})
				if m.redacted[v.Member] {
					redact(&after)
				}
			}
			*v = after
		case op < 8: // remove
			slug, redacted := pick(slugs), rnd.IntN(2) == 0
			if m.removed[slug] {
				continue
			}
			r.must(func(tx *ledger.Tx) error { return remove(tx, slug, redacted) })
			m.removed[slug], m.hidden[slug] = true, false
			m.leave(slug)
			for _, v := range m.all {
				switch {
				case !redacted || v.Member != slug:
				case v.State == ledger.Applied:
					redact(v)
				case v.State == ledger.Reserved:
					v.Body = nil
				}
			}
			m.redacted[slug] = redacted
		case op < 9: // hide or show
			slug := pick(slugs)
			if m.removed[slug] {
				continue
			}
			var e core.Event = &core.Hidden{Stamp: now.UnixMilli(), Member: slug, Reason: "reported"}
			if m.hidden[slug] {
				e = &core.Shown{Stamp: now.UnixMilli(), Member: slug, Reason: "answered"}
			}
			r.must(func(tx *ledger.Tx) error { return appendEvent(tx, e) })
			m.hidden[slug] = !m.hidden[slug]
		case op < 10: // block or unblock
			host := pick(urls)
			r.must(func(tx *ledger.Tx) error {
				if m.blocked[host] {
					return tx.Unblock(ledger.BlockHost, host)
				}
				return tx.Block(entry(ledger.BlockHost, host))
			})
			m.blocked[host] = !m.blocked[host]
		case op < 12: // move, change or leave
			slug, key := pick(slugs), pick(urls)
			if m.removed[slug] {
				continue
			}
			var want error
			switch kind := rnd.IntN(5); {
			case kind == 0:
				r.must(func(tx *ledger.Tx) error { return appendEvent(tx, &core.Left{Stamp: tx.Stamp(), Member: slug}) })
				m.removed[slug], m.hidden[slug] = true, false
				m.leave(slug)
			case kind == 1:
				r.must(func(tx *ledger.Tx) error { return rename(tx, slug, fmt.Sprint("Name ", step)) })
			default:
				switch other := m.held[key]; {
				case m.openURL(key) != nil:
					want = ledger.ErrURLPending
				case other != "" && other != slug:
					want = core.ErrURLTaken
				}
				if err := r.do(func(tx *ledger.Tx) error { return moveTo(tx, slug, "https://"+key) }); err != want {
					t.Fatalf("step %d: moving %s to %s: %v, want %v", step, slug, key, err, want)
				}
				if want == nil {
					m.leave(slug)
					m.held[key] = slug
				}
			}
		case op < 13:
			r.pass(time.Duration(rnd.IntN(1800)) * time.Second)
			if rnd.IntN(8) == 0 {
				r.pass(1000 * time.Hour)
			}
		default:
			switch rnd.IntN(3) {
			case 0:
				r.reopen()
			case 1:
				w.reopen()
			default:
				w.catchUp(bend)
				w.swap()
			}
		}
		compare(t, step, r, m, urls, payers)
		if rnd.IntN(2) == 0 {
			w.catchUp(bend)
		}
	}
}

func compare(t *testing.T, step int, r *ring, m *model, urls, payers []string) {
	t.Helper()
	r.View(func(view *ledger.View) {
		var open []*ledger.Reservation
		registrations, holding := 0, 0
		slugs := map[string]bool{}
		for _, v := range m.all {
			got, err := view.Get(v.ID)
			if err != nil || !reflect.DeepEqual(got, v) {
				t.Fatalf("step %d: stored is\n%+v, %v, want\n%+v", step, got, err, v)
			}
			for _, key := range v.ReplayKeys {
				if got, err := view.ByReplayKey(key); err != nil || got.ID != v.ID {
					t.Fatalf("step %d: the replay key %s of %s leads to %v, %v", step, key, v.ID, got, err)
				}
			}
			if v.State == ledger.Reserved {
				open = append(open, v)
				if holds(v) {
					holding++
				}
				if holds(v) && v.Operation == ledger.OperationRegister {
					registrations++
				}
			}
			slugs[v.Member] = true
		}
		slices.SortFunc(open, func(a, b *ledger.Reservation) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		if got := view.Open(); len(got) != len(open) || len(got) > 0 && !reflect.DeepEqual(got, open) {
			t.Fatalf("step %d: open are %v, want %v", step, got, open)
		}
		each, eachHolding := 0, 0
		view.EachOpen(func(*ledger.Reservation) { each++ })
		view.EachHolding(func(*ledger.Reservation) { eachHolding++ })
		if each != len(open) || eachHolding != holding {
			t.Fatalf("step %d: each of %d is open, and %d hold; want %d, %d", step, each, eachHolding, len(open), holding)
		}
		if n := view.OpenPayments(); n != holding {
			t.Fatalf("step %d: %d open payments, want %d", step, n, holding)
		}
		if n := view.OpenRegistrations(); n != registrations {
			t.Fatalf("step %d: %d open registrations, want %d", step, n, registrations)
		}
		for slug := range slugs {
			n, cents := view.OpenOnMember(slug)
			if wantN, wantCents := m.openOn(slug); n != wantN || cents != wantCents {
				t.Fatalf("step %d: open on %s: %d, %d, want %d, %d", step, slug, n, cents, wantN, wantCents)
			}
		}
		for _, p := range payers {
			var want []*ledger.Reservation
			for _, v := range open {
				if v.Payer == p {
					want = append(want, v)
				}
			}
			if got := view.OpenOf(p); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d: open of %s are %v, want %v", step, p, got, want)
			}
		}
		for slug := range m.hidden {
			at, _ := view.State().BySlug([]byte(slug))
			if view.State().Hidden(at) != m.hidden[slug] {
				t.Fatalf("step %d: %s is hidden: %t", step, slug, !m.hidden[slug])
			}
		}
		for _, key := range urls {
			if view.Blocked(ledger.BlockHost, key) != m.blocked[key] {
				t.Fatalf("step %d: %s is blocked: %t", step, key, !m.blocked[key])
			}
			if _, got := view.URLPending(key); got != (m.openURL(key) != nil) {
				t.Fatalf("step %d: %s pending is %t", step, key, got)
			}
			var got []string
			for _, f := range view.URLFailures(key) {
				got = append(got, fmt.Sprint(f.At.UnixMilli(), " ", f.Payer))
			}
			slices.Sort(got)
			if want := m.failures(key, r.now()); !slices.Equal(got, want) {
				t.Fatalf("step %d: failures of %s: %q, want %q", step, key, got, want)
			}
		}
	})
}
