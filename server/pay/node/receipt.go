package node

import (
	"context"
	"errors"

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

// ReceiptOf asks for the newest block and then for the receipt of a transaction. The
// receipt has passed [Receipt.Check]; it is nil if the transaction is not mined. All
// errors are [mpp.ErrUnavailable], also for a node that has the transaction in a block
// and has dropped its receipt.
func (n *Node) ReceiptOf(ctx context.Context, hash common.Hash) (newest *Block, got *Receipt, err error) {
	// In this order, a transaction that is mined in between has a receipt.
	var tx struct {
		BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	}
	questions := []rpc.BatchElem{
		{Method: "eth_getTransactionByHash", Args: []any{hash}, Result: &tx},
		{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &got},
	}
	if newest, err = n.Head(ctx, questions...); err != nil {
		return nil, nil, err
	}
	if err := FirstError(questions[1]); err != nil {
		return nil, nil, err
	}
	if got == nil {
		if err := FirstError(questions[0]); err != nil {
			return nil, nil, err
		}
		if tx.BlockNumber != nil {
			return nil, nil, Unavailable(errors.New("the node has the transaction and not its receipt; ask one that keeps receipts"))
		}
		return newest, nil, nil
	}
	if err := got.Check(hash); err != nil {
		return nil, nil, Unavailable(err)
	}
	return newest, got, nil
}

// RecentReceipt asks for the receipt of a transaction with one question, and gives a
// block that was the newest up to a second ago. The receipt has passed
// [Receipt.Check]; nil says only that the node has none now.
func (n *Node) RecentReceipt(ctx context.Context, hash common.Hash) (newest *Block, got *Receipt, err error) {
	question := []rpc.BatchElem{{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &got}}
	if newest, err = n.Recent(ctx, question...); err != nil {
		return nil, nil, err
	}
	if err := FirstError(question...); err != nil || got == nil {
		return newest, nil, err
	}
	if err := got.Check(hash); err != nil {
		return nil, nil, Unavailable(err)
	}
	return newest, got, nil
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
