package ledger

import (
	"errors"
	"fmt"
	"time"

	"webring/core"
)

// Reserve stores a new reservation in the state [Reserved] and claims its
// replay keys. It sets Created.
//
// It fails with a [*ReplayedError] when its id or one of its keys is known,
// for a registration with [ErrURLPending], with the error of
// [core.State.Apply] when the event that is paid for could not be applied, and
// with [ErrNotNow].
func (tx *Tx) Reserve(r *Reservation) error {
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
	if err := tx.put(stored); err != nil {
		return err
	}
	tx.rows[string(rowKey(prefixOpen, r.ID))] = []byte{}
	tx.reindex(nil, stored)
	r.Created = stored.Created
	return nil
}

// StoreUnapplied stores a payment that was received and can have no effect, as one that has [Failed],
// without the request's words. It is no failure of a URL. It fails as [Tx.Reserve] does if the payment is known,
// and with [ErrNotNow].
func (tx *Tx) StoreUnapplied(r *Reservation) error {
	if r.State != Failed {
		return fmt.Errorf("%w: a payment without effect is not %s", ErrReservation, Failed)
	}
	stored, err := tx.admit(r)
	if err != nil {
		return err
	}
	stored.FailedAt, stored.URLKey, stored.Client, stored.Request, stored.Body, stored.Pinned = stored.Created, "", "", "", nil, nil
	if err := tx.put(stored); err != nil {
		return err
	}
	*r = *stored
	return nil
}

// Spend stores a proof: a reservation of 0 cents about a member, [Applied] and Confirmed. It sets
// Created. It fails as [Tx.Reserve] does if the proof is known, and with [ErrNotNow].
func (tx *Tx) Spend(r *Reservation) error {
	if !r.proof() {
		return fmt.Errorf("%w: it is no proof", ErrReservation)
	}
	stored, err := tx.admit(r)
	if err == nil {
		r.Created = stored.Created
		err = tx.put(stored)
	}
	return err
}

func proofKey(r *Reservation) []byte { return rowKey(prefixProof, r.Member, r.ID) }

// Forget deletes a proof and all by which it is found. It may fail with [ErrNotNow].
func (tx *Tx) Forget(r *Reservation) error {
	if !r.proof() {
		return fmt.Errorf("%w: payments are not deleted", ErrReservation)
	}
	if tx.refused != nil {
		return tx.refused
	}
	key := rowKey(prefixIdempotency, r.Idempotency, r.Payer)
	latest, err := tx.get(key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if string(latest) == r.ID {
		tx.rows[string(key)] = nil
	}
	for _, key := range r.ReplayKeys {
		tx.rows[string(rowKey(prefixReplay, key))] = nil
	}
	tx.rows[string(rowKey(prefixReservation, r.ID))] = nil
	tx.rows[string(proofKey(r))] = nil
	return nil
}

// admit gives what is to be stored of a new reservation, if neither its id nor one
// of its replay keys is known.
func (tx *Tx) admit(r *Reservation) (*Reservation, error) {
	if tx.refused != nil {
		return nil, tx.refused
	}
	stored := *r
	stored.Created = time.UnixMilli(tx.stamp).UTC()
	if err := stored.check(); err != nil {
		return nil, err
	}
	if _, err := tx.get(rowKey(prefixReservation, r.ID)); err == nil {
		return nil, &ReplayedError{r.ID}
	} else if !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	for _, key := range r.ReplayKeys {
		if id, err := tx.get(rowKey(prefixReplay, key)); err == nil {
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
	tx.rows[string(rowKey(prefixReservation, r.ID))] = b
	for _, key := range r.ReplayKeys {
		tx.rows[string(rowKey(prefixReplay, key))] = []byte(r.ID)
	}
	if r.Idempotency != "" {
		tx.rows[string(rowKey(prefixIdempotency, r.Idempotency, r.Payer))] = []byte(r.ID)
	}
	if r.proof() {
		tx.rows[string(proofKey(r))] = []byte{}
	}
	return nil
}

// checkApplicable says why the event that a new reservation pays for could not be applied.
// If it can be now, it can be later, until it lapses: registrations of one URL exclude each other,
// bids on hidden and removed members apply, and open reservations count towards the limits.
func (tx *Tx) checkApplicable(r *Reservation) error {
	s, x := tx.l.state, &tx.l.index
	if r.Operation == OperationBid {
		o, ok := s.BySlug([]byte(r.Member))
		switch {
		case !ok:
			return core.ErrUnknown
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
// URL by a hash that recognises it. One with Lapsed set counts as failed from then on, unless
// it is applied. What was deleted stays deleted, whatever r holds, and
// what a redaction would have deleted is not stored. It may fail with [ErrNotNow].
func (tx *Tx) Update(r *Reservation) error {
	if tx.refused != nil {
		return tx.refused
	}
	old, err := tx.Get(r.ID)
	if err != nil {
		return err
	}
	stored := *r
	if old.Redacted {
		stored.redact()
		stored.Response = old.Response
	}
	if old.State == Failed {
		stored.URLKey = ""
	}
	if old.Body == nil {
		stored.Body = nil
	}
	if err := old.checkChange(&stored); err != nil {
		return err
	}
	stored.Created, stored.FailedAt, stored.URLMark = old.Created, old.FailedAt, old.URLMark
	if !old.Lapsed.IsZero() {
		stored.Lapsed = old.Lapsed
	}
	if ends := stored.State == Failed; old.State == Reserved && (ends || !stored.Lapsed.IsZero()) {
		hadPaid, err := tx.View().HasPaid(stored.Payer)
		if err != nil {
			return err
		}
		if ends {
			stored.fail(time.UnixMilli(tx.stamp).UTC())
		} else {
			stored.mark()
		}
		if stored.Endless && hadPaid {
			tx.rows[string(payerKey(stored.Payer))] = owes
		}
	}
	if stored.State == Applied {
		stored.URLMark = nil
	}
	if stored.State == Failed || stored.Confirmed {
		stored.Client, stored.Request = "", ""
	}
	if at, ok := tx.l.state.BySlug([]byte(stored.Member)); ok && stored.State == Applied && !stored.Redacted && tx.l.state.Member(at).Redacted {
		// The member was redacted while the payment was open, or by events that came back from an edge.
		// Its answer was made without the words.
		response := stored.Response
		stored.redact()
		stored.Response = response
	}
	b, err := encodeReservation(&stored)
	if err != nil {
		return err
	}
	tx.rows[string(rowKey(prefixReservation, r.ID))] = b
	if old.State != stored.State {
		tx.rows[string(rowKey(prefixOpen, r.ID))] = nil
		if stored.State == Failed {
			tx.rows[string(failedKey(tx.stamp, r.ID))] = []byte{}
		} else {
			tx.rows[string(rowKey(prefixPaid, stored.Member, r.ID))] = []byte{}
		}
	}
	if stored.State == Applied {
		// nil deletes, and an empty value does not.
		var row []byte
		if !stored.Confirmed {
			row = []byte{}
		}
		tx.rows[string(rowKey(prefixConfirm, r.ID))] = row
	}
	tx.reindex(old, &stored)
	*r = stored
	return nil
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

func reservation(get func([]byte) ([]byte, error), id string) (*Reservation, error) {
	b, err := get(rowKey(prefixReservation, id))
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoReservation
	}
	if err != nil {
		return nil, err
	}
	return decodeReservation(b)
}

func reservationBy(get func([]byte) ([]byte, error), prefix byte, key string) (*Reservation, error) {
	id, err := get(rowKey(prefix, key))
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNoReservation
	}
	if err != nil {
		return nil, err
	}
	return reservation(get, string(id))
}
