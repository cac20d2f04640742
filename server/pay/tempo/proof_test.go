package tempo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/tempo/tempotest"
)

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
	wallet := tempotest.Wallet{Key: key}
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
			c.Payload = signature(wallet.Sign(tempotest.Proof(1, wallet.Address(), challenge)))
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
			digest := crypto.Keccak256([]byte{4}, tempotest.Proof(42431, account, challenge), account[:])
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
