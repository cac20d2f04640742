package paid

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// leaving is the operation by which the owner of a member takes it out of the ring, and
// returning the one by which the owner takes that back. A signature that was given by mistake,
// or to a cheat, so costs nobody a member for good: until [core.ReturnSpan] is over, slug, URL
// and money are kept for the owner.
type (
	leaving   struct{ *Service }
	returning struct{ *Service }
)

// leave is one order to leave. The blocklist keeps nobody in the ring.
type leave struct{ service *Service }

// comeBack is one order to return.
type comeBack struct{ leave }

// readNothing takes a body without fields, or none.
func readNothing(c *Call, s *Service) (leave, error) {
	if len(bytes.TrimSpace(c.Body)) == 0 {
		return leave{s}, nil
	}
	var f findings
	f.object(c.Body)
	return leave{s}, f.err()
}

func (p leaving) read(c *Call, _ *core.Rules) (deed, error) { return readNothing(c, p.Service) }

func (p leaving) restore(c *Call, _ map[string]string) (deed, error) { return p.read(c, nil) }

func (leave) owner(m *member) core.Account                 { return m.Owner }
func (leave) decide(context.Context, string, string) error { return nil }
func (leave) pin() map[string]string                       { return map[string]string{} }
func (leave) words(slug string) string                     { return "Remove " + slug + " from the ring" }
func (leave) waits() bool                                  { return true }
func (leave) events() int                                  { return 1 }

func (o leave) check(v *ledger.View, m *member) error {
	return o.service.deedsLeft(v, m.Slug, OpLeave, m.Owner)
}

func (leave) carryOut(tx *ledger.Tx, m *member) error {
	_, err := tx.Append(&core.Departed{Stamp: tx.Stamp(), Member: m.Slug}, nil)
	return err
}

func (leave) answer(st *core.State, m *member) []byte {
	body := append([]byte(nil), `{"left":true,"links":{"ring":`...)
	return append(api.AppendString(body, st.Rules().BaseURL+"/api/ring"), "}}"...)
}

func (p returning) read(c *Call, _ *core.Rules) (deed, error) {
	d, err := readNothing(c, p.Service)
	return comeBack{d}, err
}

func (p returning) restore(c *Call, _ map[string]string) (deed, error) { return p.read(c, nil) }

func (o comeBack) check(v *ledger.View, m *member) error {
	return o.service.mayReturn(v, m, m.Owner, m.Proof == core.ByFile || m.Proof == core.ByDNS)
}

// mayReturn says why a departed member may not be put back for an account: it is too late, the
// operator keeps it out, or its category is gone and cannot be opened. proven says that the
// site names the account.
func (s *Service) mayReturn(v *ledger.View, m *member, account core.Account, proven bool) error {
	until, _ := v.State().Departed(m.at)
	switch {
	case s.Now().UnixMilli() >= until:
		return &Problem{Code: api.MemberRemoved, Detail: "The time in which the owner could put this member back is over. Its URL can register again, as a new member."}
	case blockedSite(v, m.URL):
		return notAdmitted("The operator of this ring does not admit sites on this host.")
	case blockedWords(v, m.Name, m.Description, m.Category):
		return notAdmitted("The name, the description or the category holds a word that the operator of this ring does not admit.")
	case blockedPayer(v, account.String()):
		return errPayerBlocked
	}
	// It may use the room of what was promised: it had the category.
	key := string(core.AppendKey(nil, []byte(m.URL)))
	return cmp.Or(categoryLeft(v, m.Category, true), s.opensCategory(v, m.Category, key, account, proven, true))
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

// endDepartures frees the URLs of members whose owners can return no longer.
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
