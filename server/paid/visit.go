package paid

import (
	"webring/core"
	"webring/server/ledger"
)

// visiting is the operation by which the owner of a member has its site visited now, instead
// of at its turn.
type visiting struct{ *Service }

// visit is one order to visit a member.
type visit struct {
	leave // it takes the same body, and pins nothing
}

func (p visiting) read(c *Call, _ *core.Rules) (deed, error) {
	d, err := readNothing(c, p.Service)
	return visit{d}, err
}

func (p visiting) restore(c *Call, _ map[string]string) (deed, error) { return p.read(c, nil) }

func (o visit) check(v *ledger.View, m *member) error {
	return o.service.deedsLeft(v, m.Slug, OpVisit, m.Owner)
}

func (visit) words(slug string) string           { return "Visit the site of " + slug + " now" }
func (visit) waits() bool                        { return false }
func (visit) events() int                        { return 0 }
func (visit) carryOut(*ledger.Tx, *member) error { return nil }
func (o visit) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"visiting":true`), st, m), '}')
}
