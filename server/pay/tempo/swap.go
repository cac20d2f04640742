package tempo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// swap is what stands before the transfer of a payer who holds another token than the one
// that is asked for. The transaction then makes exactly these calls, as the reference
// client does with its option autoSwap:
//
//	sold.approve(exchange, approved)
//	exchange.swapExactAmountOut(sold, token, amount, most)
//	token.transferWithMemo(recipient, amount, memo)
//
// It buys what is paid and no more. So one balance, that of the token sold, says whether the
// account can pay this beside its other open payments.
type swap struct {
	sold     common.Address
	approved *big.Int // base units of sold
	most     uint64   // base units of sold that the exchange may take
}

// exchange is the precompile at which Tempo's stablecoins are exchanged.
var exchange = common.HexToAddress("0xdec0000000000000000000000000000000000000")

// tokenPrefix is what the addresses of TIP-20 tokens begin with. Nothing else is called
// before the transfer: a contract could do anything in the payer's name.
var tokenPrefix = common.FromHex("0x20c000000000000000000000")

// The functions of the two calls.
var (
	approveSelector = node.Selector("approve(address,uint256)")                            // spender, amount
	swapSelector    = node.Selector("swapExactAmountOut(address,address,uint128,uint128)") // sold, bought, amount bought, most sold
)

// readSwap reads the two calls before the transfer, and holds them to it.
func (tx *transaction) readSwap() (*swap, error) {
	approval, order := tx.Calls[0], tx.Calls[1]
	allows, ok := readWords(approval.Data, approveSelector, 2)
	if !ok || !bytes.HasPrefix(approval.To[:], tokenPrefix) {
		return nil, mpp.Refuse(mpp.ReasonForm, "the first of three calls must be approve, of the token that is sold")
	}
	orders, ok := readWords(order.Data, swapSelector, 4)
	if !ok || order.To != exchange {
		return nil, mpp.Refuse(mpp.ReasonForm, "the second of three calls must be swapExactAmountOut, of Tempo's exchange")
	}
	spender, ok1 := allows[0].address()
	sold, ok2 := orders[0].address()
	bought, ok3 := orders[1].address()
	amount, ok4 := orders[2].units()
	most, ok5 := orders[3].units()
	switch {
	case !ok1 || spender != exchange:
		return nil, mpp.Refuse(mpp.ReasonForm, "the approval must be for Tempo's exchange")
	case !ok2 || sold != approval.To:
		return nil, mpp.Refuse(mpp.ReasonToken, "the swap must sell the token that is approved")
	case !ok3 || bought != tx.token || sold == bought:
		return nil, mpp.Refuse(mpp.ReasonToken, "the swap must buy the token that is paid, for another")
	case !ok4 || amount != tx.amount:
		return nil, mpp.Refuse(mpp.ReasonAmount, "the swap must buy exactly what is paid")
	case !ok5 || most > math.MaxInt64:
		return nil, mpp.Refuse(mpp.ReasonAmount, "the swap's maximum is out of range")
	}
	return &swap{sold, new(big.Int).SetBytes(allows[1][:]), most}, nil
}

// word is an argument of a call.
type word [32]byte

// readWords splits the calldata of a function with n arguments of one word each.
func readWords(data, selector []byte, n int) ([]word, bool) {
	if len(data) != len(selector)+n*32 || !bytes.HasPrefix(data, selector) {
		return nil, false
	}
	words := make([]word, n)
	for i := range words {
		words[i] = word(data[len(selector)+i*32:])
	}
	return words, true
}

var noBytes [32]byte

// address is w as one, without dirt in its upper bytes.
func (w word) address() (common.Address, bool) {
	return common.Address(w[12:]), bytes.Equal(w[:12], noBytes[:12])
}

// units is w as an amount that fits 64 bits.
func (w word) units() (uint64, bool) {
	return binary.BigEndian.Uint64(w[24:]), bytes.Equal(w[:24], noBytes[:24])
}

// successively is the question what the calls of a transaction with a swap do one after the
// other, for nodes that execute no transaction with several calls.
func successively(tx *transaction) map[string]any {
	var calls []map[string]any
	for _, c := range tx.Calls {
		calls = append(calls, map[string]any{"from": tx.sender, "to": c.To, "data": hexutil.Bytes(c.Data)})
	}
	return map[string]any{"blockStateCalls": []map[string]any{{"calls": calls}}}
}

// simulatedBlock is the answer to it.
type simulatedBlock struct {
	Calls []struct {
		Status *hexutil.Uint64 `json:"status"`
		Data   hexutil.Bytes   `json:"returnData"`
		Logs   []node.Log      `json:"logs"`
	} `json:"calls"`
}

// swaps says why the calls would not pay, by what a node says of [successively]: no call may
// revert, and the last must log the payment. A node that does not know the question cannot
// show that a swap is backed by anything.
func (tx *transaction) swaps(err error, blocks []simulatedBlock) error {
	if spoken, ok := errors.AsType[rpc.Error](err); ok && spoken.ErrorCode() == methodNotFound {
		return mpp.Refuse(mpp.ReasonForm, "swaps cannot be tried out here at present: pay from an account that holds the token asked for")
	}
	if err != nil {
		return node.Refused(err)
	}
	if len(blocks) != 1 || len(blocks[0].Calls) != len(tx.Calls) {
		return node.Unavailable(errors.New("the node has not simulated all calls of a swap"))
	}
	for _, c := range blocks[0].Calls {
		switch {
		case c.Status == nil:
			return node.Unavailable(errors.New("the node does not say how a call of a swap ends"))
		case *c.Status != 1 && len(c.Data) >= 4 && swapErrors[[4]byte(c.Data)] != nil:
			return swapErrors[[4]byte(c.Data)]
		case *c.Status != 1:
			return mpp.Refuse(mpp.ReasonReverted, "the swap or the payment after it would not go through")
		}
	}
	if !tx.shows(blocks[0].Calls[len(tx.Calls)-1].Logs) {
		return mpp.Refuse(mpp.ReasonReverted, "the payment after the swap would not go through")
	}
	return nil
}

// swapErrors are the errors of exchange and tokens that the payer can do something about.
var swapErrors = map[[4]byte]*mpp.Rejection{
	[4]byte(node.Selector("MaxInputExceeded()")):                           mpp.Refuse(mpp.ReasonReverted, "the exchange asks for more than the swap's maximum: quote it anew and allow for slippage"),
	[4]byte(node.Selector("InsufficientLiquidity()")):                      mpp.Refuse(mpp.ReasonReverted, "the exchange has not as much of the token asked for: pay from an account that holds it, or sell another"),
	[4]byte(node.Selector("PairDoesNotExist()")):                           mpp.Refuse(mpp.ReasonReverted, "the exchange does not trade these tokens for each other: sell another"),
	[4]byte(node.Selector("InsufficientAllowance()")):                      mpp.Refuse(mpp.ReasonAmount, "the swap takes more than is approved: approve its maximum"),
	[4]byte(node.Selector("InsufficientBalance(uint256,uint256,address)")): mpp.Refuse(mpp.ReasonFunds, "the account holds less than the swap takes"),
}
