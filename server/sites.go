package server

import (
	"context"
	"errors"

	"webring/edge/share"
	"webring/server/paid"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

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
func (s memberSites) Accounts(ctx context.Context, client, url string) []siteproof.Named {
	return siteproof.Accounts(share.NewContext(ctx, share.AskerOf(client)), s.Client, url)
}
