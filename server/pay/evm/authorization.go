package evm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// authorization is a signed TransferWithAuthorization (EIP-3009).
type authorization struct {
	from, to    common.Address
	value       uint64 // base units
	validAfter  uint64 // Unix seconds; the block must be later
	validBefore uint64 // Unix seconds; the block must be earlier
	nonce       common.Hash
	signature   []byte // of a key: r, s and v, which is 27 or 28; of an account with code: any
	whole       bool   // its calldata is of the function that takes a signature of any length
	wrapped     bool   // its signature came in a wrapper (ERC-6492)
	contract    bool   // its signature is not by a key
}

// challengeNonce binds an authorisation to a challenge (draft-evm-charge-00,
// "Challenge Binding").
func challengeNonce(c mpp.Challenge) common.Hash {
	return crypto.Keccak256Hash([]byte(c.ID), []byte(c.Realm))
}

// Domain is the EIP-712 domain separator of a token.
func Domain(name, version string, chainID uint64, token common.Address) common.Hash {
	return crypto.Keccak256Hash(
		crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		crypto.Keccak256([]byte(name)), crypto.Keccak256([]byte(version)), node.Number(chainID), node.Word(token))
}

// transferName is the type that is signed, as EIP-712 spells it.
const transferName = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"

var transferType = crypto.Keccak256([]byte(transferName))

// digest is what the payer signs, under a token's domain.
func (a *authorization) digest(domain common.Hash) []byte {
	message := crypto.Keccak256(transferType, a.arguments())
	return crypto.Keccak256([]byte{0x19, 0x01}, domain[:], message)
}

// arguments are the six that are signed, as ABI words.
func (a *authorization) arguments() []byte {
	return slices.Concat(node.Word(a.from), node.Word(a.to), node.Number(a.value), node.Number(a.validAfter), node.Number(a.validBefore), a.nonce[:])
}

// The functions transferWithAuthorization: with v, r and s apart, which every token has, and
// with a signature of any length, which tokens have that ask accounts with code.
var (
	selector      = node.Selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)")
	wholeSelector = node.Selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")
)

// calldata is a call that submits a. It is what is stored of a payment.
func (a *authorization) calldata() []byte {
	if a.whole {
		return slices.Concat(wholeSelector, a.arguments(), node.Number(7*32), packed(a.signature))
	}
	return slices.Concat(selector, a.arguments(), node.Number(uint64(a.signature[64])), a.signature[:64])
}

// call is what is simulated and submitted. Not every token asks code about v, r and s, but all that
// ask it do so about a whole signature, which can happen to be as long as that of a key.
func (a *authorization) call() []byte {
	b := *a
	b.whole = a.whole || a.contract
	return b.calldata()
}

// readCalldata reads what calldata wrote, and nothing else.
func readCalldata(data []byte) (*authorization, error) {
	other := errors.New("not the calldata of an authorisation")
	if len(data) < 4+8*32 {
		return nil, other
	}
	word := func(i int) []byte { return data[4+i*32 : 4+i*32+32] }
	low := func(i int) uint64 { return binary.BigEndian.Uint64(word(i)[24:]) }
	a := &authorization{
		from: common.BytesToAddress(word(0)), to: common.BytesToAddress(word(1)),
		value: low(2), validAfter: low(3), validBefore: low(4), nonce: common.Hash(word(5)),
		whole: bytes.HasPrefix(data, wholeSelector),
	}
	rest := data[4+8*32:]
	switch n := low(7); {
	case a.whole && n <= uint64(len(rest)):
		a.signature = rest[:n]
	case !a.whole && len(rest) == 32:
		a.signature = slices.Concat(word(7), rest, []byte{byte(low(6))})
	default:
		return nil, other
	}
	if !bytes.Equal(a.calldata(), data) {
		return nil, other
	}
	return a, nil
}

// spelt gives a with its signature as tokens take that of a key. Wallets also write v as 0 or 1, or as the
// highest bit of s (ERC-2098).
func (a authorization) spelt() authorization {
	switch sig := slices.Clone(a.signature); {
	case len(sig) == 65 && sig[64] < 2:
		sig[64] += 27
		a.signature = sig
	case len(sig) == 64:
		v := 27 + sig[32]>>7
		sig[32] &= 0x7f
		a.signature, a.whole = append(sig, v), a.wrapped
	}
	return a
}

// byKey says whether the signature is by the key of the account from. As tokens do, it
// refuses the second form that every signature has, with a high s, and v other than 27
// and 28.
func (a *authorization) byKey(domain common.Hash) bool {
	if len(a.signature) != 65 {
		return false
	}
	rs, v := a.signature[:64], a.signature[64]-27
	if !crypto.ValidateSignatureValues(v, new(big.Int).SetBytes(rs[:32]), new(big.Int).SetBytes(rs[32:]), true) {
		return false
	}
	key, err := crypto.SigToPub(a.digest(domain), slices.Concat(rs, []byte{v}))
	return err == nil && crypto.PubkeyToAddress(*key) == a.from
}

// readPayload takes the authorisation out of a credential (draft-evm-charge-00,
// "Authorization Payload"). Its errors are *mpp.Rejection. It does not check the signature.
func readPayload(c mpp.Credential) (*authorization, error) {
	var p spelled
	var form struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}
	if c.DecodePayload(&form) != nil || c.DecodePayload(&p) != nil {
		return nil, mpp.MalformedPayload
	}
	switch form.Type {
	case "authorization":
	case "permit2", "transaction", "hash":
		return nil, mpp.Refuse(mpp.ReasonForm, "only authorisations are taken")
	default:
		return nil, mpp.MalformedPayload
	}
	return p.read(form.Signature)
}

// spelled is what is signed of an authorisation, as credentials write it.
type spelled struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
}

// read gives the authorisation that is spelled so, with a signature. It does not check the
// signature.
func (p spelled) read(signed string) (*authorization, error) {
	var a authorization
	signature, ok := unhex(signed, -1)
	if !ok {
		return nil, mpp.MalformedPayload
	}
	own, wrapped, err := unwrap(signature)
	switch {
	case err != nil:
		return nil, mpp.Refuse(mpp.ReasonForm, "what wraps the signature (ERC-6492) cannot be read; pay from another account, or with a wallet that writes it as ERC-6492 says")
	case len(own) > maxSignature:
		return nil, mpp.Refuse(mpp.ReasonForm, fmt.Sprintf("the signature is longer than %d bytes", maxSignature))
	}
	a.signature, a.wrapped, a.whole = own, wrapped, wrapped || len(own) != 65
	for _, field := range []struct {
		text string
		into []byte
	}{{p.From, a.from[:]}, {p.To, a.to[:]}, {p.Nonce, a.nonce[:]}} {
		b, ok := unhex(field.text, len(field.into))
		if !ok {
			return nil, mpp.MalformedPayload
		}
		copy(field.into, b)
	}
	for _, field := range []struct {
		text string
		into *uint64
	}{{p.Value, &a.value}, {p.ValidAfter, &a.validAfter}, {p.ValidBefore, &a.validBefore}} {
		n, err := strconv.ParseUint(field.text, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != field.text {
			return nil, mpp.MalformedPayload
		}
		*field.into = n
	}
	return &a, nil
}

// unhex reads 0x and the hex digits of size bytes, or of any number when size is
// negative.
func unhex(text string, size int) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, false
	}
	b, err := hex.DecodeString(digits)
	return b, err == nil && (size < 0 || len(b) == size)
}
