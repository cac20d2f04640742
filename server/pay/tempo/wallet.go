package tempo

import (
	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// proofFields are those of proofType, in its order.
var proofFields = []mpp.TypedField{{Name: "account", Type: "address"}, {Name: "challengeId", Type: "string"}, {Name: "realm", Type: "string"}}

// ToSign gives what the wallet of an account signs to prove itself for c, a challenge that
// asks for a proof.
func (p *Proofs) ToSign(c mpp.Challenge, account [20]byte) (mpp.ToSign, error) {
	signer := common.Address(account)
	cred, err := mpp.Unsigned(c, struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}{"proof", ""}, p.account+node.LowerHex(signer))
	return mpp.ToSign{
		Account: signer.Hex(), Chain: mpp.ChainOf(p.chainID), Credential: cred,
		TypedData: mpp.Typed(mpp.TypedDomain{Name: "MPP", Version: "3", ChainID: p.chainID}, "Proof", proofFields, struct {
			Account   string `json:"account"`
			Challenge string `json:"challengeId"`
			Realm     string `json:"realm"`
		}{signer.Hex(), c.ID, c.Realm}),
	}, err
}
