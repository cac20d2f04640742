package paid

import (
	"context"
	"errors"
	"strconv"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// successHeader is the header of the answer to a request that was carried out. seq is how many
// events there were then, with its own.
func successHeader(r mpp.Receipt, st *core.State, seq uint64) [][2]string {
	return [][2]string{
		{"Content-Type", "application/json"},
		{"Cache-Control", "private"},
		{"Payment-Receipt", r.Header()},
		{"Webring-Seq", strconv.FormatUint(seq, 10)},
		{"Link", "<" + proofOf(st, seq) + `>; rel="https://c2sp.org/tlog-proof"; type="text/plain"`},
	}
}

// proofOf is the URL of the proof that the event is in the log that was the last one of seq
// events.
func proofOf(st *core.State, seq uint64) string {
	return st.Rules().BaseURL + "/log/proof/" + strconv.FormatUint(seq-1, 10)
}

// update changes a stored reservation in a turn of the writer.
func (s *Service) update(ctx context.Context, id string, change func(*ledger.Tx, *ledger.Reservation) error) error {
	return s.Ledger.Do(ctx, func(tx *ledger.Tx) error {
		r, err := tx.Get(id)
		if err == nil {
			err = change(tx, r)
		}
		if err != nil {
			return err
		}
		return tx.Update(r)
	})
}

// mayBeUnderWay says whether its payer may have sent a payment, or an earlier process whose record
// of that was lost. This process has records of what it has sent itself, and payers of x402 send
// nothing. The payment is refused and not mined yet: the refusal is only that its time has passed,
// or that the configuration has changed since its challenge.
func (w *work) mayBeUnderWay(refused *Problem) bool {
	last := w.expires
	if w.payment.Bearer {
		last = last.Add(ChallengeLife) // its payer has chosen the end, by a clock of its own
	}
	return w.refusal == refused && w.order != nil && !w.payment.ValidBefore.After(last) &&
		(refused.Code == api.PaymentExpired || refused == errConfiguration)
}

// notStored is the answer to a settled payment that could not be stored.
func (s *Service) notStored(w *work, err error) error {
	var waits *Problem
	switch {
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	case !errors.As(err, &waits) && !errors.Is(err, ledger.ErrURLPending) && !errors.Is(err, context.Canceled):
		s.Log.Error("settled payment not stored", w.log(), "err", err)
	}
	return errPending
}
