package tempo

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/node"
)

// receipt is a receipt of a Tempo transaction.
type receipt struct{ node.Receipt }

// check says what makes r unbelievable as the receipt of tx.
func (r *receipt) check(tx *transaction) error {
	if err := r.Check(tx.hash); err != nil {
		return err
	}
	if r.From != nil && *r.From != tx.sender {
		return errors.New("the node's receipt has another sender")
	}
	return nil
}

// transferWithMemoTopic marks an event of TIP-20 tokens that follows
// [node.TransferTopic]'s. All addresses and the memo are indexed; the data is the
// amount.
var transferWithMemoTopic = crypto.Keccak256Hash([]byte("TransferWithMemo(address,address,uint256,bytes32)"))

// paid says that the transaction's effect was to pay us: the currency itself
// logged the transfer, and right after it the same transfer with our memo.
// The status alone proves nothing.
func (r *receipt) paid(tx *transaction) bool { return *r.Status == 1 && tx.shows(r.Logs) }

// shows says that the two events of the payment stand in logs.
func (tx *transaction) shows(logs []node.Log) bool {
	for i := 1; i < len(logs); i++ {
		if tx.isTransfer(logs[i-1]) && tx.isTransferWithMemo(logs[i]) {
			return true
		}
	}
	return false
}

func (tx *transaction) isTransfer(l node.Log) bool {
	return len(l.Topics) == 3 && l.Topics[0] == node.TransferTopic && tx.moves(l)
}

func (tx *transaction) isTransferWithMemo(l node.Log) bool {
	return len(l.Topics) == 4 && l.Topics[0] == transferWithMemoTopic && l.Topics[3] == common.Hash(tx.memo) && tx.moves(l)
}

// moves compares token, sender, recipient and amount.
func (tx *transaction) moves(l node.Log) bool {
	var amount [32]byte
	binary.BigEndian.PutUint64(amount[24:], tx.amount)
	return !l.Removed && l.Address == tx.token &&
		l.Topics[1] == common.BytesToHash(tx.sender[:]) && l.Topics[2] == common.BytesToHash(tx.recipient[:]) &&
		bytes.Equal(l.Data, amount[:])
}

// topics are those of the transfers that would answer the same challenge, under
// whatever transaction hash.
func (tx *transaction) topics() []any {
	return []any{
		transferWithMemoTopic, common.BytesToHash(tx.sender[:]), common.BytesToHash(tx.recipient[:]), common.Hash(tx.memo),
	}
}
