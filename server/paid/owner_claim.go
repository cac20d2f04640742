package paid

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/sites/siteproof"
)

// By a claim, the site of a member names an account as its owner. It takes two requests. The
// first names an account, and gets a token for the site to show. The second brings the token,
// once the site shows it, with a proof by that account. Nothing is stored between them.

// Sites looks at the sites of members. Its functions are safe for concurrent use.
type Sites interface {
	// Place says where a site shows tokens.
	Place(url string) (siteproof.Place, error)
	// Look looks for a token there, anew each time, for a client.
	Look(ctx context.Context, client string, at siteproof.Place, token string) Sight
	// Accounts gives the accounts that the site at a URL names, a few at most, anew each
	// time, for a client.
	Accounts(ctx context.Context, client, url string) []siteproof.Named
}

// Sight is what was seen of a token.
type Sight struct {
	Proof core.Proof // where it was; 0 if nowhere
	Why   string     // it was nowhere, in the rest of a sentence
	// RetryAfter is set instead of both if the site was asked too often.
	RetryAfter time.Duration
}

// claim is one order to make an account the owner of a member.
type claim struct {
	service *Service
	account core.Account
	token   string
	proof   core.Proof // where the site shows the token
	returns bool       // the member has departed, and is back with it
}

// tokenSize is the length of a token in bytes: the account, and a mark over slug, host and
// account. In base64url it is 48 characters.
const tokenSize = len(core.Account{}) + mpp.MarkSize

// claimMark is the first word of the marks in tokens.
const claimMark = "claim"

// newToken gives the token by which the site on a host names an account as the owner of a
// member.
func (s *Service) newToken(slug, host string, account core.Account) string {
	mark := s.keys.Load().Mark(claimMark, slug, host, account.String())
	return base64.RawURLEncoding.EncodeToString(append(account[:], mark...))
}

// readToken gives the account of a token.
func readToken(token string) (account core.Account, mark []byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenSize || strings.ContainsAny(token, "\r\n") {
		return account, nil, false
	}
	copy(account[:], b)
	return account, b[len(account):], true
}

func isToken(token string) bool {
	_, _, ok := readToken(token)
	return ok
}

// offerToken answers a request that names an account, with the token for its site to show.
func (s *Service) offerToken(c *Call, account core.Account) (a Answer, err error) {
	var m *member
	s.Ledger.View(func(v *ledger.View) { m, err = memberOf(v.State(), c.Slug, OpClaim) })
	var at siteproof.Place
	if err == nil {
		at, err = s.MemberSites.Place(m.URL)
	}
	if err != nil {
		return a, err
	}
	token := s.newToken(m.Slug, at.Host, account)
	body := append([]byte(nil), '{')
	for _, f := range [...]struct{ before, value string }{
		{`"token":`, token}, {`,"account":`, account.String()}, {`,"host":`, at.Host},
		{`,"file":{"url":`, at.URL}, {`,"content":`, token},
		{`},"dns":{"type":"TXT","name":`, at.Name}, {`,"value":`, token},
		{`},"then":`, "Show the token in the file, in a line of its own, or in the TXT record. Then send {\"token\": …} to the same address, and prove yourself with the account."},
	} {
		body = api.AppendString(append(body, f.before...), f.value)
	}
	return Answer{Status: 200, Body: append(body, '}'), Header: [][2]string{{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}}}, nil
}

// pinProof names in the opaque parameter where the site shows the token.
const pinProof = "proof"

func (o *claim) pin() map[string]string { return map[string]string{pinProof: o.proof.String()} }

func (s *Service) parseClaim(c *Call, _ *core.Rules, pinned map[string]string) (ownerRequest, error) {
	_, token, err := form.ParseClaim(c.Body, isToken)
	if err != nil {
		return nil, err
	}
	account, _, _ := readToken(token)
	o := &claim{service: s, account: account, token: token}
	if pinned == nil {
		return o, nil
	}
	for _, proof := range [...]core.Proof{core.ByFile, core.ByDNS} {
		if pinned[pinProof] == proof.String() {
			o.proof = proof
			return o, nil
		}
	}
	return nil, errPinned
}

// owner is the account that the token names.
func (o *claim) owner(*member) core.Account { return o.account }

// check refuses a token that was given for another member, for a host where the member is
// no longer, or by a key that is no longer in use.
func (o *claim) check(v *ledger.View, m *member) error {
	at, err := o.service.MemberSites.Place(m.URL)
	if err != nil {
		return err
	}
	_, o.returns = v.State().Departed(m.at)
	_, mark, _ := readToken(o.token)
	switch {
	case !o.service.keys.Load().Marked(mark, claimMark, m.Slug, at.Host, o.account.String()):
		return form.Invalid(api.InvalidRequest, "/token", "is not for this member at its present host, or too old; ask for another one")
	case o.returns:
		if err := o.service.mayReturn(v, m, o.account, true); err != nil {
			return err
		}
	default:
		if err := risk.Blocked(v, m.URL, o.account.String(), ""); err != nil {
			return err
		}
	}
	return risk.RequestsLeft(v, m.Slug, OpClaim, core.Account{}, o.service.Now())
}

func (o *claim) decide(ctx context.Context, site, client string) error {
	at, err := o.service.MemberSites.Place(site)
	if err != nil {
		return err
	}
	sight := o.service.MemberSites.Look(ctx, client, at, o.token)
	switch {
	case sight.RetryAfter > 0:
		return &Problem{Code: api.RateLimited, RetryAfter: risk.Seconds(sight.RetryAfter),
			Detail: "Too many requests go to this site right now. Send this one again later. Nothing was done."}
	case sight.Proof == 0:
		return &Problem{Code: api.TokenNotFound, Detail: "The site does not show the token (" + sight.Why + "). It is looked for anew with each request.",
			More: map[string]any{"file": at.URL, "dns": at.Name}}
	}
	o.proof = sight.Proof
	return nil
}

func (o *claim) words(slug string) string {
	return "Make " + o.account.String() + " the owner of " + slug
}

func (o *claim) waits() bool { return false }

func (o *claim) events() int {
	if o.returns {
		return 2
	}
	return 1
}

// carryOut also puts a departed member back, or an owner that is not the site's could leave
// and keep the site out of the ring.
func (o *claim) carryOut(tx *ledger.Tx, m *member) error {
	if o.returns {
		if err := (comeBack{}).carryOut(tx, m); err != nil {
			return err
		}
	}
	_, err := tx.Append(&core.Claimed{Stamp: tx.Stamp(), Member: m.Slug, Owner: o.account, Proof: o.proof}, nil)
	return err
}

func (o *claim) answer(st *core.State, m *member) []byte {
	body := api.AppendString(append([]byte(nil), `{"claimed":true,"owner":`...), o.account.String())
	return append(appendMember(body, st, m), '}')
}
