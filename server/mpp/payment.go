package mpp

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Payment is what a payment method read out of a credential and checked
// without a network. It is stored as JSON in a reservation before anything is
// sent and, after a crash, given back to the method: all that the method needs
// to go on is in it.
type Payment struct {
	Method      string    `json:"method"`
	ChallengeID string    `json:"challenge_id"`
	Realm       string    `json:"realm"`
	Cents       int64     `json:"cents"`      // US cents
	Raw         []byte    `json:"raw"`        // canonical bytes of what was signed
	Reference   string    `json:"reference"`  // lower-case 0x transaction hash; before there is one, another name of 32 bytes
	ReplayKey   string    `json:"replay_key"` // one spelling for ever of what can pay once: "tempo:42431:<64 hex digits>"
	Payer       string    `json:"payer"`      // "did:pkh:eip155:42431:0x…", lower case
	ValidBefore time.Time `json:"valid_before"`
}

// Format prints what may be public: until it is mined, Raw is money in
// anyone's hand.
func (p Payment) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "mpp.Payment(%s %s, %d cents)", p.Method, p.Reference, p.Cents)
}

// LogValue is what structured logs show of p.
func (p Payment) LogValue() slog.Value {
	return slog.GroupValue(slog.String("method", p.Method), slog.String("reference", p.Reference), slog.Int64("cents", p.Cents))
}

// State is what is known about a payment that was sent, or may have been.
type State uint8

// The zero State is Pending: what nobody said is not known.
const (
	Pending    State = iota // nothing final is known
	Settled                 // mined, and it paid us
	Failed                  // mined and reverted, for good
	Mismatched              // mined with status 1, but it did not pay us, for good
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
	// Deep is set when no reorganisation that the method's depth provides
	// for can change State any more. Failed, Mismatched and Gone are only
	// ever said when that is so; Settled is said at once, and may be
	// asked for again until it is deep.
	Deep bool
	// Reference names the transaction that settled the payment, where that is
	// known only then; "" stands for the payment's own.
	Reference string
	// Brought is what that transaction brought the recipient that was signed for
	// in all, in US cents, where it can have settled more than this payment; 0
	// stands for the payment's own amount.
	Brought int64
	Detail  string // for the operator's log; never for a caller
}

// Transfer is money that reached the recipient, as a network shows it: what one
// transaction brought, whatever for.
type Transfer struct {
	Reference string    `json:"reference"` // lower-case 0x transaction hash
	Payer     string    `json:"payer"`     // account of the first transfer in it
	Cents     int64     `json:"cents"`     // US cents, rounded down; at least 1
	At        time.Time `json:"at"`        // of its block
}

// ErrNoTransfer says that a transaction is not on the chain, or brought the
// recipient nothing.
var ErrNoTransfer = errors.New("mpp: no such transfer")

// ErrUnavailable says that a node was silent or answered nonsense: nothing is
// known, and nothing may be concluded.
var ErrUnavailable = errors.New("mpp: payment network unavailable")

// The codes a [Rejection] can carry; they are codes of the problem table.
const (
	CodeMalformed   = "malformed_credential"
	CodeChallenge   = "invalid_challenge"
	CodeExpired     = "payment_expired"
	CodeVerify      = "verification_failed"
	CodeUnsupported = "unsupported_method"
)

// Rejection is a refusal of a credential on its own merits, offline or by
// simulation: nothing was sent, nothing is owed. Both fields may be shown to
// the caller, so Detail is fixed text and never quotes a node or a credential.
type Rejection struct{ Code, Detail string }

// Error is the detail behind the code.
func (r *Rejection) Error() string { return "mpp: " + r.Code + ": " + r.Detail }
