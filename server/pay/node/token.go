package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
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

// Selector is what the calldata of a function, and the data of an error, begin with.
func Selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

// Word is an address as an argument of a function.
func Word(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }

// Number is a number as an argument of a function, or as the data of an event.
func Number(n uint64) []byte { return common.BigToHash(new(big.Int).SetUint64(n)).Bytes() }

// Question asks a contract, at the newest block, by the signature of a function and its arguments.
func Question(result any, contract common.Address, function string, arguments ...[]byte) rpc.BatchElem {
	data := slices.Concat(append([][]byte{Selector(function)}, arguments...)...)
	return rpc.BatchElem{Method: "eth_call", Result: result, Args: []any{map[string]any{"to": contract, "data": hexutil.Bytes(data)}, "latest"}}
}

// Holds checks that account has at least units base units of token. If it has less,
// the error is a *[mpp.Rejection]. It asks more in the same batch.
func (n *Node) Holds(ctx context.Context, token, account common.Address, units uint64, more ...rpc.BatchElem) error {
	var balance hexutil.Bytes
	questions := append([]rpc.BatchElem{Question(&balance, token, "balanceOf(address)", Word(account))}, more...)
	if _, err := n.Recent(ctx, questions...); err != nil {
		return err
	}
	if err := FirstError(questions...); err != nil {
		return err
	}
	switch {
	case len(balance) != 32:
		return Unavailable(errors.New("the token names no balance"))
	case Short(balance, units):
		return mpp.Refuse(mpp.ReasonFunds, "the account holds less than this payment and its others that are being settled come to")
	}
	return nil
}

// Token asks about the token at an address.
func (n *Node) Token(ctx context.Context, address common.Address) (Token, error) {
	var chain hexutil.Uint64
	var code, decimals, separator hexutil.Bytes
	questions := []rpc.BatchElem{
		{Method: "eth_chainId", Args: []any{}, Result: &chain},
		{Method: "eth_getCode", Args: []any{address, "latest"}, Result: &code},
		Question(&decimals, address, "decimals()"),
		Question(&separator, address, "DOMAIN_SEPARATOR()"),
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

// Decimals are those of every token that is taken, and UnitsPerCent is how many of its base
// units make a US cent.
const (
	Decimals     = 6
	UnitsPerCent = 10_000
)

// Units gives an amount of US cents in base units.
func Units(cents int64) uint64 { return uint64(cents) * UnitsPerCent }

// Terms are the members of a challenge's request parameter. MethodDetails are those of the
// payment method.
type Terms struct {
	Amount        string `json:"amount"` // base units
	Currency      string `json:"currency"`
	Recipient     string `json:"recipient"`
	MethodDetails any    `json:"methodDetails"`
}

// Request is the request parameter of a challenge for US cents in a token.
func Request(cents int64, currency, recipient string, details any) (string, error) {
	if cents <= 0 {
		return "", errors.New("node: a charge must be positive")
	}
	return mpp.EncodeJSON(Terms{strconv.FormatUint(Units(cents), 10), currency, recipient, details})
}

// ErrElsewhere refuses a credential for a challenge of another chain or token.
var ErrElsewhere = &mpp.Rejection{Code: mpp.CodeUnapplied, Detail: "the challenge was issued for another chain or token than this ring is paid in"}

// Asked reads the request parameter of a challenge, which encode has written, now or under
// an earlier configuration. It takes nothing else: any other request is one for another
// chain, and refused with [ErrElsewhere].
func Asked(request string, encode func(cents int64, token, recipient common.Address) (string, error)) (cents int64, token, recipient common.Address, err error) {
	var t Terms
	if err := mpp.DecodeJSON(request, &t); err != nil {
		return 0, token, recipient, ErrElsewhere
	}
	units, err := strconv.ParseInt(t.Amount, 10, 64)
	if err != nil {
		return 0, token, recipient, ErrElsewhere
	}
	cents, token, recipient = units/UnitsPerCent, common.HexToAddress(t.Currency), common.HexToAddress(t.Recipient)
	if text, err := encode(cents, token, recipient); err != nil || text != request {
		return 0, token, recipient, ErrElsewhere
	}
	return cents, token, recipient, nil
}

// Codes with which a JSON-RPC node says that it cannot answer. Other codes mean that
// the answer is no.
var unanswered = map[int]bool{
	-32700: true, -32600: true, -32601: true, // did not understand
	-32005: true, // limit exceeded
	429:    true,
}

// Refused classifies the error of a simulation. If the node refused the payment, the
// result wraps a *[mpp.Rejection], and its text holds the node's words, for the log
// alone. If the node did not answer, the result wraps [mpp.ErrUnavailable].
func Refused(err error) error {
	if err == nil {
		return nil
	}
	var spoken rpc.Error
	if !errors.As(err, &spoken) || unanswered[spoken.ErrorCode()] {
		return Unavailable(err)
	}
	no := mpp.Refuse(mpp.ReasonReverted, "the payment would not go through")
	return &refusal{no, Text(err)}
}

// Because replaces the reason of a refusal of [Refused] by one that the caller found.
func Because(refused error, reason, detail string) error {
	no := mpp.Refuse(reason, detail)
	if r, ok := errors.AsType[*refusal](refused); ok {
		return &refusal{no, r.node}
	}
	return no
}

// Short reports whether a token's answer to balanceOf is less than units base units.
func Short(balance []byte, units uint64) bool {
	return len(balance) == 32 && new(big.Int).SetBytes(balance).Cmp(new(big.Int).SetUint64(units)) < 0
}

// refusal is a rejection together with the node's words.
type refusal struct {
	*mpp.Rejection
	node string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v (node: %s)", r.Rejection, r.node) }
func (r *refusal) Unwrap() error { return r.Rejection }
