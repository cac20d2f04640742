package tempo

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// Simulate asks the node whether the payment would go through now. It sends no
// signature, so nothing can come of it. nil means yes, a *mpp.Rejection means
// no, ErrUnavailable means that this is not known; any other error is a damaged
// record. It keeps wallets that cannot pay from holding a reservation, and
// promises nothing: only the logs of the mined transaction count.
//
// The node is asked twice. Tempo nodes execute the transaction's calls, check
// its window and the sender's balance for the fee; but a node that does not
// know the field "calls" executes nothing and says yes, so the transfer is
// asked for again as a plain call, and a swap with its transfer as plain calls
// one after the other. Nor does every node look at the access key or the nonce in a
// simulation, so the keychain and the lane of nonces themselves are asked about.
func (m *Method) Simulate(ctx context.Context, p mpp.Payment) error {
	tx, err := m.reopen(p)
	if err != nil {
		return err
	}
	var ignored, holds, known hexutil.Bytes
	var blocks []simulatedBlock
	questions := []rpc.BatchElem{{Method: "eth_call", Args: []any{envelope(tx), "latest"}, Result: &ignored}}
	if tx.swap == nil {
		questions = append(questions,
			rpc.BatchElem{Method: "eth_call", Args: []any{transfer(tx), "latest"}, Result: &ignored},
			node.Question(&holds, tx.token, "balanceOf(address)", node.Word(tx.sender)))
	} else {
		questions = append(questions, rpc.BatchElem{Method: "eth_simulateV1", Args: []any{successively(tx), "latest"}, Result: &blocks})
	}
	var left []hexutil.Bytes // of each token that the transaction moves
	if tx.key() != nil {
		account, key := node.Word(tx.sender), node.Word(*tx.key())
		questions = append(questions, node.Question(&known, keychain, "getKey(address,address)", account, key))
		left = make([]hexutil.Bytes, len(tx.moved()))
		for i, token := range tx.moved() {
			questions = append(questions, node.Question(&left[i], keychain, "getRemainingLimitWithPeriod(address,address,address)", account, key, node.Word(token)))
		}
	}
	var next string
	if !tx.expiring() {
		questions = append(questions, tx.askNext(&next, "latest"))
	}
	newest, err := m.Node.Head(ctx, questions...)
	if err != nil {
		return err
	}
	if lane := questions[len(questions)-1]; !tx.expiring() {
		// The nonce comes first: the simulation fails for it, too, and does not say what to do.
		if lane.Error != nil {
			return node.Unavailable(lane.Error)
		}
		if err := tx.isNext(next); err != nil {
			return err
		}
	}
	if tx.swap != nil {
		if err := tx.swaps(questions[1].Error, blocks); err != nil {
			return err
		}
	}
	for _, q := range questions {
		err := node.Refused(q.Error)
		switch {
		case err == nil:
			continue
		case errors.As(err, new(*mpp.Rejection)) && (node.Short(holds, tx.amount) || shortOfFee(q.Error)):
			return node.Because(err, mpp.ReasonFunds, "the account holds less than is to be paid with the network's fee")
		case errors.As(err, new(*mpp.Rejection)) && tx.expiring():
			for _, later := range laterForks {
				if later.words.MatchString(q.Error.Error()) {
					return node.Because(err, later.reason, later.detail)
				}
			}
		}
		return err
	}
	if tx.key() != nil {
		if err := tx.checkKey(known, left, newest.Time()); err != nil {
			return err
		}
	}
	// Nodes lift the block's limit in a simulation, and not every one compares
	// the cap; a transaction beyond either would wait in vain until validBefore.
	if newest.GasLimit != nil && tx.Gas > uint64(*newest.GasLimit) {
		return mpp.Refuse(mpp.ReasonGas, "the transaction's gas does not fit a block")
	}
	if newest.BaseFee != nil && tx.MaxFee.Cmp((*big.Int)(newest.BaseFee)) < 0 {
		return mpp.Refuse(mpp.ReasonFee, "the fee cap is below the network's base fee")
	}
	return nil
}

// Holds asks whether the account that pays holds so many cents of what it pays in. It
// refuses with a *[mpp.Rejection]. An account that holds less may have paid this already: then the
// reason is that. What a swap alone takes only its simulation says; of the token that it sells, other
// cents are counted at par beside the most that it takes.
func (m *Method) Holds(ctx context.Context, p mpp.Payment, cents int64) error {
	tx, err := m.reopen(p)
	if err != nil {
		return err
	}
	token, units := tx.token, node.Units(cents)
	if tx.swap != nil {
		if cents <= p.Cents {
			return nil
		}
		token, units = tx.swap.sold, tx.swap.most+node.Units(cents-p.Cents)
	}
	var mined json.RawMessage
	err = m.Node.Holds(ctx, token, tx.sender, units, rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{tx.hash}, Result: &mined})
	if errors.As(err, new(*mpp.Rejection)) && len(mined) > 0 && string(mined) != "null" {
		return mpp.Refuse(mpp.ReasonUsed, "the transaction was mined before")
	}
	return err
}

// shortOfFee says that a node refuses a simulation because the account cannot pay
// the fee. The fee may be paid in another token than the payment, so only the node's
// words tell.
func shortOfFee(err error) bool {
	return err != nil && feeWords.MatchString(err.Error())
}

var feeWords = regexp.MustCompile(`(?i)insufficient *(funds|balance|fee token balance)`)

// laterForks are refusals, in the node's words, of what the chain takes since a fork that this one has not
// had yet.
var laterForks = []struct {
	words          *regexp.Regexp
	reason, detail string
}{
	{regexp.MustCompile(`(?i)nonce == 0`), mpp.ReasonForm, "this chain takes no other nonce than 0 with this nonce key yet; sign with the nonce 0"},
	{regexp.MustCompile(`(?i)valid_?before.*too far`), mpp.ReasonLong, "this chain takes no validBefore so far ahead yet; sign with one at most 25 seconds ahead"},
}

// envelope is the transaction as Tempo nodes take it for eth_call.
func envelope(tx *transaction) map[string]any {
	var calls []map[string]any
	for _, c := range tx.Calls {
		calls = append(calls, map[string]any{"to": c.To, "value": "0x0", "data": hexutil.Bytes(c.Data)})
	}
	e := map[string]any{
		"type": "0x76", "chainId": hexutil.Uint64(tx.ChainID), "from": tx.sender, "calls": calls,
		"gas": hexutil.Uint64(tx.Gas), "maxFeePerGas": (*hexutil.Big)(tx.MaxFee), "maxPriorityFeePerGas": (*hexutil.Big)(tx.MaxPriorityFee),
		"nonceKey": (*hexutil.Big)(new(big.Int).SetBytes(tx.NonceKey)), "nonce": hexutil.Uint64(tx.Nonce),
	}
	if tx.ValidBefore != 0 {
		e["validBefore"] = hexutil.Uint64(tx.ValidBefore)
	}
	if tx.ValidAfter != 0 {
		e["validAfter"] = hexutil.Uint64(tx.ValidAfter)
	}
	if len(tx.FeeToken) != 0 {
		e["feeToken"] = hexutil.Bytes(tx.FeeToken)
	}
	if len(tx.AccessList) != 0 {
		e["accessList"] = tx.AccessList
	}
	// What stands in for the signature: without these the node reckons with the
	// gas of a secp256k1 key of the account's own.
	if tx.keyKind != kinds[0] || tx.accessKey != nil {
		e["keyType"] = tx.keyKind
	}
	if tx.assertion != 0 {
		e["keyData"] = hexutil.Bytes{byte(tx.assertion >> 8), byte(tx.assertion)}
	}
	if tx.accessKey != nil {
		e["keyId"] = tx.accessKey
	}
	if tx.permission != nil {
		e["keyAuthorization"] = tx.permission
	}
	return e
}

// transfer is the bare call of a transaction without a swap, which every node executes.
func transfer(tx *transaction) map[string]any {
	return map[string]any{"from": tx.sender, "to": tx.token, "data": hexutil.Bytes(tx.Calls[0].Data), "gas": hexutil.Uint64(tx.Gas)}
}

// keychain is the precompile that knows the access keys of all accounts.
var keychain = common.HexToAddress("0xaaaaaaaa00000000000000000000000000000000")

// key is the access key that the keychain is asked about: the one that signed, or the one that
// the account permits; nil for neither.
func (tx *transaction) key() *common.Address {
	if tx.accessKey == nil && tx.permission != nil {
		return &tx.permission.KeyID
	}
	return tx.accessKey
}

// checkKey reads what the keychain says of the access key: five words, which
// are kind, key, expiry, whether limits apply, whether it is revoked; and, in
// the first word of each of left, what it may still spend of a token that the transaction
// moves. No block takes the transaction of a key that
// the account has not got or that signs as another kind, nor the permission for
// one that it has or has revoked. Of a key without enough left the chain takes
// fees, or not even those.
func (tx *transaction) checkKey(words []byte, left []hexutil.Bytes, now time.Time) error {
	if len(words) < 5*32 || slices.ContainsFunc(left, func(l hexutil.Bytes) bool { return len(l) < 32 }) {
		return mpp.Refuse(mpp.ReasonKey, "the account has no such access key")
	}
	word := func(i int) *big.Int { return new(big.Int).SetBytes(words[i*32 : i*32+32]) }
	kind, key, expiry := word(0), word(1), word(2)
	limited, revoked := word(3).Sign() != 0, word(4).Sign() != 0
	if tx.permission != nil {
		if key.Sign() != 0 || revoked {
			return mpp.Refuse(mpp.ReasonKey, "the key authorization has been used already")
		}
		return nil
	}
	known := key.Cmp(new(big.Int).SetBytes(tx.accessKey[:])) == 0 && !revoked &&
		kind.Cmp(big.NewInt(int64(slices.Index(kinds, tx.keyKind)))) == 0 &&
		expiry.Cmp(new(big.Int).SetUint64(max(tx.ValidBefore, uint64(now.Unix())+1))) >= 0
	if !known {
		return mpp.Refuse(mpp.ReasonKey, "the account has no such access key")
	}
	spends := tx.spends()
	for i, token := range tx.moved() {
		if limited && new(big.Int).SetBytes(left[i][:32]).Cmp(spends[token]) < 0 {
			return mpp.Refuse(mpp.ReasonKey, "the access key may not spend as much")
		}
	}
	return nil
}
