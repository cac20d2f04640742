package node

import "context"

// Stays says whether the block of a receipt that passed [Receipt.Check] has
// depth blocks on top, newest being the last of them, and is still on the chain.
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

// DeepAfter gives a block later than second (Unix time) with depth blocks on top,
// or nil while there is none.
func (n *Node) DeepAfter(ctx context.Context, newest *Block, second, depth uint64) (*Block, error) {
	if uint64(*newest.Timestamp) <= second || newest.Height() < depth {
		return nil, nil
	}
	if depth == 0 {
		return newest, nil
	}
	b, err := n.BlockAt(ctx, newest.Height()-depth)
	if err != nil || uint64(*b.Timestamp) <= second {
		return nil, err
	}
	return b, nil
}
