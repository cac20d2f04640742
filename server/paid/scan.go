package paid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/mpp"
)

// Scanning for money that nobody asked for.
const (
	scanEvery = 24 * time.Hour
	// scanAfterStart keeps a scan out of the way of a start.
	scanAfterStart = time.Minute
	// scanAgain is how long a network is left alone that gave no answer.
	scanAgain = 10 * time.Minute
	// scanAge is how old money must be: an open payment may account for what is
	// younger, which is left to the next scan.
	scanAge = 10 * time.Minute
	// maxStrays bounds what one look reports. Those of the instant of the last one are
	// reported too, as the next look begins after it.
	maxStrays = 1000
)

// Stray is money that reached the recipient and that no event accounts for.
type Stray struct {
	Network  string       `json:"network"`
	Transfer mpp.Transfer `json:"transfer"`
	Missing  int64        `json:"missing_cents"` // of the transfer
}

// scanAll looks daily for strays, from where the last look ended.
func (s *Service) scanAll() {
	defer s.group.Done()
	wait, from := scanAfterStart, map[*network]time.Time{}
	for s.sleep(wait) {
		wait = scanEvery
		for _, n := range s.networks {
			var err error
			if from[n], err = s.scanOn(n, from[n]); err != nil {
				s.Log.Warn("transfers not looked through; they will be", "network", n.Network(), "err", err)
				wait = scanAgain
			}
		}
	}
}

// scanOn tells of the strays from an instant on. For the zero time it is that
// which is stored, and nothing is done if it is of the last day. How far it told
// is stored after each look, and given with an error for the next call: a fault
// has nothing told again, also when it is the storing that fails.
func (s *Service) scanOn(n *network, since time.Time) (from time.Time, err error) {
	if since.IsZero() {
		s.Ledger.View(func(v *ledger.View) { since, err = v.Scanned(n.Network()) })
		if err == nil && since.IsZero() {
			since, err = s.opened()
			since = since.Add(-scanAge) // the network's clock may be behind
		}
		if err != nil || s.Now().Sub(since) < scanEvery {
			return time.Time{}, err
		}
	}
	// Blocks know seconds only: with a part of one, what is of this second would be
	// told both now and by the next scan.
	end := s.Now().Add(-scanAge).Truncate(time.Second)
	for since.Before(end) {
		l, err := s.look(s.ctx, n, since)
		if err != nil {
			return since, err
		}
		if l.more && !l.until.After(since) {
			return since, errors.New("paid: transfers do not come oldest first")
		}
		if since = l.until; since.After(end) {
			since = end
		}
		for _, x := range l.strays {
			if x.Transfer.At.Before(since) {
				s.Log.Error("money without an event; see: webring payments scan", "network", x.Network, "reference", x.Transfer.Reference, "payer", x.Transfer.Payer, "cents", x.Missing)
			}
		}
		if err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error { return tx.SetScanned(n.Network(), since) }); err != nil {
			return since, err
		}
		if !l.more {
			break
		}
		s.Log.Warn("more money without an event than one look tells of; another one follows", "network", n.Network(), "from", since)
	}
	return time.Time{}, nil
}

// opened is when the ring was.
func (s *Service) opened() (time.Time, error) {
	first, err := s.Ledger.Records(0, 1)
	if err != nil || len(first) == 0 {
		return time.Time{}, err
	}
	e, err := core.DecodeEvent(first[0].Event)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(e.When()).UTC(), nil
}

// Scan looks for strays on every network from an instant on. A network that does
// not answer, or has more than one look tells of, is an error, and what was found
// until then is given with it. So it is when there is no network to ask.
func (s *Service) Scan(ctx context.Context, since time.Time) (all []Stray, err error) {
	if len(s.networks) == 0 {
		return nil, errors.New("no payment network is configured that could be asked")
	}
	for _, n := range s.networks {
		l, e := s.look(ctx, n, since)
		if e == nil && l.more {
			e = fmt.Errorf("%s has more: scan again when these are put right, or with --since %s", n.Network(), l.until.UTC().Format(time.RFC3339))
		}
		all, err = append(all, l.strays...), errors.Join(err, e)
	}
	return all, err
}

// look is what was found in transfers, oldest first.
type look struct {
	strays []Stray
	more   bool      // there are strays beyond maxStrays, which are not among these
	until  time.Time // all strays before this instant are among these
}

// errMore ends a search at the first stray that is not told of: there may be
// any number of them, and each costs a question.
var errMore = errors.New("paid: more strays than one look tells of")

func (s *Service) look(ctx context.Context, n *network, since time.Time) (l look, err error) {
	var newest time.Time
	l.until, err = n.Transfers(ctx, since, func(t mpp.Transfer) error {
		newest = t.At
		missing, err := s.missing(n, t)
		switch told := len(l.strays); {
		case err != nil:
			return err
		case missing <= 0:
		case told < maxStrays || t.At.Equal(l.strays[told-1].Transfer.At):
			l.strays = append(l.strays, Stray{n.Network(), t, missing})
		default:
			return errMore
		}
		return nil
	})
	if errors.Is(err, errMore) {
		l.more, l.until, err = true, newest, nil
	}
	return l, err
}

// missing is what of a transfer is neither in an event nor on its way into one.
func (s *Service) missing(n *network, t mpp.Transfer) (cents int64, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var credited int64
		credited, err = v.Credited(n.Network(), t.Reference)
		if cents = t.Cents - credited; cents <= 0 {
			return
		}
		for _, r := range v.Open() {
			if r.Payer == t.Payer && r.Cents == cents {
				cents = 0
			}
		}
	})
	return cents, err
}
