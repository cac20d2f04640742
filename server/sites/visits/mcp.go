package visits

import (
	"context"

	"webring/server/sites/mcpask"
)

// initialize asks a member whether it is an MCP server. spoken says that the answer settles
// the visit; otherwise the member's page may still answer.
func (v *Visitor) initialize(ctx context.Context, m target) (s sight, spoken bool) {
	r := m.request(m.URL, mcpask.Accept)
	r.MaxBody, r.Exchange = mcpask.MaxAnswer, mcpask.Initialize
	a, err := v.cfg.Fetch.Get(ctx, r)
	s.outcome, s.why = judge(a, err)
	if err != nil || s.outcome == Gated || a.Status >= 500 {
		return s, true
	}
	if _, answered := mcpask.Read(a.Body); !answered {
		return s, false
	}
	s.outcome, s.why = Answered, ""
	if session := a.Header.Get(mcpask.SessionField); session != "" && a.Status/100 == 2 {
		r = m.request(m.URL, "")
		r.MaxBody, r.Exchange = 1, mcpask.End(session)
		_, _ = v.cfg.Fetch.Get(ctx, r)
	}
	return s, true
}
