package paid

import (
	"cmp"
	"context"
	"errors"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
)

// leave takes a member out of the ring. The blocklist keeps no member in. Until
// [core.ReturnSpan] is over, slug, URL and money are kept for the owner, so a signature that
// was given by mistake, or to a cheat, loses no member permanently.
type leave struct{ service *Service }

// comeBack puts a departed member back.
type comeBack struct{ leave }

func (s *Service) parseLeave(c *Call, _ *core.Rules, _ map[string]string) (ownerRequest, error) {
	return leave{s}, form.ParseEmpty(c.Body)
}

func (s *Service) parseReturn(c *Call, _ *core.Rules, _ map[string]string) (ownerRequest, error) {
	return comeBack{leave{s}}, form.ParseEmpty(c.Body)
}

func (s *Service) parseVisit(c *Call, _ *core.Rules, _ map[string]string) (ownerRequest, error) {
	return visit{leave{s}}, form.ParseEmpty(c.Body)
}

func (leave) owner(m *member) core.Account                 { return m.Owner }
func (leave) decide(context.Context, string, string) error { return nil }
func (leave) pin() map[string]string                       { return map[string]string{} }
func (leave) words(slug string) string                     { return "Remove " + slug + " from the ring" }
func (leave) waits() bool                                  { return true }
func (leave) events() int                                  { return 1 }

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

func (o comeBack) check(v *ledger.View, m *member) error {
	return o.service.mayReturn(v, m, m.Owner, m.Proof == core.ByFile || m.Proof == core.ByDNS)
}

// mayReturn says why a departed member may not be put back for an account: it is too late, the
// operator keeps it out, or its category is gone and cannot be opened. proven says that the
// site names the account.
func (s *Service) mayReturn(v *ledger.View, m *member, account core.Account, proven bool) error {
	until, _ := v.State().Departed(m.at)
	if s.Now().UnixMilli() >= until {
		return &Problem{Code: api.MemberRemoved, Detail: "The owner could return until some time ago. Register the URL again, as a new member."}
	}
	if err := risk.Blocked(v, m.URL, account.String(), m.Name, m.Description, m.Category); err != nil {
		return err
	}
	// It may use the room of what was promised: it had the category.
	key := string(core.AppendKey(nil, []byte(m.URL)))
	return cmp.Or(risk.CategoryLeft(v, m.Category, true), s.limits.OpensCategory(v, m.Category, key, account, proven, true))
}

func (comeBack) words(slug string) string { return "Put " + slug + " back into the ring" }
func (comeBack) waits() bool              { return false }

func (comeBack) carryOut(tx *ledger.Tx, m *member) error {
	_, err := tx.Append(&core.Returned{Stamp: tx.Stamp(), Member: m.Slug}, nil)
	return err
}

func (comeBack) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"returned":true`), st, m), '}')
}

// endDepartures frees the URLs of members that can no longer return.
func (s *Service) endDepartures() {
	const atOnce = 1 << 16 // rows that are looked at in one view
	now := s.Now().UnixMilli()
	for from, rows := 0, 1; from < rows; from += atOnce {
		var over []string
		s.Ledger.View(func(v *ledger.View) {
			st := v.State()
			rows = st.Rows()
			for o := core.Ordinal(from); int(o) < min(rows, from+atOnce); o++ {
				if until, departed := st.Departed(o); departed && until <= now {
					over = append(over, string([]byte(st.Slug(o))))
				}
			}
		})
		for _, slug := range over {
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				at, _ := tx.State().BySlug([]byte(slug))
				if until, departed := tx.State().Departed(at); !departed || tx.Stamp() < until {
					return nil // it has returned, or was removed
				}
				_, err := tx.Append(&core.Lapsed{Stamp: tx.Stamp(), Member: slug}, nil)
				return err
			})
			if err != nil {
				if s.ctx.Err() != nil {
					return
				}
				s.Log.Warn("the URL of a member that has left is not free yet", "member", slug, "err", err)
				if errors.Is(err, ledger.ErrNotNow) {
					return
				}
			}
		}
	}
}

// visit has the site of a member visited now, instead of at its turn.
type visit struct{ leave }

func (o visit) check(v *ledger.View, m *member) error {
	return risk.RequestsLeft(v, m.Slug, OpVisit, m.Owner, o.service.Now())
}

func (visit) words(slug string) string           { return "Visit the site of " + slug + " now" }
func (visit) waits() bool                        { return false }
func (visit) events() int                        { return 0 }
func (visit) carryOut(*ledger.Tx, *member) error { return nil }
func (o visit) answer(st *core.State, m *member) []byte {
	return append(appendMember([]byte(`{"visiting":true`), st, m), '}')
}
