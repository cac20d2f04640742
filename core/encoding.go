package core

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"webring/core/flat"
)

// The encoding of events never changes. One event has one encoding, and bytes
// that are not an encoding are refused, so a hash of the bytes is a hash of the
// event. The rules by which [State.Apply] accepts events are part of the format,
// the spelling of [AppendURL] among them: what was accepted once must always be
// accepted.
//
//	event      = version type stamp body
//	version    = byte, 1
//	type       = byte: 1 rules, 2 joined, 3 bid, 4 removed, 5 adjusted, 6 hidden, 7 shown,
//	             8 claimed, 9 changed, 10 moved, 11 left, 12 verified, 13 unverified,
//	             14 asleep, 15 awake, 16 set back, 17 departed, 18 returned, 19 lapsed,
//	             20 payees, 21 keys, 22 snapshotted
//	stamp      = number, milliseconds
//	number     = 8 bytes, big endian, below 2^63
//	string     = length (2 bytes, big endian) bytes, valid UTF-8
//	flag       = byte, 0 or 1
//	optional x = flag, and x when it is 1
//
//	rules      = name base-url fee min-bid grace decay
//	             count(byte) (name method currency)… scorer required-score(byte) synthetic(flag)
//	             further
//	further    = nothing, or policies, or policies more(byte) with a 2: look, and with a 4: operator
//	more       = the sum, which is not 0, of 1 when traversal visits sleeping members, 2 with a look
//	             and 4 with an operator
//	look       = welcome accent accent-dark logo; one at least is not empty
//	policies   = terms privacy report; without more, one at least is not empty
//	operator   = name contact payee; one at least is not empty
//	joined     = slug kind(byte) category
//	             commitment(name) commitment(url)
//	             optional commitment(description) optional commitment(report)
//	             optional (value(byte) provider version scanned-at)
//	             fee bid payment paid-to
//	bid        = member amount payment paid-to
//	removed    = member reason redacted(flag) why
//	adjusted   = adjustment(byte) member amount payment reason paid-to
//	hidden     = member reason why
//	shown      = member reason why
//	why        = nothing, or code(byte) optional commitment(words); with a code, the reason before it is empty
//	claimed    = member account proof(byte)
//	changed    = member optional commitment(name) description category kind(byte)
//	             with an empty category, and a kind of 0, when they stay
//	description = 0 when it stays, or 1 when it is cleared, or 2 commitment
//	moved      = member commitment(url) optional commitment(report)
//	             optional (value(byte) provider version scanned-at)
//	left       = member
//	verified   = member proof(byte)
//	unverified = member
//	asleep     = member
//	awake      = member
//	set back   = reason
//	departed   = member
//	returned   = member given-back
//	given-back = nothing, or account claimed(flag)
//	lapsed     = member
//	payees     = count(byte) (network account)…
//	keys       = current next
//	snapshotted = size state(16 bytes) digest(32 bytes) length(number)
//	payment    = method network transaction payer
//	paid-to    = nothing, or payee binding, of which one at least is not empty
//	commitment = 32 bytes, not all zero
//	account    = 20 bytes, not all zero
//	proof      = 1 file, 2 DNS, 3 link; a claim is not proved by a link
const formatVersion = 1

// AppendEvent appends the encoding of e to dst. It fails, with dst unchanged,
// when e is beyond a limit of the format.
func AppendEvent(dst []byte, e Event) ([]byte, error) {
	if err := e.check(); err != nil {
		return dst, err
	}
	if !stamp(e.When()) {
		return dst, bad("stamp")
	}
	out := append(dst, formatVersion, e.eventType())
	out = appendNumber(out, e.When())
	out = e.appendBody(out)
	if len(out)-len(dst) > MaxEvent {
		return dst, bad("length")
	}
	// The decoder checks strings (UTF-8). Asking it here keeps one rule.
	if _, err := DecodeEvent(out[len(dst):]); err != nil {
		return dst, err
	}
	return out, nil
}

// DecodeEvent reads one event from all of b. Every error wraps [ErrEvent].
// Nothing in the result aliases b.
func DecodeEvent(b []byte) (Event, error) { return decodeEvent(b, nil) }

// reused holds events of the two most frequent types. [State.Apply] decodes into
// it, so that folding them allocates nothing.
type reused struct {
	bid    Bid
	joined Joined
}

// decodeEvent is [DecodeEvent]. If into is not nil, bids and registrations are
// decoded into it, and their strings alias b.
func decodeEvent(b []byte, into *reused) (Event, error) {
	if len(b) > MaxEvent {
		return nil, bad("length")
	}
	r := reader{rest: b}
	if v := r.byte(); v > formatVersion {
		return nil, ErrNewer
	} else if v != formatVersion {
		return nil, bad("version")
	}
	typ, when := r.byte(), r.number()
	var e Event
	r.aliases = into != nil && (typ == 2 || typ == 3)
	switch typ {
	case 1:
		e = r.rules(when)
	case 2:
		var joined *Joined
		if into != nil {
			joined = &into.joined
		} else {
			joined = new(Joined)
		}
		r.joined(when, joined)
		e = joined
	case 3:
		var bid *Bid
		if into != nil {
			bid = &into.bid
		} else {
			bid = new(Bid)
		}
		*bid = Bid{Stamp: when, Member: r.string(), Amount: r.number(), Payment: r.payment()}
		r.paidTo(&bid.Payment)
		e = bid
	case 4:
		e = &Removed{Stamp: when, Member: r.string(), Reason: r.string(), Redacted: r.flag(), Why: r.why()}
	case 5:
		adjusted := &Adjusted{Stamp: when, Adjustment: Adjustment(r.byte()), Member: r.string(), Amount: r.number(),
			Payment: r.payment(), Reason: r.string()}
		r.paidTo(&adjusted.Payment)
		e = adjusted
	case 6:
		e = &Hidden{Stamp: when, Member: r.string(), Reason: r.string(), Why: r.why()}
	case 7:
		e = &Shown{Stamp: when, Member: r.string(), Reason: r.string(), Why: r.why()}
	case 16:
		e = &SetBack{Stamp: when, Reason: r.string()}
	default:
		if e = r.owned(typ, when); e == nil {
			e = r.published(typ, when)
		}
		if e == nil {
			return nil, ErrNewer
		}
	}
	if r.failed || len(r.rest) != 0 {
		return nil, bad("encoding")
	}
	if !stamp(when) {
		return nil, bad("stamp")
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Rules) appendBody(b []byte) []byte {
	b = appendString(b, e.Name)
	b = appendString(b, e.BaseURL)
	b = appendNumber(b, e.Fee)
	b = appendNumber(b, e.MinBid)
	b = appendNumber(b, e.Grace)
	b = appendNumber(b, e.Decay)
	b = append(b, byte(len(e.Networks)))
	for _, n := range e.Networks {
		b = appendString(b, n.Name)
		b = appendString(b, n.Method)
		b = appendString(b, n.Currency)
	}
	b = appendString(b, e.Scorer)
	b = append(b, e.RequiredScore)
	b = appendFlag(b, e.Synthetic)
	more := byte(0)
	if e.VisitAsleep {
		more |= visitsAsleep
	}
	if e.Look != (Look{}) {
		more |= hasLook
	}
	if e.Operator != (Operator{}) {
		more |= hasOperator
	}
	if e.Policies != (Policies{}) || more != 0 {
		b = appendString(b, e.Terms)
		b = appendString(b, e.Privacy)
		b = appendString(b, e.Report)
	}
	if more != 0 {
		b = append(b, more)
	}
	if more&hasLook != 0 {
		b = appendString(b, e.Welcome)
		b = appendString(b, e.Accent)
		b = appendString(b, e.AccentDark)
		b = appendString(b, e.Logo)
	}
	if more&hasOperator != 0 {
		b = appendString(b, e.Operator.Name)
		b = appendString(b, e.Operator.Contact)
		b = appendString(b, e.Operator.Payee)
	}
	return b
}

// What more stands for.
const visitsAsleep, hasLook, hasOperator = 1, 2, 4

// rules reads rules, which nothing may follow.
func (r *reader) rules(when int64) *Rules {
	e := &Rules{Stamp: when, Name: r.string(), BaseURL: r.string(),
		Fee: r.number(), MinBid: r.number(), Grace: r.number(), Decay: r.number()}
	n := int(r.byte())
	if n > maxNetworks {
		r.failed = true
	}
	for ; n > 0 && !r.failed; n-- {
		e.Networks = append(e.Networks, Network{r.string(), r.string(), r.string()})
	}
	e.Scorer, e.RequiredScore, e.Synthetic = r.string(), r.byte(), r.flag()
	if len(r.rest) > 0 {
		e.Policies = Policies{r.string(), r.string(), r.string()}
		more := byte(0)
		if len(r.rest) > 0 {
			more = r.byte()
			r.failed = r.failed || more == 0 || more&^(visitsAsleep|hasLook|hasOperator) != 0
		}
		e.VisitAsleep = more&visitsAsleep != 0
		if more&hasLook != 0 {
			e.Look = Look{r.string(), r.string(), r.string(), r.string()}
			r.failed = r.failed || e.Look == Look{}
		}
		if more&hasOperator != 0 {
			e.Operator = Operator{r.string(), r.string(), r.string()}
			r.failed = r.failed || e.Operator == Operator{}
		}
		r.failed = r.failed || e.Policies == Policies{} && more == 0
	}
	return e
}

func (e *Joined) appendBody(b []byte) []byte {
	b = appendString(b, e.Slug)
	b = append(b, byte(e.Kind))
	b = appendString(b, e.Category)
	b = append(b, e.Name[:]...)
	b = append(b, e.URL[:]...)
	b = appendOptional(b, e.Description)
	b = appendOptional(b, e.Report)
	b = appendScore(b, e.Score)
	b = appendNumber(b, e.Fee)
	b = appendNumber(b, e.Bid)
	return appendPaidTo(appendPayment(b, e.Payment), e.Payment)
}

func (r *reader) joined(when int64, e *Joined) {
	*e = Joined{Stamp: when, Slug: r.string(), Kind: Kind(r.byte()), Category: r.string(),
		Name: r.commitment(), URL: r.commitment(), Description: r.optional(), Report: r.optional()}
	e.Score = r.score()
	e.Fee, e.Bid, e.Payment = r.number(), r.number(), r.payment()
	r.paidTo(&e.Payment)
}

func (e *Bid) appendBody(b []byte) []byte {
	b = appendString(b, e.Member)
	b = appendNumber(b, e.Amount)
	return appendPaidTo(appendPayment(b, e.Payment), e.Payment)
}

func (e *Removed) appendBody(b []byte) []byte {
	b = appendString(b, e.Member)
	b = appendString(b, e.Reason)
	return appendWhy(appendFlag(b, e.Redacted), e.Why)
}

func (e *Hidden) appendBody(b []byte) []byte {
	return appendWhy(appendString(appendString(b, e.Member), e.Reason), e.Why)
}

func (e *Shown) appendBody(b []byte) []byte {
	return appendWhy(appendString(appendString(b, e.Member), e.Reason), e.Why)
}

func (e *SetBack) appendBody(b []byte) []byte { return appendString(b, e.Reason) }

func (e *Adjusted) appendBody(b []byte) []byte {
	b = append(b, byte(e.Adjustment))
	b = appendString(b, e.Member)
	b = appendNumber(b, e.Amount)
	b = appendPayment(b, e.Payment)
	return appendPaidTo(appendString(b, e.Reason), e.Payment)
}

func appendNumber(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendFlag(b []byte, on bool) []byte {
	if on {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendOptional(b []byte, c Commitment) []byte {
	b = appendFlag(b, c.Given())
	if c.Given() {
		b = append(b, c[:]...)
	}
	return b
}

func appendScore(b []byte, s Score) []byte {
	b = appendFlag(b, s.Given)
	if s.Given {
		b = append(b, s.Value)
		b = appendString(b, s.Provider)
		b = appendString(b, s.Version)
		b = appendNumber(b, s.ScannedAt)
	}
	return b
}

func appendPayment(b []byte, p Payment) []byte {
	b = appendString(b, p.Method)
	b = appendString(b, p.Network)
	b = appendString(b, p.Transaction)
	return appendString(b, p.Payer)
}

// appendPaidTo ends an event with what payments of earlier versions do not say.
func appendPaidTo(b []byte, p Payment) []byte {
	if p.Payee == "" && p.Binding == "" {
		return b
	}
	return appendString(appendString(b, p.Payee), p.Binding)
}

// reader takes fields off the front of rest. Once a field is missing, failed is
// set and all further fields are zero values.
type reader struct {
	rest    []byte
	failed  bool
	aliases bool // strings alias what is read
}

func (r *reader) take(n int) []byte {
	if r.failed || len(r.rest) < n {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.failed = true
	}
	return b == 1
}

func (r *reader) number() int64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	n := binary.BigEndian.Uint64(b)
	if n >= 1<<63 {
		r.failed = true
		return 0
	}
	return int64(n)
}

// view is string without a copy: it aliases what is read.
func (r *reader) view() string {
	b := r.rest
	if len(b) < 2 || r.failed {
		r.failed = true
		return ""
	}
	end := 2 + int(b[0])<<8 + int(b[1])
	if len(b) < end || !flat.ASCII(b[2:end]) && !utf8.Valid(b[2:end]) {
		r.failed = true
		return ""
	}
	r.rest = b[end:]
	return flat.View(b[2:end])
}

func (r *reader) string() string {
	if r.aliases {
		return r.view()
	}
	return strings.Clone(r.view())
}

func (r *reader) commitment() (c Commitment) {
	copy(c[:], r.take(len(c)))
	if !c.Given() {
		r.failed = true
	}
	return c
}

func (r *reader) optional() (c Commitment) {
	if r.flag() {
		c = r.commitment()
	}
	return c
}

func (r *reader) score() (s Score) {
	if r.flag() {
		s = Score{Given: true, Value: r.byte(), Provider: r.string(), Version: r.string(), ScannedAt: r.number()}
	}
	return s
}

func (r *reader) payment() Payment {
	return Payment{Method: r.string(), Network: r.string(), Transaction: r.string(), Payer: r.string()}
}

// paidTo reads what appendPaidTo wrote, which nothing may follow.
func (r *reader) paidTo(p *Payment) {
	if len(r.rest) > 0 {
		p.Payee, p.Binding = r.string(), r.string()
		r.failed = r.failed || p.Payee == "" && p.Binding == ""
	}
}

// reason is an error that adds a detail to the sentinel it wraps.
type reason struct {
	sentinel error
	detail   string
}

func (e *reason) Error() string { return e.sentinel.Error() + ": " + e.detail }
func (e *reason) Unwrap() error { return e.sentinel }

func bad(what string) error { return &reason{ErrEvent, what} }
