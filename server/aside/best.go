package aside

import (
	"sync"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// Best looks for the member that the least bid lifts past most others. It reads the whole ring, a part at
// a time: once a second at most in a ring that is one part, and otherwise once a minute, beside the
// requests. What documents say of that member is of the ring at their own position.
type Best struct {
	books Books
	now   func() time.Time

	mu     sync.Mutex
	at     time.Time // of the last look
	busy   bool      // one is under way
	some   bool
	member core.Ordinal
}

// NewBest gives one that looks when it is asked to.
func NewBest(books Books, now func() time.Time) *Best { return &Best{books: books, now: now} }

// bestBid is the least bid, on the member that it lifts past most others.
type bestBid struct {
	Member   string `json:"member"`
	Amount   string `json:"amount_usd"`
	Rank     int    `json:"rank"`
	Takes    int    `json:"takes_rank"`
	Restores string `json:"restores_usd"` // of what was paid, and has faded
}

// leastPassed is how many members the least bid has to pass to be worth a word.
const leastPassed = 2

// Look looks anew, if it is time to.
func (b *Best) Look() {
	rows := 0
	b.books.View(func(v *ledger.View) { rows = v.State().Rows() })
	every := time.Minute
	if rows <= atOnce {
		every = time.Second
	}
	b.mu.Lock()
	now := b.now()
	if since := now.Sub(b.at); b.busy || since >= 0 && since < every && !b.at.IsZero() {
		b.mu.Unlock()
		return
	}
	b.at, b.busy = now, true
	b.mu.Unlock()
	if rows > atOnce {
		go b.look()
		return
	}
	b.look()
}

// look walks down the ranking, and compares the best of each part by the ring at the end.
func (b *Best) look() {
	var found []core.Ordinal
	rows := make([]core.Ordinal, 0, atOnce+1)
	for from, more := 0, true; more; from += atOnce {
		b.books.View(func(v *ledger.View) {
			st := v.State()
			rows = st.AppendRanked(rows[:0], max(0, from-1), atOnce+1)
			more = from+atOnce < st.Len()
			most, at := leastPassed-1, 0
			for i := 1; i < len(rows); i++ {
				if n := passes(st, rows[i], rows[i-1], max(1, from)+i); n > most {
					most, at = n, i
				}
			}
			if at > 0 {
				found = append(found, rows[at])
			}
		})
	}
	most, best := 0, core.Ordinal(0)
	b.books.View(func(v *ledger.View) {
		for _, o := range found {
			if t, some := tell(v.State(), o); some && t.Rank-t.Takes > most {
				most, best = t.Rank-t.Takes, o
			}
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.some, b.member = false, most > 0, best
}

// passes is how many members the least bid on o passes: o ranks next to above. 0 for a member that
// sleeps: the ring sends it nobody.
func passes(st *core.State, o, above core.Ordinal, rank int) int {
	if cents, takes, ok := st.ToPass(o, above); ok && cents == st.Rules().MinBid {
		if asleep, _ := st.Asleep(o); !asleep {
			return rank - takes
		}
	}
	return 0
}

// tell says what the least bid on a member does, if that is worth a word.
func tell(st *core.State, o core.Ordinal) (t *bestBid, some bool) {
	slug, some := shown(st, o)
	rank := st.Rank(o)
	if !some || rank < 2 {
		return nil, false
	}
	n := passes(st, o, st.AppendRanked(nil, rank-2, 1)[0], rank)
	total, _ := st.Paid(o)
	usd := func(cents int64) string { return string(api.AppendUSD(nil, cents)) }
	return &bestBid{slug, usd(st.Rules().MinBid), rank, rank - n, usd(total - st.Standing(o))}, n >= leastPassed
}

// tell says it of the member that was found last, nil if there is none.
func (b *Best) tell(st *core.State) *bestBid {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.some {
		if t, some := tell(st, b.member); some {
			return t
		}
	}
	return nil
}
