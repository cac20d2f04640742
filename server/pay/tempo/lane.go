package tempo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// An account on Tempo has a lane of nonces for each nonce key. Key 0 is the nonce that every
// account of Ethereum has. In a lane, the chain takes the transaction with the next nonce and
// no other, so of several with one nonce it takes one. Such a transaction may have a
// validBefore. Without one it can be mined until its nonce is used.
//
// The lane of the key 2²⁵⁶−1 does not count: the chain remembers each transaction until its
// validBefore, which all of them have. Their nonces tell them apart and no more, since the fork T12
// (TIP-1106); before it the chain takes 0 alone, as its simulation says.

// expiringNonce is that key.
var expiringNonce = bytes.Repeat([]byte{0xff}, 32)

// subblocks is what the keys begin with that only validators' own blocks take.
const subblocks = 0x5b

// nonces is the precompile that counts the nonces of all lanes but that of key 0.
var nonces = common.HexToAddress("0x4e4f4e4345000000000000000000000000000000")

// expiring says that the transaction is in the lane that does not count.
func (tx *transaction) expiring() bool { return bytes.Equal(tx.NonceKey, expiringNonce) }

// checkLane refuses what no lane takes.
func (tx *transaction) checkLane() error {
	switch key := tx.NonceKey; {
	case len(key) > 32 || len(key) > 0 && key[0] == 0:
		return mpp.Refuse(mpp.ReasonForm, "the transaction's integers are not canonical")
	case len(key) == 32 && key[0] == subblocks:
		return mpp.Refuse(mpp.ReasonForm, "nonce keys that begin with the byte 5b are for validators")
	case tx.expiring() && tx.ValidBefore == 0:
		return mpp.Refuse(mpp.ReasonLong, "the transaction has no validBefore, which the expiring nonce needs")
	}
	return nil
}

// nonceName names the nonce that a transaction uses up, "" in the lane that does not count.
func (m *Method) nonceName(tx *transaction) string {
	if tx.expiring() {
		return ""
	}
	return fmt.Sprintf("%s:%s:%x:%d", m.Network(), node.LowerHex(tx.sender), tx.NonceKey, tx.Nonce)
}

// askNext asks for the next nonce of the transaction's lane as of a block, a number or
// "latest". [readNonce] reads what is said.
func (tx *transaction) askNext(said *string, block any) rpc.BatchElem {
	if len(tx.NonceKey) == 0 {
		return rpc.BatchElem{Method: "eth_getTransactionCount", Result: said, Args: []any{tx.sender, block}}
	}
	q := node.Question(said, nonces, "getNonce(address,uint256)", node.Word(tx.sender), common.LeftPadBytes(tx.NonceKey, 32))
	q.Args[1] = block
	return q
}

// readNonce reads a number, or the word of a precompile that holds one.
func readNonce(said string) (uint64, error) {
	digits, ok := strings.CutPrefix(said, "0x")
	n, read := new(big.Int).SetString(digits, 16)
	if !ok || !read || n.Sign() < 0 || !n.IsUint64() {
		return 0, node.Unavailable(errors.New("the node names no next nonce"))
	}
	return n.Uint64(), nil
}

// isNext refuses a transaction that is not the next one of its lane. One with a later nonce
// would wait for others, for as long as its payer likes.
func (tx *transaction) isNext(said string) error {
	next, err := readNonce(said)
	switch {
	case err != nil:
		return err
	case tx.Nonce < next:
		return errUsed
	case tx.Nonce > next:
		return mpp.Refuse(mpp.ReasonNonce, "the transaction's nonce is not the next one of the account, so it would wait for others; sign with the next nonce")
	}
	return nil
}

var errUsed = mpp.Refuse(mpp.ReasonUsed, "the transaction's nonce has been used; sign with the next nonce of the account")

// Unused refuses a payment whose nonce has been used since it was simulated.
func (m *Method) Unused(ctx context.Context, p mpp.Payment) error {
	tx, err := m.reopen(p)
	if err != nil || tx.expiring() {
		return err
	}
	var said string
	questions := []rpc.BatchElem{tx.askNext(&said, "latest")}
	if err := cmp.Or(m.Node.Ask(ctx, questions...), node.FirstError(questions...)); err != nil {
		return err
	}
	if next, err := readNonce(said); err != nil || next <= tx.Nonce {
		return err
	}
	return errUsed
}

// usedBy says whether the transaction's nonce is used as of a block, and gives the newest block
// of the node that says so.
func (m *Method) usedBy(ctx context.Context, tx *transaction, block uint64) (used bool, newest *node.Block, err error) {
	var said string
	questions := []rpc.BatchElem{tx.askNext(&said, hexutil.Uint64(block))}
	if newest, err = m.Node.Head(ctx, questions...); err == nil {
		err = node.FirstError(questions...)
	}
	if err != nil {
		return false, nil, err
	}
	next, err := readNonce(said)
	return next > tx.Nonce, newest, err
}

// nonceUsed gives a deep block by which the transaction's nonce was used, by whatever
// transaction; nil if it was not. newest is the newest block.
func (m *Method) nonceUsed(ctx context.Context, newest *node.Block, tx *transaction) (*node.Block, error) {
	if tx.expiring() || newest.Height() < m.Depth {
		return nil, nil
	}
	at := newest.Height() - m.Depth
	// Of the node that says so, its newest block shows that this one is deep there.
	used, head, err := m.usedBy(ctx, tx, at)
	if err != nil || !used || head.Height() < newest.Height() {
		return nil, err
	}
	return m.Node.BlockAt(ctx, at)
}

// firstUsed gives the first block, of those from one on, by which the transaction's nonce was
// used. It was by the deep block last. The node needs the states of that time.
func (m *Method) firstUsed(ctx context.Context, tx *transaction, from, last uint64) (uint64, error) {
	low, high := from, last
	for block := from; low < high; block = low + (high-low)/2 {
		used, newest, err := m.usedBy(ctx, tx, block)
		switch {
		case err != nil:
			return 0, err
		case newest.Height() < last+m.Depth:
			return 0, node.ErrWentBack
		case used:
			high = block
		default:
			low = block + 1
		}
	}
	return low, nil
}
