package tempo

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
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

// underKeychain has access sign for account, in the form bound to the account.
func underKeychain(account common.Address, access paytest.Tempo) func(digest []byte) []byte {
	return func(digest []byte) []byte {
		inner := access.Sign(crypto.Keccak256([]byte{4}, digest, account[:]))
		return append(append([]byte{4}, account[:]...), inner...)
	}
}

// permit lets key sign for the account of root.
func permit(root paytest.Tempo, chain uint64, key common.Address, more ...any) []any {
	return permitTerms(root, append([]any{chain, []byte{}, key}, more...)...)
}

// permitKind says what kind of key it is.
func permitKind(root paytest.Tempo, kind any, key common.Address) []any {
	return permitTerms(root, uint64(42431), kind, key)
}

func permitTerms(root paytest.Tempo, terms ...any) []any {
	encoded, err := rlp.EncodeToBytes(terms)
	if err != nil {
		panic(err)
	}
	return []any{terms, root.Sign(crypto.Keccak256(encoded))}
}

// permitSigned spells the signature of wallet 7 in another way.
func permitSigned(key paytest.Tempo, spell func(signature []byte)) []any {
	auth := permit(wallet(7), 42431, key.Address())
	spell(auth[1].([]byte))
	return auth
}

func limits(token common.Address, units uint64) []any { return []any{[]any{token, units}} }

// calls permits one function of the token, for these recipients.
func calls(selector []byte, recipients ...common.Address) []any {
	return []any{[]any{token, []any{[]any{selector, recipients}}}}
}

// A permission that the chain would not take makes a transaction that can
// never be mined; it must not get as far as a reservation.
func TestKeyAuthorizationMustFitTheTransaction(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	root, access := wallet(7), wallet(8)
	for _, tc := range []struct {
		name  string
		auth  any
		taken bool
	}{
		{"fits", permit(root, 42431, access.Address()), true},
		{"any chain", permit(root, 0, access.Address()), false},
		{"expires later", permit(root, 42431, access.Address(), after(3600)), true},
		{"expires with the transaction", permit(root, 42431, access.Address(), after(25)), true},
		{"absent expiry spelt out", permit(root, 42431, access.Address(), uint64(0)), false},
		{"limit for payment and fee", permit(root, 42431, access.Address(), uint64(0), limits(token, 1_200_000)), true},
		{"limit one unit short", permit(root, 42431, access.Address(), uint64(0), limits(token, 1_199_999)), false},
		{"limit of another token", permit(root, 42431, access.Address(), uint64(0), limits(stranger, 1_200_000)), false},
		{"limit of 2¹²⁸", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, new(big.Int).Lsh(common.Big1, 128)}}), false},
		{"limit by period", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(60)}}), true},
		{"absent period spelt out", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(0)}}), false},
		{"limit with a fourth member", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(60), uint64(1)}}), false},
		{"two limits to a token", permit(root, 42431, access.Address(), uint64(0), append(limits(token, 1_200_000), limits(token, 1_200_000)...)), false},
		{"limits no list", permit(root, 42431, access.Address(), uint64(0), uint64(7)), false},
		{"absent limits spelt out", permit(root, 42431, access.Address(), uint64(0), uint64(0)), false},
		{"calls, without limits", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, recipient)), true},
		{"calls, for any recipient", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector)), true},
		{"selector of three bytes", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector[:3])), false},
		{"recipient twice", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, recipient, recipient)), false},
		{"recipient zero", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, common.Address{})), false},
		{"nothing may be spent", permit(root, 42431, access.Address(), uint64(0), []any{}), false},
		{"contract twice", permit(root, 42431, access.Address(), uint64(0), uint64(0), append(calls(selector), calls(selector)...)), false},
		{"contract zero", permit(root, 42431, access.Address(), uint64(0), uint64(0), []any{[]any{common.Address{}, []any{}}}), false},
		{"function twice", permit(root, 42431, access.Address(), uint64(0), uint64(0), []any{[]any{token, []any{[]any{selector, []any{}}, []any{selector, []any{}}}}}), false},
		{"function without recipients", permit(root, 42431, access.Address(), uint64(0), uint64(0), []any{[]any{token, []any{[]any{selector}}}}), false},
		{"administrator", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), uint64(0), uint64(1)), false},
		{"signed with v of 0 or 1", permitSigned(access, func(s []byte) { s[64] -= 27 }), false},
		{"signed with a high s", permitSigned(access, func(s []byte) {
			new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(s[32:64])).FillBytes(s[32:64])
			s[64] ^= 7 // 27 ↔ 28
		}), false},
		{"witness", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), bytes.Repeat([]byte{0x53}, 32)), true},
		{"witness of zeros", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), make([]byte, 32)), true},
		{"witness, beside all the others", permit(root, 42431, access.Address(), after(3600), limits(token, 1_200_000), calls(selector, recipient), make([]byte, 32)), true},
		{"witness of 31 bytes", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), make([]byte, 31)), false},
		{"witness of 33 bytes", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), make([]byte, 33)), false},
		{"absent witness spelt out", permit(root, 42431, access.Address(), after(3600), uint64(0), uint64(0), uint64(0)), false},
		{"something after the witness", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), make([]byte, 32), uint64(1)), false},
		{"kind of another key", permitKind(root, uint64(1), access.Address()), false},
		{"kind spelt as a zero byte", permitKind(root, rlp.RawValue{0}, access.Address()), false},
		{"unknown kind", permitKind(root, uint64(3), access.Address()), false},
		{"kind of two bytes", permitKind(root, uint64(256), access.Address()), false},
		{"another chain", permit(root, 4217, access.Address()), false},
		{"another key", permit(root, 42431, stranger), false},
		{"expires before the transaction", permit(root, 42431, access.Address(), after(24)), false},
		{"given by a stranger", permit(wallet(9), 42431, access.Address()), false},
		{"given by the access key", permit(access, 42431, access.Address()), false},
		{"not signed", []any{[]any{uint64(42431), []byte{}, access.Address()}}, false},
		{"no terms", []any{[]any{}, []byte{}}, false},
		{"terms no list", []any{uint64(1), []byte{}}, false},
	} {
		_, err := take(m, root.Pay(c, func(d *paytest.TempoDraft) {
			d.KeyAuthorization, d.Sign = tc.auth, underKeychain(root.Address(), access)
		}), now)
		var no *mpp.Rejection
		if tc.taken && err != nil || !tc.taken && (!errors.As(err, &no) || !strings.Contains(no.Detail, "key authorization")) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// Where the account signs itself, the permission is for any other key, of whatever kind, and
	// does not bound the payment.
	for _, tc := range []struct {
		name  string
		auth  any
		taken bool
	}{
		{"for a key", permit(root, 42431, access.Address()), true},
		{"for a passkey", permitKind(root, uint64(2), access.Address()), true},
		{"for a key that may spend less", permit(root, 42431, access.Address(), uint64(0), limits(token, 1)), true},
		{"for a key of an unknown kind", permitKind(root, uint64(3), access.Address()), false},
		{"for no key", permit(root, 42431, common.Address{}), false},
		{"with two limits to a token", permit(root, 42431, access.Address(), uint64(0), append(limits(token, 1), limits(token, 1)...)), false},
		{"on another chain", permit(root, 4217, access.Address()), false},
		{"that expires before", permit(root, 42431, access.Address(), after(24)), false},
		{"given by the key itself", permit(access, 42431, access.Address()), false},
	} {
		_, err := take(m, root.Pay(c, func(d *paytest.TempoDraft) { d.KeyAuthorization = tc.auth }), now)
		var no *mpp.Rejection
		if tc.taken && err != nil || !tc.taken && (!errors.As(err, &no) || !strings.Contains(no.Detail, "key authorization")) {
			t.Errorf("the account authorizes %s: %v", tc.name, err)
		}
	}
}

func newProofs(t testing.TB, r recorded) *Proofs {
	t.Helper()
	p, err := NewProofs(42431, r.Currency, r.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rejected gives the code and the reason of a refusal.
func rejectedAs(t testing.TB, err error) string {
	t.Helper()
	var r *mpp.Rejection
	if !errors.As(err, &r) {
		t.Fatalf("no refusal: %v", err)
	}
	return strings.TrimSuffix(r.Code+" "+r.Reason, " ")
}

// Proofs of the reference client hold, by every kind of key that an address is made of.
// Access keys are refused, because only the chain knows them.
func TestProofsOfTheReferenceClient(t *testing.T) {
	r := readRecorded(t)
	p := newProofs(t, r)
	refused := map[string]string{
		"keychain of p256": mpp.CodeVerify + " " + mpp.ReasonKey,
		oldForm:            mpp.CodeVerify + " " + mpp.ReasonForm,
	}
	if len(r.Proofs) != 5 {
		t.Fatalf("%d proofs are recorded", len(r.Proofs))
	}
	for _, v := range r.Proofs {
		cred, found, err := mpp.ParseAuthorization([]string{v.Authorization})
		if err != nil || !found {
			t.Fatalf("%s: found %v, %v", v.Name, found, err)
		}
		if cred.Challenge.Request != p.Request() {
			t.Errorf("%s: the client echoes %q, asked was %q", v.Name, cred.Challenge.Request, p.Request())
		}
		account, err := p.Verify(cred)
		if why := refused[v.Name]; why != "" {
			if got := rejectedAs(t, err); got != why || account != "" {
				t.Errorf("%s: %q, %s, want %s", v.Name, account, got, why)
			}
			continue
		}
		if want := "did:pkh:eip155:42431:" + v.Account; err != nil || account != want {
			t.Errorf("%s: %q, %v, want %q", v.Name, account, err, want)
		}
	}
}

func TestProofsThatDoNotHold(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	p := newProofs(t, recorded{})
	challenge := mpp.Challenge{ID: "an id", Realm: "ring.example", Method: p.Method(), Intent: mpp.Charge, Request: p.Request()}
	wallet := paytest.Tempo{Key: key}
	good := wallet.Prove(challenge)
	if _, err := p.Verify(good); err != nil {
		t.Fatal(err)
	}
	signature := func(sig []byte) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"type":"proof","signature":"0x%x"}`, sig))
	}
	const form, signer, key2 = mpp.CodeVerify + " " + mpp.ReasonForm, mpp.CodeVerify + " " + mpp.ReasonSigner, mpp.CodeVerify + " " + mpp.ReasonKey
	for name, c := range map[string]struct {
		change func(*mpp.Credential)
		want   string
	}{
		"another challenge": {func(c *mpp.Credential) { c.Challenge.ID = "another" }, signer},
		"another realm":     {func(c *mpp.Credential) { c.Challenge.Realm = "other.example" }, signer},
		"another account":   {func(c *mpp.Credential) { c.Source = "did:pkh:eip155:42431:0x" + strings.Repeat("11", 20) }, signer},
		"another chain":     {func(c *mpp.Credential) { c.Source = strings.Replace(c.Source, "42431", "4217", 1) }, signer},
		"signed for another chain": {func(c *mpp.Credential) {
			c.Payload = signature(wallet.Sign(paytest.Proof(1, wallet.Address(), challenge)))
		}, signer},
		"no source":                   {func(c *mpp.Credential) { c.Source = "" }, signer},
		"a source without an address": {func(c *mpp.Credential) { c.Source = "did:pkh:eip155:42431:" }, signer},
		"an address without 0x":       {func(c *mpp.Credential) { c.Source = "did:pkh:eip155:42431:00" + strings.Repeat("11", 20) }, signer},
		"a transaction":               {func(c *mpp.Credential) { c.Payload = json.RawMessage(`{"type":"transaction","signature":"0x76"}`) }, form},
		"a hash":                      {func(c *mpp.Credential) { c.Payload = json.RawMessage(`{"type":"hash","signature":"0x76"}`) }, form},
		"another type":                {func(c *mpp.Credential) { c.Payload = json.RawMessage(`{"type":"proofs","signature":"0x76"}`) }, mpp.CodeMalformed},
		"no hexadecimal":              {func(c *mpp.Credential) { c.Payload = json.RawMessage(`{"type":"proof","signature":"0xzz"}`) }, mpp.CodeMalformed},
		"no signature":                {func(c *mpp.Credential) { c.Payload = signature(nil) }, form},
		"a contract's signature":      {func(c *mpp.Credential) { c.Payload = signature(make([]byte, 193)) }, form},
		"an owner's approval":         {func(c *mpp.Credential) { c.Payload = signature(append([]byte{5}, make([]byte, 200)...)) }, form},
		"zeros":                       {func(c *mpp.Credential) { c.Payload = signature(make([]byte, 65)) }, signer},
		"an access key": {func(c *mpp.Credential) {
			account := common.HexToAddress("0x" + strings.Repeat("11", 20))
			digest := crypto.Keccak256([]byte{4}, paytest.Proof(42431, account, challenge), account[:])
			c.Source = "did:pkh:eip155:42431:" + account.Hex()
			c.Payload = signature(append(append([]byte{4}, account[:]...), wallet.Sign(digest)...))
		}, key2},
	} {
		cred := good
		c.change(&cred)
		account, err := p.Verify(cred)
		if account != "" {
			t.Errorf("%s: proves %s", name, account)
		} else if got := rejectedAs(t, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
