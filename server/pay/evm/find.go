package evm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// Events of tokens with EIP-3009; authorizer and nonce are indexed, and there is
// no data.
var (
	usedTopic      = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
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
	return !l.Removed && l.Address == token && len(l.Topics) == 3 && l.Topics[0] == topic &&
		l.Topics[1] == common.Hash(address(a.from)) && l.Topics[2] == a.nonce
}

// moves says that l is the transfer that the authorisation is for.
func (a *authorization) moves(l node.Log, token common.Address) bool {
	return !l.Removed && l.Address == token && len(l.Topics) == 3 && l.Topics[0] == node.TransferTopic &&
		l.Topics[1] == common.Hash(address(a.from)) && l.Topics[2] == common.Hash(address(a.to)) &&
		bytes.Equal(l.Data, number(a.value))
}

// searchBack is how long before validBefore the authorisation may at the earliest
// have been used or cancelled, with much to spare: its nonce is that of a
// challenge that lives five minutes at most and expires no earlier. An x402 authorisation ends two
// minutes at most after it was first seen unused here.
const searchBack = 15 * time.Minute

// earliest is the second before which the authorisation was not used, as long as it
// ends no later than its challenge.
func (a *authorization) earliest() int64 {
	return int64(a.validBefore) - int64(searchBack/time.Second)
}

// find looks for the event with which the token came to know the nonce, and says
// what it means; lost says that it was not used to pay us. It looks through the blocks
// in which the authorisation could be used, from a second on, and then, if cancelled is
// set, for a cancellation in those after them.
func (m *Method) find(ctx context.Context, a *authorization, newest *node.Block, since int64, cancelled bool) (o mpp.Outcome, lost bool, err error) {
	last, depth := newest.Height(), uint64(0)
	after, _, err := m.Node.DeepAfter(ctx, newest, a.validBefore, m.Depth)
	if err == nil && after != nil {
		depth = m.Depth
		last, err = m.Node.FirstSince(ctx, after.Height(), int64(a.validBefore))
	}
	if err != nil {
		return o, false, err
	}
	from, err := m.Node.FirstSince(ctx, last, since)
	if err != nil {
		return o, false, err
	}
	mark, err := m.mark(ctx, a, from, last, depth)
	if err == nil && mark == nil && cancelled && last < newest.Height() {
		mark, err = m.mark(ctx, a, last+1, newest.Height(), 0)
	}
	if err != nil {
		return o, false, err
	}
	switch {
	case mark == nil && !cancelled && after != nil:
		return mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "not used in its time"}, true, nil
	case mark == nil:
		return mpp.Outcome{Detail: "the token knows the authorisation, and the node shows no event of it"}, false, nil
	}
	newest, r, err := m.Node.ReceiptOf(ctx, *mark.TxHash)
	if err != nil {
		return o, false, err
	}
	if r == nil {
		return o, false, node.Unavailable(errors.New("the node has an event and not its transaction"))
	}
	if *r.Status != 1 || !slices.ContainsFunc(r.Logs, func(l node.Log) bool { return a.marks(l, m.Token, mark.Topics[0]) }) {
		return o, false, node.Unavailable(errors.New("the node's receipt lacks the event that led to it"))
	}
	if a.paidIn(r, m.Token) {
		o, err = m.settled(ctx, a, newest, r)
		return o, false, err
	}
	end := mpp.Outcome{State: mpp.Mismatched, Deep: true, Detail: "its nonce was used for another transfer, in " + r.Hash.Hex()}
	if a.marks(*mark, m.Token, cancelledTopic) {
		end = mpp.Outcome{State: mpp.Gone, Deep: true, Detail: "cancelled by the payer, in " + r.Hash.Hex()}
	}
	if stays, err := m.Node.Stays(ctx, newest, r, m.Depth); err != nil || !stays {
		return mpp.Outcome{Detail: end.Detail + "; not final yet"}, err == nil, err
	}
	return end, true, nil
}

// mark gives the first event of the authorisation's nonce in these blocks, nil where
// there is none.
func (m *Method) mark(ctx context.Context, a *authorization, from, to, depth uint64) (mark *node.Log, err error) {
	topics := []any{[]common.Hash{usedTopic, cancelledTopic}, common.Hash(address(a.from)), a.nonce}
	err = m.Node.Logs(ctx, from, to, depth, m.Token, topics, func(logs []node.Log) error {
		for _, l := range logs {
			if l.TxHash != nil && (a.marks(l, m.Token, usedTopic) || a.marks(l, m.Token, cancelledTopic)) {
				mark = &l
				return node.ErrEnough
			}
		}
		return nil
	})
	return mark, err
}
