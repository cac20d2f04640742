package server

import (
	"errors"
	"fmt"
	"net/http"

	"webring/server/publish"
)

// SigningKeys are the verifiers of the keys that sign for edges.
type SigningKeys struct {
	Current string `json:"current"`
	Next    string `json:"next,omitempty"` // announced, and not yet alone
}

// announceKey announces the next key.
func (o *Operator) announceKey(w http.ResponseWriter, _ *http.Request) {
	current, next, err := o.SigningKeys.Announce()
	if err != nil {
		o.failed(w, "announcing a key", err)
		return
	}
	o.Log.Info("the next key that signs for edges is announced", "current", current, "next", next)
	reply(w, SigningKeys{current, next})
}

// switchKey has the announced key sign alone, at once if now=yes.
func (o *Operator) switchKey(w http.ResponseWriter, r *http.Request) {
	wait := publish.LearnTime
	if r.URL.Query().Get("now") == "yes" {
		wait = 0
	}
	current, err := o.SigningKeys.Switch(wait)
	switch {
	case errors.Is(err, publish.ErrNoNext):
		http.Error(w, "no next key is announced: run webring key next, and give edges the time to learn of it", http.StatusConflict)
		return
	case errors.Is(err, publish.ErrTooSoon):
		http.Error(w, fmt.Sprintf("the next key was announced less than %d minutes ago, and an edge that has not learned of it would follow no more: wait, or add --now when webring version --data DIR shows it at every edge", int(publish.LearnTime.Minutes())), http.StatusConflict)
		return
	case err != nil:
		o.failed(w, "changing the key", err)
		return
	}
	o.Log.Info("another key signs for edges from now on, and the one before is destroyed", "current", current)
	reply(w, SigningKeys{Current: current})
}
