package node

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
)

// Codes with which a JSON-RPC node says that it cannot answer. Other codes mean that
// the answer is no.
var unanswered = map[int]bool{
	-32700: true, -32600: true, -32601: true, // did not understand
	-32005: true, // limit exceeded
	429:    true,
}

// Refused classifies the error of a simulation. If the node refused the payment, the
// result wraps a *[mpp.Rejection], and its text holds the node's words, for the log
// alone. If the node did not answer, the result wraps [mpp.ErrUnavailable].
func Refused(err error) error {
	if err == nil {
		return nil
	}
	var spoken rpc.Error
	if !errors.As(err, &spoken) || unanswered[spoken.ErrorCode()] {
		return Unavailable(err)
	}
	no := &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonReverted, Detail: "the payment would not go through"}
	return &refusal{no, Text(err)}
}

// Because replaces the reason of a refusal of [Refused] by one that the caller found.
func Because(refused error, reason, detail string) error {
	no := &mpp.Rejection{Code: mpp.CodeVerify, Reason: reason, Detail: detail}
	if r, ok := errors.AsType[*refusal](refused); ok {
		return &refusal{no, r.node}
	}
	return no
}

// Short reports whether a token's answer to balanceOf is less than units base units.
func Short(balance []byte, units uint64) bool {
	return len(balance) == 32 && new(big.Int).SetBytes(balance).Cmp(new(big.Int).SetUint64(units)) < 0
}

// refusal is a rejection together with the node's words.
type refusal struct {
	*mpp.Rejection
	node string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v (node: %s)", r.Rejection, r.node) }
func (r *refusal) Unwrap() error { return r.Rejection }
