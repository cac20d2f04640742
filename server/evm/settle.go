package evm

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
	"webring/server/node"
)

// Broadcast submits the authorisation. It may be repeated at will: the token
// takes its nonce once, and while our transaction is in flight the same one is
// sent again, after a while with higher fees. What would revert is not sent: it
// would cost gas for nothing. Everything but a token that knows the authorisation
// already is Pending, and [Method.Outcome] has the last word. The error is only
// ever a damaged record or ErrUnavailable.
func (m *Method) Broadcast(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	var known hexutil.Bytes
	var gas hexutil.Uint64
	questions := []rpc.BatchElem{m.used(&known, a), m.estimate(&gas, a)}
	st, err := m.standing(ctx, questions...)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if yes, _ := isTrue(known); yes && questions[0].Error == nil {
		return m.Outcome(ctx, p)
	}
	if st.clock() >= a.validBefore {
		return mpp.Outcome{Detail: "not submitted: its time is over"}, nil
	}
	if questions[1].Error == nil && (gas == 0 || gas > maxGas) {
		return mpp.Outcome{}, node.Unavailable(errors.New("the node's estimate of gas cannot be true"))
	}
	tx := m.gas.transaction(a, st, uint64(gas))
	if tx == nil {
		return mpp.Outcome{Detail: "not submitted: " + node.Text(questions[1].Error)}, nil
	}
	if !tx.taken {
		ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
		defer cancel()
		var hash common.Hash
		if err := m.node.Call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(tx.raw)); err != nil {
			return mpp.Outcome{Detail: "not known to be submitted: " + node.Text(err)}, nil
		}
		m.gas.taken(tx.hash)
	}
	return mpp.Outcome{Detail: "submitted"}, nil
}

// Outcome asks what became of an authorisation that was submitted or may have
// been, by whomever.
//
// Settled is said as soon as the token's own logs show that the authorisation was
// used to pay us, with the transaction in which that was, and is deep when its
// block is. Everything else needs a block that is deep: Mismatched, one in which
// the nonce was used for something else; Gone, one in which it was cancelled, or
// one later than validBefore while the token does not know the nonce. Until then
// the payment is Pending.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	hints := []common.Hash{common.HexToHash(p.Reference)}
	if hash, ok := m.gas.last(a); ok {
		hints = append(hints, hash)
	}
	o, err := m.outcome(ctx, a, hints)
	if err == nil && o.State != mpp.Pending {
		m.gas.ended(a)
	}
	return o, err
}

func (m *Method) outcome(ctx context.Context, a *authorization, hints []common.Hash) (mpp.Outcome, error) {
	newest, known, receipts, err := m.look(ctx, a, hints)
	if err != nil {
		return mpp.Outcome{}, err
	}
	for _, r := range receipts {
		if a.paidIn(r, m.cfg.Currency) {
			return m.settled(ctx, a, newest, r)
		}
	}
	if known {
		return m.find(ctx, a, newest)
	}
	pending := mpp.Outcome{Detail: "not used yet"}
	after, err := m.node.DeepAfter(ctx, newest, a.validBefore, m.cfg.Depth)
	if err != nil || after == nil {
		return pending, err
	}
	// Once more, from a node that has the block that decides.
	newest, known, _, err = m.look(ctx, a, nil)
	switch {
	case err != nil:
		return mpp.Outcome{}, err
	case newest.Height() < after.Height():
		return mpp.Outcome{}, node.Unavailable(errors.New("the node has gone back before the block that decides"))
	case known:
		return m.find(ctx, a, newest)
	}
	return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "never used in its time"}, nil
}

// look asks for the newest block, whether the token knows the nonce, and for the
// receipts of the transactions in which it may have been used.
func (m *Method) look(ctx context.Context, a *authorization, hints []common.Hash) (newest *node.Block, known bool, receipts []*node.Receipt, err error) {
	var word hexutil.Bytes
	got := make([]*node.Receipt, len(hints))
	questions := []rpc.BatchElem{m.used(&word, a)}
	for i, hash := range hints {
		questions = append(questions, rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &got[i]})
	}
	if newest, err = m.node.Head(ctx, questions...); err != nil {
		return nil, false, nil, err
	}
	if err := node.FirstError(questions...); err != nil {
		return nil, false, nil, err
	}
	known, ok := isTrue(word)
	if !ok {
		return nil, false, nil, node.Unavailable(errors.New("the token does not say whether the authorisation was used"))
	}
	for i, r := range got {
		if r == nil {
			continue
		}
		if err := r.Check(hints[i]); err != nil {
			return nil, false, nil, node.Unavailable(err)
		}
		receipts = append(receipts, r)
	}
	return newest, known, receipts, nil
}

func (m *Method) settled(ctx context.Context, a *authorization, newest *node.Block, r *node.Receipt) (mpp.Outcome, error) {
	deep, err := m.node.Stays(ctx, newest, r, m.cfg.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	// Whoever submits can put several authorisations into one transaction, which
	// pay whom they were signed for, today's recipient or not.
	signed := m.payments()
	signed.Recipient = a.to
	return mpp.Outcome{State: mpp.Settled, Deep: deep, Reference: r.Hash.Hex(), Brought: signed.In(r), Detail: "used to pay us"}, nil
}
