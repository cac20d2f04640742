package node

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
)

// Token is what a node says about its chain and about a token there. If the chain is
// not ours, only Chain is set.
type Token struct {
	Chain    uint64
	Contract bool         // there is one at the token's address
	Decimals int          // -1 when the contract names none
	Domain   *common.Hash // EIP-712 domain separator, nil when the contract names none
}

// Holds checks that account has at least units base units of token. If it has less,
// the error is a *[mpp.Rejection].
func (n *Node) Holds(ctx context.Context, token, account common.Address, units uint64) error {
	data := append(crypto.Keccak256([]byte("balanceOf(address)"))[:4], common.LeftPadBytes(account[:], 32)...)
	var balance hexutil.Bytes
	questions := []rpc.BatchElem{
		{Method: "eth_call", Args: []any{map[string]any{"to": token, "data": hexutil.Bytes(data)}, "latest"}, Result: &balance},
	}
	if _, err := n.Head(ctx, questions...); err != nil {
		return err
	}
	if err := FirstError(questions...); err != nil {
		return err
	}
	switch {
	case len(balance) != 32:
		return Unavailable(errors.New("the token names no balance"))
	case Short(balance, units):
		return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonFunds, Detail: "the account holds less than this payment and its others that are being settled come to"}
	}
	return nil
}

// Token asks about the token at an address.
func (n *Node) Token(ctx context.Context, address common.Address) (Token, error) {
	ask := func(result *hexutil.Bytes, function string) rpc.BatchElem {
		data := crypto.Keccak256([]byte(function))[:4]
		return rpc.BatchElem{Method: "eth_call", Args: []any{map[string]any{"to": address, "data": hexutil.Bytes(data)}, "latest"}, Result: result}
	}
	var chain hexutil.Uint64
	var code, decimals, separator hexutil.Bytes
	questions := []rpc.BatchElem{
		{Method: "eth_chainId", Args: []any{}, Result: &chain},
		{Method: "eth_getCode", Args: []any{address, "latest"}, Result: &code},
		ask(&decimals, "decimals()"),
		ask(&separator, "DOMAIN_SEPARATOR()"),
	}
	if err := n.Ask(ctx, questions...); err != nil {
		return Token{}, err
	}
	if err := FirstError(questions[0]); err != nil {
		return Token{}, err
	}
	t := Token{Chain: uint64(chain), Contract: len(code) > 0, Decimals: -1}
	if t.Chain != n.chain {
		return Token{Chain: t.Chain}, nil
	}
	if err := FirstError(questions[1]); err != nil {
		return Token{}, err
	}
	if q := questions[2]; q.Error != nil && !reverted(q.Error) {
		return Token{}, Unavailable(q.Error)
	}
	if len(decimals) == 32 && bytes.Equal(decimals[:31], make([]byte, 31)) {
		t.Decimals = int(decimals[31])
	}
	if len(separator) == len(common.Hash{}) {
		t.Domain = (*common.Hash)(separator)
	}
	return t, nil
}

// reverted reports whether an error says that the contract reverted. Most nodes have
// a code for it, the others say it in words.
func reverted(err error) bool {
	var spoken rpc.Error
	return errors.As(err, &spoken) && (spoken.ErrorCode() == 3 || strings.Contains(strings.ToLower(spoken.Error()), "revert"))
}
