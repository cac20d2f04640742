package tempo

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
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
	var got *node.Receipt
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
	if err := tx.check(got); err != nil {
		return mpp.Outcome{Detail: err.Error()}, nil
	}
	if !tx.paidIn(got) {
		return mpp.Outcome{Detail: complaint(got)}, nil
	}
	return mpp.Outcome{State: mpp.Settled, Detail: "mined"}, nil
}

// methodNotFound is JSON-RPC's code for it.
const methodNotFound = -32601

// complaint says how a receipt that does not pay us came to be.
func complaint(r *node.Receipt) string {
	if *r.Status == 0 {
		return "mined, but reverted"
	}
	return "mined, but the logs show no payment to us"
}

// searchAhead is for how long after its time a payment with a nonce is looked for under another
// hash. It bounds the questions for one that is shown late: after that, only the block in which
// its nonce was used is searched.
const searchAhead = 2 * time.Hour

// Outcome asks what became of a payment that was sent or may have been.
//
// Settled is said as soon as a receipt with the right logs is seen, and is
// deep when its block is. Another receipt is Failed or Mismatched as soon as its block
// is deep: the chain takes a transaction once. Without one, the payment is Gone when a
// block is deep that is later than validBefore, or by which the nonce was used, and a node
// that has that block still knows no receipt. Until then it is Pending. None of the three is
// said where a log shows the same transfer under another hash, such as that of a transaction
// with a higher fee and the same nonce: the payment is Settled by that one.
//
// If since is given, Failed and Mismatched come before the block is deep. In any case the number of
// questions is bounded, however long ago the payment was made.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	tx, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	ask := m.Node.Recent
	if !since.IsZero() { // it is not asked again after the next block
		ask = m.Node.Head
	}
	newest, mined, err := node.Receipts(ctx, ask, []common.Hash{tx.hash})
	got, err := tx.believed(mined[tx.hash], err)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if got != nil && tx.paidIn(got) {
		return m.settled(ctx, newest, got)
	}
	pending := mpp.Outcome{Detail: "not mined yet"}
	if got != nil {
		deep, err := m.Node.Deep(ctx, newest, got, m.Depth)
		switch {
		case err != nil:
			return mpp.Outcome{}, err
		case deep != nil:
			elsewhere, _, err := m.elsewhere(ctx, p, tx, newest.Height()-m.Depth)
			if err != nil || elsewhere != nil {
				return replaced(elsewhere), err
			}
			return unpaid(got), nil
		case !since.IsZero():
			o := unpaid(got)
			o.Deep = false
			return o, nil
		}
		pending.Detail = complaint(got) + ", not final yet"
	}
	after, due, err := m.over(ctx, newest, tx)
	if err != nil || after == nil {
		pending.Due = due
		return pending, err
	}
	return m.final(ctx, p, tx, after)
}

// over gives a deep block after which the transaction cannot be mined: one later than its
// validBefore, or by which its nonce was used. It gives nil if there is none yet, and then
// when that is due, if that is known.
func (m *Method) over(ctx context.Context, newest *node.Block, tx *transaction) (after *node.Block, due time.Time, err error) {
	if tx.ValidBefore != 0 {
		if after, due, err = m.Node.DeepAfter(ctx, newest, tx.ValidBefore, m.Depth); err != nil || after != nil {
			return after, due, err
		}
	}
	after, err = m.nonceUsed(ctx, newest, tx)
	return after, due, err
}

// settled looks whether the block of a good receipt is deep, and still on the
// chain.
func (m *Method) settled(ctx context.Context, newest *node.Block, got *node.Receipt) (mpp.Outcome, error) {
	deep, err := m.Node.Deep(ctx, newest, got, m.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	return mpp.Outcome{State: mpp.Settled, Deep: deep != nil, Detail: "mined"}, nil
}

// final decides about a transaction that can no longer be mined, as the deep
// block after shows, but may have been.
func (m *Method) final(ctx context.Context, p mpp.Payment, tx *transaction, after *node.Block) (mpp.Outcome, error) {
	elsewhere, to, err := m.elsewhere(ctx, p, tx, after.Height())
	if err == nil && elsewhere == nil && tx.ValidBefore == 0 && to < after.Height() {
		// Its nonce may have been used after everything that was searched.
		var used uint64
		if used, err = m.firstUsed(ctx, tx, to, after.Height()); err == nil && used > to {
			elsewhere, err = m.transferIn(ctx, tx, used, used)
		}
		if err != nil && !errors.Is(err, node.ErrWentBack) && ctx.Err() == nil {
			// Nodes forget old states. What holds something must not wait for one that has them:
			// the payment lapses, and is given up.
			return mpp.Outcome{Detail: "its nonce was used, and the node does not say by what: " + err.Error()}, nil
		}
	}
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, got, err := m.Node.ReceiptOf(ctx, tx.hash)
	if got, err = tx.believed(got, err); err != nil {
		return mpp.Outcome{}, err
	}
	switch {
	case newest.Height() < after.Height():
		return mpp.Outcome{}, node.ErrWentBack
	case got != nil && tx.paidIn(got):
		return m.settled(ctx, newest, got)
	case elsewhere != nil:
		return replaced(elsewhere), nil
	}
	o := unpaid(got)
	if got == nil && tx.ValidBefore != 0 && uint64(*after.Timestamp) >= tx.ValidBefore {
		o.Over = newest.Time()
	}
	return o, nil
}

// unpaid is the outcome that a deep receipt which does not pay us means, or the proven
// lack of one, which is nil.
func unpaid(r *node.Receipt) mpp.Outcome {
	switch {
	case r == nil:
		return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "never mined"}
	case *r.Status == 0:
		return mpp.Outcome{State: mpp.Failed, Deep: true, Detail: complaint(r)}
	}
	return mpp.Outcome{State: mpp.Mismatched, Deep: true, Detail: complaint(r)}
}

// replaced is what the deep receipt of another transaction that made the payment's transfer means
// for it; nothing is known of none.
func replaced(r *node.Receipt) mpp.Outcome {
	if r == nil {
		return mpp.Outcome{}
	}
	return mpp.Outcome{State: mpp.Settled, Deep: true, Reference: r.Hash.Hex(), Detail: "mined under another hash"}
}

// elsewhere looks for the transfer under whatever hash, up to the deep block last, in
// the blocks in which the transaction can have been mined: as long as its payment is
// open, these grow no more for a node to search once its time is over. to is the last of
// them. It is one that the node has deep: another may have followed a branch that was left.
func (m *Method) elsewhere(ctx context.Context, p mpp.Payment, tx *transaction, last uint64) (found *node.Receipt, to uint64, err error) {
	end := p.ValidBefore
	if p.Until.After(end) {
		end = p.Until
	}
	if !tx.expiring() {
		// Its payer may have replaced it by one that can be mined later.
		end = end.Add(searchAhead)
	}
	if to, err = m.Node.FirstSince(ctx, last, end.Unix()+1); err != nil {
		return nil, 0, err
	}
	from, err := m.Node.FirstSince(ctx, to, p.ValidBefore.Add(-node.SearchBack).Unix())
	if err != nil {
		return nil, 0, err
	}
	found, err = m.transferIn(ctx, tx, from, to)
	return found, to, err
}

// transferIn gives the receipt of the transaction that made the transfer in the blocks from, to and all
// between, nil for none.
func (m *Method) transferIn(ctx context.Context, tx *transaction, from, to uint64) (*node.Receipt, error) {
	_, newest, r, err := m.Node.First(ctx, from, to, m.Depth, tx.token, tx.topics(), tx.isTransferWithMemo)
	if err != nil || r == nil {
		return nil, err
	}
	if !tx.paidIn(r) {
		return nil, node.Unavailable(errors.New("the node's receipt does not show a transfer of which it has the log"))
	}
	if deep, err := m.Node.Deep(ctx, newest, r, m.Depth); err != nil || deep == nil {
		return nil, cmp.Or(err, node.Unavailable(errors.New("the block of a transfer under another hash is not deep")))
	}
	return r, nil
}

// believed is a receipt that a node gave, or failed to give, for tx; nil if it has none.
func (tx *transaction) believed(r *node.Receipt, err error) (*node.Receipt, error) {
	if err != nil || r == nil {
		return nil, err
	}
	if err := tx.check(r); err != nil {
		return nil, node.Unavailable(err)
	}
	return r, nil
}

// check says what makes r unbelievable as the receipt of tx.
func (tx *transaction) check(r *node.Receipt) error {
	if err := r.Check(tx.hash); err != nil {
		return err
	}
	if r.From != nil && *r.From != tx.sender {
		return errors.New("the node's receipt has another sender")
	}
	return nil
}

// paidIn says that the transaction's effect was to pay us: the currency itself
// logged the transfer, and right after it the same transfer with our memo.
// The status alone proves nothing.
func (tx *transaction) paidIn(r *node.Receipt) bool { return *r.Status == 1 && tx.shows(r.Logs) }

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
	return l.Is(tx.token, node.Number(tx.amount), node.MemoTopic, common.Hash(node.Word(tx.sender)), common.Hash(node.Word(tx.recipient)), common.Hash(tx.memo))
}

// topics are those of the transfers that would answer the same challenge, under
// whatever transaction hash.
func (tx *transaction) topics() []any {
	return []any{
		node.MemoTopic, common.BytesToHash(tx.sender[:]), common.BytesToHash(tx.recipient[:]), common.Hash(tx.memo),
	}
}
