package evm

import (
	"bytes"
	"context"
	"errors"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
	"webring/server/node"
)

// standing asks how the chain and the gas account stand, and the other questions
// of the same node, in one batch.
func (m *Method) standing(ctx context.Context, others ...rpc.BatchElem) (*standing, error) {
	var nonce hexutil.Uint64
	var balance, tip *hexutil.Big
	questions := append([]rpc.BatchElem{
		{Method: "eth_getTransactionCount", Args: []any{m.gas.address, "latest"}, Result: &nonce},
		{Method: "eth_getBalance", Args: []any{m.gas.address, "latest"}, Result: &balance},
		{Method: "eth_maxPriorityFeePerGas", Args: []any{}, Result: &tip},
	}, others...)
	newest, err := m.node.Head(ctx, questions...)
	if err != nil {
		return nil, err
	}
	copy(others, questions[3:])
	if err := node.FirstError(questions[:3]...); err != nil {
		return nil, err
	}
	if balance == nil || tip == nil {
		return nil, node.Unavailable(errors.New("the node names no balance or no tip"))
	}
	return &standing{newest, uint64(nonce), (*big.Int)(balance), (*big.Int)(tip)}, nil
}

// Clock is the time of the newest block. It refuses with ErrUnavailable when no
// authorisation could be settled now: gas costs more than is to be paid for it,
// the gas account is empty, or the token at the currency's address is not the one
// that was configured, so that nobody's signature would hold.
func (m *Method) Clock(ctx context.Context) (time.Time, error) {
	var separator, places hexutil.Bytes
	questions := []rpc.BatchElem{m.ask(&separator, "DOMAIN_SEPARATOR()"), m.ask(&places, "decimals()")}
	st, err := m.standing(ctx, questions...)
	if err != nil {
		return time.Time{}, err
	}
	switch {
	case questions[0].Error != nil || !bytes.Equal(separator, m.domain[:]):
		return time.Time{}, node.Unavailable(errors.New("the currency has no EIP-712 domain, or one of another name or version than configured"))
	case questions[1].Error != nil || !bytes.Equal(places, number(decimals)):
		return time.Time{}, node.Unavailable(errors.New("the currency has not six decimals"))
	}
	if err := m.gas.ready(st); err != nil {
		return time.Time{}, err
	}
	return st.block.Time(), nil
}

// ask is a question to the token, by the signature of a function.
func (m *Method) ask(result any, function string, words ...[]byte) rpc.BatchElem {
	data := crypto.Keccak256([]byte(function))[:4]
	return rpc.BatchElem{Method: "eth_call", Result: result, Args: []any{
		map[string]any{"to": m.cfg.Currency, "data": hexutil.Bytes(append(data, join(words...)...))}, "latest",
	}}
}

// used asks whether the token has seen the authorisation's nonce: used or
// cancelled.
func (m *Method) used(result any, a *authorization) rpc.BatchElem {
	return m.ask(result, "authorizationState(address,bytes32)", address(a.from), a.nonce[:])
}

// isTrue reads a word as a boolean; ok says that it is one.
func isTrue(word []byte) (yes, ok bool) {
	if len(word) != 32 || !bytes.Equal(word[:31], make([]byte, 31)) || word[31] > 1 {
		return false, false
	}
	return word[31] == 1, true
}

// call is the transaction of the gas account, as simulations take it.
func (m *Method) call(a *authorization) map[string]any {
	return map[string]any{"from": m.gas.address, "to": m.cfg.Currency, "data": hexutil.Bytes(a.calldata()), "gas": hexutil.Uint64(maxGas)}
}

// Simulate asks the node whether the authorisation would go through now, and
// makes sure that we can submit it: nobody is to be bound by a reservation that we
// cannot afford. nil means yes, a *mpp.Rejection means no, ErrUnavailable means
// that nobody knows or that we cannot pay for the gas; any other error is a
// damaged record.
//
// An authorisation that has been submitted already, and paid us, goes through as
// well: somebody was quicker.
func (m *Method) Simulate(ctx context.Context, p mpp.Payment) error {
	a, err := m.reopen(p)
	if err != nil {
		return err
	}
	var ignored hexutil.Bytes
	questions := []rpc.BatchElem{{Method: "eth_call", Args: []any{m.call(a), "latest"}, Result: &ignored}}
	st, err := m.standing(ctx, questions...)
	if err != nil {
		return err
	}
	refused := node.Judge(questions[0].Error)
	var no *mpp.Rejection
	if !errors.As(refused, &no) {
		return errors.Join(refused, m.gas.ready(st))
	}
	o, err := m.Outcome(ctx, p)
	switch {
	case err != nil:
		return err
	case o.State == mpp.Settled:
		return nil
	}
	return refused
}

// estimate asks how much gas the authorisation takes, after what is waiting to be
// mined.
func (m *Method) estimate(result *hexutil.Uint64, a *authorization) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_estimateGas", Args: []any{m.call(a), "pending"}, Result: result}
}
