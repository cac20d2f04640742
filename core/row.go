package core

import (
	"errors"
	"unicode/utf8"
)

// Base is what a state holds besides its rows and its clock.
type Base struct {
	Seq    uint64 // events applied
	Stamp  int64  // of the last event, milliseconds
	Paid   int64  // cents; see [State.Books]
	Voided int64  // cents
	Rules  *Rules // nil before the first event
}

// Base gives what the state holds besides its rows and its clock. The caller
// must not change the rules.
func (s *State) Base() Base {
	return Base{Seq: s.seq, Stamp: s.stamp, Paid: s.paid, Voided: s.voided, Rules: s.rules}
}

// AppendBase appends the encoding of b, in the terms of encoding.go:
//
//	base = seq stamp paid voided optional rules
func AppendBase(dst []byte, b Base) []byte {
	dst = appendNumber(dst, int64(b.Seq))
	dst = appendNumber(dst, b.Stamp)
	dst = appendNumber(dst, b.Paid)
	dst = appendNumber(dst, b.Voided)
	dst = appendFlag(dst, b.Rules != nil)
	if b.Rules != nil {
		dst = appendNumber(dst, b.Rules.Stamp)
		dst = b.Rules.appendBody(dst)
	}
	return dst
}

// ErrRow is wrapped by every error about rows that are not those of any state.
var ErrRow = errors.New("core: malformed row")

// DecodeBase reads one base from all of b.
func DecodeBase(b []byte) (Base, error) {
	r := reader{rest: b}
	base := Base{Seq: uint64(r.number()), Stamp: r.number(), Paid: r.number(), Voided: r.number()}
	if r.flag() {
		base.Rules = r.rules(r.number())
	}
	switch {
	case r.failed || len(r.rest) != 0 || !stamp(base.Stamp):
		return Base{}, &reason{ErrRow, "base"}
	case base.Rules == nil && base.Seq > 0 || base.Rules != nil && (base.Seq == 0 || base.Rules.check() != nil || !stamp(base.Rules.Stamp)):
		return Base{}, &reason{ErrRow, "rules"}
	}
	return base, nil
}

// AppendRow appends the encoding of the row of o, in the terms of encoding.go:
//
//	row = slug kind(byte) category name url description report
//	      optional (value(byte) provider version scanned-at)
//	      joined last-bid fee bids removed(flag) redacted(flag)
//
// Equal rows have equal encodings: the digest of a state is made of them.
func (s *State) AppendRow(dst []byte, o Ordinal) []byte {
	fee, head := s.row(o)
	return s.appendTail(append(dst, head...), o, fee)
}

// appendTail appends what of a row changes, and its fee: all from last-bid on.
func (s *State) appendTail(dst []byte, o Ordinal, fee int64) []byte {
	dst = appendNumber(dst, s.lastBid[o])
	dst = appendNumber(dst, fee)
	dst = appendNumber(dst, s.totals[o]-fee)
	dst = appendFlag(dst, s.has(o, removed))
	return appendFlag(dst, s.has(o, redacted))
}

// tail is the length of what appendTail appends.
const tail = 3*8 + 2

// decodeRow reads and checks one row from all of b. Strings in the result alias
// b.
func decodeRow(b []byte) (m Member, err error) {
	r := reader{rest: b}
	m.Slug, m.Kind = r.view(), Kind(r.byte())
	m.Category, m.Name, m.URL, m.Description, m.Report = r.view(), r.view(), r.view(), r.view(), r.view()
	if r.flag() {
		m.Score = Score{Given: true, Value: r.byte(), Provider: r.view(), Version: r.view(), ScannedAt: r.number()}
	}
	m.Joined, m.LastBid, m.Fee, m.Bids = r.number(), r.number(), r.number(), r.number()
	m.Removed, m.Redacted = r.flag(), r.flag()
	switch {
	case r.failed || len(r.rest) != 0:
		return m, &reason{ErrRow, "encoding"}
	case !validSlug(m.Slug) || m.Kind.String() == "" || !ValidCategory(m.Category) || m.Score.check() != nil,
		!stamp(m.Joined) || !stamp(m.LastBid) || m.Bids == 0 && m.LastBid != 0,
		m.Fee > MaxAmount || m.Bids > MaxTotal || m.Total() > MaxTotal,
		m.Redacted && (!m.Removed || m.Name != ""),
		(m.Name == "") != (m.URL == "") || m.Name == "" && (m.Description != "" || m.Report != ""),
		longer(m.Name, MaxName) || longer(m.Description, MaxDescription) || len(m.Report) > MaxReport:
		return m, &reason{ErrRow, "fields"}
	case m.URL != "" && !isCanonical(m.URL):
		return m, &reason{ErrRow, "URL"}
	}
	return m, nil
}

// longer says whether text has more than most code points.
func longer(text string, most int) bool {
	return len(text) > most && utf8.RuneCountInString(text) > most
}

// Restore makes the state that had this base and these rows. next gives the
// encodings of the rows in order, and false after the last; they must stay as they
// are until Restore returns. rows and size are how many there will be, and how long
// they are together: memory for as many is made at once. The clock stands at the
// last event; ranks are to be read after the next [State.Advance].
//
// Rows are checked as events are, but whether they are the right ones only
// [State.Digest] can say. Errors wrap [ErrRow] or say why two rows cannot stand
// in one ring.
func Restore(capacity int, secret uint64, b Base, rows, size int, next func() ([]byte, bool)) (*State, error) {
	s := NewState(capacity, secret)
	s.seq, s.stamp, s.paid, s.voided, s.rules = b.Seq, b.Stamp, b.Paid, b.Voided, b.Rules
	s.clock = b.Stamp / 1000
	s.ranking.stale = true
	s.Expect(rows, size)
	waiting := make([]waiting, atOnce)
	for more := true; more; {
		n := 0
		for n < len(waiting) {
			var row []byte
			if row, more = next(); !more {
				break
			}
			if err := waiting[n].read(s, row); err != nil {
				return nil, err
			}
			n++
		}
		s.warm(waiting[:n])
		s.hashAll(waiting[:n])
		for i := range waiting[:n] {
			if err := s.restore(&waiting[i]); err != nil {
				return nil, err
			}
		}
	}
	if s.rules == nil && s.rows > 0 {
		return nil, ErrNotOpened
	}
	return s, nil
}

// atOnce is how many rows wait for one another before they are restored.
const atOnce = 64

// waiting is a row before it is in the state.
type waiting struct {
	row  []byte
	m    Member
	in   place
	hash sum // with its ordinal
}

// read decodes a row, and hashes what it is found by.
func (w *waiting) read(s *State, row []byte) (err error) {
	if w.m, err = decodeRow(row); err != nil {
		return err
	}
	w.row = row
	w.in.slug = s.seed.Hash(w.m.Slug)
	if w.m.URL != "" && !w.m.Removed {
		w.in.of(s.seed, w.m.URL)
	}
	return nil
}

// warm has the buckets fetched that rows belong into. They lie all over, and to
// wait for memory is a third of what it takes to load a large ring: here a
// processor waits for many at a time.
func (s *State) warm(rows []waiting) {
	tags := uint8(0)
	for i := range rows {
		in := &rows[i].in
		tags |= s.slugs.Touch(in.slug) | s.keys.Touch(in.hash) | s.hosts.Touch(in.host)
	}
	s.touched = tags // or the compiler would see that nobody asks
}

// hashAll hashes the next rows with the ordinals that they will have, two at a
// time: each byte waits for the one before, and not for that of another row.
func (s *State) hashAll(rows []waiting) {
	for i := range rows {
		rows[i].hash = hashOrdinal(Ordinal(s.rows + i))
	}
	for ; len(rows) > 1; rows = rows[2:] {
		writeBoth(&rows[0].hash, &rows[1].hash, rows[0].row, rows[1].row)
	}
	for i := range rows {
		rows[i].hash.write(rows[i].row)
	}
}

// restore puts a row into the state.
func (s *State) restore(w *waiting) error {
	m := &w.m
	if _, taken := s.findSlug(w.in.slug, m.Slug); taken {
		return ErrSlugTaken
	}
	if s.rows >= s.capacity {
		return ErrCapacity
	}
	if m.URL != "" && !m.Removed {
		if _, taken := s.findKey(w.in.hash, w.in.text()); taken {
			return ErrURLTaken
		}
	}
	s.digest.add(w.hash)
	s.add(m, w.row[:len(w.row)-tail], &w.in)
	return nil
}
