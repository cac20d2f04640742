package tempo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// fakeNode has one receipt and some logs, and maybe the receipt of another transaction.
type fakeNode struct {
	*paytest.Node
	receipt any
	logs    []any
	other   fields
}

func (n *fakeNode) answer(method string, params []json.RawMessage) any {
	switch method {
	case "eth_getTransactionByHash":
		return fields{"blockNumber": nil} // as one that waits to be mined
	case "eth_getTransactionReceipt":
		if n.other != nil && string(params[0]) == fmt.Sprintf("%q", n.other["transactionHash"]) {
			return n.other
		}
		return n.receipt
	case "eth_getLogs":
		return n.logs
	case "eth_call":
		return "0x"
	}
	return paytest.NodeError{Code: -32601, Text: "method not found"}
}

// beBusy gives each block a transaction, of which the node has the receipts from block kept on.
func (n *fakeNode) beBusy(kept int) {
	n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
		b, there := n.Block(params).(fields)
		if !there {
			return nil
		}
		b["transactions"] = []common.Hash{othersIn(int(b["number"].(hexutil.Uint64)))}
		return b
	}
	n.Bend["eth_getTransactionReceipt"] = func(params []json.RawMessage) any {
		for number := kept; number < len(n.Times); number++ {
			if string(params[0]) == `"`+othersIn(number).Hex()+`"` {
				return fields{}
			}
		}
		return n.receipt
	}
}

// othersIn is the transaction in a block of a busy node.
func othersIn(number int) common.Hash { return paytest.BlockHash(uint64(number) + 1<<32) }

// newFake is a node at which a payment of 1.00 is under way, its method with
// depth 2, and the payment, valid until 25 s after the tests' now. The chain
// is ten blocks old and one second behind.
func newFake(t *testing.T) (*fakeNode, *Method, mpp.Payment) {
	t.Helper()
	n := &fakeNode{Node: paytest.NewNode(42431)}
	n.Answer = n.answer
	for i := range uint64(10) {
		n.Times = append(n.Times, after(-10)+i)
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
func (n *fakeNode) bendTo(method string, a any) { n.Bend[method] = a }

// mine adds blocks with these timestamps, in seconds after the tests' now.
func (n *fakeNode) mine(at ...int64) {
	for _, s := range at {
		n.Times = append(n.Times, after(s))
	}
}

type fields = paytest.Fields

// replace has the transfer of p be mined in block number by another transaction.
func (n *fakeNode) replace(p mpp.Payment, number uint64) (hash common.Hash) {
	hash, n.other = common.HexToHash("0x01"), paidReceipt(p, number)
	n.other["transactionHash"] = hash
	for _, l := range n.other["logs"].([]fields) {
		l["transactionHash"] = hash
	}
	n.logs = []any{n.other["logs"].([]fields)[2]}
	return hash
}

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
		"transactionHash": tx.hash, "blockHash": paytest.BlockHash(number), "blockNumber": hexutil.Uint64(number), "status": "0x1", "from": tx.sender,
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
