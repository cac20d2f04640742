package tempo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"webring/server/pay/mpp"
)

// signed is what a signature says: the payer, the key that signed, and the one
// spelling of the signature that the chain hashes.
type signed struct {
	sender    common.Address
	key       common.Address // address of the key that signed
	kind      string         // kind of that key, one of kinds
	access    bool           // key is an access key of sender, not its own
	canonical []byte
	assertion []byte // by WebAuthn: the authenticator's data and the client's
}

// Prefixes of signatures that are not plain secp256k1.
const (
	prefixP256        = 0x01
	prefixWebAuthn    = 0x02
	prefixKeychainOld = 0x03 // no longer taken by the chain
	prefixKeychain    = 0x04
)

// maxWebAuthn bounds a WebAuthn signature, in bytes, as the chain does.
const maxWebAuthn = 2048

var errSignature = mpp.Refuse(mpp.ReasonSigner, "the signature does not verify")

// readSignature checks a signature over digest, of any kind the chain knows
// but multisig:
//
//	65 bytes                         secp256k1: r, s, v (0, 1, 27 or 28)
//	01 ‖ r ‖ s ‖ x ‖ y ‖ prehash     P-256, over the digest or its SHA-256
//	02 ‖ data ‖ r ‖ s ‖ x ‖ y        P-256 by WebAuthn
//	04 ‖ account ‖ one of the above  an access key of account, over
//	                                 Keccak-256(04 ‖ digest ‖ account)
//
// In an older form, 03, the access key signed the digest alone, so that its
// signature held for every account that trusts the key. No block takes it.
// Whether the account has such an access key only the chain can tell.
func readSignature(sig []byte, digest common.Hash) (signed, error) {
	const head = 1 + common.AddressLength
	switch {
	case len(sig) == 65 || len(sig) <= head:
		return readPrimitive(sig, digest)
	case sig[0] == prefixKeychainOld:
		return signed{}, mpp.Refuse(mpp.ReasonForm, "the chain takes this form of an access key's signature no longer")
	case sig[0] != prefixKeychain:
		return readPrimitive(sig, digest)
	}
	account := common.Address(sig[1:head])
	digest = crypto.Keccak256Hash([]byte{prefixKeychain}, digest[:], account[:])
	inner, err := readPrimitive(sig[head:], digest)
	if err != nil {
		return signed{}, err
	}
	inner.sender, inner.access = account, true
	inner.canonical = append(sig[:head:head], inner.canonical...)
	return inner, nil
}

// readPrimitive checks the signature of a single key.
func readPrimitive(sig []byte, digest common.Hash) (signed, error) {
	switch {
	case len(sig) == 65:
		return readSecp256k1(sig, digest)
	case len(sig) == 130 && sig[0] == prefixP256:
		hash := digest[:]
		switch sig[129] {
		case 0:
		case 1:
			sum := sha256.Sum256(hash)
			hash = sum[:]
		default:
			return signed{}, errSignature
		}
		return readP256("p256", sig, 1, hash)
	case len(sig) > 129 && len(sig) <= maxWebAuthn && sig[0] == prefixWebAuthn:
		hash, ok := webAuthnHash(sig[1:len(sig)-128], digest)
		if !ok {
			return signed{}, errSignature
		}
		by, err := readP256("webAuthn", sig, len(sig)-128, hash)
		by.assertion = sig[1 : len(sig)-128]
		return by, err
	}
	return signed{}, mpp.Refuse(mpp.ReasonForm, "the transaction's kind of signature is not known")
}

var halfSecp256k1 = new(big.Int).Rsh(crypto.S256().Params().N, 1)

// readSecp256k1 recovers the signer. Of the two signatures that verify, the
// chain takes the one with the lower s, and hashes v as 27 or 28.
func readSecp256k1(sig []byte, digest common.Hash) (signed, error) {
	r, s, v := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:64]), sig[64]
	if v >= 27 {
		v -= 27
	}
	if s.Cmp(halfSecp256k1) > 0 {
		s.Sub(crypto.S256().Params().N, s)
		v = 1 - v
	}
	if !crypto.ValidateSignatureValues(v, r, s, true) {
		return signed{}, errSignature
	}
	canonical := append([]byte(nil), sig...)
	s.FillBytes(canonical[32:64])
	canonical[64] = v
	public, err := crypto.SigToPub(digest[:], canonical)
	if err != nil {
		return signed{}, errSignature
	}
	canonical[64] = v + 27
	signer := crypto.PubkeyToAddress(*public)
	return signed{sender: signer, key: signer, kind: "secp256k1", canonical: canonical}, nil
}

var halfP256 = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// readP256 verifies r, s, x, y at offset at of sig over hash.
func readP256(kind string, sig []byte, at int, hash []byte) (signed, error) {
	r, s := new(big.Int).SetBytes(sig[at:at+32]), new(big.Int).SetBytes(sig[at+32:at+64])
	point := sig[at+64 : at+128]
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, point...))
	if err != nil || !ecdsa.Verify(public, hash, r, s) {
		return signed{}, errSignature
	}
	canonical := append([]byte(nil), sig...)
	if s.Cmp(halfP256) > 0 {
		s.Sub(elliptic.P256().Params().N, s).FillBytes(canonical[at+32 : at+64])
	}
	signer := common.BytesToAddress(crypto.Keccak256(point)[12:])
	return signed{sender: signer, key: signer, kind: kind, canonical: canonical}, nil
}

// webAuthnHash is what the authenticator signed: SHA-256 of its data and of
// the digest of the client data, which must be an assertion of digest by a
// user who was present. Extensions and attested credentials have no place in
// a payment, so the authenticator's data has its shortest form, 37 bytes.
func webAuthnHash(data []byte, digest common.Hash) ([]byte, bool) {
	const (
		authenticator           = 37 // 32 of the relying party, flags, 4 of the counter
		present, attested, more = 0x01, 0x40, 0x80
	)
	if len(data) <= authenticator {
		return nil, false
	}
	flags, client := data[32], data[authenticator:]
	if flags&present == 0 || flags&(attested|more) != 0 {
		return nil, false
	}
	// The chain's reader, as this one, refuses a name that stands there twice, or that is no UTF-8.
	var says map[string]jsontext.Value
	if json.Unmarshal(client, &says) != nil ||
		string(says["type"]) != `"webauthn.get"` ||
		string(says["challenge"]) != `"`+base64.RawURLEncoding.EncodeToString(digest[:])+`"` {
		return nil, false
	}
	sum := sha256.Sum256(client)
	hashed := sha256.Sum256(append(data[:authenticator:authenticator], sum[:]...))
	return hashed[:], true
}

// rpc is the signature of a single key as nodes take it in a simulation.
func (s signed) rpc() map[string]any {
	sig := s.canonical
	if s.kind == "secp256k1" {
		return map[string]any{
			"type": s.kind, "r": hexutil.Bytes(sig[:32]), "s": hexutil.Bytes(sig[32:64]), "yParity": hexutil.Uint64(sig[64] - 27),
		}
	}
	at := 1 + len(s.assertion)
	out := map[string]any{
		"type": s.kind, "r": hexutil.Bytes(sig[at : at+32]), "s": hexutil.Bytes(sig[at+32 : at+64]),
		"pubKeyX": hexutil.Bytes(sig[at+64 : at+96]), "pubKeyY": hexutil.Bytes(sig[at+96 : at+128]),
	}
	if s.kind == "webAuthn" {
		out["webauthnData"] = hexutil.Bytes(s.assertion)
	} else {
		out["preHash"] = sig[129] == 1
	}
	return out
}
