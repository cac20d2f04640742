package tempo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
)

// Simulate asks the node whether the payment would go through now. It sends no
// signature, so nothing can come of it. nil means yes, a *mpp.Rejection means
// no, ErrUnavailable means that nobody knows; any other error is a damaged
// record. It keeps wallets that cannot pay from holding a reservation, and
// promises nothing: only the logs of the mined transaction count.
//
// The node is asked twice. Tempo nodes execute the transaction's calls, check
// its window and the sender's balance for the fee; but a node that does not
// know the field "calls" executes nothing and says yes, so the transfer is
// asked for again as a plain call.
func (m *Method) Simulate(ctx context.Context, p mpp.Payment) error {
	tx, err := m.reopen(p)
	if err != nil {
		return err
	}
	var ignored hexutil.Bytes
	var key hexutil.Bytes
	questions := []rpc.BatchElem{
		{Method: "eth_call", Args: []any{envelope(tx), "latest"}, Result: &ignored},
		{Method: "eth_call", Args: []any{transfer(tx), "latest"}, Result: &ignored},
	}
	ask := tx.accessKey != nil && !tx.authorized
	if ask {
		questions = append(questions, rpc.BatchElem{Method: "eth_call", Args: []any{getKey(tx), "latest"}, Result: &key})
	}
	newest, err := m.head(ctx, questions...)
	if err != nil {
		return err
	}
	for _, q := range questions {
		if err := judge(q.Error); err != nil {
			return err
		}
	}
	if ask && !knownKey(key, tx) {
		return refuse("the account has no such access key")
	}
	// Not every node compares the cap in a simulation, and a transaction
	// under the base fee would wait in vain until validBefore.
	if newest.BaseFee != nil && tx.maxFee.Cmp((*big.Int)(newest.BaseFee)) < 0 {
		return refuse("the fee cap is below the network's base fee")
	}
	return nil
}

// envelope is the transaction as Tempo nodes take it for eth_call.
func envelope(tx *transaction) map[string]any {
	e := map[string]any{
		"type": "0x76", "chainId": hexutil.Uint64(tx.chainID), "from": tx.sender,
		"calls": []map[string]any{{"to": tx.token, "value": "0x0", "data": hexutil.Bytes(tx.data)}},
		"gas":   hexutil.Uint64(tx.gas), "maxFeePerGas": (*hexutil.Big)(tx.maxFee), "maxPriorityFeePerGas": (*hexutil.Big)(tx.maxPriorityFee),
		"nonceKey": hexutil.Bytes(expiringNonce), "nonce": "0x0", "validBefore": hexutil.Uint64(tx.validBefore),
	}
	if tx.validAfter != 0 {
		e["validAfter"] = hexutil.Uint64(tx.validAfter)
	}
	if len(tx.feeToken) != 0 {
		e["feeToken"] = hexutil.Bytes(tx.feeToken)
	}
	if tx.accessKey != nil && !tx.authorized {
		e["keyId"], e["keyType"] = tx.accessKey, tx.accessKind
	}
	return e
}

// transfer is the bare call, which every node executes.
func transfer(tx *transaction) map[string]any {
	return map[string]any{"from": tx.sender, "to": tx.token, "data": hexutil.Bytes(tx.data), "gas": hexutil.Uint64(tx.gas)}
}

// keychain is the precompile that knows the access keys of all accounts.
var keychain = common.HexToAddress("0xaaaaaaaa00000000000000000000000000000000")

// getKey asks it for one: getKey(address account, address keyId).
func getKey(tx *transaction) map[string]any {
	data := []byte{0xbc, 0x29, 0x85, 0x53}
	data = append(data, common.LeftPadBytes(tx.sender[:], 32)...)
	data = append(data, common.LeftPadBytes(tx.accessKey[:], 32)...)
	return map[string]any{"to": keychain, "data": hexutil.Bytes(data)}
}

// knownKey reads the answer, five words: signature type, key, expiry, whether
// limits apply, whether it is revoked. Without the key, no block takes the
// transaction; a limit that is exceeded only makes it revert, at the payer's
// cost, and is the chain's to judge.
func knownKey(words []byte, tx *transaction) bool {
	if len(words) < 5*32 {
		return false
	}
	word := func(i int) []byte { return words[i*32 : i*32+32] }
	expiry := new(big.Int).SetBytes(word(2))
	return bytes.Equal(word(1), common.LeftPadBytes(tx.accessKey[:], 32)) &&
		expiry.Cmp(new(big.Int).SetUint64(tx.validBefore)) >= 0 &&
		new(big.Int).SetBytes(word(4)).Sign() == 0
}

// Codes with which a JSON-RPC node says that it cannot answer, rather than
// that the answer is no.
var unanswered = map[int]bool{
	-32700: true, -32600: true, -32601: true, // did not understand
	-32005: true, // limit exceeded
	429:    true,
}

// judge tells a node that says no from a node that does not answer.
func judge(err error) error {
	if err == nil {
		return nil
	}
	var spoken rpc.Error
	if !errors.As(err, &spoken) || unanswered[spoken.ErrorCode()] {
		return unavailable(err)
	}
	return &refusal{refuse("the payment would not go through"), nodeText(err)}
}

// refusal is a rejection together with the node's words, for the log alone.
type refusal struct {
	*mpp.Rejection
	node string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v (node: %s)", r.Rejection, r.node) }
func (r *refusal) Unwrap() error { return r.Rejection }
