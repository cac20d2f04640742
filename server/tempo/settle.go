package tempo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
	"webring/server/node"
)

// Broadcast sends the payment and waits for a while until it is mined. It may
// be repeated at will: the bytes are the same, so the hash is, and the chain
// takes a hash once. Whatever is ambiguous — an error of the node, a timeout,
// a receipt that could still change — is Pending, and [Method.Outcome] has the
// last word; from a failure here alone nothing may be concluded, since the
// node may have passed the transaction on before it failed. The error is only
// ever a damaged record.
func (m *Method) Broadcast(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	var got *receipt
	err = m.node.Call(ctx, &got, "eth_sendRawTransactionSync", hexutil.Bytes(tx.raw))
	var spoken rpc.Error
	if errors.As(err, &spoken) && spoken.ErrorCode() == methodNotFound {
		var hash common.Hash
		if err = m.node.Call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(tx.raw)); err == nil {
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

// searchBack is how long before validBefore the transaction may at the
// earliest have been mined, with much to spare: it answers a challenge that
// lives five minutes and expires no earlier than the transaction.
const searchBack = 15 * time.Minute

// Outcome asks what became of a payment that was sent or may have been.
//
// Settled is said as soon as a receipt with the right logs is seen, and is
// deep when its block is. Everything else that is final needs proof that no
// later block can say otherwise: a block later than validBefore that is deep
// itself; after that, no log of the same transfer under another hash up to the
// first such block and, from a node that has the deep one, still no receipt that
// pays us. Then the payment is Failed, Mismatched or Gone, by its receipt or the
// lack of one; until then it is Pending. A matching log under another hash leaves it
// Pending for ever, for the operator.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.receipt(ctx, tx)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if got != nil && got.paid(tx) {
		return m.settled(ctx, newest, got)
	}
	pending := mpp.Outcome{Detail: "not mined yet"}
	if got != nil {
		pending.Detail = got.complaint() + ", not final yet"
	}
	after, err := m.node.DeepAfter(ctx, newest, tx.validBefore, m.cfg.Depth)
	if err != nil || after == nil {
		return pending, err
	}
	return m.final(ctx, tx, after)
}

// receipt asks for the newest block and then the receipt, as [node.Node.ReceiptOf]
// does.
func (m *Method) receipt(ctx context.Context, tx *transaction) (*node.Block, *receipt, error) {
	newest, r, err := m.node.ReceiptOf(ctx, tx.hash)
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
	deep, err := m.node.Stays(ctx, newest, &got.Receipt, m.cfg.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	return mpp.Outcome{State: mpp.Settled, Deep: deep, Detail: "mined"}, nil
}

// final decides about a transaction that can no longer be mined, as the deep
// block after shows, but may have been.
func (m *Method) final(ctx context.Context, tx *transaction, after *node.Block) (mpp.Outcome, error) {
	elsewhere, err := m.elsewhere(ctx, tx, after)
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.receipt(ctx, tx)
	if err != nil {
		return mpp.Outcome{}, err
	}
	switch {
	case newest.Height() < after.Height():
		return mpp.Outcome{}, node.Unavailable(errors.New("the node has gone back before the block that decides"))
	case got != nil && got.paid(tx):
		return m.settled(ctx, newest, got)
	case elsewhere:
		return mpp.Outcome{Detail: "a transfer that answers the challenge was mined under another hash"}, nil
	case got == nil:
		return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "never mined"}, nil
	case *got.Status == 0:
		return mpp.Outcome{State: mpp.Failed, Deep: true, Detail: got.complaint()}, nil
	}
	return mpp.Outcome{State: mpp.Mismatched, Deep: true, Detail: got.complaint()}, nil
}

// elsewhere looks for the transfer under whatever hash, in the blocks in which the
// transaction can have been mined: as long as its payment is open, these are the
// same, and no more for a node to search. It is one that has them deep: another may
// have followed a branch that was left.
func (m *Method) elsewhere(ctx context.Context, tx *transaction, after *node.Block) (found bool, err error) {
	to, err := m.node.FirstSince(ctx, after.Height(), int64(tx.validBefore)+1)
	if err != nil {
		return false, err
	}
	from, err := m.node.FirstSince(ctx, to, int64(tx.validBefore)-int64(searchBack/time.Second))
	if err != nil {
		return false, err
	}
	err = m.node.Logs(ctx, from, to, m.cfg.Depth, tx.token, tx.topics(), func(logs []node.Log) error {
		if found = slices.ContainsFunc(logs, tx.isTransferWithMemo); found {
			return node.ErrEnough
		}
		return nil
	})
	return found, err
}
