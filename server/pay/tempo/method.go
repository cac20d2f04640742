package tempo

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/x402"
)

// Config says where and in what this service is paid.
type Config struct {
	RPC       string // http or https URL of a node
	ChainID   uint64
	Currency  common.Address // a TIP-20 token in US dollars with six decimals
	Recipient common.Address
	// Depth is how many blocks must follow one before it is taken to stay.
	// Tempo's blocks are final when they are seen; 0 believes that.
	Depth uint64
	// Timeout bounds each question to the node, and the wait for a sent
	// transaction to be mined. 0: 15 seconds.
	Timeout time.Duration
}

// Method is the Tempo charge. It is safe for concurrent use and has no state: everything
// that it has to remember is in the [mpp.Payment].
type Method struct {
	node.Payments
	cfg Config
}

// maxAhead is how far ahead of now a transaction's validBefore may lie, as the chain has it since the
// fork T11 (TIP-1093). Clients give 25 seconds to 270. How long one holds anything is up to its
// caller ([mpp.Payment.Until], [mpp.Payment.Endless]).
const maxAhead = 300 * time.Second

// Bounds on a transaction's gas. A plain transfer of a token takes about
// 50 000, and one to a fresh account half a million more, as clients estimate
// it; a key authorization takes a quarter of a million for each slot of storage
// that its limits and permitted calls fill. The upper bound leaves room for
// thirty of them and stays far below what a block can hold: a transaction above
// that is taken by no block, but by most simulations.
const (
	minGas = 21_000
	maxGas = 10_000_000
)

// New checks cfg and makes the method. It asks the node nothing: a node that
// is away at the start may come back.
func New(cfg Config) (*Method, error) {
	payments, err := node.Connect("tempo", cfg.RPC, cfg.ChainID, cfg.Currency, cfg.Recipient, cfg.Depth, cfg.Timeout)
	return &Method{Payments: payments, cfg: cfg}, err
}

// Clock is the time of the newest block.
func (m *Method) Clock(ctx context.Context) (time.Time, error) {
	newest, err := m.Node.Newest(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return newest.Time(), nil
}

type details struct {
	ChainID        uint64   `json:"chainId"`
	SupportedModes []string `json:"supportedModes"`
}

// Request is the request parameter of a challenge for cents US cents: no memo
// and no splits, which lets the client bind the transfer to the challenge, and
// no fee payer.
func (m *Method) Request(cents int64) (string, error) {
	return m.request(cents, m.Token, m.Recipient)
}

func (m *Method) request(cents int64, currency, recipient common.Address) (string, error) {
	return node.Request(cents, node.LowerHex(currency), node.LowerHex(recipient), details{m.cfg.ChainID, []string{"pull"}})
}

// Exact offers nothing: no x402 scheme pays by transactions of Tempo.
func (m *Method) Exact(string) (offer x402.Offer, ok bool) { return offer, false }

// Decode reads the payment out of a credential. The id of its challenge has been
// verified. It checks without a network that it pays what that challenge asks
// for, and for that challenge; its payee names the recipient. Its validity is not
// checked: see [Method.InTime]. Refusals are *mpp.Rejection; there is no other
// error.
func (m *Method) Decode(c mpp.Credential) (mpp.Payment, error) {
	cents, currency, recipient, err := node.Asked(c.Challenge.Request, m.request)
	if err != nil {
		return mpp.Payment{}, err
	}
	raw, err := payload(c, "transaction", "only signed transactions are taken")
	if err != nil {
		return mpp.Payment{}, err
	}
	tx, err := readTransaction(raw)
	if err != nil {
		return mpp.Payment{}, err
	}
	if err := m.checkTransfer(tx, c.Challenge, cents, currency, recipient); err != nil {
		return mpp.Payment{}, err
	}
	if tx.ValidBefore > mpp.LastSecond {
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonLong, "the transaction has no usable validBefore")
	}
	end := time.Unix(int64(tx.ValidBefore), 0).UTC()
	if tx.ValidBefore == 0 {
		if end, err = c.Challenge.ExpiresAt(); err != nil {
			return mpp.Payment{}, mpp.Refuse(mpp.ReasonChallenge, "the challenge has no valid expiry")
		}
	}
	if tx.Gas < minGas || tx.Gas > maxGas {
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonGas, "the transaction's gas is out of range")
	}
	signed := m.Payments
	signed.Token, signed.Recipient = currency, recipient
	payer, err := signed.Signer(c.Source, tx.sender)
	if err != nil {
		return mpp.Payment{}, err
	}
	return mpp.Payment{
		Method: m.Name(), Cents: cents, Raw: tx.raw, Reference: tx.hash.Hex(), ReplayKey: m.replayKey(tx),
		Payer: payer, Payee: signed.Payee(), Binding: common.Hash(tx.memo).Hex(), ValidFrom: time.Unix(int64(min(tx.ValidAfter, mpp.LastSecond)), 0).UTC(),
		ValidBefore: end, Endless: tx.ValidBefore == 0, Nonce: m.nonceName(tx),
	}, nil
}

func (m *Method) replayKey(tx *transaction) string {
	return m.Network() + ":" + hex.EncodeToString(tx.hash[:])
}

// Life is how long its challenges may be answered. A validBefore of the transaction ends
// sooner, within maxAhead.
func (m *Method) Life() time.Duration { return 5 * time.Minute }

// TokenDomain is nil: payments are whole transactions.
func (m *Method) TokenDomain() *mpp.TypedDomain { return nil }

// ToSign is nil: wallets of browsers sign no transactions of Tempo.
func (m *Method) ToSign(mpp.Challenge, [20]byte) (*mpp.ToSign, error) { return nil, nil }

// PaysGas says that payers pay for their gas.
func (m *Method) PaysGas() bool { return false }

// InTime says why a payment for a challenge that ends at expires cannot be sent now, or nil.
// Clients draw validAfter at random from the past.
func (m *Method) InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection {
	return p.InTime(now, expires, maxAhead)
}

// payload takes the bytes out of a credential's payload of one type. Other types of the method are
// refused with why. The field is named signature (draft-tempo-charge-00, "Transaction Payload").
func payload(c mpp.Credential, kind, why string) ([]byte, error) {
	var p struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}
	if err := c.DecodePayload(&p); err != nil || !slices.Contains([]string{"transaction", "hash", "proof"}, p.Type) {
		return nil, mpp.MalformedPayload
	}
	if p.Type != kind {
		return nil, mpp.Refuse(mpp.ReasonForm, why)
	}
	digits, ok := strings.CutPrefix(p.Signature, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return nil, mpp.MalformedPayload
	}
	return raw, nil
}

// checkTransfer checks that the transaction pays what the challenge asks for,
// and for that challenge.
func (m *Method) checkTransfer(tx *transaction, c mpp.Challenge, cents int64, currency, recipient common.Address) error {
	switch {
	case tx.ChainID != m.cfg.ChainID:
		return mpp.Refuse(mpp.ReasonChain, "the transaction is for another chain")
	case tx.token != currency:
		return mpp.Refuse(mpp.ReasonToken, "the transaction pays in another token")
	case tx.recipient != recipient:
		return mpp.Refuse(mpp.ReasonRecipient, "the transaction pays somebody else")
	case tx.amount != node.Units(cents):
		return mpp.Refuse(mpp.ReasonAmount, "the transaction pays another amount")
	case !tx.memo.ours(c.Realm):
		return mpp.Refuse(mpp.ReasonChallenge, "the transfer's memo is not for this realm")
	case !tx.memo.answers(c.ID):
		return mpp.Refuse(mpp.ReasonChallenge, "the transfer's memo is not for this challenge")
	}
	return nil
}

// reopen reads a stored payment's transaction again, by the same functions.
// An error means that the record is damaged or from another configuration:
// nothing can be concluded about the payment.
func (m *Method) reopen(p mpp.Payment) (*transaction, error) {
	tx, err := readTransaction(p.Raw)
	if err != nil {
		return nil, fmt.Errorf("tempo: stored payment %s: %w", p.Reference, err)
	}
	// Its reference can be that of the transaction that replaced it.
	if m.replayKey(tx) != p.ReplayKey || tx.ChainID != m.cfg.ChainID {
		return nil, fmt.Errorf("tempo: stored payment %s is not of chain %d", p.Reference, m.cfg.ChainID)
	}
	return tx, nil
}
