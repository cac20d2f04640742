package paid

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/unicode/norm"

	"webring/core"
	"webring/core/api"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
	"webring/server/sites/siteproof"
)

// change changes what a member says of itself, or moves it to another URL.
type change struct {
	service *Service
	slug    string
	named   risk.NamedBy // by the site of URL, if that matters
	// promised is set once a challenge was issued for it.
	promised bool

	form.ChangeRequest
	score score.Result // of URL
}

func (s *Service) parseChange(c *Call, rules *core.Rules, pinned map[string]string) (ownerRequest, error) {
	if pinned == nil {
		r, err := form.ParseChange(c.Body, s.Sites.Canonical, s.Names.In(rules.Name))
		return &change{service: s, slug: c.Slug, ChangeRequest: r}, err
	}
	r, err := form.ParseChange(c.Body, form.Spell, nil)
	o := &change{service: s, slug: c.Slug, promised: true, ChangeRequest: r, named: risk.PinnedNames(pinned)}
	if err == nil && r.URL != "" {
		o.score, err = pinnedScore(pinned, r.URL)
	}
	return o, err
}

func (o *change) owner(m *member, _ core.Account) core.Account { return m.Owner }

func (o *change) check(v *ledger.View, m *member) error {
	given := func(text *string) string {
		if text == nil {
			return ""
		}
		return *text
	}
	alters := func(f changedField) bool { return f.value != f.now || f.name == "webhook" }
	if !o.promised && !slices.ContainsFunc(o.fields(m.Member), alters) {
		return form.Invalid(api.InvalidRequest, "", "the member is like this already, and nothing would change")
	}
	if err := risk.Blocked(v, cmp.Or(o.URL, m.URL), m.Owner.String(), given(o.Name), given(o.Description), given(o.Category)); err != nil {
		return err
	}
	if err := risk.RequestsLeft(v, m.Slug, OpChange, m.Owner, o.service.Now()); err != nil {
		return err
	}
	if o.URL != "" {
		err := o.service.urlFree(v, o.Key, &m.at)
		if o.promised { // before, decide asks the site first
			err = cmp.Or(err, o.service.limits.SharesDomain(v, o.Key, m.Owner, &m.at, o.named))
		}
		until, failed := aside.StaysUntil(v, m.Member, o.URL, o.service.Now().UnixMilli())
		if until != 0 {
			err = cmp.Or(err, error(form.Invalid(api.InvalidRequest, "/url", "leads to another site, and the member stays until "+time.UnixMilli(until).UTC().Format(time.RFC3339)+
				": this account took it back from one that its site had named, so the site can claim it again first. If the site is yours, a claim by this account ends that at once")))
		}
		if err := cmp.Or(err, failed); err != nil {
			return err
		}
	}
	if o.Category == nil || *o.Category == m.Category {
		return nil
	}
	return o.service.roomFor(v, *o.Category, m.Owner)
}

// changedField is a field of a change, with its value before.
type changedField struct{ name, value, now string }

// fields are those of the request, in their order in documents. m is the member before.
func (o *change) fields(m core.Member) (given []changedField) {
	add := func(name, now string, value *string) {
		if value != nil {
			given = append(given, changedField{name, *value, now})
		}
	}
	add("name", m.Name, o.Name)
	if o.URL != "" {
		add("url", m.URL, &o.URL)
	}
	if o.Kind != 0 {
		add("kind", m.Kind.String(), new(o.Kind.String()))
	}
	add("category", m.Category, o.Category)
	add("description", m.Description, o.Description)
	add("webhook", "", o.Webhook)
	return given
}

func (o *change) decide(ctx context.Context, client string) (err error) {
	if o.URL == "" {
		return nil
	}
	shares := func() (err error) {
		o.service.Ledger.View(func(v *ledger.View) {
			var m *member
			if m, err = memberOf(v.State(), o.slug, OpChange); err == nil {
				err = o.service.limits.SharesDomain(v, o.Key, m.Owner, &m.at, o.named)
			}
		})
		return err
	}
	if shares() != nil {
		o.named, _ = o.service.accountsAt(ctx, client, o.URL)
		if err := shares(); err != nil {
			return err
		}
	}
	o.score, err = o.service.measure(ctx, client, o.service.Scorer, o.URL)
	return err
}

func (o *change) pin() map[string]string {
	pinned := map[string]string{}
	if o.URL != "" {
		pinSite(pinned, o.URL, o.score)
		o.named.Pin(pinned)
	}
	return pinned
}

// words quote what members write, so that it cannot pass for the words around it.
func (o *change) words(slug string) string {
	const shown = 80
	words := "Change " + slug + ":"
	for _, f := range o.fields(core.Member{}) {
		switch f.name {
		case "name", "description":
			f.value = mpp.Plain(unidecode.Unidecode(norm.NFKD.String(f.value)), shown)
		case "url", "webhook":
			f.value = mpp.Plain(f.value, core.MaxURL)
		}
		words += " " + f.name + " '" + f.value + "';"
	}
	return strings.TrimSuffix(words, ";")
}

// says says whether the change is more than a move and a webhook, which no event tells.
func (o *change) says() bool {
	return o.Name != nil || o.Description != nil || o.Category != nil || o.Kind != 0
}

// carryOut appends a move, a change, or both. The change cannot fail after the move: check
// has said that its category can be opened.
func (o *change) carryOut(tx *ledger.Tx, m *member) error {
	if o.Webhook != nil { // before any event: what fails after one ends the ledger
		if err := aside.SetWebhook(tx, m.Slug, m.Owner, *o.Webhook); err != nil {
			return err
		}
	}
	if o.URL != "" {
		texts := &core.Texts{URL: core.Text{Value: o.URL}, Report: core.Text{Value: o.score.Report}}
		if _, err := tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: m.Slug, Score: eventScore(o.score)}, texts); err != nil {
			return err
		}
		o.service.limits.Moved(tx.State(), m.at, m.URL)
	}
	if !o.says() {
		return nil
	}
	event, texts := &core.Changed{Stamp: tx.Stamp(), Member: m.Slug, Kind: o.Kind}, core.Texts{}
	if o.Name != nil {
		texts.Name.Value = *o.Name
	}
	if o.Description != nil {
		texts.Description.Value, event.Cleared = *o.Description, *o.Description == ""
	}
	if o.Category != nil {
		event.Category = *o.Category
	}
	var worded *core.Texts
	if texts != (core.Texts{}) {
		worded = &texts
	}
	_, err := tx.Append(event, worded)
	return err
}

func (o *change) answer(st *core.State, m *member) []byte {
	body := append([]byte(nil), `{"changed":[`...)
	for i, f := range o.fields(core.Member{}) {
		if i > 0 {
			body = append(body, ',')
		}
		body = api.AppendString(body, f.name)
	}
	return append(appendMember(append(body, ']'), st, m), '}')
}

// leave takes a member out of the ring. The blocklist keeps no member in. Until
// [core.ReturnSpan] is over, slug, URL and money are kept for the owner, so a signature that
// was given by mistake, or to a cheat, loses no member permanently.
type leave struct{ service *Service }

// comeBack puts a departed member back. If an earlier owner can take back what a claim has taken from
// it, departed or not, comeBack gives the member back to that one, at the site where it was unless
// another member is there now.
type comeBack struct {
	leave
	to       core.Account // the earlier owner; the zero one if the member's owner returns
	left     bool         // the member had left when it was asked for
	promised bool         // a challenge was issued
	lost     *aside.Lost
	moves    bool // to the URL of lost
	plain    bool // its category cannot be opened again, so it gets the default one
}

// Names in the opaque parameter: to which earlier owner a member is given back, and whether it had left
// the ring.
const pinOwner, pinLeft = "owner", "left"

func (s *Service) parseReturn(c *Call, _ *core.Rules, pinned map[string]string) (ownerRequest, error) {
	return &comeBack{leave: leave{s}, to: core.AccountOf(pinned[pinOwner]), left: pinned[pinLeft] == "true", promised: pinned != nil}, form.ParseEmpty(c.Body)
}

func (o *comeBack) pin() map[string]string {
	if o.to == (core.Account{}) {
		return map[string]string{}
	}
	return map[string]string{pinOwner: o.to.String(), pinLeft: strconv.FormatBool(o.left)}
}

// owner lets the owner of a departed member return, too.
func (o *comeBack) owner(m *member, by core.Account) core.Account {
	if m.Removed && m.Owner.Is(by) {
		o.to = core.Account{}
	}
	if o.to != (core.Account{}) {
		return o.to
	}
	return m.Owner
}

// emptyBody is the operation of an owner's request that says nothing more.
func emptyBody(r ownerRequest) operation {
	return owned(func(c *Call, _ *core.Rules, _ map[string]string) (ownerRequest, error) {
		return r, form.ParseEmpty(c.Body)
	})
}

func (leave) owner(m *member, _ core.Account) core.Account { return m.Owner }
func (leave) decide(context.Context, string) error         { return nil }
func (leave) pin() map[string]string                       { return map[string]string{} }
func (leave) words(slug string) string                     { return "Remove " + slug + " from the ring" }

func (o leave) check(v *ledger.View, m *member) error {
	return risk.RequestsLeft(v, m.Slug, OpLeave, m.Owner, o.service.Now())
}

func (leave) carryOut(tx *ledger.Tx, m *member) error {
	_, err := tx.Append(&core.Departed{Stamp: tx.Stamp(), Member: m.Slug}, nil)
	return err
}

func (leave) answer(st *core.State, m *member) []byte {
	body := append([]byte(nil), `{"left":true,"links":{"ring":`...)
	return append(api.AppendString(body, st.Rules().BaseURL+"/api/ring"), "}}"...)
}

func (o *comeBack) check(v *ledger.View, m *member) (err error) {
	if o.lost, err = aside.LostOf(v, m.Slug, o.service.Now().UnixMilli()); err != nil {
		return err
	}
	_, departed := v.State().Departed(m.at)
	if o.lost != nil && !o.promised {
		o.to, o.left = o.lost.Owner, departed
	}
	o.plain = departed && o.service.roomFor(v, m.Category, cmp.Or(o.to, m.Owner)) != nil
	switch {
	case o.to == (core.Account{}) && departed:
		return o.service.mayReturn(v, m, m.Owner)
	case o.to == (core.Account{}) && m.Hidden:
		return errHidden
	case o.to == (core.Account{}):
		return form.Invalid(api.InvalidRequest, "", "the member is in the ring, and no earlier owner can take it back")
	case o.lost == nil || o.lost.Owner != o.to:
		return form.Invalid(api.InvalidRequest, "", "the account can no longer take this member back")
	}
	key, away := string(core.AppendKey(nil, []byte(o.lost.URL))), aside.Elsewhere(o.lost.URL, m.URL)
	o.moves = away && o.service.urlFree(v, key, &m.at) == nil
	switch {
	case departed && away && !o.moves: // it is given back where it is now
		err = o.service.mayReturn(v, m, o.to)
	case departed:
		// What the account did that had it meanwhile keeps no earlier owner out.
		err = o.service.inTime(v, m)
	}
	return cmp.Or(err, risk.Blocked(v, o.lost.URL, o.to.String(), ""), risk.RequestsLeft(v, m.Slug, OpReturn, o.to, o.service.Now()))
}

// mayReturn says why a departed member may not be put back for an account: it is too late, or the
// operator keeps it out.
func (s *Service) mayReturn(v *ledger.View, m *member, account core.Account) error {
	return cmp.Or(s.inTime(v, m), risk.Blocked(v, m.URL, account.String(), m.Name, m.Description, m.Category))
}

// inTime says that a departed member can return no longer.
func (s *Service) inTime(v *ledger.View, m *member) error {
	if until, _ := v.State().Departed(m.at); s.Now().UnixMilli() >= until {
		return &Problem{Code: api.MemberRemoved, Detail: "The owner could return until some time ago. Register the URL again, as a new member."}
	}
	return nil
}

// roomFor says why a member of an account cannot be put in a category.
func (s *Service) roomFor(v *ledger.View, category string, account core.Account) error {
	return cmp.Or(risk.CategoryLeft(v, category, false), s.limits.OpensCategory(v, category, account))
}

func (o *comeBack) words(slug string) string {
	if o.to != (core.Account{}) && !o.left {
		return "Put " + slug + " back as it was"
	}
	return "Put " + slug + " back into the ring" // its owner may sign that, too
}

func (o *comeBack) carryOut(tx *ledger.Tx, m *member) error {
	e := &core.Returned{Stamp: tx.Stamp(), Member: m.Slug, Owner: o.to, Claimed: o.to != core.Account{} && o.lost.Claimed}
	if _, err := tx.Append(e, nil); err != nil {
		return err
	}
	if o.plain {
		if _, err := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: m.Slug, Category: form.DefaultCategory}, nil); err != nil {
			return err
		}
	}
	if !o.moves {
		return nil
	}
	texts := &core.Texts{URL: core.Text{Value: o.lost.URL}, Report: core.Text{Value: o.lost.Report}}
	if _, err := tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: m.Slug, Score: o.lost.Score}, texts); err != nil {
		return err
	}
	o.service.limits.Moved(tx.State(), m.at, m.URL)
	return nil
}

func (o *comeBack) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"returned":true`), st, m), '}')
}

// visit has the site of a member visited now, instead of at its turn.
type visit struct{ leave }

func (o visit) check(v *ledger.View, m *member) error {
	return risk.RequestsLeft(v, m.Slug, OpVisit, m.Owner, o.service.Now())
}

func (visit) words(slug string) string           { return "Visit the site of " + slug + " now" }
func (visit) carryOut(*ledger.Tx, *member) error { return nil }
func (o visit) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"visiting":true`), st, m), '}')
}

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
	// time, for a client. known is false if the site was asked too often.
	Accounts(ctx context.Context, client, url string) (all []core.Account, known bool)
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
	site    string     // the URL of the member
	proof   core.Proof // where the site shows the token
	returns bool       // the member has departed, and is back with it
	plain   bool       // as in [comeBack]
}

// claimMark is the first word of the marks in tokens.
const claimMark = "claim"

// newToken gives the token by which the site on a host names an account as the owner of a
// member.
func (s *Service) newToken(slug, host string, account core.Account) string {
	mark := s.keys.Load().Mark(claimMark, slug, host, account.String())
	return base64.RawURLEncoding.EncodeToString(append(account[:], mark...))
}

func isToken(token string) bool {
	_, _, ok := siteproof.ReadToken(token)
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
	account, _, _ := siteproof.ReadToken(token)
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
func (o *claim) owner(*member, core.Account) core.Account { return o.account }

// check refuses a token that was given for another member, for a host where the member is
// no longer, or by a key that is no longer in use.
func (o *claim) check(v *ledger.View, m *member) error {
	at, err := o.service.MemberSites.Place(m.URL)
	if err != nil {
		return err
	}
	o.site = m.URL
	_, o.returns = v.State().Departed(m.at)
	o.plain = o.returns && o.service.roomFor(v, m.Category, o.account) != nil
	_, mark, _ := siteproof.ReadToken(o.token)
	switch {
	case !o.service.keys.Load().Marked(mark, claimMark, m.Slug, at.Host, o.account.String()):
		return form.Invalid(api.InvalidRequest, "/token", "is not for this member at its present host, or too old; ask for another one")
	case o.returns:
		if err := o.service.mayReturn(v, m, o.account); err != nil {
			return err
		}
	default:
		if err := risk.Blocked(v, m.URL, o.account.String(), ""); err != nil {
			return err
		}
	}
	return risk.RequestsLeft(v, m.Slug, OpClaim, core.Account{}, o.service.Now())
}

func (o *claim) decide(ctx context.Context, client string) error {
	at, err := o.service.MemberSites.Place(o.site)
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

// carryOut also puts a departed member back, or an owner that is not the site's could leave
// and keep the site out of the ring.
func (o *claim) carryOut(tx *ledger.Tx, m *member) error {
	if o.returns {
		if err := (&comeBack{plain: o.plain}).carryOut(tx, m); err != nil {
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
