package paid

import (
	"cmp"
	"context"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/unicode/norm"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
)

// changing is the operation by which the owner of a member changes what the member says of
// itself, or moves it to another URL.
type changing struct{ *Service }

// ChangeRequest is a valid request to change a member. A nil field stays as it is.
type ChangeRequest struct {
	Name, Description, Category *string
	Kind                        core.Kind // 0: it stays
	URL, Key                    string    // canonical, and its identity key; "" if it stays
}

// change is one order to change a member.
type change struct {
	service *Service
	slug    string
	named   namedBy // by the site of URL, if that matters
	// promised is set once a challenge was issued for it.
	promised bool

	ChangeRequest
	score score.Result // of URL
}

// ParseChange reads the body of a change in the way of [ParseRegister]. An empty
// description removes the one that there is.
func ParseChange(body []byte, canonical func(raw string) (url, key string, err error), named func(field, text string) error) (ChangeRequest, error) {
	var f findings
	fields := f.object(body, "name", "url", "kind", "category", "description")
	if fields == nil {
		return ChangeRequest{}, f.err()
	}
	var r ChangeRequest
	if s, ok := f.optional(fields, "name"); ok {
		s = f.name(s, named)
		r.Name = &s
	}
	if s, ok := f.optional(fields, "url"); ok {
		r.URL, r.Key = f.site(s, canonical)
	}
	if s, ok := f.optional(fields, "kind"); ok {
		r.Kind = f.kind(s)
	}
	if s, ok := f.optional(fields, "category"); ok {
		s = f.category(s, named)
		r.Category = &s
	}
	if s, ok := f.optional(fields, "description"); ok {
		s, _ = f.text("/description", s, 0, core.MaxDescription)
		r.Description = &s
	}
	if err := f.err(); err != nil {
		return ChangeRequest{}, err
	}
	if r == (ChangeRequest{}) {
		return r, invalidRequest("the body changes nothing; give at least one of name, description, category, kind and url")
	}
	return r, nil
}

func (p changing) read(c *Call, rules *core.Rules) (deed, error) {
	named := func(field, text string) error { return p.Names.checkField(field, text, rules.Name) }
	r, err := ParseChange(c.Body, p.Sites.Canonical, named)
	if err != nil {
		return nil, err
	}
	return &change{service: p.Service, slug: c.Slug, ChangeRequest: r}, nil
}

func (p changing) restore(c *Call, pinned map[string]string) (deed, error) {
	// The policies for sites and names were applied before the challenge.
	r, err := ParseChange(c.Body, spell, nil)
	if err != nil {
		return nil, err
	}
	o := &change{service: p.Service, slug: c.Slug, promised: true, ChangeRequest: r, named: pinnedNames(pinned)}
	if r.URL != "" {
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
	switch {
	case !o.promised && !o.alters(m):
		return invalidRequest("the member is like this already, and nothing would change")
	case blockedSite(v, site):
		return notAdmitted("The operator of this ring does not admit sites on this host.")
	case blockedWords(v, name, description, category):
		return notAdmitted("The name, the description or the category holds a word that the operator of this ring does not admit.")
	case blockedPayer(v, m.Owner.String()):
		return errPayerBlocked
	}
	if err := o.service.deedsLeft(v, m.Slug, OpChange, m.Owner); err != nil {
		return err
	}
	if o.URL != "" {
		err := o.service.urlFree(v, o.Key, &m.at)
		if o.promised { // before, decide asks the site first
			err = cmp.Or(err, o.service.sharesDomain(v, o.Key, m.Owner, &m.at, o.named))
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
	return cmp.Or(categoryLeft(v, *o.Category, o.promised), o.service.opensCategory(v, *o.Category, key, m.Owner, proven, o.promised))
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
				err = o.service.sharesDomain(v, o.Key, m.Owner, &m.at, o.named)
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
		o.named.pin(pinned)
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
		o.service.domains.move(tx.State(), m.at, m.URL)
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
