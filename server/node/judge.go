package node

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
)

// Codes with which a JSON-RPC node says that it cannot answer, rather than
// that the answer is no.
var unanswered = map[int]bool{
	-32700: true, -32600: true, -32601: true, // did not understand
	-32005: true, // limit exceeded
	429:    true,
}

// Judge tells a node that says no to a simulation, a *[mpp.Rejection] that has
// the node's words for the log alone, from one that does not answer, which is
// [mpp.ErrUnavailable].
func Judge(err error) error {
	if err == nil {
		return nil
	}
	var spoken rpc.Error
	if !errors.As(err, &spoken) || unanswered[spoken.ErrorCode()] {
		return Unavailable(err)
	}
	return &refusal{&mpp.Rejection{Code: mpp.CodeVerify, Detail: "the payment would not go through"}, Text(err)}
}

// refusal is a rejection together with the node's words.
type refusal struct {
	*mpp.Rejection
	node string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v (node: %s)", r.Rejection, r.node) }
func (r *refusal) Unwrap() error { return r.Rejection }
