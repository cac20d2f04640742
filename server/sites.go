package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"webring/core"
	"webring/edge/share"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/server/sites/siteproof"
)

// localLimits are those of the local scorer. The folder of reports must have room for all that
// challenges may name.
var localLimits = score.Limits{InAll: 180, Ask: local.WaitTime + local.ScanTime + 2*local.TurnTime + 2*time.Second}

// draftsInAll is how many drafts are scored in a minute. It is less than for registrations,
// because a check costs its client nothing.
const draftsInAll = 40

// openScorer makes the scorer that is configured, with less for drafts than for registrations.
func (o *Origin) openScorer() error {
	o.reports = local.Open(&o.Books, rests)
	pass := int(o.Rules.RequiredScore)
	limits, fixed := score.Limits{}, strings.HasPrefix(o.Scorer.Spec, "fixed:")
	var scorer score.Scorer
	if o.Scorer.Spec == local.Provider {
		limits = localLimits
		limits.Past = share.NewPast()
		scorer = local.New(o.Sites, pass, limits.Past, func(r *local.Report) (string, error) {
			err := o.reports.Put(r) // which gives it its id
			return o.Rules.BaseURL + ReportsPath + r.ID, err
		})
	} else {
		var err error
		if scorer, err = score.New(o.Scorer); err != nil {
			return err
		}
		if fixed {
			limits.InAll = -1 // there is no service to spare
		}
	}
	limits.Pass = pass
	guard := score.NewGuard(scorer, limits)
	o.Payments.Scorer, o.Payments.DraftScorer = guard, guard
	if !fixed {
		o.Payments.DraftScorer = guard.Beside(draftsInAll)
	}
	return nil
}

// sweepReports removes old reports until ctx ends. At the start and once a day it also looks for
// reports that a member's score no longer rests on.
func (o *Origin) sweepReports(ctx context.Context) {
	const every = 5 * time.Minute
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := o.reports.Sweep(ctx, n%int(24*time.Hour/every) == 0); err != nil && ctx.Err() == nil {
			o.Log.Error("reports cannot be cleared up", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// rests says whether a member's score, or an open payment, rests on the report of a site.
func rests(v *ledger.View, id, url string) bool {
	key := core.AppendKey(nil, []byte(url))
	if at, ok := v.State().Holder(key); ok && strings.HasSuffix(v.State().Member(at).Report, ReportsPath+id) {
		return true
	}
	_, pending := v.URLPending(string(key))
	return pending
}

// memberSites looks at the sites of members through the client that reads strangers' sites.
type memberSites struct{ Client *fetch.Client }

// Place says where a site shows tokens.
func (s memberSites) Place(url string) (siteproof.Place, error) { return siteproof.PlaceOf(url) }

// Look looks for a token there.
func (s memberSites) Look(ctx context.Context, client string, at siteproof.Place, token string) (seen paid.Sight) {
	proof, err := siteproof.Find(share.NewContext(ctx, share.AskerOf(client)), s.Client, at, token)
	if busy, ok := errors.AsType[*fetch.Busy](err); ok {
		return paid.Sight{RetryAfter: max(busy.RetryAfter, 1)}
	}
	if err != nil {
		return paid.Sight{Why: err.Error()}
	}
	return paid.Sight{Proof: proof}
}

// Accounts gives the accounts that a site names.
func (s memberSites) Accounts(ctx context.Context, client, url string) ([]core.Account, bool) {
	return siteproof.Accounts(share.NewContext(ctx, share.AskerOf(client)), s.Client, url)
}
