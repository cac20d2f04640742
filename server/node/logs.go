package node

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

// longestRange is how many blocks one search asks for; nodes have such limits.
const longestRange = 2000

// goodSearches are as many as go well before the next is longer: what had them made
// shorter may have been a fault.
const goodSearches = 16

// ErrEnough is what the receiver of [Node.Logs] returns to end the search
// without an error.
var ErrEnough = errors.New("node: enough")

// Logs gives found the logs of one contract with these topics, as eth_getLogs
// takes them, in the blocks from and to and all between them: many at a time,
// oldest first. An error of found ends it, and is given when all until then was
// searched. Other errors are [mpp.ErrUnavailable], among them that a node which
// was asked has not all of the blocks yet, and depth more on top of them, or that
// it has forgotten the receipts of the first: there may be more in them than it
// said, or others in their place.
func (n *Node) Logs(ctx context.Context, from, to, depth uint64, contract common.Address, topics []any, found func([]Log) error) error {
	witness, err := n.witness(ctx, from, to)
	if err != nil {
		return err
	}
	for step, good := uint64(longestRange), 0; from <= to; {
		last := min(from+step-1, to)
		newest, logs, kept, err := n.logs(ctx, from, last, contract, topics, witness)
		switch {
		case err != nil && step > 1 && ctx.Err() == nil:
			step, good = step/2, 0 // too many blocks, or too many logs in them, for this node
			continue
		case err != nil:
			return err
		}
		err = found(logs)
		switch {
		case errors.Is(err, ErrEnough):
			return nil // what it looked for is there, whatever is missing
		case newest.Height() < last+depth:
			return Unavailable(errors.New("the node has gone back before the end of what is searched"))
		case !kept:
			return Unavailable(errors.New("the node keeps no receipts of the time that is searched; ask one that does, or about a later time"))
		case err != nil:
			return err
		}
		from = last + 1
		if good++; good == goodSearches {
			step, good = min(2*step, longestRange), 0
		}
	}
	return nil
}

// logs also says whether the node that answers has kept the receipt of witness.
func (n *Node) logs(ctx context.Context, from, to uint64, contract common.Address, topics []any, witness *common.Hash) (newest *Block, logs []Log, kept bool, err error) {
	questions := []rpc.BatchElem{{Method: "eth_getLogs", Result: &logs, Args: []any{map[string]any{
		"fromBlock": hexutil.Uint64(from), "toBlock": hexutil.Uint64(to), "address": contract, "topics": topics,
	}}}}
	var receipt *Receipt
	if witness != nil {
		questions = append(questions, rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{*witness}, Result: &receipt})
	}
	if newest, err = n.Head(ctx, questions...); err != nil {
		return nil, nil, false, err
	}
	return newest, logs, witness == nil || receipt != nil, FirstError(questions...)
}

// witness names a transaction in the first blocks of a range, or none if they are
// empty. Nodes that keep the receipts, and with them the logs, of some time only
// answer as if there were none in older blocks, but forget the oldest first: one
// that has this receipt has all of the range.
func (n *Node) witness(ctx context.Context, from, to uint64) (*common.Hash, error) {
	// The first block alone, since on a busy chain that is enough, and large.
	many := uint64(1)
	for first := from; first <= min(to, from+32); first, many = first+many, 8 {
		blocks := make([]*struct {
			Transactions []common.Hash `json:"transactions"`
		}, min(many, to-first+1))
		var questions []rpc.BatchElem
		for i := range blocks {
			questions = append(questions, rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(first + uint64(i)), false}, Result: &blocks[i]})
		}
		if err := n.Ask(ctx, questions...); err != nil {
			return nil, err
		}
		if err := FirstError(questions...); err != nil {
			return nil, err
		}
		for _, b := range blocks {
			switch {
			case b == nil:
				return nil, errNoBlock
			case len(b.Transactions) > 0:
				return &b.Transactions[0], nil
			}
		}
	}
	return nil, nil
}
