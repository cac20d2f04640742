package server

import (
	"errors"
	"net/http"
	"time"

	"webring/server/ledger"
	"webring/server/paid"
)

// Clock says how the clock of a ring was set back.
type Clock struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// setClockBack sets the clock of the ring back to the present, after one that was ahead has
// stamped events or signed checkpoints.
func (o *Operator) setClockBack(w http.ResponseWriter, r *http.Request) {
	var req Moderation
	if !readOrder(w, r, &req, &req.Reason, "{reason, by}") {
		return
	}
	var done Clock
	errRight := errors.New("nothing is to be set back: neither the last event nor the last signature is later than this machine's clock")
	err := o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
		done = Clock{From: time.UnixMilli(tx.State().LastStamp()).UTC()}
		if signed := o.SignedUntil().UTC(); signed.After(done.From) {
			done.From = signed
		}
		if done.To = tx.Now().UTC(); done.From.Sub(done.To) <= ledger.MaxSkew {
			return errRight
		}
		_, err := tx.SetBack(req.Reason)
		return err
	})
	switch {
	case errors.Is(err, errRight), errors.Is(err, ledger.ErrNotNow):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		o.failed(w, "setting the clock back", err)
	default:
		o.Log.Info("the clock of the ring was set back", paid.Audit, "clock", "from", done.From, "to", done.To, "by", req.By)
		reply(w, done)
	}
}
