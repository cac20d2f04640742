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
	leave   // it takes the same body, and pins nothing
	service *Service
}

func (p visiting) read(c *Call, _ *core.Rules) (deed, error) {
	_, err := leaving{}.read(c, nil)
	return visit{service: p.Service}, err
}

func (p visiting) restore(c *Call, _ map[string]string) (deed, error) { return p.read(c, nil) }

func (o visit) check(v *ledger.View, m *member) error {
	return o.service.deedsLeft(v, m.Slug, OpVisit, m.Owner)
}

func (visit) describe() string                   { return "Visit the member: nothing is to be paid" }
func (visit) waits() bool                        { return false }
func (visit) events() int                        { return 0 }
func (visit) carryOut(*ledger.Tx, *member) error { return nil }
func (o visit) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"visiting":true`), st, m), '}')
}
