package evm

import (
	"context"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// A transaction that is mined after the end of its authorisation reverts. The chain is to
// blame for that, because transactions are sent only while there is enough time.
const (
	// ample is for how long an authorisation must be valid when it is presented.
	ample = 20 * time.Second
	// enough is for how long it must be, in seconds by the chain's clock, when it is
	// submitted.
	enough = 10
)

// wasted gives what the first of our transactions for a that was mined and reverted has
// cost, by the receipts; nil if none has. The node's figures count up to what we have
// signed for.
func (m *Method) wasted(ctx context.Context, a *authorization, newest *node.Block, signed []submission, receipts map[common.Hash]*node.Receipt) (*mpp.Waste, error) {
	for _, s := range signed {
		r := receipts[s.hash]
		if r == nil || *r.Status == 1 {
			continue
		}
		w := &mpp.Waste{Transaction: s.hash.Hex(), Gas: s.gas}
		if r.GasUsed != nil {
			w.Gas = min(w.Gas, uint64(*r.GasUsed))
		}
		price := s.fees.most
		if r.GasPrice != nil {
			price = least(price, (*big.Int)(r.GasPrice))
		}
		w.Wei = new(big.Int).Mul(price, new(big.Int).SetUint64(w.Gas)).String()
		if uint64(*newest.Timestamp) >= a.validBefore || uint64(*r.BlockNumber) > newest.Height() {
			b, err := m.Node.BlockAt(ctx, uint64(*r.BlockNumber))
			if err != nil {
				return nil, err
			}
			w.Late = uint64(*b.Timestamp) >= a.validBefore
		}
		return w, nil
	}
	return nil, nil
}
