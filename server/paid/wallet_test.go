package paid_test

import (
	"encoding/json"
	"strings"
	"testing"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// ToSign lets the wallets of browsers prove themselves, too.
func (signer) ToSign(c mpp.Challenge, account [20]byte) (mpp.ToSign, error) {
	cred, err := mpp.Unsigned(c, map[string]string{"signature": ""}, "")
	return mpp.ToSign{Account: string(account[19:]), Chain: mpp.ChainOf(7), Credential: cred}, err
}

// A 402 says what a wallet signs if the request names the wallet's account, and only then;
// what cannot be signed by one is offered as ever.
func TestAChallengeForAWallet(t *testing.T) {
	in(t, "", func(t *testing.T) {
		o := newOwned(t)
		ask := func(op, slug, body, account string) answer {
			return o.handle(paid.Call{Operation: op, Slug: slug, Body: []byte(body), WalletAccount: account})
		}
		const change, by = `{"description":"Counts"}`, "0x000000000000000000000000000000000000002A"
		a := ask(paid.OpChange, "ada", change, by).is(402, api.PaymentRequired)
		wallet, _ := json.Marshal(a.member("offers").([]any)[0].(map[string]any)["wallet"])
		var sign struct {
			Account    string
			Chain      mpp.Chain
			Credential mpp.Credential
		}
		if err := json.Unmarshal(wallet, &sign); err != nil {
			t.Fatal(err)
		}
		asked := a.challenges()[0]
		asked.Description = ""
		if sign.Account != "*" || sign.Chain.ID != "0x7" || sign.Chain.RPC != nil || sign.Credential.Challenge != asked {
			t.Errorf("%s", wallet)
		}
		for _, other := range []answer{ask(paid.OpChange, "ada", change, ""), ask(paid.OpBid, "", fund, by)} {
			if other.is(402, api.PaymentRequired); strings.Contains(string(other.Body), `"wallet"`) {
				t.Errorf("%s", other.Body)
			}
		}
		for _, wrong := range []string{"0x", "0X" + by[2:], by[2:], by + "," + by, "did:pkh:eip155:1:" + by, "<script>", "0x0000000000000000000000000000000000000000"} {
			for _, op := range []string{paid.OpChange, paid.OpBid} {
				o.unchanged(wrong, func() { ask(op, "ada", change, wrong).is(422, api.InvalidRequest) })
			}
		}
	})
}
