package tempo

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

// p256Key is a P-256 key with its public key as it stands in signatures.
func p256Key(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return key, point[1:]
}

func signP256(t testing.TB, key *ecdsa.PrivateKey, hash []byte) (r, s []byte) {
	t.Helper()
	rr, ss, err := ecdsa.Sign(rand.Reader, key, hash)
	if err != nil {
		t.Fatal(err)
	}
	return common.LeftPadBytes(rr.Bytes(), 32), common.LeftPadBytes(ss.Bytes(), 32)
}

// A passkey's signature counts only as an assertion, by a present user, of
// this very digest: an honest signature over anything else is no payment.
func TestWebAuthnAssertsTheDigest(t *testing.T) {
	key, point := p256Key(t)
	digest := common.HexToHash("0x1234")
	assertion := func(kind string, of common.Hash) []byte {
		return fmt.Appendf(nil, `{"type":"%s","challenge":"%s","origin":"https://ring.example"}`, kind, base64.RawURLEncoding.EncodeToString(of[:]))
	}
	good := assertion("webauthn.get", digest)
	for _, tc := range []struct {
		name   string
		flags  byte
		client []byte
		taken  bool
	}{
		{"present", 0x01, good, true},
		{"present and verified", 0x05, good, true},
		{"not present", 0x04, good, false},
		{"attested credential", 0x41, good, false},
		{"extensions", 0x81, good, false},
		{"another digest", 0x01, assertion("webauthn.get", common.HexToHash("0x1235")), false},
		{"a creation", 0x01, assertion("webauthn.create", digest), false},
		{"names in another case", 0x01, bytes.Replace(good, []byte("challenge"), []byte("Challenge"), 1), false},
		{"its type twice", 0x01, append([]byte(`{"type":"x",`), good[1:]...), false},
		{"its type twice, once escaped", 0x01, append([]byte(`{"\u0074ype":"webauthn.get",`), good[1:]...), false},
		{"a name that is no UTF-8", 0x01, append([]byte("{\"\xff\":1,"), good[1:]...), false},
		{"half a surrogate as a name", 0x01, append([]byte(`{"\ud800":1,`), good[1:]...), false},
		{"more members", 0x01, append([]byte(`{"a":{"type":[1,{}]},"crossOrigin":false,`), good[1:]...), true},
		{"something after the object", 0x01, append(good[:len(good):len(good)], '1'), false},
		{"a list", 0x01, []byte(`["webauthn.get"]`), false},
		{"not JSON", 0x01, good[1:], false},
		{"nothing", 0x01, nil, false},
		{"too long", 0x01, append(good, bytes.Repeat([]byte(" "), maxWebAuthn)...), false},
	} {
		data := append(make([]byte, 32), tc.flags, 0, 0, 0, 1)
		sum := sha256.Sum256(tc.client)
		hash := sha256.Sum256(append(data[:37:37], sum[:]...))
		r, s := signP256(t, key, hash[:])
		sig := bytes.Join([][]byte{{prefixWebAuthn}, data, tc.client, r, s, point}, nil)
		got, err := readSignature(sig, digest)
		var no *mpp.Rejection
		if tc.taken != (err == nil) || err != nil && !errors.As(err, &no) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err == nil && (got.sender != common.BytesToAddress(crypto.Keccak256(point)[12:]) || got.access) {
			t.Errorf("%s: sender %v", tc.name, got.sender)
		}
	}
}

// Both halves of s verify; one of them is the signature that the chain hashes.
func TestP256HasOneCanonicalForm(t *testing.T) {
	key, point := p256Key(t)
	digest := common.HexToHash("0x1234")
	r, s := signP256(t, key, digest[:])
	mirrored := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(s)).FillBytes(make([]byte, 32))
	spell := func(s []byte, prehash byte) []byte {
		return bytes.Join([][]byte{{prefixP256}, r, s, point, {prehash}}, nil)
	}
	one, err := readSignature(spell(s, 0), digest)
	if err != nil {
		t.Fatal(err)
	}
	two, err := readSignature(spell(mirrored, 0), digest)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.canonical, two.canonical) {
		t.Error("one signature has two canonical forms")
	}
	if new(big.Int).SetBytes(one.canonical[33:65]).Cmp(halfP256) > 0 {
		t.Error("the canonical s is the high one")
	}
	for name, sig := range map[string][]byte{
		"prehashed is another message": spell(s, 1),
		"prehash neither 0 nor 1":      spell(s, 2),
		"s of 0":                       spell(make([]byte, 32), 0),
		"s of 2²⁵⁶−1":                  spell(bytes.Repeat([]byte{0xff}, 32), 0),
		"point off the curve":          append(append(spell(s, 0)[:128:128], point[63]^1), 0),
		"key at infinity":              bytes.Join([][]byte{{prefixP256}, r, s, make([]byte, 64), {0}}, nil),
		"a byte more":                  append(spell(s, 0), 0),
		"a byte less":                  spell(s, 0)[:129],
	} {
		if _, err := readSignature(sig, digest); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A keychain signature is bound to the account: it cannot be carried over to
// another that trusts the same key.
func TestKeychainSignatureIsBoundToItsAccount(t *testing.T) {
	digest := common.HexToHash("0x1234")
	account := wallet(7).Address()
	sig := underKeychain(account, wallet(8))(digest[:])
	got, err := readSignature(sig, digest)
	if err != nil || got.sender != account || got.key != wallet(8).Address() || !got.access || !bytes.Equal(got.canonical, sig) {
		t.Fatalf("%+v, %v", got, err)
	}
	carried := append([]byte(nil), sig...)
	copy(carried[1:], stranger[:])
	if got, err := readSignature(carried, digest); err == nil && got.key == wallet(8).Address() {
		t.Error("carried to another account, it is still the same key's")
	}
}
