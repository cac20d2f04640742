package paytest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// Later stands before a development chain that knows the forks of Tempo up to T4, as a node of T12. It
// takes a transaction in the lane that does not count with any nonce and with a validBefore up to 300
// seconds ahead, and makes its transfer by a transaction of the older chain, which it shows under the
// hash of the one that was sent. It does not check balances and signatures as a chain does.
type Later struct {
	Chain string // its URL

	mu   sync.Mutex
	made [][2]string // hash as sent, hash on the chain
}

// ask asks the chain.
func (l *Later) ask(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	question, err := json.Marshal(Fields{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Chain, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, NodeError{answer.Error.Code, answer.Error.Message}
	}
	return answer.Result, nil
}

// ServeHTTP implements [http.Handler].
func (l *Later) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ReadCalls(r).Answer(w, func(method string, params []json.RawMessage) any {
		answer, err := l.answer(r.Context(), method, params)
		if err != nil {
			return err
		}
		return answer
	})
}

// rename gives text with the hashes at one place of each pair for those at the other.
func (l *Later) rename(text []byte, from, to int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pair := range l.made {
		text = bytes.ReplaceAll(text, []byte(pair[from]), []byte(pair[to]))
	}
	return text
}

func (l *Later) answer(ctx context.Context, method string, params []json.RawMessage) (json.RawMessage, error) {
	switch {
	case strings.HasPrefix(method, "eth_sendRawTransaction"):
		if receipt, mine, err := l.send(ctx, params[0]); mine || err != nil {
			return receipt, err
		}
	case method == "eth_call":
		params = slices.Clone(params)
		params[0] = older(params[0])
	}
	args := make([]any, len(params))
	for i, p := range params {
		args[i] = json.RawMessage(l.rename(p, 0, 1))
	}
	answer, err := l.ask(ctx, method, args...)
	return l.rename(answer, 1, 0), err
}

// older writes a simulation as the older chain takes it.
func older(q json.RawMessage) json.RawMessage {
	var call Fields
	if json.Unmarshal(q, &call) != nil || call["type"] != "0x76" || call["nonceKey"] != "0x"+strings.Repeat("ff", 32) {
		return q
	}
	call["nonce"] = "0x0"
	if text, _ := call["validBefore"].(string); soon(hexutil.MustDecodeUint64(text)) {
		call["validBefore"] = hexutil.Uint64(time.Now().Unix() + 20)
	}
	text, _ := json.Marshal(call)
	return text
}

// soon says that a validBefore is one of the last 300 seconds.
func soon(validBefore uint64) bool {
	ahead := int64(validBefore) - time.Now().Unix()
	return ahead > 0 && ahead <= 300
}

// send makes the transfer of a transaction that the older chain does not take.
func (l *Later) send(ctx context.Context, param json.RawMessage) (receipt json.RawMessage, mine bool, err error) {
	var raw hexutil.Bytes
	if err := json.Unmarshal(param, &raw); err != nil || len(raw) == 0 {
		return nil, false, err
	}
	var tx []rlp.RawValue
	var calls []struct {
		To    common.Address
		Value uint64
		Data  []byte
	}
	var key, signature []byte
	var nonce, validBefore uint64
	if rlp.DecodeBytes(raw[1:], &tx) != nil || len(tx) != 14 || rlp.DecodeBytes(tx[4], &calls) != nil || len(calls) != 1 ||
		rlp.DecodeBytes(tx[6], &key) != nil || rlp.DecodeBytes(tx[7], &nonce) != nil || rlp.DecodeBytes(tx[8], &validBefore) != nil ||
		rlp.DecodeBytes(tx[13], &signature) != nil || len(signature) != 65 || !bytes.Equal(key, bytes.Repeat([]byte{0xff}, 32)) {
		return nil, false, nil
	}
	if nonce == 0 && int64(validBefore) < time.Now().Unix()+25 {
		return nil, false, nil
	}
	if !soon(validBefore) {
		return nil, true, NodeError{-32003, "expired, or too far in the future"}
	}
	unsigned, err := rlp.EncodeToBytes(tx[:13])
	if err != nil {
		return nil, false, err
	}
	signature[64] -= 27
	public, err := crypto.SigToPub(crypto.Keccak256(raw[:1], unsigned), signature)
	if err != nil {
		return nil, true, NodeError{-32003, "invalid signature"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := crypto.Keccak256Hash(raw).Hex()
	at := slices.IndexFunc(l.made, func(pair [2]string) bool { return pair[0] == hash })
	if at < 0 {
		from := crypto.PubkeyToAddress(*public)
		if _, err := l.ask(ctx, "anvil_impersonateAccount", from); err != nil {
			return nil, true, err
		}
		var mined struct{ TransactionHash string }
		call := Fields{"from": from, "to": calls[0].To, "data": hexutil.Bytes(calls[0].Data), "gas": "0x2dc6c0"}
		if answer, err := l.ask(ctx, "eth_sendTransactionSync", call); err != nil {
			return nil, true, err
		} else if err := json.Unmarshal(answer, &mined); err != nil {
			return nil, true, err
		}
		l.made, at = append(l.made, [2]string{hash, mined.TransactionHash}), len(l.made)
	}
	receipt, err = l.ask(ctx, "eth_getTransactionReceipt", l.made[at][1])
	return bytes.ReplaceAll(receipt, []byte(l.made[at][1]), []byte(hash)), true, err
}

// AnyNonce has a draft use any number where the nonces do not count, as clients do since T12.
func AnyNonce(nonce uint64) TempoAlter { return func(d *TempoDraft) { d.Nonce = nonce } }

// EndsIn has a draft end so many seconds from now.
func EndsIn(seconds int64) TempoAlter {
	return func(d *TempoDraft) { d.ValidBefore = uint64(time.Now().Unix() + seconds) }
}
