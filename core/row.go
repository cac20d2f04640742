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

// ErrRow is wrapped by every error about a base or a row that no state has. ErrRows
// says that there are more or fewer rows than announced.
var (
	ErrRow  = errors.New("core: malformed row")
	ErrRows = errors.New("core: another number of rows")
)

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
//	      end of the owner(12 bytes) joined last-bid fee bids standing(byte) redacted(flag)
//	      beginning of the owner(8 bytes) claimed(flag)
//	      asleep(flag) since verified proof(byte) changed
//	standing = 0, or 1 when removed, or 2 when hidden, or 3 when departed
//
// Equal rows have equal encodings.
func (s *State) AppendRow(dst []byte, o Ordinal) []byte {
	fee, head := s.row(o)
	dst = append(dst, head...)
	total, lastBid := s.Paid(o)
	dst = appendNumber(dst, lastBid)
	dst = appendNumber(dst, fee)
	dst = appendNumber(dst, total-fee)
	switch {
	case s.isDeparted(o):
		dst = append(dst, isDeparted)
	case s.has(o, removed):
		dst = append(dst, isRemoved)
	case s.has(o, hidden):
		dst = append(dst, isHidden)
	default:
		dst = append(dst, 0)
	}
	dst = appendFlag(dst, s.has(o, redacted))
	dst = append(dst, s.texts[4*int(s.at[o])+ownerAt:][:ownerBegin]...)
	dst = appendFlag(dst, s.has(o, claimed))
	dst = appendFlag(dst, s.has(o, sleeping))
	told := &s.statuses[o]
	verified, proof := told.verification()
	dst = appendNumber(appendNumber(dst, told.since), verified)
	return appendNumber(append(dst, byte(proof)), told.changed)
}

// How a row says that its member is not in the ring.
const (
	isRemoved  = 1
	isHidden   = 2
	isDeparted = 3
)

// tail is the length of a row's encoding from last-bid on: the fields that may
// change, and the fee.
const tail = 3*8 + 2 + ownerBegin + 2 + 2*8 + 1 + 8

// decodeRow reads and checks one row from all of b into m. The strings of m alias b.
func decodeRow(b []byte, m *Member) error {
	r := reader{rest: b}
	m.Slug, m.Kind = r.view(), Kind(r.byte())
	m.Category, m.Name, m.URL, m.Description, m.Report = r.view(), r.view(), r.view(), r.view(), r.view()
	if m.Score = (Score{}); r.flag() {
		m.Score = Score{Given: true, Value: r.byte(), Provider: r.view(), Version: r.view(), ScannedAt: r.number()}
	}
	copy(m.Owner[ownerBegin:], r.take(ownerEnd))
	m.Joined, m.LastBid, m.Fee, m.Bids = r.number(), r.number(), r.number(), r.number()
	standing := r.byte()
	m.Hidden, m.Departed, m.Redacted = standing == isHidden, standing == isDeparted, r.flag()
	m.Removed = standing == isRemoved || m.Departed
	copy(m.Owner[:], r.take(ownerBegin))
	m.Claimed, m.Asleep = r.flag(), r.flag()
	m.HealthSince, m.Verified, m.Proof, m.Changed = r.number(), r.number(), Proof(r.byte()), r.number()
	switch {
	case r.failed || len(r.rest) != 0 || standing > isDeparted:
		return &reason{ErrRow, "encoding"}
	case !validSlug(m.Slug) || m.Kind.String() == "" || !ValidCategory(m.Category) || m.Score.check() != nil,
		!stamp(m.Joined) || !stamp(m.LastBid) || m.Bids == 0 && m.LastBid != 0,
		m.Fee > MaxAmount || m.Bids > MaxTotal || m.Total() > MaxTotal,
		!stamp(m.HealthSince) || !stamp(m.Verified) || !stamp(m.Changed),
		m.Proof > ByLink || m.Proof == 0 && m.Verified != 0 || m.Claimed && m.Owner == Account{},
		m.Redacted && (!m.Removed || m.Departed || m.Name != ""),
		(m.Name == "") != (m.URL == "") || m.Name == "" && (m.Description != "" || m.Report != ""),
		longer(m.Name, MaxName) || longer(m.Description, MaxDescription) || len(m.Report) > MaxReport:
		return &reason{ErrRow, "fields"}
	case m.URL != "" && !isCanonical(m.URL):
		return &reason{ErrRow, "URL"}
	}
	return nil
}

// longer says whether text has more than most code points.
func longer(text string, most int) bool {
	return len(text) > most && utf8.RuneCountInString(text) > most
}
