package evm

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/mpp"
	"webring/server/node"
)

// ample is how long, in seconds, an authorisation must have been valid when it was
// submitted for a transaction that was mined after its end to be the chain's fault.
const ample = 20

// wasted says what a transaction of ours for a has cost that was mined and reverted, as
// these receipts show; nil where there is none. The node's figures are believed up to
// what we have signed for.
func (m *Method) wasted(ctx context.Context, a *authorization, newest *node.Block, receipts map[common.Hash]*node.Receipt) (*mpp.Waste, error) {
	signed := m.gas.transactions(a)
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
		if signed[0].signed+ample <= a.validBefore && (uint64(*newest.Timestamp) >= a.validBefore || uint64(*r.BlockNumber) > newest.Height()) {
			b, err := m.node.BlockAt(ctx, uint64(*r.BlockNumber))
			if err != nil {
				return nil, err
			}
			w.Late = uint64(*b.Timestamp) >= a.validBefore
		}
		return w, nil
	}
	return nil, nil
}
