package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

// Receipt has the fields of a transaction's receipt that are used here. One that
// passed [Receipt.Check] has its own and its block's hash, block number and status.
type Receipt struct {
	Hash        *common.Hash    `json:"transactionHash"`
	BlockHash   *common.Hash    `json:"blockHash"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	Status      *hexutil.Uint64 `json:"status"`
	From        *common.Address `json:"from"`
	GasUsed     *hexutil.Uint64 `json:"gasUsed"`
	GasPrice    *hexutil.Big    `json:"effectiveGasPrice"` // wei for a unit
	Logs        []Log           `json:"logs"`
}

// Log is one event that a transaction left.
type Log struct {
	Address     common.Address  `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	TxHash      *common.Hash    `json:"transactionHash"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	Removed     bool            `json:"removed"`
}

// Is says that l is an event of a contract with these topics and data.
func (l Log) Is(contract common.Address, data []byte, topics ...common.Hash) bool {
	return !l.Removed && l.Address == contract && bytes.Equal(l.Data, data) && slices.Equal(l.Topics, topics)
}

// ReceiptOf asks for the newest block and then for the receipt of a transaction. The
// receipt has passed [Receipt.Check]; it is nil if the transaction is not mined. All
// errors are [mpp.ErrUnavailable], also for a node that has the transaction in a block
// and has dropped its receipt.
func (n *Node) ReceiptOf(ctx context.Context, hash common.Hash) (*Block, *Receipt, error) {
	// In this order, a transaction that is mined in between has a receipt.
	var tx struct {
		BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	}
	first := []rpc.BatchElem{{Method: "eth_getTransactionByHash", Args: []any{hash}, Result: &tx}}
	newest, mined, err := Receipts(ctx, n.Head, []common.Hash{hash}, first...)
	if err != nil || mined[hash] != nil {
		return newest, mined[hash], err
	}
	if err := FirstError(first...); err != nil {
		return nil, nil, err
	}
	if tx.BlockNumber != nil {
		return nil, nil, Unavailable(errors.New("the node has the transaction and not its receipt; ask one that keeps receipts"))
	}
	return newest, nil, nil
}

// Receipts asks for the newest block, by [Node.Head] or [Node.Recent], then some other questions, and
// then for the receipts of transactions. It gives those of mined transactions; they have passed
// [Receipt.Check]. The errors of the other questions stay in them.
func Receipts(ctx context.Context, ask func(context.Context, ...rpc.BatchElem) (*Block, error), hashes []common.Hash, others ...rpc.BatchElem) (newest *Block, mined map[common.Hash]*Receipt, err error) {
	receipts := make([]*Receipt, len(hashes))
	questions := slices.Clone(others)
	for i, hash := range hashes {
		questions = append(questions, rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &receipts[i]})
	}
	if newest, err = ask(ctx, questions...); err != nil {
		return nil, nil, err
	}
	copy(others, questions)
	if err := FirstError(questions[len(others):]...); err != nil {
		return nil, nil, err
	}
	mined = map[common.Hash]*Receipt{}
	for i, r := range receipts {
		if r == nil {
			continue
		}
		if err := r.Check(hashes[i]); err != nil {
			return nil, nil, Unavailable(err)
		}
		mined[hashes[i]] = r
	}
	return newest, mined, nil
}

// Check refuses a receipt that cannot be that of the transaction with this hash: one
// of another transaction, or one that lacks fields.
func (r *Receipt) Check(hash common.Hash) error {
	switch {
	case r.Hash == nil || r.BlockHash == nil || r.BlockNumber == nil || r.Status == nil:
		return errors.New("the node's receipt lacks fields")
	case *r.Hash != hash:
		return errors.New("the node's receipt is of another transaction")
	case *r.Status > 1:
		return errors.New("the node's receipt has no known status")
	}
	for _, l := range r.Logs {
		if l.TxHash != nil && *l.TxHash != hash {
			return errors.New("the node's receipt holds another transaction's logs")
		}
	}
	return nil
}

// SearchBack is how long before its end a payment that is stored may at the earliest have been made, with
// much to spare: it ends no later than its challenge, which lives five minutes at most, or two minutes
// after it was first seen unused here.
const SearchBack = 15 * time.Minute

// longestRange is how many blocks one search covers at most; nodes have such limits.
const longestRange = 2000

// goodSearches is the number of successful searches after which the next one covers
// twice as many blocks: the failure that made them shorter may have been a fault.
const goodSearches = 16

// ErrWentBack says that a node lacks a block that decides, or the end of what is searched.
var ErrWentBack = Unavailable(errors.New("the node has gone back before the block that decides"))

// ErrEnough is what the receiver of [Node.Logs] returns to end the search
// without an error.
var ErrEnough = errors.New("node: enough")

// Logs calls found with the logs of one contract with these topics, as eth_getLogs
// takes them, in the blocks from, to and all between: many logs at a time, oldest
// first. An error of found ends the search and is returned. All other errors are
// [mpp.ErrUnavailable]. It is one also if the node does not yet have all the blocks
// and depth more on top, or has dropped the receipts of the first blocks: its answer
// may then be incomplete.
func (n *Node) Logs(ctx context.Context, from, to, depth uint64, contract common.Address, topics []any, found func([]Log) error) error {
	probe, err := n.retentionProbe(ctx, from, to)
	if err != nil {
		return err
	}
	for step, good := uint64(longestRange), 0; from <= to; {
		last := min(from+step-1, to)
		newest, logs, kept, err := n.logs(ctx, from, last, contract, topics, probe)
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
			return nil // found needs no more, even if logs are missing
		case newest.Height() < last+depth:
			return ErrWentBack
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

// First gives the first log of [Node.Logs] that is the one looked for, with the receipt of its
// transaction and the newest block then; nil if there is none. The receipt has passed
// [Receipt.Check].
func (n *Node) First(ctx context.Context, from, to, depth uint64, contract common.Address, topics []any, is func(Log) bool) (l *Log, newest *Block, r *Receipt, err error) {
	err = n.Logs(ctx, from, to, depth, contract, topics, func(logs []Log) error {
		at := slices.IndexFunc(logs, is)
		if at < 0 {
			return nil
		}
		l = &logs[at]
		return ErrEnough
	})
	if err != nil || l == nil {
		return nil, nil, nil, err
	}
	if l.TxHash == nil {
		return nil, nil, nil, Unavailable(errors.New("the node does not say which transaction an event is of"))
	}
	if newest, r, err = n.ReceiptOf(ctx, *l.TxHash); err == nil && r == nil {
		err = Unavailable(errors.New("the node has an event and not its transaction"))
	}
	return l, newest, r, err
}

// logs is one search. kept reports whether the same node has the receipt of probe.
func (n *Node) logs(ctx context.Context, from, to uint64, contract common.Address, topics []any, probe *common.Hash) (newest *Block, logs []Log, kept bool, err error) {
	questions := []rpc.BatchElem{{Method: "eth_getLogs", Result: &logs, Args: []any{map[string]any{
		"fromBlock": hexutil.Uint64(from), "toBlock": hexutil.Uint64(to), "address": contract, "topics": topics,
	}}}}
	var receipt *Receipt
	if probe != nil {
		questions = append(questions, rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{*probe}, Result: &receipt})
	}
	if newest, err = n.Head(ctx, questions...); err != nil {
		return nil, nil, false, err
	}
	return newest, logs, probe == nil || receipt != nil, FirstError(questions...)
}

// retentionProbe gives a transaction in the first blocks of a range, or nil if they
// are empty. A pruned node answers as if older blocks had no logs. It drops the
// oldest receipts first, so a node that has the receipt of this transaction has all
// logs of the range.
func (n *Node) retentionProbe(ctx context.Context, from, to uint64) (*common.Hash, error) {
	// The first block alone first: on a busy chain it is large, and enough.
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
