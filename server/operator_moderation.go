package server

import (
	"errors"
	"net/http"
	"strings"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid"
)

// Moderation asks for a member to be hidden or shown.
type Moderation struct {
	Reason string `json:"reason"` // stands in the ledger, which is public
	By     string `json:"by"`     // who asks, for the log
}

// Blocking asks for an entry of the blocklist, or for the end of one.
type Blocking struct {
	Kind   ledger.BlockKind `json:"kind"`
	Text   string           `json:"text"`   // what is kept out, as the operator writes it
	Reason string           `json:"reason"` // kept with the entry; nobody but the operator sees it
	By     string           `json:"by"`     // who asks
}

// hide takes a member out of the ring until it is shown, and waits for open payments as
// remove does.
func (o *Operator) hide(w http.ResponseWriter, r *http.Request) {
	o.moderate(w, r, "hidden", func(slug string, req Moderation) error {
		return o.whenFree(r.Context(), slug, func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: slug, Reason: req.Reason}, nil)
			return err
		})
	})
}

// show puts a hidden member back.
func (o *Operator) show(w http.ResponseWriter, r *http.Request) {
	o.moderate(w, r, "shown", func(slug string, req Moderation) error {
		return o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Shown{Stamp: tx.Stamp(), Member: slug, Reason: req.Reason}, nil)
			return err
		})
	})
}

func (o *Operator) moderate(w http.ResponseWriter, r *http.Request, what string, act func(slug string, req Moderation) error) {
	var req Moderation
	if !readReasoned(w, r, &req, &req.Reason, "{reason, by}") {
		return
	}
	slug := r.PathValue("slug")
	if err := act(slug, req); err != nil {
		o.notModerated(w, slug, err)
		return
	}
	o.Log.Info("member "+what, paid.Audit, "moderation", "member", slug, "by", req.By)
	o.member(w, r)
}

// notModerated says why a member was not removed, hidden or shown.
func (o *Operator) notModerated(w http.ResponseWriter, slug string, err error) {
	switch {
	case errors.Is(err, core.ErrEvent), errors.Is(err, core.ErrUnknown): // the first: it is no slug
		http.Error(w, "no member has the slug "+slug, http.StatusNotFound)
	case errors.Is(err, core.ErrRemoved):
		http.Error(w, slug+" was removed before", http.StatusConflict)
	case errors.Is(err, core.ErrHidden):
		http.Error(w, slug+" is hidden already", http.StatusConflict)
	case errors.Is(err, core.ErrShown):
		http.Error(w, slug+" is not hidden", http.StatusConflict)
	case errors.Is(err, core.ErrCategories):
		http.Error(w, "the category of "+slug+" closed when it was hidden, and no further one can be opened", http.StatusConflict)
	case errors.Is(err, ledger.ErrOpenReservation):
		http.Error(w, "a payment for "+slug+" is still being settled; try again later", http.StatusConflict)
	case errors.Is(err, ledger.ErrBlocklistFull):
		http.Error(w, blocklistFull, http.StatusConflict)
	case errors.Is(err, ledger.ErrBlock):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		o.failed(w, "moderating a member", err, "member", slug)
	}
}

// blocking is the form of a [Blocking].
const blocking = "{kind, text, reason, by}"

const blocklistFull = "the blocklist is full; remove entries that are not needed any more"

func (o *Operator) blocklist(w http.ResponseWriter, _ *http.Request) {
	var all []ledger.Block
	o.Ledger.View(func(v *ledger.View) { all = v.Blocks() })
	reply(w, all)
}

func (o *Operator) block(w http.ResponseWriter, r *http.Request) {
	var req Blocking
	if !readReasoned(w, r, &req, &req.Reason, blocking) {
		return
	}
	o.changeBlocklist(w, r, req, "added to", func(tx *ledger.Tx, b *ledger.Block) error {
		b.Reason, b.By = req.Reason, req.By
		return tx.Block(b)
	})
}

func (o *Operator) unblock(w http.ResponseWriter, r *http.Request) {
	var req Blocking
	if !readOrder(w, r, &req, &req.Reason, blocking) {
		return
	}
	o.changeBlocklist(w, r, req, "removed from", func(tx *ledger.Tx, b *ledger.Block) error { return tx.Unblock(b.Kind, b.Value) })
}

// changeBlocklist answers with the entry in the form in which requests are compared with
// it.
func (o *Operator) changeBlocklist(w http.ResponseWriter, r *http.Request, req Blocking, done string, change func(*ledger.Tx, *ledger.Block) error) {
	b, err := paid.NewBlock(req.Kind, req.Text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	err = o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error { return change(tx, &b) })
	switch {
	case errors.Is(err, ledger.ErrBlocked):
		http.Error(w, b.Text+" is on the blocklist already", http.StatusConflict)
	case errors.Is(err, ledger.ErrBlock):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, ledger.ErrNotBlocked):
		http.Error(w, b.Text+" is not on the blocklist", http.StatusNotFound)
	case errors.Is(err, ledger.ErrBlocklistFull):
		http.Error(w, blocklistFull, http.StatusConflict)
	case err != nil:
		o.failed(w, "changing the blocklist", err)
	default:
		o.Log.Info("entry "+done+" the blocklist", paid.Audit, "moderation", "kind", b.Kind, "by", req.By)
		reply(w, b)
	}
}

// keepOut puts the host of a member on the blocklist, where it may be already.
func keepOut(tx *ledger.Tx, slug string, req Removal) error {
	at, ok := tx.State().BySlug([]byte(slug))
	if !ok {
		return core.ErrUnknown
	}
	url := tx.State().Member(at).URL
	if url == "" {
		return nil // it was redacted, as the state will say
	}
	b, err := paid.BlockOf(strings.Clone(url))
	if err != nil {
		return err
	}
	b.Reason, b.By = req.Reason, req.By
	if err := tx.Block(&b); !errors.Is(err, ledger.ErrBlocked) {
		return err
	}
	return nil
}
