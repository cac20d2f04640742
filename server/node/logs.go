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

// ErrEnough is what the receiver of [Node.Logs] returns to end the search
// without an error.
var ErrEnough = errors.New("node: enough")

// Logs gives found the logs of one contract with these topics, as eth_getLogs
// takes them, in the blocks from and to and all between them: many at a time,
// oldest first. An error of found ends it. Other errors are
// [mpp.ErrUnavailable], among them that a node which was asked has not all of the
// blocks yet, and depth more on top of them: there may be more in them than it
// said, or others in their place.
func (n *Node) Logs(ctx context.Context, from, to, depth uint64, contract common.Address, topics []any, found func([]Log) error) error {
	for step := uint64(longestRange); from <= to; {
		last := min(from+step-1, to)
		newest, logs, err := n.logs(ctx, from, last, contract, topics)
		switch {
		case err != nil && step > 1 && ctx.Err() == nil:
			step /= 2 // too many blocks, or too many logs in them, for this node
			continue
		case err != nil:
			return err
		}
		if err := found(logs); err != nil {
			if errors.Is(err, ErrEnough) {
				return nil
			}
			return err
		}
		if newest.Height() < last+depth {
			return Unavailable(errors.New("the node has gone back before the end of what is searched"))
		}
		from = last + 1
	}
	return nil
}

func (n *Node) logs(ctx context.Context, from, to uint64, contract common.Address, topics []any) (newest *Block, logs []Log, err error) {
	questions := []rpc.BatchElem{{Method: "eth_getLogs", Result: &logs, Args: []any{map[string]any{
		"fromBlock": hexutil.Uint64(from), "toBlock": hexutil.Uint64(to), "address": contract, "topics": topics,
	}}}}
	if newest, err = n.Head(ctx, questions...); err != nil {
		return nil, nil, err
	}
	return newest, logs, FirstError(questions...)
}
