package aside

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"webring/core"
	"webring/server/ledger"
)

// Lost is a member that an account has lost by a claim, as it was then. For seven days after the
// claim, and after each move to another site that follows meanwhile, the account takes it back with
// its own signature. When that is over, what the site proved is final: the days are counted from the first
// time that the site named the new owner, so an account that only paid cannot take the member from it
// again and again.
type Lost struct {
	Owner   core.Account `json:"owner"`             // that lost it
	Claimed bool         `json:"claimed,omitempty"` // a site had named Owner
	URL     string       `json:"url"`
	Report  string       `json:"report,omitempty"`
	Score   core.Score   `json:"score"`
	By      core.Account `json:"by"`              // that the site named
	At      int64        `json:"at"`              // when it did so first, in milliseconds
	Until   int64        `json:"until"`           // Owner takes it back before then
	Taken   int64        `json:"taken,omitempty"` // when it has
}

const (
	lostPrefix = "t"
	// maxLost is how many claims of a member are remembered.
	maxLost = 32
)

// LostOf gives what an earlier owner of a member may take back at an instant in milliseconds, nil if
// there is nothing. Of several owners it is the earliest.
func LostOf(v *ledger.View, slug string, at int64) (*Lost, error) {
	all, err := lostBy(v, slug)
	if i := slices.IndexFunc(all, func(l Lost) bool { return l.open(at) }); i >= 0 {
		return &all[i], err
	}
	return nil, err
}

// StaysUntil gives until when, in milliseconds, the owner of a member cannot move it to a URL, 0 if it
// can. An account that has taken a member back may only have paid, so for seven days it does not take it from a site that
// can name its owner again.
func StaysUntil(v *ledger.View, m core.Member, url string, at int64) (until int64, err error) {
	all, err := lostBy(v, m.Slug)
	for _, l := range all {
		if over := l.Taken + core.ReturnSpan; l.Taken != 0 && at < over && l.Owner == m.Owner && Elsewhere(m.URL, url) && Elsewhere(l.URL, url) {
			until = max(until, over)
		}
	}
	return until, err
}

func (l *Lost) open(at int64) bool { return l.Taken == 0 && at < l.Until }

func lostBy(v *ledger.View, slug string) (all []Lost, err error) {
	b, err := v.Value(ledger.News, lostPrefix+slug)
	if err == nil && b != nil {
		err = json.Unmarshal(b, &all)
	}
	return all, err
}

// ObserveOwners is [ledger.Config.Observe]: it remembers what claims take from owners, and forgets it
// with the member. It keeps and deletes webhooks accordingly.
func ObserveOwners(tx *ledger.Tx, e core.Event) (applied func(seq uint64) error) {
	lost := observeLost(tx, e)
	return func(seq uint64) error { return errors.Join(lost(seq), dropWebhook(tx, e)) }
}

func observeLost(tx *ledger.Tx, e core.Event) (applied func(seq uint64) error) {
	nothing := func(uint64) error { return nil }
	slug := core.MemberOf(e)
	o, known := tx.State().BySlug([]byte(slug))
	if !known {
		return nothing
	}
	m := tx.State().Member(o)
	before := Lost{Owner: m.Owner, Claimed: m.Claimed, URL: strings.Clone(m.URL), Report: strings.Clone(m.Report), Score: m.Score}
	before.Score.Provider, before.Score.Version = strings.Clone(m.Score.Provider), strings.Clone(m.Score.Version)
	var change func(all []Lost) []Lost
	switch e := e.(type) {
	case *core.Claimed:
		change = func(all []Lost) []Lost { return claimedBy(e, before, all) }
	case *core.Moved:
		change = func(all []Lost) []Lost {
			if Elsewhere(before.URL, tx.State().Member(o).URL) {
				for i := range all {
					if all[i].open(e.Stamp) {
						all[i].Until = e.Stamp + core.ReturnSpan
					}
				}
			}
			return all
		}
	case *core.Returned:
		change = func(all []Lost) []Lost {
			giveBack(e.Owner, e.Stamp, all)
			return all
		}
	case *core.Removed, *core.Left, *core.Lapsed:
		change = func([]Lost) []Lost { return nil }
	default:
		return nothing
	}
	return func(uint64) error {
		all, err := lostBy(tx.View(), slug)
		if err != nil {
			return err
		}
		had := len(all)
		if all = change(all); had == 0 && len(all) == 0 {
			return nil
		}
		for len(all) > maxLost { // what is over goes first, then the newest, so that claims do not end what the first owner can do
			i := slices.IndexFunc(all, func(l Lost) bool { return !l.open(e.When()) })
			if i < 0 {
				i = len(all) - 1
			}
			all = slices.Delete(all, i, i+1)
		}
		var row []byte
		if len(all) > 0 {
			if row, err = json.Marshal(all); err != nil {
				return err
			}
		}
		if err := tx.Put(ledger.News, lostPrefix+slug, row); !errors.Is(err, ledger.ErrTurn) {
			return err
		}
		return nil
	}
}

// claimedBy notes that a site has named an owner. before is what the one before it had.
func claimedBy(e *core.Claimed, before Lost, all []Lost) []Lost {
	back := giveBack(e.Owner, e.Stamp, all)
	// What it has lost before, its site has given back.
	all = slices.DeleteFunc(all, func(l Lost) bool { return l.Owner == e.Owner })
	if back || before.Owner == e.Owner || before.Owner == (core.Account{}) {
		return all
	}
	before.By, before.At = e.Owner, e.Stamp
	all = slices.DeleteFunc(all, func(l Lost) bool {
		again := l.Owner == before.Owner && l.By == before.By
		if again {
			before.At = l.At
		}
		return again
	})
	before.Until = before.At + core.ReturnSpan
	return append(all, before)
}

// giveBack notes that an account has taken back what it had lost, and so from all that had it since.
func giveBack(owner core.Account, at int64, all []Lost) bool {
	i := slices.IndexFunc(all, func(l Lost) bool { return l.Owner == owner && l.open(at) })
	if i < 0 {
		return false
	}
	for j := range all[i:] {
		all[i+j].Taken = at
	}
	return true
}

// Elsewhere says whether two URLs of members are not those of one site.
func Elsewhere(a, b string) bool {
	return !bytes.Equal(core.AppendKey(nil, []byte(a)), core.AppendKey(nil, []byte(b)))
}
