package evm

import (
	"encoding/json"
	"strings"
	"testing"

	"webring/server/pay/mpp"
)

// What a wallet is given to sign is what the reference client signs: with its signature, the
// credential is taken.
func TestWhatAWalletSignsPays(t *testing.T) {
	m, wallet := newMethod(t), freshKey(t)
	c := challenge(t, m)
	sign, err := m.ToSign(c, wallet.Address())
	if err != nil {
		t.Fatal(err)
	}
	cred := sign.Credential
	if _, err := m.Decode(cred); err == nil {
		t.Error("a credential without a signature is taken")
	}
	var signed struct{ Signature string }
	if err := json.Unmarshal(wallet.Pay(c).Payload, &signed); err != nil {
		t.Fatal(err)
	}
	cred.Payload = json.RawMessage(strings.Replace(string(cred.Payload), `"signature":""`, `"signature":"`+signed.Signature+`"`, 1))
	p, err := m.Decode(cred)
	if err != nil || p.Cents != 100 || p.Payer != m.Account+strings.ToLower(wallet.Address().Hex()) {
		t.Errorf("%v: %d cents by %s", err, p.Cents, p.Payer)
	}
	if fields := sign.TypedData.Types["TransferWithAuthorization"]; "TransferWithAuthorization("+spelledOut(fields)+")" != transferName {
		t.Errorf("fields %v", fields)
	}
	c.Request = "e30"
	if _, err := m.ToSign(c, wallet.Address()); err == nil {
		t.Error("a challenge for another token can be signed")
	}
}

func spelledOut(fields []mpp.TypedField) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Type+" "+f.Name)
	}
	return strings.Join(all, ",")
}
