// Package paytest signs credentials as a client would, and as a client should not: each part
// of what is signed can be altered before, and of what is sent after. [Node] answers as a node
// would, and as a node should not. The package shares no code with the payment methods, so that
// each checks the other. For tests only.
package paytest

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

// terms are what a challenge asks for.
type terms struct {
	Amount        string         `json:"amount"`
	Currency      common.Address `json:"currency"`
	Recipient     common.Address `json:"recipient"`
	MethodDetails struct {
		ChainID uint64 `json:"chainId"`
	} `json:"methodDetails"`
}

// asked reads them. It panics on a challenge that is no charge: that is a fault of the test.
func asked(c mpp.Challenge) (t terms, amount *big.Int) {
	if err := mpp.DecodeJSON(c.Request, &t); err != nil {
		panic("paytest: the challenge's request is not a charge's")
	}
	amount, ok := new(big.Int).SetString(t.Amount, 10)
	if !ok {
		panic("paytest: the challenge's request has no amount")
	}
	return t, amount
}

// account names an account on the chain of the challenge.
func (t terms) account(a common.Address) string {
	return fmt.Sprintf("did:pkh:eip155:%d:%s", t.MethodDetails.ChainID, a.Hex())
}

func addressOf(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

func sign(key *ecdsa.PrivateKey, digest []byte) []byte {
	sig, err := crypto.Sign(digest, key)
	if err != nil {
		panic(fmt.Sprint("paytest: ", err))
	}
	sig[64] += 27
	return sig
}

func credential(c mpp.Challenge, payload any, source string) mpp.Credential {
	text, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprint("paytest: ", err))
	}
	return mpp.Credential{Challenge: c, Payload: text, Source: source}
}

func header(c mpp.Credential) string {
	text, err := c.Header()
	if err != nil {
		panic(fmt.Sprint("paytest: ", err))
	}
	return text
}
