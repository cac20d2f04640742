package paid

import (
	"cmp"
	"context"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/unicode/norm"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
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

func (o *change) owner(m *member) core.Account { return m.Owner }

func (o *change) check(v *ledger.View, m *member) error {
	site, name, description, category := m.URL, "", "", ""
	if o.URL != "" {
		site = o.URL
	}
	if o.Name != nil {
		name = *o.Name
	}
	if o.Description != nil {
		description = *o.Description
	}
	if o.Category != nil {
		category = *o.Category
	}
	if !o.promised && !o.alters(m) {
		return form.Invalid(api.InvalidRequest, "", "the member is like this already, and nothing would change")
	}
	if err := risk.Blocked(v, site, m.Owner.String(), name, description, category); err != nil {
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
		if err != nil {
			return err
		}
	}
	if o.Category == nil || *o.Category == m.Category {
		return nil
	}
	// The site of a move has proved nothing yet.
	proven := o.URL == "" && (m.Proof == core.ByFile || m.Proof == core.ByDNS)
	key := string(core.AppendKey(nil, []byte(m.URL)))
	return cmp.Or(risk.CategoryLeft(v, *o.Category, o.promised), o.service.limits.OpensCategory(v, *o.Category, key, m.Owner, proven, o.promised))
}

// alters says whether the change gives m another value of any field.
func (o *change) alters(m *member) bool {
	return o.URL != "" && o.URL != m.URL || o.Kind != 0 && o.Kind != m.Kind ||
		o.Name != nil && *o.Name != m.Name || o.Description != nil && *o.Description != m.Description || o.Category != nil && *o.Category != m.Category
}

// given lists the fields of the request, in their order in documents.
func (o *change) given() (names []string) {
	for _, f := range [...]struct {
		name  string
		given bool
	}{{"name", o.Name != nil}, {"url", o.URL != ""}, {"kind", o.Kind != 0}, {"category", o.Category != nil}, {"description", o.Description != nil}} {
		if f.given {
			names = append(names, f.name)
		}
	}
	return names
}

func (o *change) decide(ctx context.Context, _, client string) (err error) {
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
		o.named = o.service.accountsAt(ctx, client, o.URL)
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
	b := []byte("Change " + slug + ":")
	say := func(what, value string) { b = append(b, " "+what+" '"+value+"';"...) }
	spelled := func(s string) string { return mpp.Plain(unidecode.Unidecode(norm.NFKD.String(s)), shown) }
	if o.Name != nil {
		say("name", spelled(*o.Name))
	}
	if o.URL != "" {
		say("url", mpp.Plain(o.URL, core.MaxURL))
	}
	if o.Kind != 0 {
		say("kind", o.Kind.String())
	}
	if o.Category != nil {
		say("category", *o.Category)
	}
	if o.Description != nil {
		say("description", spelled(*o.Description))
	}
	return string(b[:len(b)-1])
}

func (o *change) waits() bool { return o.URL != "" }

// says says whether the change is more than a move.
func (o *change) says() bool {
	return o.Name != nil || o.Description != nil || o.Category != nil || o.Kind != 0
}

func (o *change) events() (n int) {
	for _, part := range [...]bool{o.URL != "", o.says()} {
		if part {
			n++
		}
	}
	return n
}

// carryOut appends a move, a change, or both. The change cannot fail after the move: check
// has said that its category can be opened.
func (o *change) carryOut(tx *ledger.Tx, m *member) error {
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
	for i, name := range o.given() {
		if i > 0 {
			body = append(body, ',')
		}
		body = api.AppendString(body, name)
	}
	return append(appendMember(append(body, ']'), st, m), '}')
}
