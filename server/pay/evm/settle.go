package evm

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
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
	st, err := m.standing(ctx)
	if err != nil {
		return mpp.Outcome{}, err
	}
	tx := m.gas.inFlight(a, st)
	if tx != nil && tx.taken {
		return mpp.Outcome{Detail: "submitted"}, nil
	}
	var known hexutil.Bytes
	var pending *node.Block
	questions := []rpc.BatchElem{m.used(&known, a)}
	if tx == nil { // else it was tried already
		questions = append(questions, pendingBlock(&pending))
	}
	newest, mined, err := node.Receipts(ctx, m.Node.Recent, hashes(p.Submissions), questions...)
	if err != nil {
		return mpp.Outcome{}, err
	}
	if st, err = m.at(ctx, newest); err != nil {
		return mpp.Outcome{}, err
	}
	if yes, _ := isTrue(known); len(mined) > 0 || yes {
		return m.Outcome(ctx, p, time.Time{})
	}
	if st.clock() >= a.validBefore {
		return mpp.Outcome{Detail: "not submitted: its time is over"}, nil
	}
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
		highest := m.gas.highest(limit(gas), st)
		if err := x.Allow(new(big.Int).Mul(highest, new(big.Int).SetUint64(limit(gas)))); err != nil {
			return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
		}
		tx = m.gas.submit(a, limit(gas), highest, st)
	}
	if !tx.taken {
		if record := tx.record(); !slices.Contains(p.Submissions, record) {
			if err := x.Store(record); err != nil {
				return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
			}
		}
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
// If since is given, the number of questions is bounded, however long ago that is: a nonce that was
// first used or cancelled after its time is Gone, too. Outcome then fails with ErrUnavailable while
// the token knows the nonce and no final event explains that: a node may show what the token knows
// before it shows its events.
//
// Errors are ErrUnavailable or a damaged record.
func (m *Method) Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	a, err := m.reopen(p)
	if err != nil {
		return mpp.Outcome{}, err
	}
	var hints []common.Hash
	if reference := common.HexToHash(p.Reference); reference != a.nonce {
		hints = append(hints, reference) // the transaction that has settled it
	}
	o, err := m.outcome(ctx, a, p.Submissions, hints, a.stretch(p.Bearer, since))
	if err == nil && o.State != mpp.Pending && m.gas.ended(a) {
		m.last.Store(nil) // its nonce may have been used since
	}
	return o, err
}

func (m *Method) outcome(ctx context.Context, a *authorization, sent []mpp.Submission, hints []common.Hash, within stretch) (mpp.Outcome, error) {
	ask := m.Node.Recent
	if within.bounded { // it is not asked again after the next block
		ask = m.Node.Head
	}
	newest, known, receipts, err := m.look(ctx, ask, a, hints)
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
		if known || slices.ContainsFunc(sent, func(s mpp.Submission) bool { return s.Nonce < st.nonce }) {
			hints = append(hints, hashes(sent)...)
			if newest, known, receipts, err = m.look(ctx, ask, a, hints); err != nil {
				return mpp.Outcome{}, err
			}
		}
	}
	if r := m.payment(a, receipts); r != nil {
		return m.settled(ctx, a, newest, r)
	}
	o, lost, err := m.unpaid(ctx, a, newest, known, within)
	if err != nil || !lost {
		return o, err // it has paid us by another transaction than ours, or may have
	}
	if o.Wasted = wasted(sent, receipts); o.Wasted != nil && !known && o.State == mpp.Pending {
		o.Detail = "mined and reverted in " + o.Wasted.Transaction + ", and not submitted again"
	}
	return o, nil
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
func (m *Method) unpaid(ctx context.Context, a *authorization, newest *node.Block, known bool, within stretch) (o mpp.Outcome, lost bool, err error) {
	if !known {
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
			return o, false, node.ErrWentBack
		case !known:
			return mpp.Outcome{State: mpp.Gone, Deep: true, Over: newest.Time(), Detail: "never used in its time"}, true, nil
		}
	}
	o, lost, err = m.find(ctx, a, newest, within)
	if err == nil && o.State == mpp.Pending && within.bounded {
		err = node.Unavailable(errors.New(o.Detail))
	}
	return o, lost, err
}

// look asks for the newest block, by ask; whether the token knows the nonce; and for the
// receipts of the transactions that may have used it, which it gives for those that are
// mined.
func (m *Method) look(ctx context.Context, ask func(context.Context, ...rpc.BatchElem) (*node.Block, error), a *authorization, hints []common.Hash) (newest *node.Block, known bool, mined map[common.Hash]*node.Receipt, err error) {
	var word hexutil.Bytes
	if newest, mined, err = node.Receipts(ctx, ask, hints, m.used(&word, a)); err != nil {
		return nil, false, nil, err
	}
	known, ok := isTrue(word)
	if !ok {
		return nil, false, nil, node.Unavailable(errors.New("the token does not say whether the authorisation was used"))
	}
	return newest, known, mined, nil
}

func (m *Method) settled(ctx context.Context, a *authorization, newest *node.Block, r *node.Receipt) (mpp.Outcome, error) {
	deep, err := m.Node.Deep(ctx, newest, r, m.Depth)
	if err != nil {
		return mpp.Outcome{}, err
	}
	// One transaction can use several authorisations, and each pays the recipient that it
	// was signed for, today's or an earlier one.
	return mpp.Outcome{State: mpp.Settled, Deep: deep != nil, Reference: r.Hash.Hex(), Received: m.to(a).In(r), Detail: "used to pay us"}, nil
}

// Events of tokens with EIP-3009; authorizer and nonce are indexed, and there is
// no data.
var (
	usedTopic      = node.UsedTopic
	cancelledTopic = crypto.Keccak256Hash([]byte("AuthorizationCanceled(address,bytes32)"))
)

// paidIn says that a transaction's effect was to pay us with the authorisation:
// the token logged that it was used, and right after it the transfer. A transfer
// anywhere else in the transaction may be another authorisation's. The status
// alone proves nothing.
func (a *authorization) paidIn(r *node.Receipt, token common.Address) bool {
	if *r.Status != 1 {
		return false
	}
	for i := 1; i < len(r.Logs); i++ {
		if a.marks(r.Logs[i-1], token, usedTopic) && a.moves(r.Logs[i], token) {
			return true
		}
	}
	return false
}

// marks says that l is the token's event of that topic for the authorisation.
func (a *authorization) marks(l node.Log, token common.Address, topic common.Hash) bool {
	return l.Is(token, l.Data, topic, common.Hash(node.Word(a.from)), a.nonce)
}

// moves says that l is the transfer that the authorisation is for.
func (a *authorization) moves(l node.Log, token common.Address) bool {
	return l.Is(token, node.Number(a.value), node.TransferTopic, common.Hash(node.Word(a.from)), common.Hash(node.Word(a.to)))
}

// stretch is where the event is looked for with which the token came to know a nonce: in the blocks
// in which the authorisation could be used, from a second on.
type stretch struct {
	from    int64
	whole   bool // it was not used before
	bounded bool // else a cancellation is looked for in the blocks after them, too
}

// stretch gives that of an authorisation, as [Method.Outcome] is asked about it. One of x402 can have
// been used before its offer. It is looked for in the last hour of its time.
func (a *authorization) stretch(bearer bool, since time.Time) stretch {
	end := int64(a.validBefore)
	switch from := since.Unix(); {
	case since.IsZero():
		return stretch{end - int64(node.SearchBack/time.Second), true, false}
	case bearer:
		began := int64(min(a.validAfter, a.validBefore))
		from = min(from, max(began, end-int64(time.Hour/time.Second)))
		return stretch{from, from <= began, true}
	default:
		return stretch{from, true, true}
	}
}

// find looks for the event with which the token came to know the nonce, and says
// what it means; lost says that it was not used to pay us.
func (m *Method) find(ctx context.Context, a *authorization, newest *node.Block, within stretch) (o mpp.Outcome, lost bool, err error) {
	last, depth := newest.Height(), uint64(0)
	after, _, err := m.Node.DeepAfter(ctx, newest, a.validBefore, m.Depth)
	if err == nil && after != nil {
		depth = m.Depth
		last, err = m.Node.FirstSince(ctx, after.Height(), int64(a.validBefore))
	}
	if err != nil {
		return o, false, err
	}
	from, err := m.Node.FirstSince(ctx, last, within.from)
	if err != nil {
		return o, false, err
	}
	mark, head, r, err := m.mark(ctx, a, from, last, depth)
	if err == nil && mark == nil && !within.bounded && last < newest.Height() {
		mark, head, r, err = m.mark(ctx, a, last+1, newest.Height(), 0)
	}
	if err != nil {
		return o, false, err
	}
	switch {
	case mark == nil && within.bounded && within.whole && after != nil:
		return mpp.Outcome{State: mpp.Gone, Deep: true, Over: newest.Time(), Detail: "not used in its time"}, true, nil
	case mark == nil:
		return mpp.Outcome{Detail: "the token knows the authorisation, and the node shows no event of it"}, false, nil
	}
	if *r.Status != 1 || !slices.ContainsFunc(r.Logs, func(l node.Log) bool { return a.marks(l, m.Token, mark.Topics[0]) }) {
		return o, false, node.Unavailable(errors.New("the node's receipt lacks the event that led to it"))
	}
	if a.paidIn(r, m.Token) {
		o, err = m.settled(ctx, a, head, r)
		return o, false, err
	}
	end := mpp.Outcome{State: mpp.Mismatched, Deep: true, Detail: "its nonce was used for another transfer, in " + r.Hash.Hex()}
	if a.marks(*mark, m.Token, cancelledTopic) {
		end = mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "cancelled by the payer, in " + r.Hash.Hex()}
	}
	if deep, err := m.Node.Deep(ctx, head, r, m.Depth); err != nil || deep == nil {
		return mpp.Outcome{Detail: end.Detail + "; not final yet"}, err == nil, err
	}
	return end, true, nil
}

// mark is [node.Node.First] for the events of the authorisation's nonce.
func (m *Method) mark(ctx context.Context, a *authorization, from, to, depth uint64) (mark *node.Log, newest *node.Block, r *node.Receipt, err error) {
	topics := []any{[]common.Hash{usedTopic, cancelledTopic}, common.Hash(node.Word(a.from)), a.nonce}
	return m.Node.First(ctx, from, to, depth, m.Token, topics, func(l node.Log) bool {
		return a.marks(l, m.Token, usedTopic) || a.marks(l, m.Token, cancelledTopic)
	})
}
