package evm

import (
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// transferFields are those of transferType, in its order.
var transferFields = []mpp.TypedField{{Name: "from", Type: "address"}, {Name: "to", Type: "address"}, {Name: "value", Type: "uint256"},
	{Name: "validAfter", Type: "uint256"}, {Name: "validBefore", Type: "uint256"}, {Name: "nonce", Type: "bytes32"}}

// TokenDomain is the EIP-712 domain of the token, under which authorisations are signed.
func (m *Method) TokenDomain() mpp.TypedDomain {
	return mpp.TypedDomain{Name: m.cfg.Name, Version: m.cfg.Version, ChainID: m.cfg.ChainID, Contract: m.Token.Hex()}
}

// ToSign gives what the wallet of an account signs to pay for c, one of this method's
// challenges. Nothing is asked of the network.
func (m *Method) ToSign(c mpp.Challenge, account [20]byte) (mpp.ToSign, error) {
	payer := common.Address(account)
	cents, token, recipient, err := node.Asked(c.Request, m.request)
	if err != nil {
		return mpp.ToSign{}, err
	}
	expires, err := c.ExpiresAt()
	if err != nil {
		return mpp.ToSign{}, err
	}
	transfer := spelled{
		From: payer.Hex(), To: recipient.Hex(), Value: strconv.FormatUint(node.Units(cents), 10),
		ValidAfter: "0", ValidBefore: strconv.FormatInt(expires.Unix(), 10), Nonce: challengeNonce(c).Hex(),
	}
	cred, err := mpp.Unsigned(c, struct {
		Type string `json:"type"`
		spelled
		Signature string `json:"signature"`
	}{"authorization", transfer, ""}, m.Account+payer.Hex())
	domain := m.TokenDomain()
	domain.Contract = token.Hex()
	return mpp.ToSign{
		Account: payer.Hex(), Chain: mpp.ChainOf(m.cfg.ChainID), Credential: cred,
		TypedData: mpp.Typed(domain, "TransferWithAuthorization", transferFields, transfer),
	}, err
}
