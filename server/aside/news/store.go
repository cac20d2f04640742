package news

import (
	"encoding/binary"
	"errors"

	"webring/core"
	"webring/server/ledger"
)

const (
	// Batches is how many batches of news are kept of the ring.
	Batches = 4096
	// OfMember is how many news are kept of each member.
	OfMember = 40
	// leads is how many changes of the lead are kept.
	leads = 64

	leadsKey = "l"
)

func batchKey(number uint64) string {
	return string(binary.BigEndian.AppendUint16([]byte{'b'}, uint16(number%Batches)))
}

func memberKey(o core.Ordinal) string {
	return string(binary.BigEndian.AppendUint32([]byte{'m'}, uint32(o)))
}

// add writes the next batch, with what has changed since the last one in the first hundred and
// in who leads, unless there is nothing. stamp is for who leads.
func (s *status) add(tx *ledger.Tx, items []item, now []core.Ordinal, stamp int64) error {
	if err := s.lead(tx, now, stamp); err != nil {
		return err
	}
	s.board = now
	if len(items) == 0 {
		return nil
	}
	s.batch++
	of := map[core.Ordinal][]item{}
	var members []core.Ordinal // in the order of their first news
	for i := range items {
		items[i].id = s.batch<<idBits | uint64(i)
		o := items[i].member
		if of[o] == nil {
			members = append(members, o)
		}
		of[o] = append(of[o], items[i])
	}
	for _, o := range members {
		if err := s.addTo(tx, o, of[o]); err != nil {
			return err
		}
	}
	return tx.Put(ledger.News, batchKey(s.batch), appendItems(nil, items))
}

// addTo adds to the news of a member. A turn that had no room for all of a batch may have
// written a part of it.
func (s *status) addTo(tx *ledger.Tx, o core.Ordinal, items []item) error {
	old, err := itemsAt(tx.View(), memberKey(o))
	if err != nil {
		return err
	}
	for len(old) > 0 && old[len(old)-1].id>>idBits >= s.batch {
		old = old[:len(old)-1]
	}
	all := append(old, items...)
	return tx.Put(ledger.News, memberKey(o), appendItems(nil, all[max(0, len(all)-OfMember):]))
}

// itemsAt reads a row of news.
func itemsAt(v *ledger.View, key string) ([]item, error) {
	b, err := v.Value(ledger.News, key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	return decodeItems(b), nil
}

// lead notes who leads from stamp on, if that is another.
func (s *status) lead(tx *ledger.Tx, now []core.Ordinal, stamp int64) error {
	all, err := leadsOf(tx.View())
	if err != nil {
		return err
	}
	next := term{at: stamp}
	if len(now) > 0 {
		next.some, next.member = true, now[0]
	}
	last := term{}
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	if last.some == next.some && last.member == next.member {
		return nil
	}
	var b []byte
	for _, t := range append(all[max(0, len(all)+1-leads):], next) {
		member := uint64(0)
		if t.some {
			member = uint64(t.member) + 1
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.at)), member)
	}
	return tx.Put(ledger.News, leadsKey, b)
}

// term says who leads from an instant on.
type term struct {
	at     int64 // milliseconds
	some   bool  // whether anybody does
	member core.Ordinal
}

// leadsOf reads who has led, the present leader last.
func leadsOf(v *ledger.View) (all []term, err error) {
	b, err := v.Value(ledger.News, leadsKey)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	for len(b) > 0 {
		at, n := binary.Uvarint(b)
		member, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			break
		}
		b = b[n+m:]
		t := term{at: int64(at), some: member > 0}
		if t.some {
			t.member = core.Ordinal(member - 1)
		}
		all = append(all, t)
	}
	return all, nil
}
