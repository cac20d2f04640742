package paid

import (
	"fmt"

	"webring/server/ledger"
)

// resume takes up every reservation that an earlier process left open.
func (s *Service) resume() {
	var open []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { open = v.Open() })
	for _, r := range open {
		w, err := s.reopen(r)
		if err == nil {
			err = s.claim(w)
		}
		if err != nil {
			s.Log.Error("open payment cannot be taken up; it stays reserved", "payment", r.ID, "err", err)
			continue
		}
		s.Log.Info("open payment taken up", w.log())
		s.recallFlight(w)
		go func() {
			defer s.group.Done()
			w.applied, w.err = s.drive(w, nil)
			s.finish(w)
		}()
	}
}

// reopen rebuilds the work of a stored reservation.
func (s *Service) reopen(r *ledger.Reservation) (*work, error) {
	payment, err := StoredPayment(r)
	if err != nil {
		return nil, err
	}
	w := &work{reservation: r, payment: payment, client: r.Client, began: r.Created, done: make(chan struct{})}
	if w.network = s.network(w.payment.Method); w.network == nil {
		return nil, fmt.Errorf("paid: payment method %q is not configured", w.payment.Method)
	}
	op := s.operations[r.Operation]
	if op == nil {
		return nil, fmt.Errorf("paid: no operation %q", r.Operation)
	}
	w.order, err = op.load(r.Pinned)
	return w, err
}
