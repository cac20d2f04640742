package server

import (
	"errors"
	"net/http"
	"strings"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/paid/risk"
)

// Moderation asks for a member to be hidden or shown.
type Moderation struct {
	Code   string `json:"code"`   // a code of [core.Reasons]; "" stands for "other"
	Reason string `json:"reason"` // words; in the ledger, which is public, until the member is redacted
	By     string `json:"by"`     // the account that asks, for the log
}

// Blocking asks for an entry of the blocklist, or for the end of one.
type Blocking struct {
	Kind   ledger.BlockKind `json:"kind"`
	Text   string           `json:"text"`   // what is kept out, as the operator writes it
	Reason string           `json:"reason"` // kept with the entry; only the operator sees it
	By     string           `json:"by"`     // the account that asks
}

// hide takes a member out of the ring until it is shown.
func (o *Operator) hide(r *http.Request) (any, error) {
	return o.moderate(r, "hidden", func(slug string, why core.Why, words *core.Texts) error {
		return o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: slug, Why: why}, words)
			return err
		})
	})
}

// show puts a hidden member back.
func (o *Operator) show(r *http.Request) (any, error) {
	return o.moderate(r, "shown", func(slug string, why core.Why, words *core.Texts) error {
		return o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Shown{Stamp: tx.Stamp(), Member: slug, Why: why}, words)
			return err
		})
	})
}

func (o *Operator) moderate(r *http.Request, what string, act func(slug string, why core.Why, words *core.Texts) error) (any, error) {
	var req Moderation
	why, words, err := readWhy(r, &req, &req.Code, &req.Reason, "{code, reason, by}")
	if err != nil {
		return nil, err
	}
	slug := r.PathValue("slug")
	if err := act(slug, why, words); err != nil {
		return nil, notModerated(slug, err)
	}
	o.Log.Info("member "+what, paid.Audit, "moderation", "member", slug, "reason", why.Code.String(), "by", req.By)
	return o.member(r)
}

// readWhy is [readOrder] for what needs the code of a reason or words. It gives what the event says,
// and the words that go with it, nil for none.
func readWhy(r *http.Request, order any, code, words *string, form string) (why core.Why, texts *core.Texts, err error) {
	if err := readOrder(r, order, words, form); err != nil {
		return why, nil, err
	}
	known := true
	if why.Code = core.Otherwise; *code != "" {
		why.Code, known = core.ParseReason(*code)
	}
	switch {
	case !known:
		return why, nil, refused{http.StatusBadRequest, "the code must be one of " + strings.Join(core.Reasons(), ", ")}
	case *words != "":
		return why, &core.Texts{Words: core.Text{Value: *words}}, nil
	case why.Code == core.Otherwise:
		return why, nil, refused{http.StatusBadRequest, "a reason is required"}
	}
	return why, nil, nil
}

// notModerated says why a member was not removed, hidden or shown.
func notModerated(slug string, err error) error {
	switch {
	case errors.Is(err, core.ErrEvent), errors.Is(err, core.ErrUnknown): // the first: it is no slug
		return noMember(slug)
	case errors.Is(err, ledger.ErrBlock):
		return refused{http.StatusBadRequest, err.Error()}
	}
	for _, e := range [...]struct {
		is   error
		text string
	}{
		{core.ErrRemoved, slug + " was removed before"},
		{core.ErrHidden, slug + " is hidden already"},
		{core.ErrShown, slug + " is not hidden"},
		{core.ErrCategories, "the category of " + slug + " closed when it was hidden, and no further one can be opened"},
		{ledger.ErrBlocklistFull, blocklistFull},
	} {
		if errors.Is(err, e.is) {
			return refused{http.StatusConflict, e.text}
		}
	}
	return err
}

// blocking is the form of a [Blocking].
const blocking = "{kind, text, reason, by}"

const blocklistFull = "the blocklist is full; remove entries that are not needed any more"

func (o *Operator) blocklist(*http.Request) (any, error) {
	var all []ledger.Block
	o.Ledger.View(func(v *ledger.View) { all = v.Blocks() })
	return all, nil
}

func (o *Operator) block(r *http.Request) (any, error) {
	var req Blocking
	if err := readReasoned(r, &req, &req.Reason, blocking); err != nil {
		return nil, err
	}
	return o.changeBlocklist(r, req, "added to", func(tx *ledger.Tx, b *ledger.Block) error {
		b.Reason, b.By = req.Reason, req.By
		return tx.Block(b)
	})
}

func (o *Operator) unblock(r *http.Request) (any, error) {
	var req Blocking
	if err := readOrder(r, &req, &req.Reason, blocking); err != nil {
		return nil, err
	}
	return o.changeBlocklist(r, req, "removed from", func(tx *ledger.Tx, b *ledger.Block) error { return tx.Unblock(b.Kind, b.Value) })
}

// changeBlocklist answers with the entry in the form in which requests are compared with
// it.
func (o *Operator) changeBlocklist(r *http.Request, req Blocking, done string, change func(*ledger.Tx, *ledger.Block) error) (any, error) {
	b, err := risk.NewBlock(req.Kind, req.Text)
	if err != nil {
		return nil, refused{http.StatusBadRequest, err.Error()}
	}
	err = o.Ledger.Do(r.Context(), func(tx *ledger.Tx) error { return change(tx, &b) })
	switch {
	case errors.Is(err, ledger.ErrBlocked):
		return nil, refused{http.StatusConflict, b.Text + " is on the blocklist already"}
	case errors.Is(err, ledger.ErrBlock):
		return nil, refused{http.StatusBadRequest, err.Error()}
	case errors.Is(err, ledger.ErrNotBlocked):
		return nil, refused{http.StatusNotFound, b.Text + " is not on the blocklist"}
	case errors.Is(err, ledger.ErrBlocklistFull):
		return nil, refused{http.StatusConflict, blocklistFull}
	case err != nil:
		return nil, err
	}
	o.Log.Info("entry "+done+" the blocklist", paid.Audit, "moderation", "kind", b.Kind, "by", req.By)
	return b, nil
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
	b, err := risk.BlockOf(strings.Clone(url))
	if err != nil {
		return err
	}
	b.Reason, b.By = req.Reason, req.By
	if err := tx.Block(&b); !errors.Is(err, ledger.ErrBlocked) {
		return err
	}
	return nil
}
