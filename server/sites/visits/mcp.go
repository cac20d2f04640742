package visits

import (
	"context"

	"webring/server/sites/fetch"
)

// initialize asks a member whether it is an MCP server. spoken says that the answer settles
// the visit; otherwise the member's page may still answer.
func (v *Visitor) initialize(ctx context.Context, m target) (s sight, spoken bool) {
	r := m.request(m.URL, fetch.AcceptMCP)
	r.MaxBody, r.Exchange = fetch.MaxMCP, fetch.Initialize
	a, err := v.cfg.Fetch.Get(ctx, r)
	s.outcome, s.why = judge(a, err)
	if err != nil || s.outcome == Gated || a.Status >= 500 {
		return s, true
	}
	if _, answered := fetch.ReadMCP(a.Body); !answered {
		return s, false
	}
	s.outcome, s.why = Answered, ""
	if session := a.Header.Get(fetch.SessionField); session != "" && a.Status/100 == 2 {
		r = m.request(m.URL, "")
		r.MaxBody, r.Exchange = 1, fetch.EndSession(session)
		_, _ = v.cfg.Fetch.Get(ctx, r)
	}
	return s, true
}
