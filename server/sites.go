package server

import (
	"context"
	"errors"

	"webring/edge/share"
	"webring/server/paid"
	"webring/server/paid/risk"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

// MemberSites looks at the sites of members through the client that reads strangers' sites.
type MemberSites struct{ Client *fetch.Client }

// Place says where a site shows tokens.
func (s MemberSites) Place(url string) (paid.Place, error) {
	at, err := siteproof.PlaceOf(url)
	return paid.Place{Host: at.Host, File: at.URL, Name: at.Name}, err
}

// Look looks for a token there.
func (s MemberSites) Look(ctx context.Context, client string, at paid.Place, token string) (seen paid.Sight) {
	ctx = share.NewContext(ctx, share.AskerOf(client))
	proof, err := siteproof.Find(ctx, s.Client, siteproof.Place{URL: at.File, Name: at.Name, Host: at.Host}, token)
	if busy, ok := errors.AsType[*fetch.Busy](err); ok {
		return paid.Sight{RetryAfter: max(busy.RetryAfter, 1)}
	}
	if err != nil {
		return paid.Sight{Why: err.Error()}
	}
	return paid.Sight{Proof: proof}
}

// Accounts gives the accounts that a site names.
func (s MemberSites) Accounts(ctx context.Context, client, url string) (all []risk.Named) {
	for _, n := range siteproof.Accounts(share.NewContext(ctx, share.AskerOf(client)), s.Client, url) {
		all = append(all, risk.Named{Account: n.Account, Host: n.Host})
	}
	return all
}
