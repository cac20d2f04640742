package server

import (
	"errors"
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

// switchKey has the announced key sign alone.
func (o *Operator) switchKey(w http.ResponseWriter, _ *http.Request) {
	current, err := o.SigningKeys.Switch()
	if errors.Is(err, publish.ErrNoNext) {
		http.Error(w, "no next key is announced: run webring key next, and give edges the time to learn of it", http.StatusConflict)
		return
	}
	if err != nil {
		o.failed(w, "changing the key", err)
		return
	}
	o.Log.Info("another key signs for edges from now on, and the one before is destroyed", "current", current)
	reply(w, SigningKeys{Current: current})
}
