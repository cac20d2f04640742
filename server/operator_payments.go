package server

import (
	"errors"
	"net/http"
	"time"

	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// PaymentRow is a payment as the operator sees it. It has neither the signed transaction
// nor the credential.
type PaymentRow struct {
	ID          string    `json:"id"`
	State       string    `json:"state"`
	Operation   string    `json:"operation"`
	Member      string    `json:"member,omitempty"`
	Cents       int64     `json:"cents"`
	Method      string    `json:"method"`
	Reference   string    `json:"reference"`
	Payer       string    `json:"payer"`
	Created     time.Time `json:"created_at"`
	ValidBefore time.Time `json:"valid_before"`
	Outcome     string    `json:"outcome,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Confirmed   bool      `json:"confirmed"`           // its network can no longer say otherwise
	Delivered   bool      `json:"delivered"`           // the payer was answered
	Event       uint64    `json:"event,omitempty"`     // number of its event
	Vanished    bool      `json:"vanished"`            // applied, not on the chain any more, and not voided
	Lapsed      bool      `json:"lapsed,omitempty"`    // open without holding anything: not mined in time, and still can be
	Overdue     bool      `json:"overdue,omitempty"`   // open beyond its time
	Diverted    bool      `json:"diverted,omitempty"`  // its money went elsewhere, and the operator has not put that right
	NoEffect    bool      `json:"no_effect,omitempty"` // settled and ended without effect, and not by the operator
}

// Scan is what was found when transfers were held against events.
type Scan struct {
	Strays []paid.Stray `json:"strays"`
	Error  string       `json:"error,omitempty"` // why not everything was looked through
}

// Adjusted is the answer to a [paid.Adjustment].
type Adjusted struct {
	Member      string `json:"member,omitempty"`
	Cents       int64  `json:"cents"`
	Transaction string `json:"transaction"`
}

// overdueAfter is how long after its validity an open payment counts as overdue.
const overdueAfter = time.Minute

func (o *Operator) paymentRow(r *ledger.Reservation) PaymentRow {
	// A record that cannot be read shows as a row without method and reference.
	p, _ := paid.StoredPayment(r)
	row := PaymentRow{ID: r.ID, State: string(r.State), Operation: r.Operation, Member: r.Member, Cents: r.Cents,
		Method: p.Method, Reference: p.Reference, Payer: r.Payer, Created: r.Created, ValidBefore: r.ValidBefore,
		Outcome: r.Outcome, Reason: r.Reason, Confirmed: r.Confirmed, Delivered: r.Delivered, Event: r.Seq,
		Lapsed:  r.State == ledger.Reserved && !r.Lapsed.IsZero(),
		Overdue: r.State == ledger.Reserved && r.Lapsed.IsZero() && time.Now().After(r.ValidBefore.Add(overdueAfter))}
	settled := r.Outcome == mpp.Settled.String()
	if r.State == ledger.Applied && !settled {
		row.Vanished = o.Payments.Stands(p)
	}
	row.Diverted = r.Outcome == mpp.Mismatched.String() && r.Reason != paid.ReasonAdjusted
	row.NoEffect = r.State == ledger.Failed && settled && r.Reason != paid.ReasonAdjusted && r.Reason != paid.ReasonElsewhere
	return row
}

func (o *Operator) payments(r *http.Request) (any, error) {
	page, err := o.Ledger.Reservations(r.URL.Query().Get("after"), rowsPerAnswer)
	rows := []PaymentRow{}
	for _, x := range page {
		rows = append(rows, o.paymentRow(x))
	}
	return rows, err
}

func (o *Operator) payment(r *http.Request) (any, error) {
	found, err := o.Payments.Find(r.PathValue("reference"))
	if errors.Is(err, ledger.ErrNoReservation) {
		return nil, refused{http.StatusNotFound, "no payment has this id or transaction"}
	}
	if err != nil {
		return nil, err
	}
	return o.paymentRow(found), nil
}

func (o *Operator) scan(r *http.Request) (any, error) {
	since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	if err != nil {
		return nil, refused{http.StatusBadRequest, "since must be a time"}
	}
	s := Scan{Strays: []paid.Stray{}}
	found, err := o.Payments.Scan(r.Context(), since, r.Method == http.MethodPost)
	if s.Strays = append(s.Strays, found...); err != nil {
		s.Error = err.Error()
	}
	return s, nil
}

func (o *Operator) adjust(r *http.Request) (any, error) {
	var a paid.Adjustment
	if err := readOrder(r, &a, &a.Reason, "{kind, transaction, member, register, reason}"); err != nil {
		return nil, err
	}
	e, err := o.Payments.Adjust(r.Context(), a)
	switch {
	case errors.Is(err, paid.ErrAdjustment):
		return nil, refused{http.StatusConflict, err.Error()}
	case errors.Is(err, mpp.ErrUnavailable):
		return nil, refused{http.StatusServiceUnavailable, "the payment network gives no final answer, and nothing is adjusted without one: " + err.Error()}
	case err != nil:
		return nil, err
	}
	return Adjusted{Member: e.Member, Cents: e.Amount, Transaction: e.Payment.Transaction}, nil
}

// NeedsAttention says whether an operator should look at the payment: it is open beyond its
// time, it was applied and has vanished, its money went elsewhere, or it settled without an
// effect.
func (r PaymentRow) NeedsAttention() bool {
	return r.Vanished || r.Overdue || r.Diverted || r.NoEffect
}

// Attention counts the payments that need attention. It reads all that there are.
func (o *Operator) Attention() (n int, err error) {
	err = o.Payments.Each(func(r *ledger.Reservation) (more bool) {
		if o.paymentRow(r).NeedsAttention() {
			n++
		}
		return true
	})
	return n, err
}
