package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/publish"
)

// Verified is the result of a verification.
type Verified struct {
	ledger.Audit
	Chain *paid.ChainAudit `json:"chain,omitempty"` // on request
}

// sendBackup streams a backup of a ledger and of the files that are kept with it. If the
// stream breaks it lacks its end, so the reader knows.
func sendBackup(w http.ResponseWriter, books backup.Rows, files map[string]string, log *slog.Logger) {
	var keys []backup.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			log.Error("reading a key for a backup", "err", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		keys = append(keys, backup.File{Name: name, Data: data})
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := backup.Write(w, books, keys); err != nil {
		log.Error("backup not finished", "err", err)
		panic(http.ErrAbortHandler)
	}
	// The client says whether it has stored the file.
	log.Info("backup handed out")
}

func (o *Operator) verify(r *http.Request) (any, error) {
	a, err := o.Ledger.Audit(r.Context())
	if err != nil {
		return nil, err
	}
	v := Verified{Audit: *a}
	if r.URL.Query().Has("chain") {
		c, err := o.Payments.VerifyChain(r.Context())
		if err != nil {
			return nil, err
		}
		v.Chain = &c
	}
	return v, nil
}

// Clock says how the clock of a ring was set back.
type Clock struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// setClockBack sets the clock of the ring back to the present, after one that was ahead has
// stamped events or signed checkpoints.
func (o *Operator) setClockBack(r *http.Request) (any, error) {
	var req Moderation
	if err := readOrder(r, &req, &req.Reason, "{reason, by}"); err != nil {
		return nil, err
	}
	var done Clock
	err := o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
		done = Clock{From: time.UnixMilli(tx.State().LastStamp()).UTC()}
		if signed := o.Publisher.SignedUntil().UTC(); signed.After(done.From) {
			done.From = signed
		}
		if done.To = tx.Now().UTC(); done.From.Sub(done.To) <= ledger.MaxSkew {
			return refused{http.StatusConflict, "nothing is to be set back: neither the last event nor the last signature is later than this machine's clock"}
		}
		_, err := tx.SetBack(req.Reason)
		return err
	})
	if errors.Is(err, ledger.ErrNotNow) {
		return nil, refused{http.StatusConflict, err.Error()}
	}
	if err != nil {
		return nil, err
	}
	o.Log.Info("the clock of the ring was set back", paid.Audit, "clock", "from", done.From, "to", done.To, "by", req.By)
	return done, nil
}

// SigningKeys are the verifiers of the keys that sign for edges.
type SigningKeys struct {
	Current string `json:"current"`
	Next    string `json:"next,omitempty"` // announced, and not yet alone
}

// announceKey announces the next key.
func (o *Operator) announceKey(*http.Request) (any, error) {
	current, next, err := o.Publisher.Announce()
	if err != nil {
		return nil, err
	}
	o.Log.Info("the next key that signs for edges is announced", "current", current, "next", next)
	return SigningKeys{current, next}, nil
}

// switchKey has the announced key sign alone, at once if now=yes.
func (o *Operator) switchKey(r *http.Request) (any, error) {
	wait := publish.LearnTime
	if r.URL.Query().Get("now") == "yes" {
		wait = 0
	}
	current, err := o.Publisher.SwitchKey(wait)
	switch {
	case errors.Is(err, publish.ErrNoNext):
		return nil, refused{http.StatusConflict, "no next key is announced: run webring key next, and give edges the time to learn of it"}
	case errors.Is(err, publish.ErrTooSoon):
		return nil, refused{http.StatusConflict, fmt.Sprintf("the next key was announced less than %d minutes ago, and an edge that has not learned of it would follow no more: wait, or add --now when webring version --data DIR shows it at every edge", int(publish.LearnTime.Minutes()))}
	case err != nil:
		return nil, err
	}
	o.Log.Info("another key signs for edges from now on, and the one before is destroyed", "current", current)
	return SigningKeys{Current: current}, nil
}
