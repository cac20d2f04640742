package tempo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// Broadcast sends the payment and waits for a while until it is mined. It may
// be repeated at will: the bytes are the same, so the hash is, and the chain
// takes a hash once. Whatever is ambiguous — an error of the node, a timeout,
// a receipt that could still change — is Pending, and [Method.Outcome] has the
// last word; from a failure here alone nothing may be concluded, since the
// node may have passed the transaction on before it failed. The error is only
// ever a damaged record.
func (m *Method) Broadcast(ctx context.Context, p mpp.Payment, _ mpp.Expenses) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	var got *receipt
	err = m.Node.Call(ctx, &got, "eth_sendRawTransactionSync", hexutil.Bytes(tx.raw))
	var spoken rpc.Error
	if errors.As(err, &spoken) && spoken.ErrorCode() == methodNotFound {
		var hash common.Hash
		if err = m.Node.Call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(tx.raw)); err == nil {
			return mpp.Outcome{Detail: "sent"}, nil
		}
	}
	switch {
	case err != nil:
		return mpp.Outcome{Detail: "not known to be sent: " + node.Text(err)}, nil
	case got == nil:
		return mpp.Outcome{Detail: "sent, without a receipt"}, nil
	}
	if err := got.check(tx); err != nil {
		return mpp.Outcome{Detail: err.Error()}, nil
	}
	if !got.paid(tx) {
		return mpp.Outcome{Detail: got.complaint()}, nil
	}
	return mpp.Outcome{State: mpp.Settled, Detail: "mined"}, nil
}

// methodNotFound is JSON-RPC's code for it.
const methodNotFound = -32601

// complaint says how a receipt that does not pay us came to be.
func (r *receipt) complaint() string {
	if *r.Status == 0 {
		return "mined, but reverted"
	}
	return "mined, but the logs show no payment to us"
}

// searchBack is longer than the time from the challenge to the transaction's validBefore:
// the challenge lives five minutes, and the transaction ends no later.
const searchBack = 15 * time.Minute

// Outcome asks what became of a payment that was sent or may have been.
//
// Settled is said as soon as a receipt with the right logs is seen, and is
// deep when its block is. Another receipt is Failed or Mismatched as soon as its block
// is deep: the chain takes a transaction once. Without one, the payment is Gone when a
// block later than validBefore is deep and a node that has it still knows no receipt.
// Until then it is Pending. None of the three is said where a log shows the same
// transfer under another hash: that leaves the payment Pending for ever, for the
// operator.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.receipt(ctx, tx, m.Node.RecentReceipt)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if got != nil && got.paid(tx) {
		return m.settled(ctx, newest, got)
	}
	pending := mpp.Outcome{Detail: "not mined yet"}
	if got != nil {
		stays, err := m.Node.Stays(ctx, newest, &got.Receipt, m.Depth)
		if err != nil {
			return mpp.Outcome{}, err
		}
		if stays {
			elsewhere, err := m.elsewhere(ctx, tx, newest.Height()-m.Depth)
			if err != nil {
				return mpp.Outcome{}, err
			}
			return got.unpaid(elsewhere), nil
		}
		pending.Detail = got.complaint() + ", not final yet"
	}
	after, due, err := m.Node.DeepAfter(ctx, newest, tx.validBefore, m.Depth)
	if err != nil || after == nil {
		pending.Due = due
		return pending, err
	}
	return m.final(ctx, tx, after)
}

// Seen asks, with a bounded number of questions however long ago it was, what the
// chain has of a transaction that this process knows nothing of: Settled as
// [Method.Outcome] says it, Failed or Mismatched as soon as a receipt shows it. Gone
// needs a deep block later than validBefore without one, and, where that is not of the
// last minutes, the proof that Outcome wants: a node may have forgotten the receipts of
// then, and not those of now.
func (m *Method) Seen(ctx context.Context, p mpp.Payment, _ time.Time) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.receipt(ctx, tx, m.Node.ReceiptOf)
	switch {
	case err != nil:
		return mpp.Outcome{}, err
	case got == nil:
		after, _, err := m.Node.DeepAfter(ctx, newest, tx.validBefore, m.Depth)
		switch {
		case err != nil || after == nil:
			return mpp.Outcome{Detail: "not mined yet"}, err
		case uint64(*newest.Timestamp) < tx.validBefore+receiptsFor:
			return mpp.Outcome{State: mpp.Gone, Detail: "not mined in its time"}, nil
		}
		return m.final(ctx, tx, after)
	case got.paid(tx):
		return m.settled(ctx, newest, got)
	case *got.Status == 0:
		return mpp.Outcome{State: mpp.Failed, Detail: got.complaint()}, nil
	}
	return mpp.Outcome{State: mpp.Mismatched, Detail: got.complaint()}, nil
}

// receiptsFor is for how many seconds every node has the receipts of a block.
const receiptsFor = 15 * 60

// receipt asks for a receipt in one of the ways in which a node can be asked for it.
func (m *Method) receipt(ctx context.Context, tx *transaction, ask func(context.Context, common.Hash) (*node.Block, *node.Receipt, error)) (*node.Block, *receipt, error) {
	newest, r, err := ask(ctx, tx.hash)
	if err != nil || r == nil {
		return newest, nil, err
	}
	got := &receipt{*r}
	if err := got.check(tx); err != nil {
		return nil, nil, node.Unavailable(err)
	}
	return newest, got, nil
}

// settled looks whether the block of a good receipt is deep, and still on the
// chain.
func (m *Method) settled(ctx context.Context, newest *node.Block, got *receipt) (mpp.Outcome, error) {
	deep, err := m.Node.Stays(ctx, newest, &got.Receipt, m.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	return mpp.Outcome{State: mpp.Settled, Deep: deep, Detail: "mined"}, nil
}

// final decides about a transaction that can no longer be mined, as the deep
// block after shows, but may have been.
func (m *Method) final(ctx context.Context, tx *transaction, after *node.Block) (mpp.Outcome, error) {
	elsewhere, err := m.elsewhere(ctx, tx, after.Height())
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.receipt(ctx, tx, m.Node.ReceiptOf)
	if err != nil {
		return mpp.Outcome{}, err
	}
	switch {
	case newest.Height() < after.Height():
		return mpp.Outcome{}, node.Unavailable(errors.New("the node has gone back before the block that decides"))
	case got != nil && got.paid(tx):
		return m.settled(ctx, newest, got)
	}
	return got.unpaid(elsewhere), nil
}

// unpaid is the outcome that a deep receipt which does not pay us means, or the proven
// lack of one, which is nil. Elsewhere says that the transfer was mined all the same.
func (r *receipt) unpaid(elsewhere bool) mpp.Outcome {
	switch {
	case elsewhere:
		return mpp.Outcome{Detail: "a transfer that answers the challenge was mined under another hash"}
	case r == nil:
		return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "never mined"}
	case *r.Status == 0:
		return mpp.Outcome{State: mpp.Failed, Deep: true, Detail: r.complaint()}
	}
	return mpp.Outcome{State: mpp.Mismatched, Deep: true, Detail: r.complaint()}
}

// elsewhere looks for the transfer under whatever hash, up to the deep block last, in
// the blocks in which the transaction can have been mined: as long as its payment is
// open, these grow no more for a node to search once its time is over. It is one that
// has them deep: another may have followed a branch that was left.
func (m *Method) elsewhere(ctx context.Context, tx *transaction, last uint64) (found bool, err error) {
	to, err := m.Node.FirstSince(ctx, last, int64(tx.validBefore)+1)
	if err != nil {
		return false, err
	}
	from, err := m.Node.FirstSince(ctx, to, int64(tx.validBefore)-int64(searchBack/time.Second))
	if err != nil {
		return false, err
	}
	err = m.Node.Logs(ctx, from, to, m.Depth, tx.token, tx.topics(), func(logs []node.Log) error {
		if found = slices.ContainsFunc(logs, tx.isTransferWithMemo); found {
			return node.ErrEnough
		}
		return nil
	})
	return found, err
}

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
	return l.Is(tx.token, node.Number(tx.amount), node.TransferTopic, common.Hash(node.Word(tx.sender)), common.Hash(node.Word(tx.recipient)))
}

func (tx *transaction) isTransferWithMemo(l node.Log) bool {
	return l.Is(tx.token, node.Number(tx.amount), transferWithMemoTopic, common.Hash(node.Word(tx.sender)), common.Hash(node.Word(tx.recipient)), common.Hash(tx.memo))
}

// topics are those of the transfers that would answer the same challenge, under
// whatever transaction hash.
func (tx *transaction) topics() []any {
	return []any{
		transferWithMemoTopic, common.BytesToHash(tx.sender[:]), common.BytesToHash(tx.recipient[:]), common.Hash(tx.memo),
	}
}
