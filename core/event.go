package core

import (
	"cmp"
	"errors"
	"strings"
)

// Event is one entry of the ledger: [*Rules], [*Joined], [*Bid], [*Removed],
// [*Adjusted], [*Hidden], [*Shown], [*Claimed], [*Changed], [*Moved], [*Left],
// [*Verified], [*Unverified], [*Asleep], [*Awake], [*SetBack], [*Departed], [*Returned],
// [*Lapsed], [*Payees], [*Keys] or [*Snapshotted]. Events carry the writer's stamp in
// milliseconds since 1970, UTC, and never the address of a client.
type Event interface {
	// When gives the writer's stamp in milliseconds.
	When() int64
	appendBody(dst []byte) []byte
	eventType() byte
	check() error
}

// Rules opens the ring and, later, changes what its documents show. The first
// event of a ledger is one, and every edge takes everything that it prints
// from the latest.
type Rules struct {
	Stamp         int64
	Name          string    // the ring's name
	BaseURL       string    // absolute, without a trailing slash; links everywhere begin with it
	Fee, MinBid   int64     // cents
	Grace, Decay  int64     // whole seconds; Decay is at least one
	Networks      []Network // how members pay, in the order of the offers
	Scorer        string    // name of the scoring service
	RequiredScore uint8     // least score that may join, 0 to 100
	Synthetic     bool      // made for measurement, not by payments
	VisitAsleep   bool      // traversal leads to members that are asleep, too
	Policies
	Look
	Operator Operator
}

// Operator is who runs the ring, as pages and documents say it. A field is empty where that is not said.
type Operator struct {
	Name    string // a person or an organisation, in at most [MaxName] code points, as Payee
	Contact string // http, https or mailto URL
	Payee   string // who receives what members pay, in words
}

// Look is how pages and cards of the ring look. Fields are empty where they look as the program
// draws them.
type Look struct {
	Welcome    string // words for the front page, of at most [MaxDescription] code points
	Accent     string // the ring's colour on light paper, such as "#a8321a"
	AccentDark string // the same on dark paper; given if Accent is
	Logo       string // the view box of an SVG drawing and the data of its path, such as "0 0 32 32 M2 2h28v28z"
}

// Policies are the operator's own pages, which every page and document names. A
// field is empty when there is no such page.
type Policies struct {
	Terms   string // http or https URL
	Privacy string // http or https URL
	Report  string // where to report a member: http, https or mailto URL
}

// Network is one way to pay, as documents name it.
type Network struct {
	Name     string // network, such as "tempo:42431"
	Method   string // payment method, such as "tempo"
	Currency string // token in the method's spelling
}

// Joined is a paid registration. Name, Description, URL and Report stand in
// it as commitments; the words travel with the event as [Texts].
type Joined struct {
	Stamp       int64
	Slug        string
	Kind        Kind
	Category    string
	Name        Commitment
	URL         Commitment
	Description Commitment // zero when the member gave none
	Report      Commitment // zero when the scorer gave none
	Score       Score
	Fee, Bid    int64 // cents as paid; Bid is 0 without an opening bid
	Payment     Payment
}

// Bid is a paid bid on a member.
type Bid struct {
	Stamp   int64
	Member  string // slug
	Amount  int64  // cents as paid
	Payment Payment
}

// Removed takes a member out of the ring. With Redacted, salts and texts of
// the member are deleted wherever the ledger is kept, and the fold accepts
// their absence. A member that was removed without can be redacted by a second
// event.
type Removed struct {
	Stamp    int64
	Member   string // slug
	Reason   string // words, in events of earlier versions alone; see [Why]
	Redacted bool
	Why
}

// Hidden takes a member out of the ring until it is [Shown] again. Its slug, URL
// and payments stay with it, and payments that settle meanwhile still count.
type Hidden struct {
	Stamp  int64
	Member string // slug
	Reason string // words, in events of earlier versions alone; see [Why]
	Why
}

// Shown puts a hidden member back at its place in join order.
type Shown struct {
	Stamp  int64
	Member string // slug
	Reason string // words, in events of earlier versions alone; see [Why]
	Why
}

// SetBack sets the clock of the ring back to its stamp, which may be before those of
// earlier events: they came from a clock that was ahead. Nothing that they did is lost. What
// they did at a later instant was done at this one.
type SetBack struct {
	Stamp  int64
	Reason string
}

// Adjustment says what an [Adjusted] event does.
type Adjustment uint8

const (
	// Credit adds a payment that arrived and was never credited; it counts
	// as a bid.
	Credit Adjustment = 1 + iota
	// Void records that a payment vanished from its chain. Totals never
	// shrink, so it changes the books of the ring and not the member.
	Void
	// Unclaimed records a payment that arrived and belongs to no member of the ring. It
	// changes the books only.
	Unclaimed
)

// Adjusted is the operator's correction of one payment.
type Adjusted struct {
	Stamp      int64
	Adjustment Adjustment
	Member     string // slug; empty for Unclaimed
	Amount     int64  // cents, up to [MaxTotal]: a payment can be fee and bid
	Payment    Payment
	Reason     string
}

// Payment names a settled payment. All of it is public. Network and
// Transaction together are the payment's identity; in a synthetic ring there
// may be none.
type Payment struct {
	Method      string // payment method, such as "tempo"
	Network     string // network, such as "tempo:42431"
	Transaction string // reference of the transaction in the method's spelling
	Payer       string // account that paid
	// Payee is the token and the account that was paid, in the method's spelling: for the methods
	// "tempo" and "evm", "0x{token}/0x{account}" in lower case. It is "" in events of earlier
	// versions, and in an adjustment of a transaction that paid several payees of the ring.
	Payee string
	// Binding ties the transfer to the challenge that it answers: for "tempo" the memo of the
	// transfer, for "evm", and so for x402, the nonce of the authorisation. Both are 32 bytes as 0x
	// and lower-case hex digits. The payee's token logs it with the transfer, in whatever
	// transaction the money came. It is "" where Payee is, and in an adjustment of a transaction
	// of which no credential is known.
	Binding string
}

// PaymentOf gives the payment that an event names, and what the event gave for it in cents, or,
// negative, took back. Events about no payment give zero values.
func PaymentOf(e Event) (p Payment, cents int64) {
	switch e := e.(type) {
	case *Joined:
		return e.Payment, e.Fee + e.Bid
	case *Bid:
		return e.Payment, e.Amount
	case *Adjusted:
		if e.Adjustment == Void {
			return e.Payment, -e.Amount
		}
		return e.Payment, e.Amount
	}
	return p, 0
}

// Score is what a scoring service said of a site.
type Score struct {
	Given     bool
	Value     uint8  // 0 to 100
	Provider  string // scoring service
	Version   string // version of its rubric, "" when it names none
	ScannedAt int64  // milliseconds, 0 when unknown
}

// Commitment is SHA-256(salt ‖ text); the zero value means no text.
type Commitment [32]byte

// Given says whether the commitment is one to a text.
func (c Commitment) Given() bool { return c != Commitment{} }

// When gives the writer's stamp in milliseconds.
func (e *Rules) When() int64    { return e.Stamp }
func (e *Joined) When() int64   { return e.Stamp }
func (e *Bid) When() int64      { return e.Stamp }
func (e *Removed) When() int64  { return e.Stamp }
func (e *Adjusted) When() int64 { return e.Stamp }
func (e *Hidden) When() int64   { return e.Stamp }
func (e *Shown) When() int64    { return e.Stamp }
func (e *SetBack) When() int64  { return e.Stamp }

// MemberOf gives the slug of the member that an event is about, or "" for none.
func MemberOf(e Event) string {
	switch e := e.(type) {
	case *Joined:
		return e.Slug
	case *Bid:
		return e.Member
	case *Removed:
		return e.Member
	case *Adjusted:
		return e.Member
	case *Hidden:
		return e.Member
	case *Shown:
		return e.Member
	}
	return memberOfOwned(e)
}

func (*Rules) eventType() byte    { return 1 }
func (*Joined) eventType() byte   { return 2 }
func (*Bid) eventType() byte      { return 3 }
func (*Removed) eventType() byte  { return 4 }
func (*Adjusted) eventType() byte { return 5 }
func (*Hidden) eventType() byte   { return 6 }
func (*Shown) eventType() byte    { return 7 }
func (*SetBack) eventType() byte  { return 16 }

// ErrEvent is wrapped by every error that says an event's bytes are not the
// encoding of any event.
var ErrEvent = errors.New("core: malformed event")

// ErrNewer is wrapped by the error about an event of a kind or format that this version does not know. It wraps
// [ErrEvent].
var ErrNewer error = newer{}

type newer struct{}

func (newer) Error() string {
	return "core: an event of a kind that this version does not know: a newer version wrote it; install that version again"
}
func (newer) Unwrap() error { return ErrEvent }

// check enforces the limits that an event must meet by itself, whatever the
// state. Encoding and decoding both call it, so nothing can be written that
// could not be read.

func (e *Rules) check() error {
	switch {
	case e.Name == "" || len(e.Name) > MaxNote:
		return bad("ring name")
	case e.BaseURL == "" || len(e.BaseURL) > MaxNote || e.BaseURL[len(e.BaseURL)-1] == '/':
		return bad("base URL")
	case !amount(e.Fee) || !amount(e.MinBid) || e.MinBid == 0:
		return bad("fee or minimum bid")
	case e.Grace < 0 || e.Grace > MaxWindow || e.Decay < 1 || e.Decay > MaxWindow:
		return bad("grace period or decay span")
	case len(e.Networks) > maxNetworks || len(e.Scorer) > MaxNote || e.RequiredScore > 100:
		return bad("networks or scorer")
	}
	for _, n := range e.Networks {
		if !note(n.Name) || !note(n.Method) || !note(n.Currency) {
			return bad("network")
		}
	}
	if o := &e.Operator; longer(o.Name, MaxName) || longer(o.Payee, MaxName) || !policy(o.Contact) && !mail(o.Contact) {
		return bad("operator")
	}
	return cmp.Or(e.Policies.check(), e.Look.check())
}

func (l *Look) check() error {
	if longer(l.Welcome, MaxDescription) || (l.Accent == "") != (l.AccentDark == "") || !colour(l.Accent) || !colour(l.AccentDark) ||
		len(l.Logo) > MaxLogo || strings.Trim(l.Logo, pathData) != "" {
		return bad("look")
	}
	return nil
}

// pathData has the characters of the data of a path in SVG.
const pathData = "0123456789 +-.,eEMmZzLlHhVvCcSsQqTtAa"

// colour says whether s is a colour of six hexadecimal digits, or none.
func colour(s string) bool {
	return s == "" || len(s) == 7 && s[0] == '#' && strings.Trim(s[1:], "0123456789abcdef") == ""
}

func (p *Policies) check() error {
	if !policy(p.Terms) || !policy(p.Privacy) || !policy(p.Report) && !mail(p.Report) {
		return bad("policies")
	}
	return nil
}

// policy says whether address may stand for a page, or for none.
func policy(address string) bool {
	return address == "" || len(address) <= MaxNote && (strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://"))
}

func mail(address string) bool {
	return len(address) <= MaxNote && strings.HasPrefix(address, "mailto:")
}

func (e *Joined) check() error {
	switch {
	case !validSlug(e.Slug):
		return bad("slug")
	case e.Kind.String() == "":
		return bad("kind")
	case !ValidCategory(e.Category):
		return bad("category")
	case !e.Name.Given() || !e.URL.Given():
		return bad("commitment")
	case e.Score.check() != nil:
		return bad("score")
	case !amount(e.Fee) || !amount(e.Bid):
		return bad("amount")
	}
	return e.Payment.check()
}

func (e *Bid) check() error {
	if !validSlug(e.Member) {
		return bad("member")
	}
	if !amount(e.Amount) || e.Amount == 0 {
		return bad("amount")
	}
	return e.Payment.check()
}

func (e *Removed) check() error {
	return cmp.Or(moderation(e.Member, e.Reason), e.Why.check(e.Reason, e.Redacted))
}
func (e *Hidden) check() error {
	return cmp.Or(moderation(e.Member, e.Reason), e.Why.check(e.Reason, false))
}
func (e *Shown) check() error {
	return cmp.Or(moderation(e.Member, e.Reason), e.Why.check(e.Reason, false))
}

func (e *SetBack) check() error {
	if len(e.Reason) > MaxNote {
		return bad("reason")
	}
	return nil
}

// moderation checks what the operator's events about a member have in common.
func moderation(member, reason string) error {
	if !validSlug(member) {
		return bad("member")
	}
	if len(reason) > MaxNote {
		return bad("reason")
	}
	return nil
}

func (e *Adjusted) check() error {
	switch {
	case e.Adjustment < Credit || e.Adjustment > Unclaimed:
		return bad("adjustment")
	case e.Adjustment == Unclaimed && e.Member != "", e.Adjustment != Unclaimed && !validSlug(e.Member):
		return bad("member")
	case e.Amount < 1 || e.Amount > MaxTotal:
		return bad("amount")
	case len(e.Reason) > MaxNote:
		return bad("reason")
	}
	return e.Payment.check()
}

func (s *Score) check() error {
	if s.Value > 100 || len(s.Provider) > MaxNote || len(s.Version) > MaxNote || !stamp(s.ScannedAt) || !s.Given && *s != (Score{}) {
		return bad("score")
	}
	return nil
}

func (p *Payment) check() error {
	for _, s := range [...]string{p.Method, p.Network, p.Transaction, p.Payer, p.Payee, p.Binding} {
		if len(s) > MaxNote {
			return bad("payment")
		}
	}
	return nil
}

func amount(cents int64) bool { return cents >= 0 && cents <= MaxAmount }
func note(s string) bool      { return s != "" && len(s) <= MaxNote }
func stamp(ms int64) bool     { return ms >= 0 && ms <= MaxStamp }
