package mpp

import (
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"
)

// Payment is what a payment method read out of a credential and checked
// without a network. It is stored as JSON in a reservation before anything is
// sent and, after a crash, given back to the method: all that the method needs
// to go on is in it.
type Payment struct {
	Method      string    `json:"method"`
	Cents       int64     `json:"cents"`               // US cents
	Raw         []byte    `json:"raw"`                 // canonical bytes of what was signed
	Reference   string    `json:"reference"`           // lower-case 0x transaction hash; before there is one, another name of 32 bytes
	ReplayKey   string    `json:"replay_key"`          // one spelling for ever of what can pay once: "tempo:42431:<64 hex digits>"
	Payer       string    `json:"payer"`               // "did:pkh:eip155:42431:0x…", lower case
	Payee       string    `json:"payee,omitempty"`     // recipient and currency, as its method names them
	Binding     string    `json:"binding,omitempty"`   // what ties the transfer to the challenge, as the payee's token logs it
	ValidFrom   time.Time `json:"valid_from,omitzero"` // the first second in which it can be mined
	ValidBefore time.Time `json:"valid_before"`
	// Bearer says that what was signed does not name the challenge: anyone with the
	// signature can present it for a request of their own.
	Bearer bool `json:"bearer,omitempty"`
	// Contract says that the payer is a smart account: its signature is only checked by the
	// network, which asks the account's code. Until then, anybody may have made it up.
	Contract bool `json:"contract,omitempty"`
	// Endless says that what was signed has no end: it can be mined until its nonce is used.
	// ValidBefore is then the instant by which it should have been mined.
	Endless bool `json:"endless,omitempty"`
	// Until is the end of what was signed if nothing is held for that long; the zero time otherwise.
	// ValidBefore is then the instant by which it should have been mined.
	Until time.Time `json:"until,omitzero"`
	// Nonce names the nonce that it uses up: of all transactions with that, one at most is
	// mined. Its number stands behind the last colon, and before that the name of its lane.
	// "" if it has none that another payment could use up.
	Nonce string `json:"nonce,omitempty"`
	// Submissions are the transactions that this service has signed for it at its own
	// expense, the oldest first; see [Expenses].
	Submissions []Submission `json:"submissions,omitempty"`
}

// Bound is p as its token logs it.
func (p Payment) Bound() Bound { return Bound{p.Payer, p.Binding} }

// Outlives says that p can be mined after ValidBefore.
func (p Payment) Outlives() bool { return p.Endless || !p.Until.IsZero() }

// CanBeMined says whether p can be mined at a time.
func (p Payment) CanBeMined(at time.Time) bool {
	return p.Endless || at.Before(p.ValidBefore) || at.Before(p.Until)
}

// Lane names what the nonces of p and others are counted in; "" if p has no nonce.
func (p Payment) Lane() string { return p.Nonce[:max(0, strings.LastIndexByte(p.Nonce, ':'))] }

// Submission is a transaction with which this service submits a payment and pays for the
// gas. Of those with one nonce, one at the most is ever mined.
type Submission struct {
	Transaction string `json:"transaction"` // lower-case 0x hash
	Nonce       uint64 `json:"nonce"`       // of the account that pays for the gas
	Gas         uint64 `json:"gas"`         // units that it can use at the most
	Price       string `json:"price"`       // wei for a unit at the most, decimal
}

// Expenses decides what a method may submit for one payment at this service's expense,
// and remembers what it has submitted.
type Expenses interface {
	// Allow says why the payment may not be submitted now by a transaction that can cost so
	// much wei, with all that replace it; nil when it may. Then the payment is charged with that.
	Allow(most *big.Int) error
	// Store remembers a transaction before it is sent. Without that it must not be sent.
	Store(s Submission) error
}

// LastSecond is the last of the year 9999, as Unix time: no JSON holds a later one.
const LastSecond = 253402300799

// MinAhead is how far ahead of now a payment's end must lie: one that ends sooner
// could expire on its way.
const MinAhead = 5 * time.Second

// InTime says whether p, which answers a challenge that expires then, can be sent
// now. It may stay valid for no longer than the challenge, unless its payer has chosen the
// end without one ([Payment.Bearer]), and for no longer than longest from now, unless it has
// no end. nil means yes.
func (p Payment) InTime(now, expires time.Time, longest time.Duration) *Rejection {
	ahead := p.ValidBefore.Sub(now)
	switch {
	case !now.Before(expires):
		return &Rejection{Code: CodeExpired, Reason: ReasonExpired, Detail: "the challenge has expired"}
	case ahead < MinAhead:
		return &Rejection{Code: CodeExpired, Reason: ReasonExpired, Detail: "the payment's own validity ends too soon"}
	case !p.Endless && ahead > longest || !p.Bearer && p.ValidBefore.After(expires):
		return Refuse(ReasonLong, "the payment stays valid for longer than it may")
	case p.ValidFrom.After(now):
		return Refuse(ReasonEarly, "the payment is not valid yet")
	}
	return nil
}

// Format prints what may be public: until it is mined, Raw is money in
// anyone's hand.
func (p Payment) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "mpp.Payment(%s %s, %d cents)", p.Method, p.Reference, p.Cents)
}

// LogValue is what structured logs show of p.
func (p Payment) LogValue() slog.Value {
	return slog.GroupValue(slog.String("method", p.Method), slog.String("transaction", p.Reference), slog.Int64("cents", p.Cents))
}

// State is what is known about a payment that was sent, or may have been.
type State uint8

// The zero State is Pending: nothing is known.
const (
	Pending    State = iota // nothing final is known
	Settled                 // mined, and it paid us
	Failed                  // mined and reverted; final
	Mismatched              // mined with status 1, but it did not pay us; final
	Gone                    // provably can never be mined
)

// String is the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

var stateNames = [...]string{"pending", "settled", "failed", "mismatched", "gone"}

// Outcome is a payment method's answer to "what became of it".
type Outcome struct {
	State State
	// Deep says that no reorganisation within the method's depth can change State any
	// more. Failed, Mismatched and Gone are deep, if the payment is stored; Settled comes at
	// once, and may be asked for again until it is deep.
	Deep bool
	// Over is the time of the newest block, by which a Gone payment cannot be mined any more; the
	// zero time if something else than the time shows that.
	Over time.Time
	// Due is when the block that decides about a Pending payment is expected; the zero
	// time if that is not known.
	Due time.Time
	// Reference names the transaction that settled the payment, where that is
	// known only then; "" stands for the payment's own.
	Reference string
	// Received is all that the transaction brought the payment's recipient, in US cents,
	// if it may have settled more than this payment; 0 stands for the payment's own
	// amount.
	Received int64
	// Wasted is gas that this service has paid for the payment for nothing; nil if none is
	// known. Each outcome of the payment repeats it.
	Wasted *Waste
	Detail string // for the operator's log; never for a caller
}

// Waste is gas that this service has paid for a transaction that was mined and
// reverted, of a payment that has not come.
type Waste struct {
	Transaction string `json:"transaction"` // lower-case 0x hash
	Gas         uint64 `json:"gas"`         // units
	Wei         string `json:"wei"`         // what they cost, decimal
}

// Transfer is money that reached the recipient, as a network shows it: what one
// transaction brought, whatever for.
type Transfer struct {
	Reference string    `json:"reference"` // lower-case 0x transaction hash
	Payer     string    `json:"payer"`     // account of the first transfer in it
	Cents     int64     `json:"cents"`     // US cents, rounded down; at least 1
	At        time.Time `json:"at"`        // of its block
	Senders   int       `json:"-"`         // how many accounts the money came from, at most
	Payee     string    `json:"-"`         // as [Payment.Payee]; "" if it is not known, or there are several
	Bound     []Bound   `json:"-"`         // the payments that its token names in the transaction
}

// Bound names a payment as the token logs it: its payer, and [Payment.Binding].
type Bound struct{ Payer, Binding string }

// ErrNoTransfer says that a transaction is not on the chain, or brought the
// recipient nothing.
var ErrNoTransfer = errors.New("mpp: no such transfer")

// ErrUnavailable says that a node was silent or answered nonsense: nothing is
// known, and nothing may be concluded.
var ErrUnavailable = errors.New("mpp: payment network unavailable")

// The codes of rejections; they are codes of the problem table.
const (
	CodeMalformed = "malformed_credential"
	CodeExpired   = "payment_expired"
	CodeVerify    = "verification_failed"
	CodeUnapplied = "payment_unapplied"
)

// The reasons of rejections: what the payer can do something about. They are
// shown, and explained where the service is described.
const (
	ReasonFunds     = "insufficient_funds"
	ReasonFee       = "fee_too_low"
	ReasonGas       = "gas_out_of_range"
	ReasonChain     = "wrong_chain"
	ReasonToken     = "wrong_token"
	ReasonRecipient = "wrong_recipient"
	ReasonAmount    = "wrong_amount"
	ReasonChallenge = "wrong_challenge"
	ReasonSigner    = "wrong_signer"
	ReasonKey       = "key_not_allowed"
	ReasonForm      = "unsupported_form"
	ReasonAbsent    = "account_not_deployed"
	ReasonExpired   = "expired"
	ReasonEarly     = "not_yet_valid"
	ReasonLong      = "valid_too_long"
	ReasonUsed      = "already_used"
	ReasonNonce     = "nonce_not_next"
	ReasonReverted  = "reverted"
	ReasonNotMined  = "not_mined"
	ReasonWaste     = "wasted_gas"
)

// Reasons lists them all.
func Reasons() []string {
	return []string{ReasonFunds, ReasonFee, ReasonGas, ReasonChain, ReasonToken, ReasonRecipient, ReasonAmount, ReasonChallenge,
		ReasonSigner, ReasonKey, ReasonForm, ReasonAbsent, ReasonExpired, ReasonEarly, ReasonLong, ReasonUsed, ReasonNonce, ReasonReverted, ReasonNotMined,
		ReasonWaste}
}

// Rejection is a refusal of a credential on its own merits, offline or by
// simulation: nothing was sent, nothing is owed. All fields may be shown to
// the caller, so Detail is fixed text and never quotes a node or a credential.
// Reason is "" where the code says it all.
type Rejection struct{ Code, Reason, Detail string }

// Error is the detail behind the code.
func (r *Rejection) Error() string { return "mpp: " + r.Code + ": " + r.Detail }

// Refuse is a rejection that says why a credential or what was signed does not hold.
func Refuse(reason, detail string) *Rejection { return &Rejection{CodeVerify, reason, detail} }

// MalformedPayload refuses a payload that its method cannot read.
var MalformedPayload = &Rejection{Code: CodeMalformed, Detail: "the payload is malformed"}
