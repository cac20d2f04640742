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
	Overdue     bool      `json:"overdue,omitempty"`   // open beyond its time
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
		Overdue: r.State == ledger.Reserved && time.Now().After(r.ValidBefore.Add(overdueAfter))}
	settled := r.Outcome == mpp.Settled.String()
	if r.State == ledger.Applied && !settled {
		row.Vanished = o.Payments.Stands(p)
	}
	row.NoEffect = r.State == ledger.Failed && settled && r.Reason != paid.ReasonAdjusted && r.Reason != paid.ReasonElsewhere
	return row
}

func (o *Operator) payments(w http.ResponseWriter, r *http.Request) {
	page, err := o.Ledger.Reservations(r.URL.Query().Get("after"), rowsPerAnswer)
	if err != nil {
		o.failed(w, "listing payments", err)
		return
	}
	rows := []PaymentRow{}
	for _, x := range page {
		rows = append(rows, o.paymentRow(x))
	}
	reply(w, rows)
}

func (o *Operator) payment(w http.ResponseWriter, r *http.Request) {
	found, err := o.Payments.Find(r.PathValue("reference"))
	switch {
	case errors.Is(err, ledger.ErrNoReservation):
		http.Error(w, "no payment has this id or transaction", http.StatusNotFound)
	case err != nil:
		o.failed(w, "looking for a payment", err)
	default:
		reply(w, o.paymentRow(found))
	}
}

func (o *Operator) scan(w http.ResponseWriter, r *http.Request) {
	since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
	if err != nil {
		http.Error(w, "since must be a time", http.StatusBadRequest)
		return
	}
	s := Scan{Strays: []paid.Stray{}}
	found, err := o.Payments.Scan(r.Context(), since, r.Method == http.MethodPost)
	if s.Strays = append(s.Strays, found...); err != nil {
		s.Error = err.Error()
	}
	reply(w, s)
}

func (o *Operator) adjust(w http.ResponseWriter, r *http.Request) {
	var a paid.Adjustment
	if !readOrder(w, r, &a, &a.Reason, "{kind, transaction, member, register, reason}") {
		return
	}
	e, err := o.Payments.Adjust(r.Context(), a)
	switch {
	case errors.Is(err, paid.ErrAdjustment):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, mpp.ErrUnavailable):
		http.Error(w, "the payment network gives no final answer, and nothing is adjusted without one: "+err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		o.failed(w, "adjusting a payment", err)
	default:
		reply(w, Adjusted{Member: e.Member, Cents: e.Amount, Transaction: e.Payment.Transaction})
	}
}

func (o *Operator) failed(w http.ResponseWriter, what string, err error, about ...any) {
	o.Log.Error(what, append(about, "err", err)...)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
