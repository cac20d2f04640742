package aside

import (
	"encoding/binary"

	"webring/core"
	"webring/server/ledger"
)

// kind says what happened. Its numbers are stored.
type kind uint8

const (
	joined kind = 1 + iota
	bid
	credited
	outbid
	ranked
	fading
	asleep
	awake
	changed
	moved
	claimed
	verified
	unverified
	left
	removed
	returned
	takenBack
)

var kindNames = [...]string{joined: "joined", bid: "bid", credited: "credited", outbid: "outbid", ranked: "rank", fading: "fading",
	asleep: "asleep", awake: "awake", changed: "changed", moved: "moved", claimed: "claimed", verified: "verified",
	unverified: "unverified", left: "left", removed: "removed", returned: "returned", takenBack: "taken_back"}

// String gives the kind's name in documents, "" for one of a later version.
func (k kind) String() string {
	if int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}

// item is one piece of news.
type item struct {
	id        uint64
	at        int64  // milliseconds
	event     uint64 // the ledger's number of the event, from 1; 0 when time alone did it
	kind      kind
	member    core.Ordinal
	by        core.Ordinal // who outbid it, for outbid
	was, rank int          // from 1; 0 for none
	cents     int64
	proof     core.Proof
}

// idBits is how many of the lowest bits of a number count within its batch.
const idBits = 9

func (i *item) fields() [10]uint64 {
	return [10]uint64{i.id, uint64(i.at), i.event, uint64(i.kind), uint64(i.member), uint64(i.by), uint64(i.was), uint64(i.rank), uint64(i.cents), uint64(i.proof)}
}

// appendItems appends the encoding of items: ten varints for each.
func appendItems(dst []byte, items []item) []byte {
	for i := range items {
		f := items[i].fields()
		dst = appendNumbers(dst, f[:]...)
	}
	return dst
}

// decodeItems reads items up to what is malformed.
func decodeItems(b []byte) (items []item) {
	for all, _ := numbers(b); len(all) >= 10; all = all[10:] {
		f := all[:10]
		items = append(items, item{f[0], int64(f[1]), f[2], kind(f[3]), core.Ordinal(f[4]), core.Ordinal(f[5]), int(f[6]), int(f[7]), int64(f[8]), core.Proof(f[9])})
	}
	return items
}

// boardSize is among how many of the first each change of rank is news.
const boardSize = 100

// status is up to where everything is worked through.
type status struct {
	seq   uint64 // events
	batch uint64 // the last one written; the first one has the number 1
	// Standings that begin to fade are news from second since on, which the last pass has
	// reached with this period of grace. A pass that is not over has worked through the rows
	// before cursor, and goes on to second until, which is not part of it; otherwise until
	// is 0.
	since, until int64
	cursor       uint64
	grace        int64
	board        []core.Ordinal // the first [boardSize]
}

const statusKey = "s"

// readStatus gives nil when there is none yet.
func readStatus(v *ledger.View) (*status, error) {
	b, err := v.Value(ledger.News, statusKey)
	f, whole := numbers(b)
	if err != nil || !whole || len(f) < 6 {
		return nil, err
	}
	s := &status{seq: f[0], batch: f[1], since: int64(f[2]), until: int64(f[3]), cursor: f[4], grace: int64(f[5])}
	for _, o := range f[6:] {
		s.board = append(s.board, core.Ordinal(o))
	}
	return s, nil
}

func (s *status) write(tx *ledger.Tx) error {
	b := appendNumbers(nil, s.seq, s.batch, uint64(s.since), uint64(s.until), s.cursor, uint64(s.grace))
	for _, o := range s.board {
		b = appendNumbers(b, uint64(o))
	}
	return tx.Put(ledger.News, statusKey, b)
}

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
	return decodeItems(b), err
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
		b = appendNumbers(b, uint64(t.at), member)
	}
	return tx.Put(ledger.News, leadsKey, b)
}

// term says who leads from an instant on.
type term struct {
	at     int64 // milliseconds
	some   bool  // whether anybody does
	member core.Ordinal
}

// leadsOf reads the leaders, the current one last.
func leadsOf(v *ledger.View) (all []term, err error) {
	b, err := v.Value(ledger.News, leadsKey)
	for f, _ := numbers(b); len(f) >= 2; f = f[2:] {
		t := term{at: int64(f[0]), some: f[1] > 0}
		if t.some {
			t.member = core.Ordinal(f[1] - 1)
		}
		all = append(all, t)
	}
	return all, err
}
