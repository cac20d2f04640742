package tempo

import (
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// Proofs asks an account to prove itself, by a charge of nothing, and verifies the answer
// without a network. The account signs typed data (EIP-712) that name the challenge, the
// realm and the account itself. That the proof is in time, for this request, and new is for
// the caller to check.
//
// Document: draft-tempo-charge-00, "Proof Payload", in the form of the reference client: its
// domain has version 3, and its message names account and realm too.
type Proofs struct {
	account string // how accounts on the chain are named, up to the address
	chainID uint64
	domain  common.Hash
	request string
}

// NewProofs makes the proofs of accounts on a chain. Currency and recipient stand in the
// challenges, because clients expect them in a charge; nothing is paid to them.
func NewProofs(chainID uint64, currency, recipient common.Address) (*Proofs, error) {
	request, err := mpp.EncodeJSON(node.Terms{
		Amount: "0", Currency: node.LowerHex(currency), Recipient: node.LowerHex(recipient),
		MethodDetails: details{chainID, []string{"pull"}},
	})
	if err != nil {
		return nil, err
	}
	id := common.BigToHash(new(big.Int).SetUint64(chainID))
	domain := crypto.Keccak256Hash(proofDomainType[:], proofDomainName[:], proofDomainVersion[:], id[:])
	return &Proofs{account: node.Accounts(chainID), chainID: chainID, domain: domain, request: request}, nil
}

var (
	proofDomainType    = crypto.Keccak256Hash([]byte("EIP712Domain(string name,string version,uint256 chainId)"))
	proofDomainName    = crypto.Keccak256Hash([]byte("MPP"))
	proofDomainVersion = crypto.Keccak256Hash([]byte("3"))
	proofType          = crypto.Keccak256Hash([]byte("Proof(address account,string challengeId,string realm)"))
)

// Method is the name of the payment method of the clients that answer these challenges.
func (p *Proofs) Method() string { return "tempo" }

// Request is the request parameter of every challenge that asks for a proof.
func (p *Proofs) Request() string { return p.request }

// Verify gives the account that c proves, such as "did:pkh:eip155:42431:0x…" in lower case.
// The challenge's id must have been verified. Refusals are *mpp.Rejection; there is no other
// error. An account proves itself by the key that its address is made of: what only the
// chain knows, such as access keys and the code of an account, is no proof here.
func (p *Proofs) Verify(c mpp.Credential) (account string, err error) {
	sig, err := payload(c, "proof", "nothing is to be paid: a challenge for 0 is answered with a proof")
	if err != nil {
		return "", err
	}
	address, ok := cutPrefixFold(c.Source, p.account)
	if !ok || len(address) != 2+2*common.AddressLength || !common.IsHexAddress(address) {
		return "", mpp.Refuse(mpp.ReasonSigner, "the source must be "+p.account+" and an address")
	}
	claimed := common.HexToAddress(address)
	by, err := p.signer(sig, p.digest(claimed, c.Challenge))
	switch {
	case err != nil:
		return "", err
	case by.access:
		return "", mpp.Refuse(mpp.ReasonKey, "an access key has signed, and only the chain knows whose it is: sign with the account's own key, or claim the member for another account through its site")
	case by.sender != claimed:
		return "", mpp.Refuse(mpp.ReasonSigner, "the signature is not by the key of the source's address; an account that has code cannot prove itself here: claim the member for another account through its site")
	}
	return p.account + node.LowerHex(claimed), nil
}

// digest is what account signs.
func (p *Proofs) digest(account common.Address, c mpp.Challenge) common.Hash {
	id, realm := crypto.Keccak256Hash([]byte(c.ID)), crypto.Keccak256Hash([]byte(c.Realm))
	message := crypto.Keccak256(proofType[:], common.LeftPadBytes(account[:], 32), id[:], realm[:])
	return crypto.Keccak256Hash([]byte{0x19, 0x01}, p.domain[:], message)
}

// signer reads a signature as in transactions. Signatures of accounts with code have any
// form.
func (p *Proofs) signer(sig []byte, digest common.Hash) (signed, error) {
	single := len(sig) == 65
	if len(sig) > 1+common.AddressLength && !single {
		single = sig[0] >= prefixP256 && sig[0] <= prefixKeychain
	}
	if !single {
		return signed{}, mpp.Refuse(mpp.ReasonForm, "the signature is not that of a single key, so it cannot be verified without the chain: claim the member for a plain account through its site")
	}
	return readSignature(sig, digest)
}

// cutPrefixFold is [strings.CutPrefix] for ASCII in any case.
func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// proofFields are those of proofType, in its order.
var proofFields = []mpp.TypedField{{Name: "account", Type: "address"}, {Name: "challengeId", Type: "string"}, {Name: "realm", Type: "string"}}

// ToSign gives what the wallet of an account signs to prove itself for c, a challenge that
// asks for a proof.
func (p *Proofs) ToSign(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error) {
	signer := common.Address(account)
	cred, err := mpp.Unsigned(c, struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
	}{"proof", ""}, p.account+node.LowerHex(signer))
	return &mpp.ToSign{
		Account: signer.Hex(), Chain: mpp.ChainOf(p.chainID), Credential: cred,
		TypedData: mpp.Typed(mpp.TypedDomain{Name: "MPP", Version: "3", ChainID: p.chainID}, "Proof", proofFields, struct {
			Account   string `json:"account"`
			Challenge string `json:"challengeId"`
			Realm     string `json:"realm"`
		}{signer.Hex(), c.ID, c.Realm}),
	}, err
}
