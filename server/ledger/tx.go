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
	room    error // why nothing may be written, for the whole turn
	rows    Batch
	records []Record
	undos   []func()
}

// begin gives a turn at the present instant. The caller holds mu.
func (l *Ledger) begin() *Tx {
	stamp := min(max(l.now().UnixMilli(), l.state.LastStamp()), core.MaxStamp)
	// A clock that was far ahead, and no longer is, must not keep standings
	// in the future. Small steps back are waited out.
	const tolerated = 5
	if second := stamp / 1000; second+tolerated < l.state.Clock() {
		l.state.Rewind(second)
	} else {
		l.state.Advance(second)
	}
	tx := &Tx{l: l, stamp: stamp, rows: Batch{}}
	if err := l.room(); err != nil {
		tx.room = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return tx
}

func (tx *Tx) end() { tx.l = nil }

func (tx *Tx) undo() {
	for i := len(tx.undos) - 1; i >= 0; i-- {
		tx.undos[i]()
	}
}

// Stamp is the stamp for the events of this turn, in milliseconds: now, but
// never before the last event.
func (tx *Tx) Stamp() int64 { return tx.stamp }

// State is the state with every event so far, at the instant of this turn.
// The function must not change it, but for [core.State.Expect], and must not retain it.
func (tx *Tx) State() *core.State { return tx.l.state }

// View reads everything with the work of this turn, for checks that also run outside of
// turns. It is valid as long as the turn.
func (tx *Tx) View() *View { return &View{tx.l, tx.get, tx.rows} }

// Append adds an event and gives its number, counted from 0. For a
// registration, t holds the words; their salts are drawn here, and the
// commitments written into the event. For all others t is nil.
//
// Afterwards [Tx.State] has the event, with ranks, and the function must not fail. If
// Append itself fails, it has done nothing: the event is beyond a limit or does not apply
// ([core.State.Apply]), it removes or hides a member for which a payment is
// open ([ErrOpenReservation]), or nothing can be written ([ErrNoRoom]).
//
// A removal with redaction deletes the texts beside the member's registration, and
// whatever may hold them in the reservations that paid for the member.
func (tx *Tx) Append(e core.Event, t *core.Texts) (seq uint64, err error) {
	var texts []byte
	if joined, ok := e.(*core.Joined); ok != (t != nil) {
		return 0, fmt.Errorf("%w: a registration has texts, other events have none", core.ErrTexts)
	} else if ok {
		if err := tx.seal(joined, t); err != nil {
			return 0, err
		}
		texts = core.AppendTexts(nil, t)
	}
	event, err := core.AppendEvent(nil, e)
	if err != nil {
		return 0, err
	}
	if tx.l.index.onMember[leaving(e)].count > 0 {
		return 0, ErrOpenReservation
	}
	return tx.add(e, event, texts)
}

// leaving gives the slug of the member that an event takes out of the ring, or "".
func leaving(e core.Event) string {
	switch e := e.(type) {
	case *core.Removed:
		return e.Member
	case *core.Hidden:
		return e.Member
	}
	return ""
}

// Adopt adds an event that this ledger has signed and lost: its encoding and that of its
// texts come from an edge. It fails as [Tx.Append] does, but not for open payments: the
// event may be for one of them, which finds it by [View.Restored] once it has settled.
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
	if p, _ := PaymentOf(e); p.Transaction != "" {
		tx.rows[string(restoredKey(p.Payer, seq))] = []byte{}
	}
	return nil
}

// add adds an event with the rows that belong to it.
func (tx *Tx) add(e core.Event, event, texts []byte) (seq uint64, err error) {
	// Whatever may fail comes before the state changes.
	if tx.room != nil {
		return 0, tx.room
	}
	seq = tx.l.state.Seq()
	rows := Batch{string(eventKey(seq, rowEvent)): event}
	if err := tx.addHashes(rows, seq, event); err != nil {
		return 0, err
	}
	if p, cents := PaymentOf(e); p.Transaction != "" && cents != 0 {
		rows[string(paymentKey(p.Network, p.Transaction, seq))] = numberValue(uint64(cents))
	}
	addPayer(rows, e)
	if seq == 0 {
		rows[payersKey] = []byte{}
	}
	switch e := e.(type) {
	case *core.Joined:
		if len(texts) > 0 {
			rows[string(eventKey(seq, rowTexts))] = texts
		}
		rows[string(stringKey(prefixJoin, e.Slug))] = numberKey(prefixEvent, seq)[1:]
	case *core.Removed:
		if e.Redacted {
			if err := tx.addRedactions(rows, e.Member); err != nil {
				return 0, err
			}
		}
	}
	if err := tx.l.state.Apply(event, texts); err != nil {
		return 0, err
	}

	tx.l.state.Advance(tx.l.state.Clock())
	maps.Copy(tx.rows, rows)
	tx.records = append(tx.records, Record{Event: event, Texts: texts})
	return seq, nil
}

func (tx *Tx) seal(e *core.Joined, t *core.Texts) error {
	for _, x := range []*core.Text{&t.Name, &t.URL, &t.Description, &t.Report} {
		if _, err := io.ReadFull(tx.l.random, x.Salt[:]); err != nil {
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

// addRedactions adds the deletion of a member's texts, wherever they are stored.
func (tx *Tx) addRedactions(rows Batch, slug string) error {
	seq, err := tx.get(stringKey(prefixJoin, slug))
	if errors.Is(err, ErrNotFound) {
		return nil // no such member, as the state will say
	}
	if err != nil {
		return err
	}
	texts := append(append([]byte{prefixEvent}, seq...), rowTexts)
	rows[string(texts)] = nil

	paid, err := tx.View().rowsUnder(paidKey(slug, ""))
	if err != nil {
		return err
	}
	for id := range paid {
		r, err := tx.Get(id)
		if err != nil {
			return err
		}
		r.redact()
		b, err := encodeReservation(r)
		if err != nil {
			return err
		}
		rows[string(stringKey(prefixReservation, id))] = b
	}
	return nil
}

// Reserve stores a new reservation in the state [Reserved] and claims its
// replay keys for ever. It sets Created.
//
// It fails with a [*ReplayedError] when its id or one of its keys is known,
// for a registration with [ErrURLPending] or [ErrBarred], with the error of
// [core.State.Apply] when the event that is paid for could not be applied, and
// with [ErrNoRoom].
func (tx *Tx) Reserve(r *Reservation) error {
	return tx.reserve(r, false)
}

// ReserveSettled is [Tx.Reserve] for a payment whose money has come already: an
// earlier one that failed does not bar its payer.
func (tx *Tx) ReserveSettled(r *Reservation) error {
	return tx.reserve(r, true)
}

func (tx *Tx) reserve(r *Reservation, came bool) error {
	if r.State != Reserved {
		return fmt.Errorf("%w: a new one is not %s", ErrReservation, r.State)
	}
	stored, err := tx.admit(r)
	if err != nil {
		return err
	}
	if err := tx.checkApplicable(stored); err != nil {
		return err
	}
	if _, barred := tx.l.index.barred(stored.Payer, stored.URLKey, stored.Created); barred && !came {
		return ErrBarred
	}
	if err := tx.put(stored); err != nil {
		return err
	}
	tx.rows[string(stringKey(prefixOpen, r.ID))] = []byte{}
	tx.reindex(nil, stored)
	r.Created = stored.Created
	return nil
}

// StoreUnapplied stores a payment whose money has come and which can have no effect: as one
// that has [Failed] already, without the request's words. It bars no payer. It fails as
// [Tx.Reserve] does if the payment is known, and with [ErrNoRoom].
func (tx *Tx) StoreUnapplied(r *Reservation) error {
	if r.State != Failed {
		return fmt.Errorf("%w: a payment without effect is not %s", ErrReservation, Failed)
	}
	stored, err := tx.admit(r)
	if err != nil {
		return err
	}
	stored.FailedAt, stored.URLKey, stored.Client, stored.Body, stored.Pinned = stored.Created, "", "", nil, nil
	if err := tx.put(stored); err != nil {
		return err
	}
	*r = *stored
	return nil
}

// admit gives what is to be stored of a new reservation, if neither its id nor one
// of its replay keys is known.
func (tx *Tx) admit(r *Reservation) (*Reservation, error) {
	if tx.room != nil {
		return nil, tx.room
	}
	stored := *r
	stored.Created = time.UnixMilli(tx.stamp).UTC()
	if err := stored.check(); err != nil {
		return nil, err
	}
	if _, err := tx.get(stringKey(prefixReservation, r.ID)); err == nil {
		return nil, &ReplayedError{r.ID}
	} else if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	for _, key := range r.ReplayKeys {
		if id, err := tx.get(stringKey(prefixReplay, key)); err == nil {
			return nil, &ReplayedError{string(id)}
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return &stored, nil
}

// put stores a new reservation with the rows by which it is found.
func (tx *Tx) put(r *Reservation) error {
	b, err := encodeReservation(r)
	if err != nil {
		return err
	}
	tx.rows[string(stringKey(prefixReservation, r.ID))] = b
	for _, key := range r.ReplayKeys {
		tx.rows[string(stringKey(prefixReplay, key))] = []byte(r.ID)
	}
	if r.Idempotency != "" {
		tx.rows[string(stringKey(prefixIdempotency, r.Idempotency+"\x00"+r.Payer))] = []byte(r.ID)
	}
	return nil
}

// checkApplicable says why the event that a new reservation pays for could not be applied.
// If it can be now, it can be later: registrations of one URL exclude each other, removal
// waits for open bids, bids on hidden members apply, and open reservations count towards the limits.
func (tx *Tx) checkApplicable(r *Reservation) error {
	s, x := tx.l.state, &tx.l.index
	if r.Operation == OperationBid {
		o, ok := s.BySlug([]byte(r.Member))
		switch {
		case !ok:
			return core.ErrUnknown
		case s.Member(o).Removed:
			return core.ErrRemoved
		case s.Member(o).Total()+x.onMember[r.Member].cents+r.Cents > core.MaxTotal:
			return core.ErrTotal
		}
		return nil
	}
	if _, taken := s.Holder([]byte(r.URLKey)); taken {
		return core.ErrURLTaken
	}
	if x.urls[r.URLKey] != nil {
		return ErrURLPending
	}
	if s.Rows()+len(x.urls) >= s.Capacity() {
		return core.ErrCapacity
	}
	return nil
}

// Update stores a reservation anew. What was reserved (operation, URL, amount,
// payer, keys) stays; the state goes from [Reserved] to [Applied] or [Failed]
// or stays. If the reservation fails, Update sets FailedAt, and replaces a registration's
// URL by hashes that recognise it. What was deleted stays deleted, whatever r holds, and
// what a redaction would have deleted is not stored. It may fail with [ErrNoRoom].
func (tx *Tx) Update(r *Reservation) error {
	if tx.room != nil {
		return tx.room
	}
	old, err := tx.Get(r.ID)
	if err != nil {
		return err
	}
	stored := *r
	if old.Redacted {
		stored.redact()
	}
	if old.State == Failed {
		stored.URLKey = ""
	}
	if err := old.checkChange(&stored); err != nil {
		return err
	}
	stored.Created, stored.FailedAt, stored.Bar, stored.URLMark, stored.HadPaid = old.Created, old.FailedAt, old.Bar, old.URLMark, old.HadPaid
	if old.State == Reserved && stored.State == Failed {
		hadPaid, err := tx.View().HasPaid(stored.Payer)
		if err != nil {
			return err
		}
		stored.fail(time.UnixMilli(tx.stamp).UTC(), hadPaid)
	}
	if stored.State == Failed || stored.Confirmed {
		stored.Client, stored.Request = "", ""
	}
	if at, ok := tx.l.state.BySlug([]byte(stored.Member)); ok && stored.State == Applied && tx.l.state.Member(at).Redacted {
		// Its event came back from an edge, and with it the redaction.
		stored.redact()
	}
	b, err := encodeReservation(&stored)
	if err != nil {
		return err
	}
	tx.rows[string(stringKey(prefixReservation, r.ID))] = b
	if old.State != stored.State {
		tx.rows[string(stringKey(prefixOpen, r.ID))] = nil
		if stored.State == Failed {
			tx.rows[string(failedKey(tx.stamp, r.ID))] = []byte{}
		} else {
			tx.rows[string(paidKey(stored.Member, r.ID))] = []byte{}
			if err := tx.claimRestored(stored.Payer, stored.Seq); err != nil {
				return err
			}
		}
	}
	if stored.State == Applied {
		// nil deletes, and an empty value does not.
		var row []byte
		if !stored.Confirmed {
			row = []byte{}
		}
		tx.rows[string(stringKey(prefixConfirm, r.ID))] = row
	}
	tx.reindex(old, &stored)
	*r = stored
	return nil
}

// claimRestored notes that a restored event has its reservation. Hardly any event is a
// restored one. A row that does not exist is not deleted, because a store may keep a mark
// for each deletion, which [View.Restored] would have to skip.
func (tx *Tx) claimRestored(payer string, seq uint64) error {
	key := restoredKey(payer, seq)
	_, err := tx.get(key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	tx.rows[string(key)] = nil
	return err
}

// reindex changes the index at once, so that this turn sees its own work.
func (tx *Tx) reindex(old, new *Reservation) {
	x := &tx.l.index
	x.expire(time.UnixMilli(tx.stamp))
	x.change(old, new)
	tx.undos = append(tx.undos, func() { x.change(new, old) })
}

// Get gives the reservation with this id, or [ErrNoReservation].
func (tx *Tx) Get(id string) (*Reservation, error) { return reservation(tx.get, id) }

// get reads a row as it will be after this turn.
func (tx *Tx) get(key []byte) ([]byte, error) { return tx.rows.over(tx.l.get, key) }

func reservation(get func([]byte) ([]byte, error), id string) (*Reservation, error) {
	b, err := get(stringKey(prefixReservation, id))
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoReservation
	}
	if err != nil {
		return nil, err
	}
	return decodeReservation(b)
}

func reservationBy(get func([]byte) ([]byte, error), prefix byte, key string) (*Reservation, error) {
	id, err := get(stringKey(prefix, key))
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoReservation
	}
	if err != nil {
		return nil, err
	}
	return reservation(get, string(id))
}
