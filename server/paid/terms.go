package paid

import (
	"encoding/json"
	"fmt"
	"sync"

	"webring/core"
	"webring/core/api"
	"webring/server/pay/mpp"
)

// terms are what a challenge asks for: its request parameter, and the same as members of a
// JSON object, for the document of the 402.
type terms struct{ request, members string }

// readTerms decodes the request parameter of a method, or of a proof.
func readTerms(request string, by any) terms {
	var asked struct {
		Amount        string `json:"amount"`
		Currency      string `json:"currency"`
		Recipient     string `json:"recipient"`
		MethodDetails struct {
			ChainID uint64 `json:"chainId"`
		} `json:"methodDetails"`
	}
	if err := mpp.DecodeJSON(request, &asked); err != nil {
		return terms{request: request} // only methods of tests ask for something else
	}
	document := map[string]any{"amount": asked.Amount, "currency": asked.Currency, "recipient": asked.Recipient,
		"network": fmt.Sprintf("eip155:%d", asked.MethodDetails.ChainID)}
	if m, ok := by.(Method); ok {
		document["network"] = api.ChainID(m.Network())
	}
	if d, ok := by.(Domained); ok {
		document["domain"] = d.TokenDomain()
	}
	members, err := json.Marshal(document)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return terms{request, "," + string(members[1:len(members)-1])}
}

// requests caches the terms of a method by amount. They depend on nothing else, and most
// challenges are for a few amounts: a 402 takes 10 µs so, and 19 µs without.
type requests struct {
	mu     sync.Mutex
	by     map[int64]terms // by cents
	method Method
}

// maxRequests bounds the cache.
const maxRequests = 1024

func (r *requests) get(cents int64) (terms, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, known := r.by[cents]; known {
		return t, nil
	}
	text, err := r.method.Request(cents)
	if err != nil {
		return terms{}, err
	}
	t := readTerms(text, r.method)
	if len(r.by) >= maxRequests {
		clear(r.by)
	}
	r.by[cents] = t
	return t, nil
}

// Domained is a [Method] whose payments are signed under the domain of a token (EIP-712).
// Nobody can sign without its name and version, which only the token's contract has.
type Domained interface {
	TokenDomain() mpp.TypedDomain
}

// Signable is a [Method] or [Prover] whose challenges the wallet of a browser can answer, by
// signing typed data. Its function asks nothing of a network.
type Signable interface {
	// ToSign gives what an account signs to answer a challenge.
	ToSign(c mpp.Challenge, account [20]byte) (mpp.ToSign, error)
}

// errWallet refuses a request that names no account for what a wallet is to sign.
var errWallet = invalidRequest("the field Wallet-Account must be one address: 0x and 40 hexadecimal digits")

// appendOffer appends a challenge as an element of the member offers of a 402: decoded, for
// clients that look at the document and not at the header. If the request names the account
// of a wallet, and by can be answered by one, the element says what the wallet is to sign.
func (c *Call) appendOffer(dst []byte, by any, ch *mpp.Challenge, t terms) ([]byte, error) {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `{"method":`...), api.AppendString(nil, ch.Method)...)
	dst = append(append(dst, `,"intent":"`...), ch.Intent...)
	dst = append(append(dst, '"'), t.members...)
	dst = append(append(append(dst, `,"expires":"`...), ch.Expires...), '"')
	signable, ok := by.(Signable)
	if c.WalletAccount == "" || !ok {
		return append(dst, '}'), nil
	}
	sign, err := signable.ToSign(*ch, core.AccountOf(c.WalletAccount))
	if err != nil {
		return nil, err
	}
	wallet, err := json.Marshal(sign)
	return append(append(append(dst, `,"wallet":`...), wallet...), '}'), err
}
