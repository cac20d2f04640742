package node

import (
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
)

// Decimals are those of every token that is taken, and UnitsPerCent is how many of its base
// units make a US cent.
const (
	Decimals     = 6
	UnitsPerCent = 10_000
)

// Units gives an amount of US cents in base units.
func Units(cents int64) uint64 { return uint64(cents) * UnitsPerCent }

// Terms are the members of a challenge's request parameter. MethodDetails are those of the
// payment method.
type Terms struct {
	Amount        string `json:"amount"` // base units
	Currency      string `json:"currency"`
	Recipient     string `json:"recipient"`
	MethodDetails any    `json:"methodDetails"`
}

// ErrElsewhere refuses a credential for a challenge of another chain or token.
var ErrElsewhere = &mpp.Rejection{Code: mpp.CodeUnapplied, Detail: "the challenge was issued for another chain or token than this ring is paid in"}

// Asked reads the request parameter of a challenge, which encode has written, now or under
// an earlier configuration. It takes nothing else: any other request is one for another
// chain, and refused with [ErrElsewhere].
func Asked(request string, encode func(cents int64, token, recipient common.Address) (string, error)) (cents int64, token, recipient common.Address, err error) {
	var t Terms
	if err := mpp.DecodeJSON(request, &t); err != nil {
		return 0, token, recipient, ErrElsewhere
	}
	units, err := strconv.ParseInt(t.Amount, 10, 64)
	if err != nil {
		return 0, token, recipient, ErrElsewhere
	}
	cents, token, recipient = units/UnitsPerCent, common.HexToAddress(t.Currency), common.HexToAddress(t.Recipient)
	if text, err := encode(cents, token, recipient); err != nil || text != request {
		return 0, token, recipient, ErrElsewhere
	}
	return cents, token, recipient, nil
}
