package visits

import (
	"context"
	"errors"
	"time"

	"webring/core"
	"webring/server/ledger"
)

const (
	// day is how many minutes a round through all members takes.
	day = 24 * 60
	// nothingDue stands for no minute.
	nothingDue = -1
	// writeEvery is after how many minutes without a visit the minute is written.
	writeEvery = 60
	// maxPutOff is how many times a visit is put off by a minute, before it is left to the
	// next day.
	maxPutOff = 30
	// readAtOnce is how many members are read in one view.
	readAtOnce = 512
)

// minuteOf gives the minute of a day in which a member is visited: neighbours are far apart,
// and any number of members is spread evenly.
func minuteOf(o core.Ordinal) int64 {
	const golden = 2654435769 // 2^32 divided by the golden ratio
	return int64(uint64(uint32(o)*golden) * day >> 32)
}

// put is a member with a postponed visit.
type put struct {
	slug  string
	times int
}

// keepSchedule visits minute by minute.
func (v *Visitor) keepSchedule(ctx context.Context) {
	at, ok := v.begin(ctx)
	if !ok {
		return
	}
	written := at
	var late []put
	for {
		now := v.cfg.Now().Unix() / 60
		if at > now {
			v.behind.Store(0)
			if !v.wait(ctx, time.Unix(at*60, 0).Sub(v.cfg.Now())) {
				return
			}
			continue
		}
		if at < now-day {
			v.log.Warn("visits: more than a day is not looked through; the rest is left out", "minutes", now-day-at)
			at = now - day
		}
		v.behind.Store(now - at)
		list := v.due(at % day)
		times := map[string]int{}
		for _, p := range late {
			if m, ok := v.member(p.slug); ok {
				list = append(list, m)
				times[p.slug] = p.times
			}
		}
		pace := behindPace
		if at == now && len(list) > 0 {
			pace = time.Unix((at+1)*60, 0).Sub(v.cfg.Now()) / time.Duration(len(list))
			pace = max(min(pace, time.Minute/time.Duration(len(list))), 0)
		}
		found, ok := v.round(ctx, list, pace)
		if !ok {
			return
		}
		late = late[:0]
		for _, s := range found {
			if n := times[s.slug] + 1; s.outcome == PutOff && n <= maxPutOff {
				late = append(late, put{s.slug, n})
			}
		}
		if at++; len(found) > 0 || at-written >= writeEvery {
			if !v.record(ctx, found, at, false) {
				return
			}
			written = at
		}
	}
}

// wait waits, and is not ok when ctx ends before.
func (v *Visitor) wait(ctx context.Context, d time.Duration) (ok bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin reads which minute is next. At the very first it is the present one, and so it is after
// a clock that was ahead.
func (v *Visitor) begin(ctx context.Context) (at int64, ok bool) {
	for {
		var err error
		v.cfg.Ledger.View(func(view *ledger.View) { at, err = nextMinute(view) })
		if err == nil {
			if now := v.cfg.Now().Unix() / 60; at == 0 || at > now+day {
				at = now
			}
			return at, true
		}
		if !errors.Is(err, ledger.ErrClosed) {
			v.log.Error("visits: the next minute cannot be read", "err", err)
		}
		if !v.wait(ctx, time.Minute) {
			return 0, false
		}
	}
}

// target is a member that is visited.
type target struct {
	core.Member
	slug, site string
	o          core.Ordinal
	ring       string // the base URL of the ring
}

// due gives the members of a minute of the day.
func (v *Visitor) due(minute int64) (list []target) {
	rows := 0
	v.cfg.Ledger.View(func(view *ledger.View) { rows = view.State().Rows() })
	var chosen []core.Ordinal
	for o := range core.Ordinal(rows) {
		if minuteOf(o) == minute {
			chosen = append(chosen, o)
		}
	}
	for len(chosen) > 0 {
		n := min(len(chosen), readAtOnce)
		v.cfg.Ledger.View(func(view *ledger.View) {
			for _, o := range chosen[:n] {
				if m, ok := targetOf(view.State(), o); ok {
					list = append(list, m)
				}
			}
		})
		chosen = chosen[n:]
	}
	return list
}

// member gives a member by its slug, if it is visited.
func (v *Visitor) member(slug string) (m target, ok bool) {
	v.cfg.Ledger.View(func(view *ledger.View) {
		if o, known := view.State().BySlug([]byte(slug)); known {
			m, ok = targetOf(view.State(), o)
		}
	})
	return m, ok
}
