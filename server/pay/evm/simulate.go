package evm

import (
	"bytes"
	"context"
	"errors"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// standing gives the state of the chain and the gas account as of a block that was the
// newest up to a second ago. It also asks the node the other questions.
func (m *Method) standing(ctx context.Context, others ...rpc.BatchElem) (*standing, error) {
	newest, err := m.Node.Recent(ctx, others...)
	if err != nil {
		return nil, err
	}
	return m.at(ctx, newest)
}

// at gives the state of the gas account at a block. It asks the node once for each block.
func (m *Method) at(ctx context.Context, newest *node.Block) (*standing, error) {
	select {
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return nil, node.Unavailable(ctx.Err())
	}
	if last := m.last.Load(); last != nil && *last.block.Hash == *newest.Hash {
		return last, nil
	}
	var nonce hexutil.Uint64
	var balance, tip *hexutil.Big
	questions := []rpc.BatchElem{
		{Method: "eth_getTransactionCount", Args: []any{m.gas.address, "latest"}, Result: &nonce},
		{Method: "eth_getBalance", Args: []any{m.gas.address, "latest"}, Result: &balance},
		{Method: "eth_maxPriorityFeePerGas", Args: []any{}, Result: &tip},
	}
	if err := m.Node.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	if err := node.FirstError(questions...); err != nil {
		return nil, err
	}
	if balance == nil || tip == nil {
		return nil, node.Unavailable(errors.New("the node names no balance or no tip"))
	}
	st := &standing{newest, uint64(nonce), (*big.Int)(balance), (*big.Int)(tip)}
	m.last.Store(st)
	return st, nil
}

// tokenEvery is how often the token is compared with the configuration, in seconds.
const tokenEvery = 10 * 60

// Clock is the time of the newest block. It fails with ErrUnavailable if no authorisation
// could be settled now: gas costs more than the configured bound, the gas account has too
// little, or the token at the currency's address has another EIP-712 domain than
// configured, so that no signature would be valid. It then still gives the time if it is
// known.
func (m *Method) Clock(ctx context.Context) (time.Time, error) {
	var separator, places hexutil.Bytes
	var questions []rpc.BatchElem
	now := time.Now().Unix()
	if now >= m.tokenSeen.Load()+tokenEvery {
		questions = []rpc.BatchElem{node.Question(&separator, m.Token, "DOMAIN_SEPARATOR()"), node.Question(&places, m.Token, "decimals()")}
	}
	newest, err := m.Node.Newest(ctx, questions...)
	switch {
	case err != nil:
		return time.Time{}, err
	case len(questions) == 0:
	case questions[0].Error != nil || !bytes.Equal(separator, m.domain[:]):
		return newest.Time(), node.Unavailable(errors.New("the currency has no EIP-712 domain, or one of another name or version than configured"))
	case questions[1].Error != nil || !bytes.Equal(places, node.Number(node.Decimals)):
		return newest.Time(), node.Unavailable(errors.New("the currency has not six decimals"))
	default:
		m.tokenSeen.Store(now)
	}
	st, err := m.at(ctx, newest)
	if err == nil {
		err = m.gas.ready(st)
	}
	return newest.Time(), err
}

// used asks whether the token knows the authorisation's nonce, as used or cancelled.
func (m *Method) used(result any, a *authorization) rpc.BatchElem {
	return node.Question(result, m.Token, "authorizationState(address,bytes32)", node.Word(a.from), a.nonce[:])
}

// isTrue reads a word as a boolean; ok says that it is one.
func isTrue(word []byte) (yes, ok bool) {
	if len(word) != 32 || !bytes.Equal(word[:31], make([]byte, 31)) || word[31] > 1 {
		return false, false
	}
	return word[31] == 1, true
}

// Simulate asks the node whether the authorisation would go through now, and whether we can
// pay for submitting it. nil means yes, a *mpp.Rejection means no; ErrUnavailable means
// that this is not known or that we cannot pay for the gas; any other error is a damaged
// record.
func (m *Method) Simulate(ctx context.Context, p mpp.Payment) error {
	a, err := m.reopen(p)
	if err != nil {
		return err
	}
	var known, holds hexutil.Bytes
	var pending *node.Block
	questions := []rpc.BatchElem{m.used(&known, a), node.Question(&holds, m.Token, "balanceOf(address)", node.Word(a.from)), pendingBlock(&pending)}
	st, err := m.standing(ctx, questions...)
	if err != nil {
		return err
	}
	if err := m.gas.ready(st); err != nil {
		return err
	}
	_, _, refused := m.trial(ctx, a, st, pending)
	no, ok := errors.AsType[*mpp.Rejection](refused)
	if !ok || no.Reason != mpp.ReasonReverted {
		return refused
	}
	if yes, _ := isTrue(known); yes && questions[0].Error == nil {
		return node.Because(refused, mpp.ReasonUsed, "the authorisation was used or cancelled before")
	}
	if questions[1].Error == nil && node.Short(holds, a.value) {
		return node.Because(refused, mpp.ReasonFunds, "the account holds less than is to be paid")
	}
	if no := m.disowned(ctx, a); no != nil {
		return node.Because(refused, no.Reason, no.Detail)
	}
	return refused
}

// Holds asks whether the account that pays holds so many cents of the currency. It
// refuses with a *[mpp.Rejection]. An account that holds less may have paid this already: then
// the reason is that.
func (m *Method) Holds(ctx context.Context, p mpp.Payment, cents int64) error {
	a, err := m.reopen(p)
	if err != nil {
		return err
	}
	var known hexutil.Bytes
	err = m.Node.Holds(ctx, m.Token, a.from, node.Units(cents), m.used(&known, a))
	if yes, _ := isTrue(known); yes && errors.As(err, new(*mpp.Rejection)) {
		return mpp.Refuse(mpp.ReasonUsed, "the authorisation was used or cancelled before")
	}
	return err
}

// pendingBlock asks for the pending block.
func pendingBlock(result **node.Block) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{"pending", false}, Result: result}
}

// trial has the node execute the transaction that would submit the authorisation, from our
// account and with the fees that would be bid, on the pending block if the node has one. It
// gives the gas that this takes, and the state of chain and gas account at that time. It refuses
// with a *mpp.Rejection. The token asks code whether a signature is its account's own, and the
// answer can differ when it costs us gas: see [mpp.Expenses]. ErrUnavailable means that the
// result is not known.
func (m *Method) trial(ctx context.Context, a *authorization, st *standing, pending *node.Block) (_ *standing, gas uint64, err error) {
	at, block := "latest", st.block
	if pending != nil && pending.Number != nil && pending.Height() > block.Height() {
		at, block = "pending", pending
	}
	bid := bid(st, m.gas.maxFee, nil)
	if block.BaseFee != nil && bid.most.Cmp((*big.Int)(block.BaseFee)) < 0 {
		return nil, 0, node.Unavailable(errors.New("a unit of gas costs more than the most that is paid for one"))
	}
	var estimate hexutil.Uint64
	var code hexutil.Bytes
	questions := []rpc.BatchElem{
		{Method: "eth_estimateGas", Result: &estimate, Args: []any{map[string]any{
			"from": m.gas.address, "to": m.Token, "data": hexutil.Bytes(a.call()), "gas": hexutil.Uint64(maxGas),
			"maxFeePerGas": (*hexutil.Big)(bid.most), "maxPriorityFeePerGas": (*hexutil.Big)(bid.tip)}, at}},
		askCode(&code, a.from, at),
	}
	st, err = m.standing(ctx, questions...)
	if err == nil {
		err = node.FirstError(questions[1])
	}
	switch {
	case err != nil:
		return nil, 0, err
	case len(code) == 0 && !a.byKey(m.domain):
		return nil, 0, a.undeployed()
	case questions[0].Error != nil:
		return nil, 0, node.Refused(questions[0].Error)
	case estimate == 0 || estimate > maxGas:
		return nil, 0, node.Unavailable(errors.New("the node's estimate of gas cannot be true"))
	case st.block.BaseFee != nil && st.price().Cmp(m.gas.affordable(limit(uint64(estimate)))) > 0:
		return nil, 0, mpp.Refuse(mpp.ReasonGas, "while gas costs as much as now, this payment takes more of it than the ring pays for")
	}
	return st, uint64(estimate), nil
}
