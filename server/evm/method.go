package evm

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/mpp"
	"webring/server/node"
)

// Config has the chain and token in which this service is paid, and the account that
// pays for the transactions.
type Config struct {
	RPC     string // http or https URL of a node
	ChainID uint64
	// Currency is a token in US dollars with six decimals that has EIP-3009.
	// Name and Version are those of its EIP-712 domain.
	Currency      common.Address
	Name, Version string
	Recipient     common.Address
	// Depth is how many blocks must follow one before it is taken to stay.
	Depth uint64
	// GasKey is the key of the account that submits authorisations and pays for
	// it in the chain's coin. Nothing else may use the account. The key is never
	// logged.
	GasKey *ecdsa.PrivateKey
	// MaxFee is the most that is paid for one unit of gas, in wei; above it no
	// payments are taken. An authorisation takes about 80 000 units.
	MaxFee uint64
	// Timeout bounds each question to the node. 0: 15 seconds.
	Timeout time.Duration
}

// Method is the evm charge. It is safe for concurrent use. What it remembers, of
// the transactions that it has signed, saves gas and nothing more: everything
// that matters is in the [mpp.Payment] and on the chain.
type Method struct {
	cfg    Config
	domain common.Hash
	node   *node.Node
	gas    *gasAccount

	asking chan struct{}            // holds one while it is asked how the account stands
	last   atomic.Pointer[standing] // what was answered; nil when that is not so any more

	tokenSeen atomic.Int64 // Unix time at which the token was last what the configuration says
}

const (
	decimals = 6
	// unitsPerCent is how many base units of such a token make a US cent.
	unitsPerCent = 10_000
	// permit2 is the contract of that name, at the same address on all chains.
	// The draft wants it named; credentials that need it are not taken.
	permit2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
)

// New checks cfg and makes the method. It asks the node nothing: a node that
// is away at the start may come back.
func New(cfg Config) (*Method, error) {
	switch {
	case cfg.ChainID == 0:
		return nil, errors.New("evm: the chain id is missing")
	case cfg.Currency == (common.Address{}):
		return nil, errors.New("evm: the currency is missing")
	case cfg.Name == "" || cfg.Version == "":
		return nil, errors.New("evm: name or version of the currency's domain is missing")
	case cfg.Recipient == (common.Address{}):
		return nil, errors.New("evm: the recipient is missing")
	case cfg.GasKey == nil:
		return nil, errors.New("evm: the key of the gas account is missing")
	case cfg.MaxFee == 0:
		return nil, errors.New("evm: the highest fee is missing")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 15 * time.Second
	}
	connection, err := node.Dial(cfg.RPC, cfg.ChainID, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &Method{
		cfg: cfg, node: connection,
		domain: Domain(cfg.Name, cfg.Version, cfg.ChainID, cfg.Currency),
		gas:    newGasAccount(cfg.GasKey, cfg.ChainID, cfg.Currency, new(big.Int).SetUint64(cfg.MaxFee)),
		asking: make(chan struct{}, 1),
	}, nil
}

// Name is the method's name in challenges and receipts.
func (m *Method) Name() string { return "evm" }

// Network names the chain for the directory document: the method's name and the
// chain id.
func (m *Method) Network() string { return "evm:" + m.chain() }

func (m *Method) chain() string { return strconv.FormatUint(m.cfg.ChainID, 10) }

// Transfers finds what the recipient was paid from the instant since on, in the
// blocks that are deep; see [node.Payments.Since].
func (m *Method) Transfers(ctx context.Context, since time.Time, found func(mpp.Transfer) error) (time.Time, error) {
	return m.payments().Since(ctx, since, found)
}

// Payee names the currency and the recipient; see [node.Payments.Payee].
func (m *Method) Payee() string { return m.payments().Payee() }

// Received says what a transaction paid to a payee; see [node.Payments.To].
func (m *Method) Received(ctx context.Context, payee, reference string) (mpp.Transfer, error) {
	return m.payments().To(ctx, payee, reference)
}

func (m *Method) payments() node.Payments {
	return node.Payments{Node: m.node, Token: m.cfg.Currency, Recipient: m.cfg.Recipient, Depth: m.cfg.Depth,
		UnitsPerCent: unitsPerCent, Account: m.account()}
}

// account is what stands before an address to name an account of the chain.
func (m *Method) account() string { return "did:pkh:eip155:" + m.chain() + ":" }

// Life is how long its challenges may be answered. Clients let an authorisation end with
// its challenge, and until then it can hold what it is for.
func (m *Method) Life() time.Duration { return time.Minute }

// Request is the request parameter of a challenge for cents US cents. Addresses
// have their checksum (EIP-55), as the draft wishes.
func (m *Method) Request(cents int64) (string, error) {
	return m.request(cents, m.cfg.Currency, m.cfg.Recipient)
}

// terms are what a challenge asks for: the members of its request parameter.
type terms struct {
	Amount        string  `json:"amount"` // base units
	Currency      string  `json:"currency"`
	Recipient     string  `json:"recipient"`
	MethodDetails details `json:"methodDetails"`
}

type details struct {
	ChainID         uint64   `json:"chainId"`
	CredentialTypes []string `json:"credentialTypes"`
	Decimals        int      `json:"decimals"`
	Permit2         string   `json:"permit2Address"`
}

func (m *Method) request(cents int64, currency, recipient common.Address) (string, error) {
	if cents <= 0 {
		return "", errors.New("evm: a charge must be positive")
	}
	return mpp.EncodeJSON(terms{
		strconv.FormatUint(units(cents), 10), currency.Hex(), recipient.Hex(),
		details{m.cfg.ChainID, []string{"authorization"}, decimals, permit2},
	})
}

// asked reads the request parameter of a challenge that this ring has issued, now
// or under an earlier configuration. It takes what request writes and nothing else:
// anything else was issued for another chain. Nor does it take another token: what its
// authorisations look like is not known any more.
func (m *Method) asked(c mpp.Challenge) (cents int64, recipient common.Address, err error) {
	var t terms
	err = mpp.DecodeJSON(c.Request, &t)
	if amount, e := strconv.ParseInt(t.Amount, 10, 64); e == nil {
		cents = amount / unitsPerCent
	}
	currency, recipient := common.HexToAddress(t.Currency), common.HexToAddress(t.Recipient)
	if text, e := m.request(cents, currency, recipient); err != nil || e != nil || text != c.Request {
		return 0, recipient, errElsewhere
	}
	if currency != m.cfg.Currency {
		return 0, recipient, errElsewhere
	}
	return cents, recipient, nil
}

func units(cents int64) uint64 { return uint64(cents) * unitsPerCent }

var errElsewhere = &mpp.Rejection{Code: mpp.CodeUnapplied, Detail: "the challenge was issued for another chain or token than this ring is paid in"}

// Decode reads the payment out of a credential whose challenge id has been
// verified. It checks, without a network, that it pays what that challenge asks for,
// and for that challenge. The payment's payee says who is paid. [Method.InTime] checks
// when it is valid. Refusals are *mpp.Rejection; there is no other error.
//
// The reference of the payment is the authorisation's nonce until a transaction
// has settled it, for which see [mpp.Outcome].
func (m *Method) Decode(c mpp.Credential) (mpp.Payment, error) {
	cents, recipient, err := m.asked(c.Challenge)
	if err != nil {
		return mpp.Payment{}, err
	}
	a, err := readPayload(c)
	if err != nil {
		return mpp.Payment{}, err
	}
	switch {
	case a.to != recipient:
		return mpp.Payment{}, refuse(mpp.ReasonRecipient, "the authorisation pays somebody else")
	case a.from == recipient:
		return mpp.Payment{}, refuse(mpp.ReasonSigner, "the account that is paid cannot pay")
	case a.value != units(cents):
		return mpp.Payment{}, refuse(mpp.ReasonAmount, "the authorisation pays another amount")
	case a.nonce != challengeNonce(c.Challenge):
		return mpp.Payment{}, refuse(mpp.ReasonChallenge, "the authorisation's nonce is not for this challenge")
	case a.validBefore > mpp.LastSecond:
		return mpp.Payment{}, refuse(mpp.ReasonLong, "the authorisation has no usable validBefore")
	}
	payer := m.account() + node.LowerHex(a.from)
	// Addresses are hex in any case; the rest of a DID is exact.
	if c.Source != "" && !strings.EqualFold(c.Source, payer) {
		return mpp.Payment{}, refuse(mpp.ReasonSigner, "the source is not the signer")
	}
	if !a.signedBy(m.domain) {
		return mpp.Payment{}, refuse(mpp.ReasonSigner, "the signature is not the payer's for this token on this chain")
	}
	payments := m.payments()
	payments.Recipient = recipient
	return mpp.Payment{
		Method: m.Name(), ChallengeID: c.Challenge.ID, Realm: c.Challenge.Realm, Cents: cents,
		Raw: a.calldata(), Reference: a.nonce.Hex(), ReplayKey: m.Network() + ":" + node.LowerHex(a.from) + ":" + a.nonce.Hex(),
		Payer: payer, Payee: payments.Payee(), ValidFrom: time.Unix(int64(min(a.validAfter, mpp.LastSecond-1))+1, 0).UTC(),
		ValidBefore: time.Unix(int64(a.validBefore), 0).UTC(),
	}, nil
}

// PaysGas says that this service pays for the gas of what it submits.
func (m *Method) PaysGas() bool { return true }

// InTime says whether a payment can be sent now, for a challenge that expires then.
// Clients let an authorisation begin with the epoch, and end with the challenge.
func (m *Method) InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection {
	if no := p.InTime(now, expires, expires.Sub(now)); no != nil {
		return no
	}
	if p.ValidBefore.Sub(now) < ample {
		return &mpp.Rejection{Code: mpp.CodeExpired, Reason: mpp.ReasonExpired,
			Detail: fmt.Sprintf("the authorisation ends too soon: it must be valid for %v more", ample)}
	}
	return nil
}

// reopen reads a stored payment's authorisation again, by the same functions.
// An error means that the record is damaged or from another configuration:
// nothing can be concluded about the payment. The signature covers chain, token
// and domain, which the calldata does not hold.
func (m *Method) reopen(p mpp.Payment) (*authorization, error) {
	a, err := readCalldata(p.Raw)
	if err != nil {
		return nil, fmt.Errorf("evm: stored payment %s: %w", p.Reference, err)
	}
	if !a.signedBy(m.domain) {
		return nil, fmt.Errorf("evm: stored payment %s is not of this chain and token", p.Reference)
	}
	return a, nil
}
