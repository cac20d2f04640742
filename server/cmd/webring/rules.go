package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid"
)

// requiredScore is the least agent-readiness score that may join.
const requiredScore = 40

// newRules gives the rules that the flags describe, nil when they have not changed
// since the last event of them, and refuses to change them by a wrong clock.
func newRules(ctx context.Context, o *options, books *ledger.Ledger, methods []paid.Method, networks []core.Network) (*core.Rules, error) {
	want := &core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid),
		Grace: seconds(o.grace), Decay: seconds(o.decay), Networks: networks, Scorer: o.score.spec, RequiredScore: requiredScore, VisitAsleep: !o.skipAsleep, Policies: o.policies.Policies}
	changed := true
	books.View(func(v *ledger.View) {
		if have := v.State().Rules(); have != nil {
			// A ring that was made for measurement stays marked as one.
			want.Synthetic = have.Synthetic
			want.Stamp = have.Stamp
			changed = !reflect.DeepEqual(have, want)
		}
	})
	if !changed {
		return nil, nil
	}
	return want, checkClock(ctx, methods)
}

// setRules writes a rules event, if there is one to be written.
func setRules(ctx context.Context, books *ledger.Ledger, rules *core.Rules) error {
	if rules == nil {
		return nil
	}
	return books.Do(ctx, func(tx *ledger.Tx) error {
		rules.Stamp = tx.Stamp()
		_, err := tx.Append(rules, nil)
		return err
	})
}

// checkClock keeps a wrong clock from stamping an event: after an event in the future, no
// payment is taken until then. A network that does not answer is ignored. If ctx has ended,
// checkClock fails: an operator who stops a start may have seen that its flags are wrong.
func checkClock(ctx context.Context, methods []paid.Method) error {
	const tolerated = 10 * time.Minute // networks stall, too
	for _, m := range methods {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		block, err := m.Clock(asked)
		cancel()
		if err != nil {
			continue
		}
		if apart := time.Since(block).Round(time.Second); apart.Abs() > tolerated {
			return fmt.Errorf("the ring's flags have changed and need an event, but this clock is %s away from the newest block of %s: set the clock, or wait for the network", apart.Abs(), m.Network())
		}
	}
	return ctx.Err()
}
