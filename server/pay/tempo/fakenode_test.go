package tempo

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
)

// fakeNode is a node whose every answer a test can bend. Block n has the
// timestamp times[n]; the last is the newest.
type fakeNode struct {
	mu      sync.Mutex
	times   []uint64
	receipt any
	logs    []any
	busy    bool                                          // each block has a transaction
	kept    int                                           // first block of which such a node has receipts
	bend    map[string]func(params []json.RawMessage) any // by method; an error is answered as one
	asked   map[string]int
}

// nodeError is answered as a JSON-RPC error.
type nodeError struct {
	code int
	text string
}

func (e nodeError) Error() string { return e.text }

func (n *fakeNode) answer(method string, params []json.RawMessage) any {
	n.asked[method]++
	if bent := n.bend[method]; bent != nil {
		return bent(params)
	}
	switch method {
	case "eth_chainId":
		return hexutil.Uint64(42431)
	case "eth_getBlockByNumber":
		number := hexutil.Uint64(len(n.times) - 1)
		if string(params[0]) != `"latest"` {
			json.Unmarshal(params[0], &number)
		}
		if int(number) >= len(n.times) {
			return nil
		}
		b := fakeBlock(uint64(number), n.times[number])
		if n.busy {
			b["transactions"] = []common.Hash{othersIn(int(number))}
		}
		return b
	case "eth_getTransactionByHash":
		return fields{"blockNumber": nil} // as one that waits to be mined
	case "eth_getTransactionReceipt":
		for number := n.kept; n.busy && number < len(n.times); number++ {
			if string(params[0]) == `"`+othersIn(number).Hex()+`"` {
				return fields{}
			}
		}
		return n.receipt
	case "eth_getLogs":
		return n.logs
	case "eth_call":
		return "0x"
	}
	return nodeError{-32601, "method not found"}
}

func blockHash(number uint64) common.Hash {
	return common.BigToHash(hexutil.MustDecodeBig(hexutil.EncodeUint64(number + 0xb10c)))
}

// othersIn is the transaction in a block of a busy node.
func othersIn(number int) common.Hash { return blockHash(uint64(number) + 1<<32) }

func fakeBlock(number, at uint64) map[string]any {
	return map[string]any{"number": hexutil.Uint64(number), "hash": blockHash(number), "timestamp": hexutil.Uint64(at), "baseFeePerGas": "0x4a817c800"}
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	type call struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	reply := func(c call) map[string]any {
		out := map[string]any{"jsonrpc": "2.0", "id": c.ID}
		switch a := n.answer(c.Method, c.Params).(type) {
		case nodeError:
			out["error"] = map[string]any{"code": a.code, "message": a.text}
		default:
			out["result"] = a
		}
		return out
	}
	var raw json.RawMessage
	json.NewDecoder(r.Body).Decode(&raw)
	w.Header().Set("Content-Type", "application/json")
	if raw[0] != '[' {
		var c call
		json.Unmarshal(raw, &c)
		json.NewEncoder(w).Encode(reply(c))
		return
	}
	var calls []call
	json.Unmarshal(raw, &calls)
	var replies []any
	for _, c := range calls {
		replies = append(replies, reply(c))
	}
	json.NewEncoder(w).Encode(replies)
}

// newFake is a node at which a payment of 1.00 is under way, its method with
// depth 2, and the payment, valid until 25 s after the tests' now. The chain
// is ten blocks old and one second behind.
func newFake(t *testing.T) (*fakeNode, *Method, mpp.Payment) {
	t.Helper()
	n := &fakeNode{bend: map[string]func([]json.RawMessage) any{}, asked: map[string]int{}}
	for i := range uint64(10) {
		n.times = append(n.times, after(-10)+i)
	}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	m := newMethod(t, Config{RPC: server.URL, Currency: token, Recipient: recipient, Depth: 2, Timeout: 5 * time.Second})
	p, err := take(m, wallet(7).Pay(challenge(t, m)), now)
	if err != nil {
		t.Fatal(err)
	}
	return n, m, p
}

// bendTo has a method always answer a.
func (n *fakeNode) bendTo(method string, a any) {
	n.bend[method] = func([]json.RawMessage) any { return a }
}

// mine adds blocks with these timestamps, in seconds after the tests' now.
func (n *fakeNode) mine(at ...int64) {
	for _, s := range at {
		n.times = append(n.times, after(s))
	}
}

type fields = map[string]any

// paidReceipt is the receipt of p in block number, as an honest node has it.
func paidReceipt(p mpp.Payment, number uint64) fields {
	tx, err := readTransaction(p.Raw)
	if err != nil {
		panic(err)
	}
	pad := func(a common.Address) common.Hash { return common.BytesToHash(a[:]) }
	amount := common.BytesToHash([]byte{0x0f, 0x42, 0x40})
	log := func(topics ...common.Hash) fields {
		return fields{"address": token, "topics": topics, "data": amount, "transactionHash": tx.hash}
	}
	return fields{
		"transactionHash": tx.hash, "blockHash": blockHash(number), "blockNumber": hexutil.Uint64(number), "status": "0x1", "from": tx.sender,
		"logs": []fields{
			{"address": keychain, "topics": []common.Hash{}, "data": "0x", "transactionHash": tx.hash},
			log(common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"), pad(tx.sender), pad(recipient)),
			log(common.HexToHash("0x57bc7354aa85aed339e000bccffabbc529466af35f0772c8f8ee1145927de7f0"), pad(tx.sender), pad(recipient), common.Hash(tx.memo)),
		},
	}
}

// with changes a receipt.
func with(r fields, change func(r fields, logs []fields)) fields {
	change(r, r["logs"].([]fields))
	return r
}

func isUnavailable(err error) bool { return errors.Is(err, mpp.ErrUnavailable) }
