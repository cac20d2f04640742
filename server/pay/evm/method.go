package evm

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/x402"
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
	// payments are taken. An authorisation takes about 80 000 units, and costs at most what
	// 100 000 do at this fee ([Most]).
	MaxFee uint64
	// X402 offers each charge to x402 clients, too; see [Method.Exact].
	X402 bool
	// Timeout bounds each question to the node. 0: 15 seconds.
	Timeout time.Duration
}

// Method is the evm charge. It is safe for concurrent use. It remembers the transactions
// that it has signed only to save gas: everything that matters is in the [mpp.Payment] and
// on the chain.
type Method struct {
	node.Payments
	cfg    Config
	domain common.Hash
	gas    *gasAccount

	asking chan struct{}            // holds a token while the node is asked for a standing
	last   atomic.Pointer[standing] // the last answer; nil once that may have changed

	tokenSeen atomic.Int64 // Unix time at which the token last agreed with the configuration
}

// permit2 is the contract of that name, at the same address on all chains. The draft
// requires that it is named; credentials that need it are not taken.
const permit2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3"

// New checks cfg and makes the method. It asks the node nothing: a node that
// is away at the start may come back.
func New(cfg Config) (*Method, error) {
	switch {
	case cfg.Name == "" || cfg.Version == "":
		return nil, errors.New("evm: name or version of the currency's domain is missing")
	case cfg.GasKey == nil:
		return nil, errors.New("evm: the key of the gas account is missing")
	case cfg.MaxFee == 0:
		return nil, errors.New("evm: the highest fee is missing")
	}
	payments, err := node.Connect("evm", cfg.RPC, cfg.ChainID, cfg.Currency, cfg.Recipient, cfg.Depth, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	return &Method{
		Payments: payments,
		cfg:      cfg,
		domain:   Domain(cfg.Name, cfg.Version, cfg.ChainID, cfg.Currency),
		gas:      newGasAccount(cfg.GasKey, cfg.ChainID, cfg.Currency, new(big.Int).SetUint64(cfg.MaxFee)),
		asking:   make(chan struct{}, 1),
	}, nil
}

// Life is how long its challenges may be answered. Clients let an authorisation end with its
// challenge, and until then it can hold the URL that it is for.
func (m *Method) Life() time.Duration { return time.Minute }

// Request is the request parameter of a challenge for cents US cents. Addresses
// have their checksum (EIP-55), as the draft wishes.
func (m *Method) Request(cents int64) (string, error) {
	return m.request(cents, m.Token, m.Recipient)
}

type details struct {
	ChainID         uint64   `json:"chainId"`
	CredentialTypes []string `json:"credentialTypes"`
	Decimals        int      `json:"decimals"`
	Permit2         string   `json:"permit2Address"`
}

func (m *Method) request(cents int64, currency, recipient common.Address) (string, error) {
	return node.Request(cents, currency.Hex(), recipient.Hex(), details{m.cfg.ChainID, []string{"authorization"}, node.Decimals, permit2})
}

// Decode reads the payment out of a credential. The id of its challenge has been
// verified. It checks, without a network, that it pays what that challenge asks for,
// and for that challenge. A signature that is not by the key of the account may be that of a
// smart account, which [Method.Simulate] checks ([mpp.Payment.Contract]). The payment's payee
// names the recipient. [Method.InTime] checks its validity. Refusals are *mpp.Rejection; there
// is no other error.
//
// An x402 payload answers a challenge of [x402.Intent]. The payer chooses its nonce, so any
// bearer of the signature can present the payment.
//
// The reference of the payment is the authorisation's nonce until a transaction
// has settled it, for which see [mpp.Outcome].
func (m *Method) Decode(c mpp.Credential) (mpp.Payment, error) {
	cents, token, recipient, err := node.Asked(c.Challenge.Request, m.request)
	if err != nil {
		return mpp.Payment{}, err
	}
	if token != m.Token {
		// The EIP-712 domain of an earlier token is not known any more.
		return mpp.Payment{}, node.ErrElsewhere
	}
	bearer := c.Challenge.Intent == x402.Intent
	read := readPayload
	if bearer {
		read = readExact
	}
	a, err := read(c)
	if err != nil {
		return mpp.Payment{}, err
	}
	switch {
	case a.to != recipient:
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonRecipient, "the authorisation pays somebody else")
	case a.value != node.Units(cents):
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonAmount, "the authorisation pays another amount")
	case !bearer && a.nonce != challengeNonce(c.Challenge):
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonChallenge, "the authorisation's nonce is not for this challenge")
	case a.validBefore > mpp.LastSecond:
		return mpp.Payment{}, mpp.Refuse(mpp.ReasonLong, "the authorisation has no usable validBefore")
	}
	if plain := a.spelt(); plain.byKey(m.domain) {
		a = &plain
	}
	payer, err := m.to(a).Signer(c.Source, a.from)
	if err != nil {
		return mpp.Payment{}, err
	}
	return mpp.Payment{
		Method: m.Name(), Cents: cents, Raw: a.calldata(), Reference: a.nonce.Hex(), ReplayKey: m.replayKey(a),
		Payer: payer, Payee: m.to(a).Payee(), Binding: a.nonce.Hex(), ValidFrom: time.Unix(int64(min(a.validAfter, mpp.LastSecond-1))+1, 0).UTC(),
		ValidBefore: time.Unix(int64(a.validBefore), 0).UTC(), Bearer: bearer, Contract: !a.byKey(m.domain),
	}, nil
}

// replayKey names an authorisation by its account and nonce, of which the token accepts one.
// It may have many valid signatures.
func (m *Method) replayKey(a *authorization) string {
	return m.Network() + ":" + node.LowerHex(a.from) + ":" + a.nonce.Hex()
}

// to are the payments to whom an authorisation pays: today's recipient, or an earlier one.
func (m *Method) to(a *authorization) node.Payments {
	p := m.Payments
	p.Recipient = a.to
	return p
}

// Unused refuses nothing: payments have no nonces that others could use.
func (m *Method) Unused(context.Context, mpp.Payment) error { return nil }

// PaysGas says that this service pays for the gas of what it submits.
func (m *Method) PaysGas() bool { return true }

// InTime says why a payment for a challenge that ends at expires cannot be sent now, or nil.
// Clients let an authorisation begin with the epoch, and end with the challenge; those of
// x402 let it end as long after its signature as the offer says, by their own clock.
func (m *Method) InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection {
	longest := expires.Sub(now)
	if p.Bearer {
		longest = exactTimeout + exactSkew
	}
	if no := p.InTime(now, expires, longest); no != nil {
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
// and domain, which the calldata does not hold. What a smart account has signed shows
// nothing here, so its record is compared with itself.
func (m *Method) reopen(p mpp.Payment) (*authorization, error) {
	a, err := readCalldata(p.Raw)
	if err != nil {
		return nil, fmt.Errorf("evm: stored payment %s: %w", p.Reference, err)
	}
	good := a.byKey(m.domain)
	if a.contract = p.Contract; a.contract {
		good = p.ReplayKey == m.replayKey(a) && p.Payee == m.to(a).Payee() && node.Units(p.Cents) == a.value && p.ValidBefore.Unix() == int64(a.validBefore)
	}
	if !good {
		return nil, fmt.Errorf("evm: stored payment %s is not of this chain and token", p.Reference)
	}
	return a, nil
}

const (
	// exactTimeout is how long x402 clients let an authorisation be valid. One that is signed
	// at once can be presented for 70 seconds, or for 40 if the client's clock is half a
	// minute behind: see [ample].
	exactTimeout = 90 * time.Second
	// exactSkew is how far ahead of ours a client's clock may be.
	exactSkew = 30 * time.Second
)

// Exact gives what an x402 offer says of a charge, by the request parameter of its
// challenge. ok is false if x402 is not offered, or if the charge is one of another
// configuration.
func (m *Method) Exact(request string) (offer x402.Offer, ok bool) {
	cents, token, recipient, err := node.Asked(request, m.request)
	if !m.cfg.X402 || err != nil || token != m.Token {
		return x402.Offer{}, false
	}
	return x402.Offer{
		Scheme: x402.Scheme, Network: "eip155:" + strconv.FormatUint(m.cfg.ChainID, 10),
		Amount: strconv.FormatUint(node.Units(cents), 10), Asset: token.Hex(), PayTo: recipient.Hex(),
		MaxTimeoutSeconds: int(exactTimeout / time.Second), Extra: x402.Extra{Name: m.cfg.Name, Version: m.cfg.Version},
	}, true
}

// readExact takes the authorisation out of an x402 payload of the scheme "exact". Its errors
// are *mpp.Rejection. It does not check the signature.
func readExact(c mpp.Credential) (*authorization, error) {
	var p struct {
		Authorization spelled `json:"authorization"`
		Signature     string  `json:"signature"`
	}
	if err := c.DecodePayload(&p); err != nil {
		return nil, mpp.MalformedPayload
	}
	return p.Authorization.read(p.Signature)
}

// transferFields are those of transferType, in its order.
var transferFields = []mpp.TypedField{{Name: "from", Type: "address"}, {Name: "to", Type: "address"}, {Name: "value", Type: "uint256"},
	{Name: "validAfter", Type: "uint256"}, {Name: "validBefore", Type: "uint256"}, {Name: "nonce", Type: "bytes32"}}

// TokenDomain is the EIP-712 domain of the token, under which authorisations are signed.
func (m *Method) TokenDomain() *mpp.TypedDomain {
	return &mpp.TypedDomain{Name: m.cfg.Name, Version: m.cfg.Version, ChainID: m.cfg.ChainID, Contract: m.Token.Hex()}
}

// ToSign gives what the wallet of an account signs to pay for c, one of this method's
// challenges. Nothing is asked of the network.
func (m *Method) ToSign(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error) {
	payer := common.Address(account)
	cents, token, recipient, err := node.Asked(c.Request, m.request)
	if err != nil {
		return nil, err
	}
	expires, err := c.ExpiresAt()
	if err != nil {
		return nil, err
	}
	transfer := spelled{
		From: payer.Hex(), To: recipient.Hex(), Value: strconv.FormatUint(node.Units(cents), 10),
		ValidAfter: "0", ValidBefore: strconv.FormatInt(expires.Unix(), 10), Nonce: challengeNonce(c).Hex(),
	}
	cred, err := mpp.Unsigned(c, struct {
		Type string `json:"type"`
		spelled
		Signature string `json:"signature"`
	}{"authorization", transfer, ""}, node.Accounts(m.cfg.ChainID)+payer.Hex())
	domain := *m.TokenDomain()
	domain.Contract = token.Hex()
	return &mpp.ToSign{
		Account: payer.Hex(), Chain: mpp.ChainOf(m.cfg.ChainID), Credential: cred,
		TypedData: mpp.Typed(domain, "TransferWithAuthorization", transferFields, transfer),
	}, err
}
