package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
)

// Audit is the result of [Ledger.Audit].
type Audit struct {
	Events  uint64 `json:"events"`
	Root    string `json:"root"` // RFC 6962 tree hash, base64
	Members int    `json:"members"`
	// The books in cents, summed from the events.
	Paid   int64 `json:"paid_cents"`
	Voided int64 `json:"voided_cents"`
	// Payments by their state, and events that name a payment of which no
	// reservation is stored: those were made by the operator, or came back from
	// an edge.
	Open    int `json:"open"`
	Applied int `json:"applied"`
	Failed  int `json:"failed"`
	Alone   int `json:"events_alone"`
	// Findings say what does not agree, at most a hundred; there should be none.
	Findings []string `json:"findings"`
}

// maxFindings bounds what an audit reports: a ledger that is wrong in one place
// can be wrong in all.
const maxFindings = 100

// auditPage is how many rows are taken in one reading.
const auditPage = 1024

// auditor is what an audit has recomputed so far.
type auditor struct {
	Audit
	l     *Ledger
	tree  snap.Tree
	state *core.State
	// Sums that share no code with the fold.
	totals  map[string]int64 // by slug
	amounts []int64          // by event: what it gave for a payment
	covered []bool           // by event: a reservation accounts for it
}

// Audit reads all durable events and reservations again, and recomputes from
// them the tree, the state, every total and the books, while the ledger works.
// An error means that it could not; what does not agree is in the findings.
func (l *Ledger) Audit(ctx context.Context) (*Audit, error) {
	a := &auditor{l: l, totals: map[string]int64{}}
	l.View(func(v *View) { a.state = core.NewState(v.l.state.Capacity(), rand.Uint64()) })
	a.Findings = []string{}
	if err := l.store().Verify(); err != nil {
		return nil, fmt.Errorf("ledger: checking the store: %w", err)
	}
	if err := a.tables(); err != nil {
		return nil, err
	}
	if err := a.reservations(ctx); err != nil {
		return nil, err
	}
	// The ledger works while it is read: the comparison is at a moment at which the
	// reading has caught up.
	for caught := false; !caught; {
		if err := a.events(ctx); err != nil {
			return nil, err
		}
		l.View(func(v *View) {
			if caught = v.l.state.Seq() == uint64(len(a.amounts)); caught {
				a.compare(v.l.state)
			}
		})
		// Between groups, all that is in the state is durable.
		if err := l.settled(); err != nil {
			return nil, err
		}
	}
	return &a.Audit, nil
}

func (a *auditor) find(format string, args ...any) {
	if len(a.Findings) < maxFindings {
		a.Findings = append(a.Findings, fmt.Sprintf(format, args...))
	}
}

// events reads on to the last durable event.
func (a *auditor) events(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		records, err := a.l.Records(uint64(len(a.amounts)), auditPage)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			if err := a.event(r); err != nil {
				return err
			}
		}
	}
}

func (a *auditor) event(r Record) error {
	seq := uint64(len(a.amounts))
	if err := snap.Verify(r.Event, r.Texts); err != nil {
		a.find("event %d: %v", seq, err)
	}
	if err := a.state.Apply(r.Event, r.Texts); err != nil {
		return fmt.Errorf("ledger: event %d: %w", seq, err)
	}
	e, err := core.DecodeEvent(r.Event)
	if err != nil {
		return fmt.Errorf("ledger: event %d: %w", seq, err)
	}
	a.tree.Add(r.Event)
	switch e := e.(type) {
	case *core.Joined:
		a.Members++
		a.totals[e.Slug] += e.Fee + e.Bid
		a.Paid += e.Fee + e.Bid
	case *core.Bid:
		a.totals[e.Member] += e.Amount
		a.Paid += e.Amount
	case *core.Adjusted:
		switch e.Adjustment {
		case core.Credit:
			a.totals[e.Member] += e.Amount
			a.Paid += e.Amount
		case core.Unclaimed:
			a.Paid += e.Amount
		case core.Void:
			a.Voided += e.Amount
		}
	}
	p, cents := core.PaymentOf(e)
	a.amounts = append(a.amounts, cents)
	if p.Transaction == "" || cents == 0 {
		return nil
	}
	row, err := a.l.store().Get(paymentKey(p.Network, p.Transaction, seq))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if !bytes.Equal(row, numberValue(uint64(cents))) {
		a.find("event %d is not found by its transaction", seq)
	}
	if seq >= uint64(len(a.covered)) || !a.covered[seq] {
		a.Alone++
	}
	return nil
}

// tables checks the form of their rows: only the packages that write them know their meaning. A later
// version of the program may have tables that this one does not know.
func (a *auditor) tables() error {
	return a.l.store().Scan([]byte{prefixTable}, nil, func(row, value []byte) error {
		if name, key, found := bytes.Cut(row[1:], []byte{0}); !found || len(name) == 0 || len(key) > MaxTableKey || len(value) > MaxTableValue {
			a.find("a table has a row that nothing writes: %d bytes under %q", len(value), row)
		}
		return nil
	})
}

// reservations reads all of them. Those that are applied later than this are
// counted as events alone.
func (a *auditor) reservations(ctx context.Context) error {
	for after := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := a.l.Reservations(after, auditPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			switch after = r.ID; r.State {
			case Reserved:
				a.Open++
			case Failed:
				a.Failed++
			case Applied:
				a.Applied++
				if err := a.applied(r); err != nil {
					return err
				}
			}
		}
	}
}

// applied compares an applied payment with its event.
func (a *auditor) applied(r *Reservation) error {
	records, err := a.l.Records(r.Seq, 1)
	if err == nil && len(records) == 0 {
		// What the store has becomes durable with its group.
		if err = a.l.settled(); err == nil {
			records, err = a.l.Records(r.Seq, 1)
		}
	}
	if err != nil {
		return err
	}
	if len(records) == 0 {
		a.find("payment %s: there is no event %d", r.ID, r.Seq)
		return nil
	}
	e, err := core.DecodeEvent(records[0].Event)
	if err != nil {
		return err
	}
	if p, cents := core.PaymentOf(e); cents != r.Cents || p.Payer != r.Payer {
		a.find("payment %s of %d cents: event %d is about another", r.ID, r.Cents, r.Seq)
	}
	for uint64(len(a.covered)) <= r.Seq {
		a.covered = append(a.covered, false)
	}
	if a.covered[r.Seq] {
		a.find("event %d was paid for twice", r.Seq)
	}
	a.covered[r.Seq] = true
	return nil
}

// compare compares what was recomputed with the ledger's state.
func (a *auditor) compare(live *core.State) {
	a.Events = a.tree.Size()
	root := a.tree.Root()
	a.Root = tlog.Hash(root).String()
	if at, stored := a.l.Root(); at == a.Events && stored != root {
		a.find("the tree over %d events has another root than the stored one", a.Events)
	}
	if a.state.Digest() != live.Digest() {
		a.find("the state is not what the events come to")
	}
	if paid, voided := live.Books(); paid != a.Paid || voided != a.Voided {
		a.find("the books hold %d and %d cents, the events %d and %d", paid, voided, a.Paid, a.Voided)
	}
	if live.Rows() != a.Members || len(a.totals) != a.Members {
		a.find("%d members have joined, the events say %d", live.Rows(), a.Members)
	}
	for o := range core.Ordinal(live.Rows()) {
		m := live.Member(o)
		if total := m.Total(); total != a.totals[m.Slug] {
			a.find("%s has %d cents, the events say %d", m.Slug, total, a.totals[m.Slug])
		}
	}
}
