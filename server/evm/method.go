package evm

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/mpp"
	"webring/server/node"
)

// Config says where and in what this service is paid, and what with it pays for
// the transactions.
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
// the transactions that it has in flight, saves gas and nothing more: everything
// that matters is in the [mpp.Payment] and on the chain.
type Method struct {
	cfg    Config
	domain common.Hash
	node   *node.Node
	gas    *gasAccount
}

const (
	decimals = 6
	// unitsPerCent is how many base units of such a token make a US cent.
	unitsPerCent = 10_000
	// permit2 is the contract of that name, at the same address on all chains.
	// The draft wants it named; credentials that need it are not taken.
	permit2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
)

// minAhead is how far ahead of now an authorisation's validBefore must at least
// lie: below it, it could expire on its way. The challenge's own expiry bounds it
// from above.
const minAhead = 5 * time.Second

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
		domain: domain(cfg.Name, cfg.Version, cfg.ChainID, cfg.Currency),
		gas:    newGasAccount(cfg.GasKey, cfg.ChainID, cfg.Currency, new(big.Int).SetUint64(cfg.MaxFee)),
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

// Request is the request parameter of a challenge for cents US cents. Addresses
// have their checksum (EIP-55), as the draft wishes.
func (m *Method) Request(cents int64) (string, error) {
	if cents <= 0 {
		return "", errors.New("evm: a charge must be positive")
	}
	type details struct {
		ChainID         uint64   `json:"chainId"`
		CredentialTypes []string `json:"credentialTypes"`
		Decimals        int      `json:"decimals"`
		Permit2         string   `json:"permit2Address"`
	}
	return mpp.EncodeJSON(struct {
		Amount        string  `json:"amount"`
		Currency      string  `json:"currency"`
		Recipient     string  `json:"recipient"`
		MethodDetails details `json:"methodDetails"`
	}{
		strconv.FormatUint(units(cents), 10), m.cfg.Currency.Hex(), m.cfg.Recipient.Hex(),
		details{m.cfg.ChainID, []string{"authorization"}, decimals, permit2},
	})
}

func units(cents int64) uint64 { return uint64(cents) * unitsPerCent }

// Decode checks a credential as far as that goes without a network: steps 4
// and 5 of the order of checks, for a challenge whose id has been verified and
// which asks for cents. It checks the whole of it again rather than trust that
// somebody did. Refusals are *mpp.Rejection; there is no other error.
//
// The reference of the payment is the authorisation's nonce until a transaction
// has settled it, for which see [mpp.Outcome].
func (m *Method) Decode(c mpp.Credential, cents int64, now time.Time) (mpp.Payment, error) {
	request, _ := m.Request(cents) // "" for what cannot be asked for
	expires, err := c.Answers(m.Name(), mpp.Charge, request, now)
	if err != nil {
		return mpp.Payment{}, err
	}
	a, err := readPayload(c)
	if err != nil {
		return mpp.Payment{}, err
	}
	switch {
	case a.to != m.cfg.Recipient:
		return mpp.Payment{}, refuse("the authorisation pays somebody else")
	case a.from == m.cfg.Recipient:
		return mpp.Payment{}, refuse("the account that is paid cannot pay")
	case a.value != units(cents):
		return mpp.Payment{}, refuse("the authorisation pays another amount")
	case a.nonce != challengeNonce(c.Challenge):
		return mpp.Payment{}, refuse("the authorisation's nonce is not for this challenge")
	}
	if err := a.checkTimes(now, expires); err != nil {
		return mpp.Payment{}, err
	}
	payer := m.account() + node.LowerHex(a.from)
	// Addresses are hex in any case; the rest of a DID is exact.
	if c.Source != "" && !strings.EqualFold(c.Source, payer) {
		return mpp.Payment{}, refuse("the source is not the signer")
	}
	if !a.signedBy(m.domain) {
		return mpp.Payment{}, refuse("the signature is not the payer's for this token on this chain")
	}
	return mpp.Payment{
		Method: m.Name(), ChallengeID: c.Challenge.ID, Realm: c.Challenge.Realm, Cents: cents,
		Raw: a.calldata(), Reference: a.nonce.Hex(), ReplayKey: m.Network() + ":" + node.LowerHex(a.from) + ":" + a.nonce.Hex(),
		Payer: payer, ValidBefore: time.Unix(int64(a.validBefore), 0).UTC(),
	}, nil
}

// checkTimes checks the window in which the token will take the authorisation.
// Clients let it end with the challenge and begin with the epoch.
func (a *authorization) checkTimes(now, expires time.Time) error {
	if a.validBefore > uint64(expires.Unix()) {
		return refuse("the authorisation is valid for longer than the challenge")
	}
	if time.Unix(int64(a.validBefore), 0).Sub(now) < minAhead {
		return &mpp.Rejection{Code: mpp.CodeExpired, Detail: "the authorisation expires too soon"}
	}
	if a.validAfter >= uint64(now.Unix()) {
		return refuse("the authorisation is not valid yet")
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
