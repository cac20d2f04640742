package paid

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// scanned is the instant up to which the daily look on a network has come; at first, when the ring was
// opened.
func (s *Service) scanned(n *network) (stands time.Time, err error) {
	s.Ledger.View(func(v *ledger.View) {
		if stands, err = v.Scanned(n.Network()); err != nil || !stands.IsZero() {
			return
		}
		var first core.Event
		if first, err = v.Event(0); err == nil {
			stands = time.UnixMilli(first.When()).Add(-scanAge).UTC() // the network's clock may be behind
		}
	})
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
	var some []mpp.Transfer // for which events gave too little
	var newest time.Time
	looked := 0
	l.until, err = n.Transfers(ctx, since, func(t mpp.Transfer) error {
		full := (looked >= most || len(some) >= maxStrays) && !t.At.Equal(newest)
		if newest = t.At; full {
			return errMore
		}
		looked++
		credited, err := s.credited(n, t.Reference)
		if t.Cents > credited {
			some = append(some, t)
		}
		return err
	})
	if errors.Is(err, errMore) {
		l.more, l.until, err = true, newest, nil
	}
	if err == nil {
		err = s.follow(ctx, n, some...)
	}
	for _, t := range some {
		missing, failed := s.missing(n, t, taken)
		if err = errors.Join(err, failed); missing > 0 {
			l.strays = append(l.strays, Stray{n.Network(), t, missing})
		}
	}
	return l, err
}

// follow has the events of payments count for other transactions, too, that have settled them: the chain has
// dropped their own, deeper than it was asked about. Only its network says so: a payer can put the name of a
// payment into any transfer. It is not asked about one that came when the payment could no longer be mined.
// Payments that are not confirmed are left to their watcher.
func (s *Service) follow(ctx context.Context, n *network, transfers ...mpp.Transfer) error {
	named := map[mpp.Bound]time.Time{}
	for _, t := range slices.Backward(transfers) { // the oldest counts
		for _, b := range t.Bound {
			named[b] = t.At
		}
	}
	if len(named) == 0 {
		return nil
	}
	some, err := s.rows(func(r *row) bool {
		at, is := named[r.payment.Bound()]
		return is && r.mayBeMined(at) && r.State == ledger.Applied && r.Confirmed && r.payment.Method == n.Name() && s.Stands(r.payment)
	})
	if err != nil {
		return err
	}
	for _, r := range some {
		by, _, err := s.settler(ctx, n, r)
		if err != nil {
			return err
		}
		if by == "" || r.in(by, nil) {
			continue
		}
		if err := s.Ledger.Do(ctx, func(tx *ledger.Tx) error { return tx.MovePayment(n.Network(), by, r.Seq, r.Cents) }); err != nil {
			return err
		}
		s.Log.Warn("a payment has moved to another transaction, after its own was dropped deeper than the depth", "network", n.Network(), "from", r.payment.Reference, "to", by, Audit, "money")
	}
	return nil
}

// credited is [ledger.View.Credited] for a transaction of n.
func (s *Service) credited(n *network, transaction string) (cents int64, err error) {
	s.Ledger.View(func(v *ledger.View) { cents, err = v.Credited(n.Network(), transaction) })
	return cents, err
}

// sums adds up what events gave, by network and transaction, without what was voided.
func (s *Service) sums() (map[string]map[string]int64, error) {
	sums := map[string]map[string]int64{}
	for seq := uint64(0); ; {
		records, err := s.Ledger.Records(seq, findPage)
		if err != nil || len(records) == 0 {
			for _, given := range sums {
				maps.DeleteFunc(given, func(_ string, cents int64) bool { return cents <= 0 })
			}
			return sums, err
		}
		for _, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return nil, err
			}
			if p, cents := core.PaymentOf(e); p.Transaction != "" {
				if sums[p.Network] == nil {
					sums[p.Network] = map[string]int64{}
				}
				sums[p.Network][strings.ToLower(p.Transaction)] += cents
			}
			seq++
		}
	}
}

// missing is the part of a transfer for which there is neither an event nor an open payment
// that is in it: another payment of the same payer and sum can have been given up. Each open payment
// accounts for one transfer; its id is then in taken. If a payment turns out to have brought nothing, a
// scan by the operator finds the transfer that it accounted for.
func (s *Service) missing(n *network, t mpp.Transfer, taken map[string]bool) (cents int64, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var credited int64
		credited, err = v.Credited(n.Network(), t.Reference)
		if cents = t.Cents - credited; cents <= 0 {
			return
		}
		for _, r := range v.Open() {
			at, failed := rowOf(r)
			if failed == nil && !taken[r.ID] && cents > 0 && at.in(t.Reference, t.Bound) {
				taken[r.ID] = true
				cents -= r.Cents
			}
		}
	})
	return cents, err
}
