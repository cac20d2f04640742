package main

import (
	"context"
	"reflect"

	"webring/core"
	"webring/server/ledger"
)

// requiredScore is the least agent-readiness score that may join.
const requiredScore = 40

// newRules gives the rules that the flags describe, nil when they have not changed
// since the last event of them.
func newRules(o *options, books *ledger.Ledger, networks []core.Network) *core.Rules {
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
		return nil
	}
	return want
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
