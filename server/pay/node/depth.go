package node

import (
	"context"
	"time"
)

// Stays reports whether the block of a receipt has depth blocks on top, up to newest,
// and is still on the chain. The receipt has passed [Receipt.Check].
func (n *Node) Stays(ctx context.Context, newest *Block, r *Receipt, depth uint64) (bool, error) {
	at := uint64(*r.BlockNumber)
	if newest.Height() < at || newest.Height()-at < depth {
		return false, nil
	}
	b, err := n.BlockAt(ctx, at)
	if err != nil {
		return false, err
	}
	return *b.Hash == *r.BlockHash, nil
}

// DeepAfter gives a block later than second (Unix time) with depth blocks on top, or
// nil if there is none yet. Once a block is later than second, due is when depth
// blocks on top of it are to be expected, by the pace of the last ones.
func (n *Node) DeepAfter(ctx context.Context, newest *Block, second, depth uint64) (b *Block, due time.Time, err error) {
	if uint64(*newest.Timestamp) <= second || newest.Height() < depth {
		return nil, due, nil
	}
	if depth == 0 {
		return newest, due, nil
	}
	if b, err = n.BlockAt(ctx, newest.Height()-depth); err != nil {
		return nil, due, err
	}
	if uint64(*b.Timestamp) <= second {
		return nil, time.Unix(int64(second)+1, 0).Add(newest.Time().Sub(b.Time())), nil
	}
	return b, due, nil
}
