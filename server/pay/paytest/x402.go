package paytest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Required is what a test reads of a PAYMENT-REQUIRED field.
type Required struct {
	Version  int             `json:"x402Version"`
	Error    string          `json:"error"`
	Resource json.RawMessage `json:"resource"`
	Accepts  []Accepted      `json:"accepts"`
}

// Accepted is one offer in it. A test can alter each part before it pays.
type Accepted struct {
	Scheme            string         `json:"scheme"`
	Network           string         `json:"network"`
	Amount            string         `json:"amount"`
	Asset             string         `json:"asset"`
	PayTo             string         `json:"payTo"`
	MaxTimeoutSeconds int64          `json:"maxTimeoutSeconds"`
	Extra             map[string]any `json:"extra"`
}

// ReadRequired reads a PAYMENT-REQUIRED field.
func ReadRequired(field string) (r Required, err error) {
	text, err := base64.StdEncoding.DecodeString(field)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// Exact is a payment by x402 on its way to being presented.
type Exact struct {
	Wallet   EVM
	Accepted Accepted
	Draft    *EVMDraft
}

// Exact answers an offer as the reference client of x402 does, after changes. It panics on
// what is no offer for USDC: that is a fault of the test.
func (w EVM) Exact(offer Accepted, changes ...EVMAlter) Exact {
	var chain int64
	amount, ok := new(big.Int).SetString(offer.Amount, 10)
	if _, err := fmt.Sscanf(offer.Network, "eip155:%d", &chain); err != nil || !ok {
		panic("paytest: the offer has no chain or no amount")
	}
	d := &EVMDraft{
		Name: offer.Extra["name"].(string), Version: offer.Extra["version"].(string), ChainID: big.NewInt(chain), Token: common.HexToAddress(offer.Asset),
		From: w.Address(), To: common.HexToAddress(offer.PayTo), Value: amount, ValidAfter: new(big.Int),
		ValidBefore: big.NewInt(time.Now().Unix() + offer.MaxTimeoutSeconds),
	}
	rand.Read(d.Nonce[:]) // never fails
	for _, change := range changes {
		change(d)
	}
	return Exact{w, offer, d}
}

// Header is the value of the PAYMENT-SIGNATURE field that presents it.
func (x Exact) Header() string {
	d := x.Draft
	authorization := map[string]any{"from": d.From.Hex(), "to": d.To.Hex(), "value": d.Value.String(),
		"validAfter": d.ValidAfter.String(), "validBefore": d.ValidBefore.String(), "nonce": d.Nonce.Hex()}
	payload := map[string]any{"authorization": authorization, "signature": hexutil.Encode(d.signature(x.Wallet))}
	if d.Payload != nil {
		d.Payload(payload)
	}
	text, err := json.Marshal(map[string]any{"x402Version": 2, "accepted": x.Accepted, "payload": payload})
	if err != nil {
		panic(fmt.Sprint("paytest: ", err))
	}
	return base64.StdEncoding.EncodeToString(text)
}

// Submission is the calldata with which any account can submit it.
func (x Exact) Submission() []byte { return x.Draft.submission(x.Wallet) }
