package paid

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"webring/server/ledger"
	"webring/server/mpp"
)

// confirmEvery is how often the payments that may still be undone are asked for,
// and lookEvery how often it is looked whether there are any.
const (
	confirmEvery = 2 * time.Second
	lookEvery    = 10 * time.Second
)

// confirmAll asks for every applied payment again until nothing can change any
// more what its network says: an effect is granted as soon as a payment is seen,
// and a network may yet drop the block in which that was.
func (s *Service) confirmAll() {
	defer s.group.Done()
	for wait, turn := confirmEvery, 0; s.sleep(wait); turn += confirmFaults {
		var some []*ledger.Reservation
		s.Ledger.View(func(v *ledger.View) { some = v.Unconfirmed() })
		if wait = confirmEvery; len(some) == 0 {
			wait = lookEvery
			continue
		}
		// Others come first in each round, or as many as a network is left alone for
		// would keep all that are younger from ever being asked for.
		first := turn % len(some)
		s.confirmEach(slices.Concat(some[first:], some[:first]))
	}
}

// Bounds on one round of confirmations: how many are asked for at a time, and
// how many must fail before a network is left alone until the next round. One
// that fails now and then must not keep the others waiting.
const (
	confirmAtOnce = 8
	confirmFaults = 16
)

// confirmEach asks for each of these payments once.
func (s *Service) confirmEach(some []*ledger.Reservation) {
	var mu sync.Mutex
	faults := map[string]int{} // by method
	spent := func(method string, err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, mpp.ErrUnavailable) {
			faults[method]++
		}
		return faults[method] >= confirmFaults
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	room := make(chan struct{}, confirmAtOnce)
	for _, r := range some {
		if s.ctx.Err() != nil {
			return
		}
		p, err := StoredPayment(r)
		if err != nil {
			s.Log.Error("applied payment cannot be read", "reservation", r.ID, "err", err)
			continue
		}
		n := s.network(p.Method)
		if n == nil || spent(p.Method, nil) {
			continue // its method may be configured again
		}
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			if err := s.confirm(n, r.ID, p); err != nil {
				spent(p.Method, err)
				s.Log.Warn("applied payment not confirmed yet", "payment", p, "err", err)
			}
		})
	}
}

// sleep waits, and says whether there is any use in going on.
func (s *Service) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
	case <-s.Ledger.Done(): // nothing can be stored any more
	}
	return false
}

// confirm asks once. A payment that vanished is sent again while it can be
// mined; one that is gone for good keeps its effect, and is the operator's to
// adjust.
func (s *Service) confirm(n *network, id string, p mpp.Payment) error {
	o, err := n.Outcome(s.ctx, p)
	switch {
	case err != nil:
		return err
	case o.State == mpp.Settled && !o.Deep:
		return nil
	case o.State == mpp.Pending:
		s.Log.Warn("an applied payment is not on its network any more", "payment", p, "detail", o.Detail)
		if s.Now().Before(p.ValidBefore) {
			_, err = n.Broadcast(s.ctx, p)
		}
		return err
	case o.State != mpp.Settled:
		s.Log.Error("an applied payment has vanished for good; record it with: webring payments adjust --void", "payment", p, "outcome", o.State.String(), "detail", o.Detail)
	}
	return s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		r, err := tx.Get(id)
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
