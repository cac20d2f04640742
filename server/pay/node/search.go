package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

// Events of tokens. All arguments but amounts are indexed, and amounts are the data.
var (
	// TransferTopic marks the transfers of ERC-20 and TIP-20 tokens.
	TransferTopic = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	// MemoTopic marks the event of a TIP-20 token that follows that of a transfer with a memo.
	MemoTopic = crypto.Keccak256Hash([]byte("TransferWithMemo(address,address,uint256,bytes32)"))
	// UsedTopic marks the event of a token with EIP-3009 that an authorisation was used, by its
	// authorizer and nonce.
	UsedTopic = crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)"))
)

// Transfers calls found for each transaction that paid the recipient in deep blocks from
// the instant since on, oldest first, and gives the time of the last block that was
// searched. It gives the payments that the token names in each transaction: by the memos of its
// transfers to the recipient, or by the nonces of its payers' authorisations. Transfers of less
// than a cent are skipped. An error of found ends it; others are [mpp.ErrUnavailable].
func (p Payments) Transfers(ctx context.Context, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error) {
	newest, err := p.Node.Head(ctx)
	if err != nil {
		return until, err
	}
	if newest.Height() < p.Depth {
		return since, nil
	}
	last, err := p.Node.BlockAt(ctx, newest.Height()-p.Depth)
	if err != nil {
		return until, err
	}
	if last.Time().Before(since) {
		return since, nil
	}
	from, err := p.Node.FirstSince(ctx, last.Height(), since.Unix())
	if err != nil {
		return until, err
	}
	topics := []any{TransferTopic, nil, common.BytesToHash(p.Recipient[:])}
	err = p.Node.Logs(ctx, from, last.Height(), 0, p.Token, topics, func(logs []Log) error { return p.group(ctx, logs, found) })
	if err != nil {
		return until, err
	}
	return last.Time(), nil
}

// group sums the logs by transaction. The logs of one stand together.
func (p Payments) group(ctx context.Context, logs []Log, found func(mpp.Transfer) error) error {
	if slices.ContainsFunc(logs, func(l Log) bool { return l.TxHash == nil || l.BlockNumber == nil }) {
		return Unavailable(errors.New("a log of the node lacks fields"))
	}
	var named map[common.Hash][]mpp.Bound
	if len(logs) > 0 {
		var err error
		if named, err = p.bound(ctx, logs); err != nil {
			return err
		}
	}
	for len(logs) > 0 {
		l := logs[0]
		n := 1
		for n < len(logs) && *logs[n].TxHash == *l.TxHash {
			n++
		}
		t, paid := p.sum(*l.TxHash, logs[:n])
		logs = logs[n:]
		if !paid {
			continue
		}
		b, err := p.Node.BlockAt(ctx, uint64(*l.BlockNumber))
		if err != nil {
			return err
		}
		t.At, t.Bound = b.Time(), named[*l.TxHash]
		if err := found(t); err != nil {
			return err
		}
	}
	return nil
}

// mostPayers is how many payers one question names at the most.
const mostPayers = 100

// bound asks for the memos, or for the authorisations of the payers that some transfers name,
// in the blocks of these.
func (p Payments) bound(ctx context.Context, transfers []Log) (map[common.Hash][]mpp.Bound, error) {
	first, last := uint64(*transfers[0].BlockNumber), uint64(*transfers[0].BlockNumber)
	var payers []common.Hash
	for _, l := range transfers {
		first, last = min(first, uint64(*l.BlockNumber)), max(last, uint64(*l.BlockNumber))
		if len(l.Topics) == 3 && !slices.Contains(payers, l.Topics[1]) {
			payers = append(payers, l.Topics[1])
		}
	}
	questions := [][]any{{MemoTopic, nil, common.BytesToHash(p.Recipient[:])}}
	if p.Method == "evm" {
		questions = nil
		for some := range slices.Chunk(payers, mostPayers) {
			questions = append(questions, []any{UsedTopic, some})
		}
	}
	named := map[common.Hash][]mpp.Bound{}
	for _, topics := range questions {
		err := p.Node.Logs(ctx, first, last, 0, p.Token, topics, func(logs []Log) error {
			for _, l := range logs {
				if l.TxHash == nil {
					return Unavailable(errors.New("a log of the node lacks fields"))
				}
				if b, ok := p.names(l); ok {
					named[*l.TxHash] = append(named[*l.TxHash], b)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return named, nil
}

// names reads the payment that the token names in a log: by a memo to the recipient, of a cent or more, or
// by the nonce of an authorisation. Anyone can have the token name another's payment with nothing.
func (p Payments) names(l Log) (b mpp.Bound, ok bool) {
	switch {
	case l.Removed || l.Address != p.Token || len(l.Topics) < 3:
		return b, false
	case p.Method == "evm":
		ok = len(l.Topics) == 3 && l.Topics[0] == UsedTopic
	default:
		ok = len(l.Topics) == 4 && l.Topics[0] == MemoTopic && l.Topics[2] == common.BytesToHash(p.Recipient[:]) && !Short(l.Data, UnitsPerCent)
	}
	return mpp.Bound{Payer: p.Payer([20]byte(l.Topics[1][12:])), Binding: l.Topics[len(l.Topics)-1].Hex()}, ok
}
