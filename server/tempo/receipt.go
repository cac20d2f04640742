package tempo

import (
	"bytes"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
)

// receipt is what is used of a transaction's receipt.
type receipt struct {
	Hash        *common.Hash    `json:"transactionHash"`
	BlockHash   *common.Hash    `json:"blockHash"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	Status      *hexutil.Uint64 `json:"status"`
	From        *common.Address `json:"from"`
	Logs        []log           `json:"logs"`
}

// log is one event that a transaction left.
type log struct {
	Address common.Address `json:"address"`
	Topics  []common.Hash  `json:"topics"`
	Data    hexutil.Bytes  `json:"data"`
	TxHash  *common.Hash   `json:"transactionHash"`
	Removed bool           `json:"removed"`
}

// check says what makes r unbelievable as the receipt of tx: a node that
// answers with another transaction's, or with half of one, knows nothing.
func (r *receipt) check(tx *transaction) error {
	switch {
	case r.Hash == nil || r.BlockHash == nil || r.BlockNumber == nil || r.Status == nil:
		return errors.New("the node's receipt lacks fields")
	case *r.Hash != tx.hash:
		return errors.New("the node's receipt is of another transaction")
	case r.From != nil && *r.From != tx.sender:
		return errors.New("the node's receipt has another sender")
	case *r.Status > 1:
		return errors.New("the node's receipt has no known status")
	}
	for _, l := range r.Logs {
		if l.TxHash != nil && *l.TxHash != tx.hash {
			return errors.New("the node's receipt holds another transaction's logs")
		}
	}
	return nil
}

// Events of TIP-20 tokens. All addresses and the memo are indexed; the data is
// the amount.
var (
	transferTopic         = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	transferWithMemoTopic = crypto.Keccak256Hash([]byte("TransferWithMemo(address,address,uint256,bytes32)"))
)

// paid says that the transaction's effect was to pay us: the currency itself
// logged the transfer, and right after it the same transfer with our memo.
// The status alone proves nothing.
func (r *receipt) paid(tx *transaction) bool {
	if *r.Status != 1 {
		return false
	}
	for i := 1; i < len(r.Logs); i++ {
		if tx.isTransfer(r.Logs[i-1]) && tx.isTransferWithMemo(r.Logs[i]) {
			return true
		}
	}
	return false
}

func (tx *transaction) isTransfer(l log) bool {
	return len(l.Topics) == 3 && l.Topics[0] == transferTopic && tx.moves(l)
}

func (tx *transaction) isTransferWithMemo(l log) bool {
	return len(l.Topics) == 4 && l.Topics[0] == transferWithMemoTopic && l.Topics[3] == common.Hash(tx.memo) && tx.moves(l)
}

// moves compares token, sender, recipient and amount.
func (tx *transaction) moves(l log) bool {
	var amount [32]byte
	for i, v := 31, tx.amount; v > 0; i, v = i-1, v>>8 {
		amount[i] = byte(v)
	}
	return !l.Removed && l.Address == tx.token &&
		l.Topics[1] == common.BytesToHash(tx.sender[:]) && l.Topics[2] == common.BytesToHash(tx.recipient[:]) &&
		bytes.Equal(l.Data, amount[:])
}

// logFilter finds, in a range of blocks, the transfers that would answer the
// same challenge, under whatever transaction hash.
func (tx *transaction) logFilter(from, to uint64) map[string]any {
	return map[string]any{
		"fromBlock": hexutil.Uint64(from), "toBlock": hexutil.Uint64(to), "address": tx.token,
		"topics": []any{
			transferWithMemoTopic, common.BytesToHash(tx.sender[:]), common.BytesToHash(tx.recipient[:]), common.Hash(tx.memo),
		},
	}
}
