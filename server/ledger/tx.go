package ledger

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
)

// Tx is the turn of one function in the writer. It is valid until that
// function returns, and for its goroutine only.
type Tx struct {
	l       *Ledger
	stamp   int64
	refused error // why nothing may be written, for the whole turn
	rows    Batch
	records []Record
	undos   []func()
	// Rows of tables that the turn has changed, and their bytes.
	tableRows, tableBytes int
}

// begin gives a turn at the present instant. The caller holds mu.
func (l *Ledger) begin() *Tx {
	tx := &Tx{l: l, stamp: l.tick(), rows: Batch{}}
	if tx.refused = l.checkRoom(); tx.refused == nil {
		tx.refused = l.cfg.Clock.Check(l.state.LastStamp())
	}
	return tx
}

func (l *Ledger) checkRoom() error {
	if l.cfg.Room == nil {
		return nil
	}
	if err := l.cfg.Room(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return nil
}

// tick moves the state to the present instant, and gives that in milliseconds. The caller holds mu.
func (l *Ledger) tick() (stamp int64) {
	stamp = min(max(l.cfg.Now().UnixMilli(), l.state.LastStamp()), core.MaxStamp)
	// A clock that was far ahead and no longer is must not keep standings in the future. Small steps
	// back are waited out.
	const tolerated = 5
	if second := stamp / 1000; second+tolerated < l.state.Clock() {
		l.state.Rewind(second)
	} else {
		l.state.Advance(second)
	}
	return stamp
}

// Stamp is the stamp for the events of this turn, in milliseconds: now, but
// never before the last event.
func (tx *Tx) Stamp() int64 { return tx.stamp }

// Now is the instant of this turn by the clock, which can be before the last event.
func (tx *Tx) Now() time.Time { return tx.l.cfg.Now() }

// State is the state with every event so far, at the instant of this turn.
// The function must not change it, but for [core.State.Expect], and must not retain it.
func (tx *Tx) State() *core.State { return tx.l.state }

// View reads everything with the work of this turn, for checks that also run outside of
// turns. It is valid as long as the turn.
func (tx *Tx) View() *View { return &View{tx.l.memory, tx.get, tx.rows} }

// Append adds an event and gives its number, counted from 0. For a
// registration, a change or a move, and for the words of a reason, t holds the words to which the
// event commits; their salts are drawn here, and the commitments written into the event. An event
// without words has a nil t.
//
// Afterwards [Tx.State] has the event, with ranks, and the function must not fail. If
// Append itself fails, it has done nothing: the event is beyond a limit or does not apply
// ([core.State.Apply]), it moves a member to a URL that is being paid for ([ErrURLPending]),
// or nothing can be written ([ErrNotNow]).
//
// A removal with redaction deletes the texts of all events of the member, and whatever may hold
// them in the reservations for the member. Those that are open keep what their effect needs.
func (tx *Tx) Append(e core.Event, t *core.Texts) (seq uint64, err error) {
	var texts []byte
	if !takes(e, t) {
		return 0, fmt.Errorf("%w: registrations, moves, changes of words and words of a reason have texts, other events have none", core.ErrTexts)
	} else if t != nil {
		if err := tx.seal(e, t); err != nil {
			return 0, err
		}
		texts = core.AppendTexts(nil, t)
	}
	event, err := core.AppendEvent(nil, e)
	if err != nil {
		return 0, err
	}
	if _, moves := e.(*core.Moved); moves && tx.l.index.urls[string(core.AppendKey(nil, []byte(t.URL.Value)))] != nil {
		return 0, ErrURLPending
	}
	return tx.add(e, event, texts)
}

// takes says whether an event that is yet to be sealed goes with texts, or with none.
func takes(e core.Event, t *core.Texts) bool {
	switch e.(type) {
	case *core.Joined, *core.Moved:
		return t != nil
	case *core.Changed:
		return t == nil || t.Name.Value != "" || t.Description.Value != ""
	case *core.Removed, *core.Hidden, *core.Shown:
		return t == nil || t.Words.Value != ""
	}
	return t == nil
}

// SetBack adds the event that sets the clock of the ring back to the present, after a clock that
// was ahead. It fails with [ErrClock] if the present is not believed either, and with
// [ErrNoRoom]. Stamp is the present from then on.
func (tx *Tx) SetBack(reason string) (seq uint64, err error) {
	now := tx.Now()
	if tx.refused = tx.l.cfg.Clock.Check(0); tx.refused == nil {
		tx.refused = tx.l.checkRoom()
	}
	tx.stamp = now.UnixMilli()
	event, err := core.AppendEvent(nil, &core.SetBack{Stamp: tx.stamp, Reason: reason})
	if err != nil {
		return 0, err
	}
	e, err := core.DecodeEvent(event)
	if err != nil {
		return 0, err
	}
	if seq, err = tx.add(e, event, nil); err == nil {
		tx.l.cfg.Clock.Kept(now)
	}
	return seq, err
}

// Adopt adds an event that this ledger has signed and lost: its encoding and that of its
// texts come from an edge. It fails as [Tx.Append] does, but not for a URL that is being paid for:
// the event may be for that payment, which finds it by [View.Restored] once it has settled.
func (tx *Tx) Adopt(r Record) error {
	if err := snap.Verify(r.Event, r.Texts); err != nil {
		return err
	}
	e, err := core.DecodeEvent(r.Event)
	if err != nil {
		return err
	}
	seq, err := tx.add(e, r.Event, r.Texts)
	if err != nil {
		return err
	}
	if _, adjusted := e.(*core.Adjusted); adjusted {
		return nil // an adjustment is no payment's own event
	}
	if p, _ := core.PaymentOf(e); p.Binding != "" {
		tx.rows[string(restoredKey(p, seq))] = []byte{}
	}
	return nil
}

// Claim notes that an event that [View.Restored] gave has its reservation.
func (tx *Tx) Claim(p core.Payment, seq uint64) { tx.rows[string(restoredKey(p, seq))] = nil }

// add adds an event with its rows.
func (tx *Tx) add(e core.Event, event, texts []byte) (seq uint64, err error) {
	// Whatever may fail comes before the state changes.
	if tx.refused != nil {
		return 0, tx.refused
	}
	seq = tx.l.state.Seq()
	rows := Batch{string(eventKey(seq, rowEvent)): event}
	var redacted []*Reservation
	if err := tx.addHashes(rows, seq, event); err != nil {
		return 0, err
	}
	if p, cents := core.PaymentOf(e); p.Transaction != "" && cents != 0 {
		rows[string(paymentKey(p.Network, p.Transaction, seq))] = numberValue(uint64(cents))
		if p.Payer != "" && cents > 0 {
			rows[string(payerKey(p.Payer))] = []byte{}
		}
	}
	if len(texts) > 0 {
		rows[string(eventKey(seq, rowTexts))] = texts
	}
	switch e := e.(type) {
	case *core.Joined:
		rows[string(rowKey(prefixJoin, e.Slug))] = numberKey(prefixEvent, seq)[1:]
	case *core.Changed, *core.Moved:
		rows[string(changeKey(core.MemberOf(e), seq))] = []byte{}
	case *core.Removed:
		if e.Redacted {
			if redacted, err = tx.addRedactions(rows, e.Member); err != nil {
				return 0, err
			}
		}
	}
	if why, _ := core.WhyOf(e); why.Words.Given() {
		rows[string(changeKey(core.MemberOf(e), seq))] = []byte{}
	}
	applied := tx.l.cfg.Observe(tx, e)
	if err := tx.l.state.Apply(event, texts); err != nil {
		return 0, err
	}

	tx.l.state.Advance(tx.l.state.Clock())
	tx.l.announced.take(seq, e)
	for _, r := range redacted {
		tx.reindex(r, r)
	}
	maps.Copy(tx.rows, rows)
	tx.records = append(tx.records, Record{Event: event, Texts: texts})
	return seq, applied(seq)
}

func (tx *Tx) seal(e core.Event, t *core.Texts) error {
	salted := []*core.Text{&t.Name, &t.URL, &t.Description, &t.Report}
	if t.Words.Value != "" {
		salted = append(salted, &t.Words)
	}
	for _, x := range salted {
		if _, err := io.ReadFull(tx.l.cfg.Random, x.Salt[:]); err != nil {
			return fmt.Errorf("draw a salt: %w", err)
		}
	}
	snap.Seal(e, t)
	return nil
}

// addHashes adds the tree's stored hashes for event number seq.
func (tx *Tx) addHashes(rows Batch, seq uint64, event []byte) error {
	hashes, err := tlog.StoredHashes(int64(seq), event, treeReader(tx.get))
	if err != nil {
		return fmt.Errorf("extend the tree: %w", err)
	}
	first := tlog.StoredHashIndex(0, int64(seq))
	for i := range hashes {
		rows[string(numberKey(prefixHash, uint64(first)+uint64(i)))] = hashes[i][:]
	}
	return nil
}

// addRedactions adds the deletion of a member's texts, wherever they are stored, and gives
// the reservations that held them.
func (tx *Tx) addRedactions(rows Batch, slug string) (redacted []*Reservation, err error) {
	texts, err := tx.View().textsOf(slug)
	if errors.Is(err, ErrNotFound) {
		return nil, nil // no such member, as the state will say
	}
	if err != nil {
		return nil, err
	}
	for _, key := range texts {
		rows[key] = nil
	}
	prefix := rowKey(prefixPaid, slug, "")
	paid, err := tx.View().under(prefix)
	if err != nil {
		return nil, err
	}
	for _, row := range paid {
		r, err := tx.Get(row.Key[len(prefix):])
		if err != nil {
			return nil, err
		}
		r.redact()
		b, err := encodeReservation(r)
		if err != nil {
			return nil, err
		}
		rows[string(rowKey(prefixReservation, r.ID))] = b
		redacted = append(redacted, r)
	}
	for _, open := range tx.l.index.open {
		if open.Operation != OperationBid || open.Member != slug {
			continue
		}
		r := *open
		r.Body = nil
		b, err := encodeReservation(&r)
		if err != nil {
			return nil, err
		}
		rows[string(rowKey(prefixReservation, r.ID))] = b
		redacted = append(redacted, &r)
	}
	return redacted, nil
}

// textsOf gives the keys of all texts of a member, or [ErrNotFound].
func (v *View) textsOf(slug string) (keys []string, err error) {
	seq, err := v.get(rowKey(prefixJoin, slug))
	if err != nil {
		return nil, err
	}
	changes, err := v.numbers(changeKey(slug), changeKey(slug))
	if err != nil {
		return nil, err
	}
	keys = []string{string(append(append([]byte{prefixEvent}, seq...), rowTexts))}
	for _, change := range changes {
		keys = append(keys, string(eventKey(change, rowTexts)))
	}
	return keys, nil
}

// Reports gives the links to reports that came with a member's registration and with each move,
// except those that a redaction has deleted. Without such a member there are none.
func (v *View) Reports(slug string) (links []string, err error) {
	keys, err := v.textsOf(slug)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		b, err := v.get([]byte(key))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := core.DecodeTexts(b)
		if err != nil {
			return nil, err
		}
		if t.Report.Value != "" {
			links = append(links, t.Report.Value)
		}
	}
	return links, nil
}

// get reads a row as it will be after this turn.
func (tx *Tx) get(key []byte) ([]byte, error) { return tx.rows.over(tx.l.get, key) }
