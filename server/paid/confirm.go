package paid

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"webring/server/ledger"
	"webring/server/mpp"
)

// confirmEvery is how often a payment that may still be undone is asked for at first;
// as it ages, that becomes as rare as confirmRarely. lookEvery is how often it is
// looked whether there are any.
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

// confirmAll asks for every applied payment of a network again until nothing can
// change any more what that says: an effect is granted as soon as a payment is seen,
// and a network may yet drop the block in which that was.
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
		// Those that have waited longest come first, or as many as a network is left
		// alone for would keep all others from ever being asked for.
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
			s.Log.Error("applied payment cannot be read", "reservation", r.ID, "err", err)
		case p.Method == n.Name(): // that of another may be configured again
			some = append(some, unconfirmed{r, p})
		}
	}
	return some
}

// Bounds on one round of confirmations: how many are asked for at a time, and
// how many must fail before a network is left alone until the next round. One
// that fails now and then must not keep the others waiting.
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
				s.Log.Warn("applied payment not confirmed yet", "payment", u.payment, "err", err)
			}
		})
	}
}

// sleep waits, and says whether there is any use in going on.
func (s *Service) sleep(d time.Duration) bool { return s.wait(d, nil) }

// wait is sleep that ends early when something comes.
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

// confirm asks once. A payment that vanished is sent again while it can be
// mined, unless that would cost more gas than may be wasted on it; one that is gone for
// good keeps its effect, and is the operator's to adjust.
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
		s.Log.Warn("an applied payment is not on its network any more", "payment", p, "detail", o.Detail)
		if o.Wasted == nil && s.Now().Before(p.ValidBefore) {
			o, err = n.Broadcast(s.ctx, p, &expenses{s, n, u.ID, u.Client, &p})
			s.account(n, u.ID, u.Client, p, o)
		}
		return err
	case o.State != mpp.Settled:
		s.Log.Error("an applied payment has vanished for good; record it with: webring payments adjust --void", "payment", p, "outcome", o.State.String(), "detail", o.Detail)
	}
	return s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		r, err := tx.Get(u.ID)
		if err != nil {
			return err
		}
		if o.State == mpp.Settled && o.Reference != "" && !strings.EqualFold(o.Reference, p.Reference) {
			// The block of before was dropped, and somebody submitted it anew. Its
			// event speaks of this money, too: nobody is to be credited with it again.
			if err := tx.MovePayment(n.Network(), o.Reference, r.Seq, r.Cents); err != nil {
				return err
			}
		}
		r.Confirmed, r.Outcome, r.Reason = true, o.State.String(), o.Detail
		return tx.Update(r)
	})
}
