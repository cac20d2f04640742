package visits

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/sites/fetch"
)

const (
	// witnesses is how many others are asked whether this process reaches anybody.
	witnesses = 5
	// maxLooked is how many members are looked at for them.
	maxLooked = 512
	// maxWaits is how many times a round waits for the network; the wait begins with a minute
	// and doubles. After that the round is over, and its failures do not count.
	maxWaits = 6
)

// round visits members, one of a site at a time, and begins one visit each pace. When this
// process is cut off it waits and visits those again that have failed. It is not ok when ctx
// ends before.
func (v *Visitor) round(ctx context.Context, list []target, pace time.Duration) (all []sight, ok bool) {
	all = v.visitAll(ctx, list, pace)
	var failed []target
	for wait, n := time.Minute, 0; ctx.Err() == nil; wait, n = 2*wait, n+1 {
		failed = failed[:0]
		alive, witness := map[string]bool{}, false
		for _, s := range all {
			if s.alive() {
				alive[s.site] = true
			} else if s.outcome == Failed {
				failed = append(failed, s.target)
			}
		}
		for _, m := range failed {
			witness = witness || len(alive) > 1 || len(alive) == 1 && !alive[m.site]
		}
		if len(failed) == 0 || witness {
			return all, true
		}
		online, asked := v.online(ctx, failed)
		if online {
			if n > 0 {
				return append(without(all), v.visitAll(ctx, failed, behindPace)...), ctx.Err() == nil
			}
			return all, true
		}
		if asked > 0 && n == 0 {
			v.log.Warn("visits: no member can be reached, so this process may be cut off; no failure is counted")
		}
		if asked == 0 || n == maxWaits || !v.wait(ctx, wait) {
			return without(all), ctx.Err() == nil
		}
	}
	return nil, false
}

// without leaves out failures.
func without(all []sight) (rest []sight) {
	for _, s := range all {
		if s.outcome != Failed {
			rest = append(rest, s)
		}
	}
	return rest
}

// visitAll visits members.
func (v *Visitor) visitAll(ctx context.Context, list []target, pace time.Duration) []sight {
	all := make([]sight, len(list))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, m := range list {
		if i > 0 && !v.wait(ctx, pace) {
			all[i] = sight{target: m, outcome: PutOff}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			all[i] = sight{target: m, outcome: PutOff}
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			all[i] = v.visit(ctx, m)
		})
	}
	running.Wait()
	return all
}

// online asks members of other sites whether they answer anything, and says how many it has
// asked.
func (v *Visitor) online(ctx context.Context, failed []target) (online bool, asked int) {
	taken := map[string]bool{}
	for _, m := range failed {
		taken[m.site] = true
	}
	var others []target
	v.cfg.Ledger.View(func(view *ledger.View) {
		st := view.State()
		rows := st.Rows()
		if rows == 0 {
			return
		}
		first := rand.IntN(rows)
		for i := range min(rows, maxLooked) {
			m, ok := targetOf(st, core.Ordinal((first+i)%rows))
			if !ok || m.Asleep || taken[m.site] {
				continue
			}
			taken[m.site] = true
			if others = append(others, m); len(others) == witnesses {
				return
			}
		}
	})
	for _, m := range others {
		leave, ok := v.sites.enter(ctx, m.site)
		if !ok {
			return false, asked
		}
		r := m.request(m.URL, pageTypes)
		r.MaxBody, r.Exchange = 1, &fetch.Exchange{Enough: firstEvent}
		_, err := v.cfg.Fetch.Get(ctx, r)
		leave()
		if asked++; err == nil || errors.Is(err, fetch.ErrRedirect) {
			return true, asked
		}
	}
	return false, asked
}
