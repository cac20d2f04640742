// Package evmtest signs credentials for evm charges as a client would, and as a
// client should not: every part of the authorisation can be altered before it is
// signed, and every part of the payload after. It shares no code with package evm,
// so that each checks the other. For tests only.
package evmtest

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

// Wallet pays with a secp256k1 key.
type Wallet struct{ Key *ecdsa.PrivateKey }

// Address is the wallet's account.
func (w Wallet) Address() common.Address { return crypto.PubkeyToAddress(w.Key.PublicKey) }

// Draft is an authorisation on its way to being signed.
type Draft struct {
	// The domain of the token.
	Name, Version string
	ChainID       *big.Int
	Token         common.Address

	From, To                       common.Address
	Value, ValidAfter, ValidBefore *big.Int
	Nonce                          common.Hash

	Sign    func(digest []byte) []byte   // nil: the wallet's key; v is 27 or 28
	Payload func(payload map[string]any) // alters what is sent, after the signature
	Source  string
}

// Alter changes a draft; the last of several wins.
type Alter func(*Draft)

// ValidFor lets the authorisation end so long after now.
func ValidFor(d time.Duration) Alter {
	return func(a *Draft) { a.ValidBefore = big.NewInt(time.Now().Add(d).Unix()) }
}

// Pay answers c with a credential, after changes. It panics on a challenge that is
// no evm charge: that is a fault of the test.
func (w Wallet) Pay(c mpp.Challenge, changes ...Alter) mpp.Credential {
	d, signature := w.sign(c, changes)
	payload := map[string]any{
		"type": "authorization", "from": d.From.Hex(), "to": d.To.Hex(), "value": d.Value.String(),
		"validAfter": d.ValidAfter.String(), "validBefore": d.ValidBefore.String(), "nonce": d.Nonce.Hex(),
		"signature": hexutil.Encode(signature),
	}
	if d.Payload != nil {
		d.Payload(payload)
	}
	text, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprint("evmtest: ", err))
	}
	return mpp.Credential{Challenge: c, Payload: text, Source: d.Source}
}

// Header is the value of the Authorization field with which Pay's credential
// is presented.
func (w Wallet) Header(c mpp.Challenge, changes ...Alter) string {
	header, err := w.Pay(c, changes...).Header()
	if err != nil {
		panic(fmt.Sprint("evmtest: ", err))
	}
	return header
}

// Submission is the calldata with which any account can submit the authorisation that Pay
// makes with the same arguments.
func (w Wallet) Submission(c mpp.Challenge, changes ...Alter) []byte {
	d, _ := w.sign(c, changes)
	return d.submission(w)
}

// submission is the calldata that submits a draft with a wallet's signature.
func (d *Draft) submission(w Wallet) []byte {
	sig := d.signature(w)
	return call("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
		d.From[:], d.To[:], d.Value.Bytes(), d.ValidAfter.Bytes(), d.ValidBefore.Bytes(), d.Nonce[:], sig[64:], sig[:32], sig[32:64])
}

// Cancellation is the calldata that cancels it.
func (w Wallet) Cancellation(c mpp.Challenge, changes ...Alter) []byte {
	d, _ := w.sign(c, changes)
	sig := w.Sign(d.digest(words("CancelAuthorization(address authorizer,bytes32 nonce)", d.From[:], d.Nonce[:])))
	return call("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)", d.From[:], d.Nonce[:], sig[64:], sig[:32], sig[32:64])
}

// Sign is the wallet's signature over a digest: r, s, and v as 27 or 28.
func (w Wallet) Sign(digest []byte) []byte {
	sig, err := crypto.Sign(digest, w.Key)
	if err != nil {
		panic(fmt.Sprint("evmtest: ", err))
	}
	sig[64] += 27
	return sig
}

// HighS signs so that the signature has its second spelling, which recovers to
// the same account and which tokens refuse.
func (w Wallet) HighS(digest []byte) []byte {
	sig := w.Sign(digest)
	new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(sig[32:64])).FillBytes(sig[32:64])
	sig[64] ^= 27 ^ 28
	return sig
}

// draft is the authorisation that the reference client would make for USDC.
func (w Wallet) draft(c mpp.Challenge) *Draft {
	var request struct {
		Amount        string         `json:"amount"`
		Currency      common.Address `json:"currency"`
		Recipient     common.Address `json:"recipient"`
		MethodDetails struct {
			ChainID int64 `json:"chainId"`
		} `json:"methodDetails"`
	}
	if err := mpp.DecodeJSON(c.Request, &request); err != nil {
		panic("evmtest: the challenge's request is not a charge's")
	}
	amount, ok := new(big.Int).SetString(request.Amount, 10)
	expires, err := c.ExpiresAt()
	if !ok || err != nil {
		panic("evmtest: the challenge has no amount or no expiry")
	}
	return &Draft{
		Name: "USD Coin", Version: "2", ChainID: big.NewInt(request.MethodDetails.ChainID), Token: request.Currency,
		From: w.Address(), To: request.Recipient, Value: amount, ValidAfter: new(big.Int), ValidBefore: big.NewInt(expires.Unix()),
		Nonce:  crypto.Keccak256Hash([]byte(c.ID + c.Realm)),
		Source: fmt.Sprintf("did:pkh:eip155:%d:%s", request.MethodDetails.ChainID, w.Address().Hex()),
	}
}

func (w Wallet) sign(c mpp.Challenge, changes []Alter) (*Draft, []byte) {
	d := w.draft(c)
	for _, change := range changes {
		change(d)
	}
	return d, d.signature(w)
}

// signature is that of a wallet, unless the draft has another signer.
func (d *Draft) signature(w Wallet) []byte {
	sign := d.Sign
	if sign == nil {
		sign = w.Sign
	}
	return sign(d.digest(words("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
		d.From[:], d.To[:], d.Value.Bytes(), d.ValidAfter.Bytes(), d.ValidBefore.Bytes(), d.Nonce[:])))
}

// digest is what is signed for a message, by EIP-712.
func (d *Draft) digest(message []byte) []byte {
	domain := words("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
		crypto.Keccak256([]byte(d.Name)), crypto.Keccak256([]byte(d.Version)), d.ChainID.Bytes(), d.Token[:])
	return crypto.Keccak256([]byte("\x19\x01"), crypto.Keccak256(domain), crypto.Keccak256(message))
}

// words are the hash of a type or function and its values, each padded to a word.
func words(kind string, values ...[]byte) []byte {
	data := crypto.Keccak256([]byte(kind))
	for _, v := range values {
		data = append(data, common.LeftPadBytes(v, 32)...)
	}
	return data
}

func call(function string, values ...[]byte) []byte {
	data := words(function, values...)
	return append(data[:4:4], data[32:]...)
}
