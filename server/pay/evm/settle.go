package evm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// Broadcast submits the authorisation. It may be repeated: while our transaction is in
// flight the same one is sent again, after a while with higher fees, and once one is mined
// there is no other. It sends nothing that would revert or has hardly any time left, and
// nothing that x does not allow and store. Unless the token knows the authorisation
// already, the outcome is Pending, and [Method.Outcome] says what became of it. The error
// is a damaged record or ErrUnavailable.
func (m *Method) Broadcast(ctx context.Context, p mpp.Payment, x mpp.Expenses) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if st, err := m.standing(ctx); err == nil && m.gas.waits(a, st) {
		return mpp.Outcome{Detail: "submitted"}, nil
	}
	var hashes []common.Hash
	for _, s := range m.signed(a, p) {
		if s.mined {
			return m.Outcome(ctx, p)
		}
		hashes = append(hashes, s.hash)
	}
	var known hexutil.Bytes
	var pending *node.Block
	receipts, questions := askReceipts(hashes)
	questions = append(questions, m.used(&known, a))
	if len(m.gas.transactions(a)) == 0 { // else it was tried already
		questions = append(questions, pendingBlock(&pending))
	}
	st, err := m.standing(ctx, questions...)
	if err == nil {
		err = node.FirstError(questions[:len(hashes)]...)
	}
	if err != nil {
		return mpp.Outcome{}, err
	}
	mined := slices.ContainsFunc(receipts, func(r *node.Receipt) bool { return r != nil })
	if yes, _ := isTrue(known); mined || yes {
		return m.Outcome(ctx, p)
	}
	if st.clock() >= a.validBefore {
		return mpp.Outcome{Detail: "not submitted: its time is over"}, nil
	}
	tx := m.gas.inFlight(a, st)
	if tx == nil {
		if st.clock()+enough > a.validBefore {
			return mpp.Outcome{Detail: "not submitted: too little of its time is left"}, nil
		}
		var gas uint64
		if st, gas, err = m.trial(ctx, a, st, pending); errors.As(err, new(*mpp.Rejection)) {
			return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
		} else if err != nil {
			return mpp.Outcome{}, err
		}
		if err := x.Allow(limit(gas)); err != nil {
			return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
		}
		tx = m.gas.submit(a, limit(gas), st)
	}
	if !tx.taken {
		if record := tx.record(); !slices.Contains(p.Submissions, record) {
			if err := x.Store(record); err != nil {
				return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
			}
		}
		ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
		defer cancel()
		var hash common.Hash
		if err := m.Node.Call(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(tx.raw)); err != nil {
			return mpp.Outcome{Detail: "not known to be submitted: " + node.Text(err)}, nil
		}
		m.gas.taken(tx.hash)
	}
	return mpp.Outcome{Detail: "submitted"}, nil
}

// Outcome asks what became of an authorisation that was submitted or may have been, by any
// account.
//
// It is Settled, with the transaction, as soon as the token's logs show that the
// authorisation was used to pay us, and deep when that block is deep. Everything else needs
// a deep block: Mismatched, one in which the nonce was used for something else; Gone, one
// in which it was cancelled, or one later than validBefore while the token does not know
// the nonce. Until then the payment is Pending.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	var hints []common.Hash
	if reference := common.HexToHash(p.Reference); reference != a.nonce {
		hints = append(hints, reference) // the transaction that has settled it
	}
	o, err := m.outcome(ctx, a, m.signed(a, p), hints)
	if sent := m.gas.transactions(a); len(sent) > 0 && err == nil && o.State != mpp.Pending {
		m.gas.ended(a)
		m.last.Store(nil) // its nonce may have been used since
	}
	return o, err
}

func (m *Method) outcome(ctx context.Context, a *authorization, sent []submission, hints []common.Hash) (mpp.Outcome, error) {
	newest, known, receipts, err := m.look(ctx, m.Node.Recent, a, hints)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if r := m.payment(a, receipts); r != nil {
		return m.settled(ctx, a, newest, r)
	}
	// Our transactions have no receipt before their nonce is mined, or another's has
	// used the authorisation.
	if len(sent) > 0 {
		st, err := m.standing(ctx)
		if err != nil {
			return mpp.Outcome{}, err
		}
		if known || slices.ContainsFunc(sent, func(s submission) bool { return s.nonce < st.nonce }) {
			for _, s := range sent {
				hints = append(hints, s.hash)
			}
			if newest, known, receipts, err = m.look(ctx, m.Node.Recent, a, hints); err != nil {
				return mpp.Outcome{}, err
			}
		}
	}
	m.gas.note(a, receipts)
	if r := m.payment(a, receipts); r != nil {
		return m.settled(ctx, a, newest, r)
	}
	o, lost, err := m.unpaid(ctx, a, newest, known)
	if err != nil || !lost {
		return o, err // it has paid us by another transaction than ours, or may have
	}
	if o.Wasted, err = m.wasted(ctx, a, newest, sent, receipts); o.Wasted != nil && !known && o.State == mpp.Pending {
		o.Detail = "mined and reverted in " + o.Wasted.Transaction + ", and not submitted again"
	}
	return o, err
}

// payment gives the receipt that shows that a was used to pay us, or nil.
func (m *Method) payment(a *authorization, receipts map[common.Hash]*node.Receipt) *node.Receipt {
	for _, r := range receipts {
		if a.paidIn(r, m.Token) {
			return r
		}
	}
	return nil
}

// unpaid says what became of an authorisation that no transaction known here has used to
// pay us. lost says that no other transaction has done so either.
func (m *Method) unpaid(ctx context.Context, a *authorization, newest *node.Block, known bool) (o mpp.Outcome, lost bool, err error) {
	if known {
		return m.find(ctx, a, newest, a.earliest(), true)
	}
	after, due, err := m.Node.DeepAfter(ctx, newest, a.validBefore, m.Depth)
	if err != nil || after == nil {
		return mpp.Outcome{Detail: "not used yet", Due: due}, err == nil, err
	}
	// Once more, from a node that has the block that decides.
	newest, known, _, err = m.look(ctx, m.Node.Head, a, nil)
	switch {
	case err != nil:
		return o, false, err
	case newest.Height() < after.Height():
		return o, false, node.Unavailable(errors.New("the node has gone back before the block that decides"))
	case known:
		return m.find(ctx, a, newest, a.earliest(), true)
	}
	return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "never used in its time"}, true, nil
}

// Seen asks what the chain has of an authorisation that this process knows nothing of. Its
// challenge is not older than since. The number of questions is bounded, however long ago
// that is. Seen says what [Method.Outcome] does, but fails with ErrUnavailable if the token
// knows the nonce and no event explains that yet: a node may show what the token knows
// before it shows its events. A nonce that was first used after its time is Gone.
func (m *Method) Seen(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	newest, known, _, err := m.look(ctx, m.Node.Head, a, nil)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if known {
		o, _, err := m.find(ctx, a, newest, since.Unix(), false)
		if err == nil && o.State == mpp.Pending {
			err = node.Unavailable(errors.New(o.Detail))
		}
		return o, err
	}
	// The token itself says that it does not know the nonce, so no receipts are needed.
	after, _, err := m.Node.DeepAfter(ctx, newest, a.validBefore, m.Depth)
	if err != nil || after == nil {
		return mpp.Outcome{Detail: "not used yet"}, err
	}
	return mpp.Outcome{State: mpp.Gone, Detail: "not used in its time"}, nil
}

// look asks for the newest block, by ask; whether the token knows the nonce; and for the
// receipts of the transactions that may have used it, which it gives for those that are
// mined.
func (m *Method) look(ctx context.Context, ask func(context.Context, ...rpc.BatchElem) (*node.Block, error), a *authorization, hints []common.Hash) (newest *node.Block, known bool, mined map[common.Hash]*node.Receipt, err error) {
	var word hexutil.Bytes
	receipts, questions := askReceipts(hints)
	questions = append(questions, m.used(&word, a))
	if newest, err = ask(ctx, questions...); err != nil {
		return nil, false, nil, err
	}
	if err := node.FirstError(questions...); err != nil {
		return nil, false, nil, err
	}
	known, ok := isTrue(word)
	if !ok {
		return nil, false, nil, node.Unavailable(errors.New("the token does not say whether the authorisation was used"))
	}
	mined = map[common.Hash]*node.Receipt{}
	for i, r := range receipts {
		if r == nil {
			continue
		}
		if err := r.Check(hints[i]); err != nil {
			return nil, false, nil, node.Unavailable(err)
		}
		mined[hints[i]] = r
	}
	return newest, known, mined, nil
}

// askReceipts gives the questions for the receipts of transactions, and the variables that
// the answers are put in.
func askReceipts(hashes []common.Hash) ([]*node.Receipt, []rpc.BatchElem) {
	receipts := make([]*node.Receipt, len(hashes))
	questions := make([]rpc.BatchElem, len(hashes))
	for i, hash := range hashes {
		questions[i] = rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &receipts[i]}
	}
	return receipts, questions
}

func (m *Method) settled(ctx context.Context, a *authorization, newest *node.Block, r *node.Receipt) (mpp.Outcome, error) {
	deep, err := m.Node.Stays(ctx, newest, r, m.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	// One transaction can use several authorisations, and each pays the recipient that it
	// was signed for, today's or an earlier one.
	signed := m.Payments
	signed.Recipient = a.to
	return mpp.Outcome{State: mpp.Settled, Deep: deep, Reference: r.Hash.Hex(), Received: signed.In(r), Detail: "used to pay us"}, nil
}
