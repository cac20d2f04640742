package paid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/pay/mpp"
)

// sleep waits. It returns false when the service or the ledger has ended.
func (s *Service) sleep(d time.Duration) bool { return s.wait(d, nil) }

// wait is sleep that also ends when early delivers.
func (s *Service) wait(d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	var ended <-chan struct{}
	if s.Ledger != nil {
		ended = s.Ledger.Done() // nothing can be stored any more
	}
	select {
	case <-t.C:
		return true
	case <-early:
		return true
	case <-s.ctx.Done():
	case <-ended:
	}
	return false
}

// Scanning for money without an event.
const (
	scanEvery = 24 * time.Hour
	// scanAfterStart keeps a scan out of the way of a start.
	scanAfterStart = time.Minute
	// scanAgain is how long a network is left alone that gave no answer.
	scanAgain = 10 * time.Minute
	// scanAge is how old money must be. Younger money may be that of an open payment; the
	// next scan looks at it.
	scanAge = 10 * time.Minute
	// maxStrays bounds the strays that one look reports. All of the last one's instant
	// are reported, because the next look begins after that.
	maxStrays = 1000
	// maxLooked bounds in the same way the transfers of a daily look. Each is a question
	// to the node, and after a question that fails the look begins again.
	maxLooked = 250
)

// Stray is money that reached the recipient and that no event accounts for.
type Stray struct {
	Network  string       `json:"network"`
	Transfer mpp.Transfer `json:"transfer"`
	Missing  int64        `json:"missing_cents"` // of the transfer
}

// scanAll looks daily for strays, from where the last look ended.
func (s *Service) scanAll() {
	wait, from := scanAfterStart, map[*network]time.Time{}
	for s.sleep(wait) {
		wait = scanEvery
		for _, n := range s.networks {
			var err error
			if from[n], err = s.scanOn(n, from[n]); err != nil {
				s.noAnswer("transfers not looked through; they will be, or say from when on: webring payments scan --since INSTANT --go-on", "network", n.Network(), "err", err)
				wait = scanAgain
			}
		}
	}
}

// scanOn logs the strays from an instant on, or from the stored instant if that is later.
// With the zero time it does nothing if the stored instant is of the last day. After each
// look it stores the instant up to which it came. After an error it returns that instant
// for the next call, so that no stray is logged twice even if storing has failed.
func (s *Service) scanOn(n *network, from time.Time) (since time.Time, err error) {
	since, err = s.scanned(n)
	if err != nil || from.IsZero() && s.Now().Sub(since) < scanEvery {
		return from, err
	}
	if from.After(since) {
		since = from
	}
	end, taken := s.tellable(), map[string]bool{}
	for since.Before(end) {
		l, err := s.look(s.ctx, n, since, maxLooked, taken)
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
				s.Log.Error("money without an event; see: webring payments scan", "network", x.Network, "transaction", x.Transfer.Reference, "payer", x.Transfer.Payer, "amount_usd", form.FormatUSD(x.Missing), Audit, "money")
			}
		}
		if err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error { return tx.SetScanned(n.Network(), since) }); err != nil {
			return since, err
		}
		if !l.more {
			break
		}
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

// Scan looks for strays on every network from an instant on. It returns what it found also
// with an error: for a network that does not answer, one with more strays than a look
// reports, or if there is no network. With goOn, a daily look that cannot continue from
// its own instant continues where this scan ends.
func (s *Service) Scan(ctx context.Context, since time.Time, goOn bool) (all []Stray, err error) {
	if len(s.networks) == 0 {
		return nil, errors.New("no payment network is configured that could be asked")
	}
	for _, n := range s.networks {
		l, e := s.look(ctx, n, since, math.MaxInt, map[string]bool{})
		switch {
		case e == nil && l.more:
			e = fmt.Errorf("%s has more: scan again when these are put right, or with --since %s", n.Network(), l.until.UTC().Format(time.RFC3339))
		case e == nil && goOn:
			e = s.goOn(ctx, n, since, l.until)
		}
		all, err = append(all, l.strays...), errors.Join(err, e)
	}
	return all, err
}

// goOn moves the daily look on a network to until, unless it can continue from its own
// instant. Everything between since and until was looked through.
func (s *Service) goOn(ctx context.Context, n *network, since, until time.Time) error {
	stands, err := s.scanned(n)
	if err != nil || !stands.Before(since) {
		return err
	}
	// A node that has dropped the receipts of that time says so at the first question.
	if _, err := s.look(ctx, n, stands, 1, map[string]bool{}); err == nil {
		return nil
	}
	// Younger strays are not reported yet.
	if end := s.tellable(); end.Before(until) {
		until = end
	}
	err = s.Ledger.Do(ctx, func(tx *ledger.Tx) error { return tx.SetScanned(n.Network(), until) })
	if err == nil {
		s.Log.Warn("transfers are left out, as the operator has it", "network", n.Network(), "from", stands, "to", since)
	}
	return err
}

// scanned is the instant up to which the daily look on a network has come.
func (s *Service) scanned(n *network) (stands time.Time, err error) {
	s.Ledger.View(func(v *ledger.View) { stands, err = v.Scanned(n.Network()) })
	if err == nil && stands.IsZero() {
		stands, err = s.opened()
		stands = stands.Add(-scanAge) // the network's clock may be behind
	}
	return stands, err
}

// tellable is the instant up to which strays are reported. It is a whole second, as the
// times of blocks are; otherwise the next scan would report the strays of that second too.
func (s *Service) tellable() time.Time { return s.Now().Add(-scanAge).Truncate(time.Second) }

// look is what was found in transfers, oldest first.
type look struct {
	strays []Stray
	more   bool      // there may be strays that are not among these
	until  time.Time // all strays before this instant are among these
}

// errMore ends a search when enough strays are found or enough transfers were looked at.
var errMore = errors.New("paid: more strays than one look tells of")

// look looks at up to most transfers, and at all others of the last one's instant. taken is
// described at missing; looks that follow one another share it.
func (s *Service) look(ctx context.Context, n *network, since time.Time, most int, taken map[string]bool) (l look, err error) {
	var newest time.Time
	looked := 0
	l.until, err = n.Transfers(ctx, since, func(t mpp.Transfer) error {
		looked++
		full := looked > most && t.At.After(newest)
		if newest = t.At; full {
			return errMore
		}
		missing, err := s.missing(n, t, taken)
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
	if err == nil {
		err = s.follow(ctx, n, l.strays)
		l.strays = slices.DeleteFunc(l.strays, func(x Stray) bool { return x.Missing <= 0 })
	}
	return l, err
}

// follow takes off strays what events gave for payments that the token names in them, and whose own
// transactions brought nothing: the chain has dropped those, deeper than it was asked about, and the
// payments have settled again. The ledger then counts these events for both transactions.
func (s *Service) follow(ctx context.Context, n *network, strays []Stray) error {
	named := map[mpp.Bound]int{}
	for i, x := range strays {
		for _, b := range x.Transfer.Bound {
			named[b] = i
		}
	}
	if len(named) == 0 {
		return nil
	}
	type event struct {
		seq   uint64
		at    time.Time
		cents int64
	}
	type move struct {
		stray       int
		transaction string
	}
	moves := map[move][]event{}
	err := s.eachPayment(func(seq uint64, at time.Time, p core.Payment, cents int64) {
		if i, ok := named[mpp.Bound{Payer: p.Payer, Binding: p.Binding}]; ok && p.Network == n.Network() && !strings.EqualFold(p.Transaction, strays[i].Transfer.Reference) {
			m := move{i, p.Transaction}
			moves[m] = append(moves[m], event{seq, at, cents})
		}
	})
	if err != nil {
		return err
	}
	for m, events := range moves {
		x := &strays[m.stray]
		if gone, err := n.gone(ctx, m.transaction, events[0].at, x.Transfer.At); err != nil {
			return err
		} else if !gone {
			continue // it brought money of its own
		}
		before, err := s.credited(n, x.Transfer.Reference)
		if err != nil {
			return err
		}
		err = s.Ledger.Do(ctx, func(tx *ledger.Tx) (err error) {
			for _, e := range events {
				err = errors.Join(err, tx.MovePayment(x.Network, x.Transfer.Reference, e.seq, e.cents))
			}
			return err
		})
		if err != nil {
			return err
		}
		now, err := s.credited(n, x.Transfer.Reference)
		if err != nil {
			return err
		}
		if x.Missing -= now - before; now == before {
			continue // it was counted already, or voided
		}
		s.Log.Warn("a payment has moved to another transaction, after its own was dropped deeper than the depth", "network", x.Network, "from", m.transaction, "to", x.Transfer.Reference, Audit, "money")
	}
	return nil
}

// gone says whether the transaction of an event is no longer on its network. A node can lack a receipt of what
// is there, so gone also looks for the transaction among the transfers between the event and a later transfer.
func (n *network) gone(ctx context.Context, transaction string, then, later time.Time) (gone bool, err error) {
	if _, err := n.received(ctx, transaction, 1); !errors.Is(err, mpp.ErrNoTransfer) {
		return false, err
	}
	const apart = ChallengeLife + MaxSkew
	first, last := then, later
	if last.Before(first) {
		first, last = last, first
	}
	_, err = n.Transfers(ctx, first.Add(-apart), func(t mpp.Transfer) error {
		if here := strings.EqualFold(t.Reference, transaction); here || t.At.After(last.Add(apart)) {
			gone = !here
			return errMore
		}
		return nil
	})
	if errors.Is(err, errMore) {
		return gone, nil
	}
	return err == nil, err
}

// credited is [ledger.View.Credited] for a transaction of n.
func (s *Service) credited(n *network, transaction string) (cents int64, err error) {
	s.Ledger.View(func(v *ledger.View) { cents, err = v.Credited(n.Network(), transaction) })
	return cents, err
}

// eachPayment calls fn with every event that names a payment, in order: its number and time, the
// payment, and the cents that it gave for it.
func (s *Service) eachPayment(fn func(seq uint64, at time.Time, p core.Payment, cents int64)) error {
	for seq := uint64(0); ; {
		records, err := s.Ledger.Records(seq, findPage)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return err
			}
			if p, cents := core.PaymentOf(e); p.Transaction != "" {
				fn(seq, time.UnixMilli(e.When()), p, cents)
			}
			seq++
		}
	}
}

// missing is the part of a transfer for which there is neither an event nor an open payment
// that brought it, as its transaction or what the token names in that says: another payment of
// the same payer and sum can have been given up. Each open payment accounts for one transfer; its
// id is then in taken. If a payment turns out to have brought nothing, a scan by the operator
// finds the transfer that it accounted for.
func (s *Service) missing(n *network, t mpp.Transfer, taken map[string]bool) (cents int64, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var credited int64
		credited, err = v.Credited(n.Network(), t.Reference)
		if cents = t.Cents - credited; cents <= 0 {
			return
		}
		for _, r := range v.Open() {
			if !taken[r.ID] && cents > 0 && brought(r, t) {
				taken[r.ID] = true
				cents -= r.Cents
			}
		}
	})
	return cents, err
}

// brought says whether a payment brought a transfer, or a part of it.
func brought(r *ledger.Reservation, t mpp.Transfer) bool {
	p, err := StoredPayment(r)
	return err == nil && (p.Reference == t.Reference || slices.Contains(t.Bound, p.Bound()))
}
