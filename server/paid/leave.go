package paid

import (
	"bytes"
	"context"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// leaving is the operation by which the owner of a member takes it out of the ring.
type leaving struct{}

// leave is one order to leave. The blocklist keeps nobody in the ring.
type leave struct{}

// read takes a body without fields, or none.
func (leaving) read(c *Call, _ *core.Rules) (deed, error) {
	if len(bytes.TrimSpace(c.Body)) == 0 {
		return leave{}, nil
	}
	var f findings
	f.object(c.Body)
	return leave{}, f.err()
}

func (p leaving) restore(c *Call, _ map[string]string) (deed, error) { return p.read(c, nil) }

func (leave) owner(m *member) core.Account                 { return m.Owner }
func (leave) check(*ledger.View, *member) error            { return nil }
func (leave) decide(context.Context, string, string) error { return nil }
func (leave) pin() map[string]string                       { return map[string]string{} }
func (leave) describe() string                             { return "Leave the ring: nothing is to be paid" }
func (leave) waits() bool                                  { return true }
func (leave) events() int                                  { return 1 }

func (leave) carryOut(tx *ledger.Tx, m *member) error {
	_, err := tx.Append(&core.Left{Stamp: tx.Stamp(), Member: m.Slug}, nil)
	return err
}

func (leave) answer(st *core.State, _ *member) []byte {
	body := append([]byte(nil), `{"left":true,"links":{"ring":`...)
	return append(api.AppendString(body, st.Rules().BaseURL+"/api/ring"), "}}"...)
}
