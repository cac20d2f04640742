package paytest

import (
	"bytes"
	"crypto/ecdsa"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

// EVM is a wallet that pays evm charges with a secp256k1 key.
type EVM struct{ Key *ecdsa.PrivateKey }

// Address is the wallet's account.
func (w EVM) Address() common.Address { return addressOf(w.Key) }

// EVMDraft is an authorisation on its way to being signed.
type EVMDraft struct {
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

// EVMAlter changes a draft; the last of several wins.
type EVMAlter func(*EVMDraft)

// ValidFor lets the authorisation end so long after now.
func ValidFor(d time.Duration) EVMAlter {
	return func(a *EVMDraft) { a.ValidBefore = big.NewInt(time.Now().Add(d).Unix()) }
}

// As has a smart account pay, for which these wallets sign: see server/devchain/token/Account.sol.
func As(account common.Address, owners ...EVM) EVMAlter {
	owners = slices.SortedFunc(slices.Values(owners), func(a, b EVM) int { return a.Address().Cmp(b.Address()) })
	return func(d *EVMDraft) {
		d.From, d.Source = account, d.Source[:strings.LastIndexByte(d.Source, ':')+1]
		if d.Source != "" {
			d.Source += account.Hex()
		}
		d.Sign = func(digest []byte) (all []byte) {
			for _, w := range owners {
				all = append(all, w.Sign(digest)...)
			}
			return all
		}
	}
}

// Wrapped wraps the signature that As makes, as wallets do as long as they do not know the
// account deployed (ERC-6492).
func Wrapped(d *EVMDraft) {
	sign := d.Sign
	d.Sign = func(digest []byte) []byte {
		deploys := packed([]byte("deploy"))
		head := words("", []byte{0xfa}, []byte{3 * 32}, []byte{byte(3*32 + len(deploys))})[32:]
		return slices.Concat(head, deploys, packed(sign(digest)), bytes.Repeat([]byte{0x64, 0x92}, 16))
	}
}

// packed are bytes as an argument of a function.
func packed(b []byte) []byte {
	return slices.Concat(common.LeftPadBytes(big.NewInt(int64(len(b))).Bytes(), 32), b, make([]byte, -len(b)&31))
}

// Pay answers c with a credential, after changes. It panics on a challenge that is
// no evm charge: that is a fault of the test.
func (w EVM) Pay(c mpp.Challenge, changes ...EVMAlter) mpp.Credential {
	d, signature := w.sign(c, changes)
	payload := map[string]any{
		"type": "authorization", "from": d.From.Hex(), "to": d.To.Hex(), "value": d.Value.String(),
		"validAfter": d.ValidAfter.String(), "validBefore": d.ValidBefore.String(), "nonce": d.Nonce.Hex(),
		"signature": hexutil.Encode(signature),
	}
	if d.Payload != nil {
		d.Payload(payload)
	}
	return credential(c, payload, d.Source)
}

// Header is the value of the Authorization field that presents Pay's credential.
func (w EVM) Header(c mpp.Challenge, changes ...EVMAlter) string { return header(w.Pay(c, changes...)) }

// Submission is the calldata with which any account can submit the authorisation that Pay
// makes with the same arguments.
func (w EVM) Submission(c mpp.Challenge, changes ...EVMAlter) []byte {
	d, _ := w.sign(c, changes)
	return d.submission(w)
}

// submission is the calldata that submits a draft with a wallet's signature.
func (d *EVMDraft) submission(w EVM) []byte {
	sig := d.signature(w)
	if len(sig) != 65 {
		return append(call("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
			d.From[:], d.To[:], d.Value.Bytes(), d.ValidAfter.Bytes(), d.ValidBefore.Bytes(), d.Nonce[:], []byte{7 * 32}), packed(sig)...)
	}
	return call("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
		d.From[:], d.To[:], d.Value.Bytes(), d.ValidAfter.Bytes(), d.ValidBefore.Bytes(), d.Nonce[:], sig[64:], sig[:32], sig[32:64])
}

// Cancellation is the calldata that cancels it.
func (w EVM) Cancellation(c mpp.Challenge, changes ...EVMAlter) []byte {
	d, _ := w.sign(c, changes)
	sig := w.Sign(d.digest(words("CancelAuthorization(address authorizer,bytes32 nonce)", d.From[:], d.Nonce[:])))
	return call("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)", d.From[:], d.Nonce[:], sig[64:], sig[:32], sig[32:64])
}

// Sign is the wallet's signature over a digest: r, s, and v as 27 or 28.
func (w EVM) Sign(digest []byte) []byte { return sign(w.Key, digest) }

// HighS signs so that the signature has its second spelling, which recovers to
// the same account and which tokens refuse.
func (w EVM) HighS(digest []byte) []byte {
	sig := w.Sign(digest)
	new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(sig[32:64])).FillBytes(sig[32:64])
	sig[64] ^= 27 ^ 28
	return sig
}

// draft is the authorisation that the reference client would make for USDC.
func (w EVM) draft(c mpp.Challenge) *EVMDraft {
	t, amount := asked(c)
	expires, err := c.ExpiresAt()
	if err != nil {
		panic("paytest: the challenge has no expiry")
	}
	return &EVMDraft{
		Name: "USD Coin", Version: "2", ChainID: big.NewInt(int64(t.MethodDetails.ChainID)), Token: t.Currency,
		From: w.Address(), To: t.Recipient, Value: amount, ValidAfter: new(big.Int), ValidBefore: big.NewInt(expires.Unix()),
		Nonce:  crypto.Keccak256Hash([]byte(c.ID + c.Realm)),
		Source: t.account(w.Address()),
	}
}

func (w EVM) sign(c mpp.Challenge, changes []EVMAlter) (*EVMDraft, []byte) {
	d := w.draft(c)
	for _, change := range changes {
		change(d)
	}
	return d, d.signature(w)
}

// signature is that of a wallet, unless the draft has another signer.
func (d *EVMDraft) signature(w EVM) []byte {
	sign := d.Sign
	if sign == nil {
		sign = w.Sign
	}
	return sign(d.digest(words("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
		d.From[:], d.To[:], d.Value.Bytes(), d.ValidAfter.Bytes(), d.ValidBefore.Bytes(), d.Nonce[:])))
}

// digest is what is signed for a message, by EIP-712.
func (d *EVMDraft) digest(message []byte) []byte {
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
