package paid

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// confirmEvery is the first interval between two questions about a payment that may still
// be undone; it grows to confirmRarely as the payment ages. lookEvery is the interval
// between two looks for such payments.
const (
	confirmEvery  = 2 * time.Second
	confirmRarely = 30 * time.Second
	lookEvery     = 10 * time.Second
)

// unconfirmed is an applied payment that may still be undone.
type unconfirmed struct {
	*ledger.Reservation
	payment mpp.Payment
}

// confirmAll asks a network again for each applied payment until the answer is final: the
// effect is granted as soon as the payment is seen, and the network may yet drop the
// block.
func (s *Service) confirmAll(n *network) {
	defer s.group.Done()
	asked := map[string]time.Time{} // when, by reservation
	rest := func(u unconfirmed) time.Duration {
		now := s.Now()
		every := min(max(now.Sub(u.Created)/4, confirmEvery), confirmRarely)
		return asked[u.ID].Add(every).Sub(now)
	}
	var seen time.Time
	for more := s.sleep(confirmEvery); more; {
		some := s.unconfirmed(n)
		if len(some) == 0 {
			more = s.sleep(lookEvery)
			continue
		}
		before := asked
		asked = make(map[string]time.Time, len(some))
		for _, u := range some {
			asked[u.ID] = before[u.ID]
		}
		due := slices.DeleteFunc(slices.Clone(some), func(u unconfirmed) bool { return rest(u) > 0 })
		// The longest waiting come first: otherwise as many as confirmFaults that fail
		// each time would keep the others from being asked for.
		slices.SortStableFunc(due, func(a, b unconfirmed) int { return asked[a.ID].Compare(asked[b.ID]) })
		s.confirmEach(n, due, asked)
		pause := lookEvery
		for _, u := range some {
			pause = min(pause, max(rest(u), confirmEvery))
		}
		more = s.nextBlock(n, &seen, pause)
	}
}

// unconfirmed gives those of a network, the oldest first.
func (s *Service) unconfirmed(n *network) (some []unconfirmed) {
	var all []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { all = v.Unconfirmed() })
	for _, r := range all {
		switch p, err := StoredPayment(r); {
		case err != nil:
			s.Log.Error("applied payment cannot be read", "payment", r.ID, "err", err)
		case p.Method == n.Name(): // that of another may be configured again
			some = append(some, unconfirmed{r, p})
		}
	}
	return some
}

// Bounds on one round of confirmations: how many questions run at a time, and how many
// must fail before the network is left alone until the next round.
const (
	confirmAtOnce = 8
	confirmFaults = 16
)

// confirmEach asks a network for each of these payments once, and notes when.
func (s *Service) confirmEach(n *network, some []unconfirmed, asked map[string]time.Time) {
	var faults atomic.Int32
	var asking sync.WaitGroup
	defer asking.Wait()
	room := make(chan struct{}, confirmAtOnce)
	for _, u := range some {
		room <- struct{}{}
		if s.ctx.Err() != nil || faults.Load() >= confirmFaults {
			return
		}
		asked[u.ID] = s.Now()
		asking.Go(func() {
			defer func() { <-room }()
			err := s.confirm(n, u)
			if errors.Is(err, mpp.ErrUnavailable) {
				faults.Add(1)
			}
			if err != nil {
				s.Log.Warn("applied payment not confirmed yet", logged(u.ID, u.payment), "err", err)
			}
		})
	}
}

// sleep waits. It returns false when the service or the ledger has ended.
func (s *Service) sleep(d time.Duration) bool { return s.wait(d, nil) }

// wait is sleep that also ends when early delivers.
func (s *Service) wait(d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-early:
		return true
	case <-s.ctx.Done():
	case <-s.Ledger.Done(): // nothing can be stored any more
	}
	return false
}

// confirm asks for a payment once. One that vanished is sent again while it can be mined
// and the gas budget allows it. One that vanished permanently keeps its effect, and the
// operator is told to adjust it.
func (s *Service) confirm(n *network, u unconfirmed) error {
	p := u.payment
	o, err := n.Outcome(s.ctx, p)
	s.account(n, u.ID, u.Client, p, o)
	switch {
	case err != nil:
		return err
	case o.State == mpp.Settled && !o.Deep:
		return nil
	case o.State == mpp.Pending:
		s.Log.Warn("an applied payment is not on its network any more", logged(u.ID, p), "detail", o.Detail)
		if o.Wasted == nil && s.Now().Before(p.ValidBefore) {
			o, err = n.Broadcast(s.ctx, p, &expenses{s, n, u.ID, u.Client, &p})
			s.account(n, u.ID, u.Client, p, o)
		}
		return err
	case o.State != mpp.Settled:
		s.Log.Error("an applied payment has vanished for good; record it with: webring payments adjust --void", logged(u.ID, p), "outcome", o.State.String(), "detail", o.Detail, Audit, "money")
	}
	return s.update(s.ctx, u.ID, func(tx *ledger.Tx, r *ledger.Reservation) error {
		r.Confirmed, r.Outcome, r.Reason = true, o.State.String(), o.Detail
		if o.State == mpp.Settled && o.Reference != "" && !strings.EqualFold(o.Reference, p.Reference) {
			// Its first block was dropped, and the payment was submitted again in another
			// transaction. The event accounts for the money of that one, too.
			return tx.MovePayment(n.Network(), o.Reference, r.Seq, r.Cents)
		}
		return nil
	})
}
