package evm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

type fields = map[string]any

// fakeNode is a node whose every answer a test can bend. Block n has the
// timestamp times[n]; the last is the newest.
type fakeNode struct {
	mu    sync.Mutex
	times []int64
	bend  map[string]any // by method
	asked map[string]int // by method
}

func blockHash(number uint64) common.Hash {
	return common.BigToHash(hexutil.MustDecodeBig(hexutil.EncodeUint64(number + 0xb10c)))
}

func (n *fakeNode) answer(method string, params []json.RawMessage) any {
	if method == "eth_getTransactionReceipt" && string(params[0]) != `"`+tx.Hex()+`"` {
		return nil
	}
	if bent, ok := n.bend[method]; ok {
		return bent
	}
	switch method {
	case "eth_chainId":
		return hexutil.Uint64(8453)
	case "eth_getBlockByNumber":
		number := hexutil.Uint64(len(n.times) - 1)
		if string(params[0]) != `"latest"` {
			json.Unmarshal(params[0], &number)
		}
		if int(number) >= len(n.times) {
			return nil
		}
		return fields{"number": number, "hash": blockHash(uint64(number)), "timestamp": hexutil.Uint64(n.times[number]), "baseFeePerGas": "0x7"}
	case "eth_getTransactionCount", "eth_maxPriorityFeePerGas":
		return "0x1"
	case "eth_sendRawTransaction":
		return tx
	case "eth_getBalance":
		return "0xde0b6b3a7640000"
	}
	return nil
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var calls []struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	body, _ := io.ReadAll(r.Body)
	batch := bytes.HasPrefix(body, []byte("["))
	if !batch {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	json.Unmarshal(body, &calls)
	var replies []any
	for _, c := range calls {
		n.asked[c.Method]++
		reply := fields{"jsonrpc": "2.0", "id": c.ID}
		if err, refused := n.answer(c.Method, c.Params).(error); refused {
			reply["error"] = fields{"code": 3, "message": err.Error()}
		} else {
			reply["result"] = n.answer(c.Method, c.Params)
		}
		replies = append(replies, reply)
	}
	w.Header().Set("Content-Type", "application/json")
	if batch {
		json.NewEncoder(w).Encode(replies)
	} else {
		json.NewEncoder(w).Encode(replies[0])
	}
}

const (
	yes = "0x0000000000000000000000000000000000000000000000000000000000000001"
	no  = "0x0000000000000000000000000000000000000000000000000000000000000000"
)

// fake is a node at which a payment of 1.00 is under way; its newest block is as
// many seconds after the end of the authorisation as said, and ten blocks later
// than the first, two seconds apart.
func fake(t *testing.T, since int64) (*fakeNode, *Method, mpp.Payment, *authorization) {
	t.Helper()
	n := &fakeNode{bend: fields{}, asked: map[string]int{}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	m := newMethod(t, func(c *Config) { c.RPC = server.URL })
	p, err := take(m, wallet(7).Pay(challenge(t, m)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(11) {
		n.times = append(n.times, p.ValidBefore.Unix()+since-20+2*i)
	}
	return n, m, p, must(m.reopen(p))
}

var tx = common.HexToHash("0x7a")

func logOf(a *authorization, topic common.Hash) fields {
	return fields{"address": usdc, "topics": []common.Hash{topic, common.Hash(address(a.from)), a.nonce}, "data": "0x", "transactionHash": tx, "blockNumber": "0x5"}
}

func transferTo(a *authorization, to common.Address, units uint64) fields {
	return fields{"address": usdc, "data": hexutil.Bytes(number(units)), "transactionHash": tx, "blockNumber": "0x5", "topics": []common.Hash{
		common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"), common.Hash(address(a.from)), common.Hash(address(to))}}
}

func receiptOf(logs ...fields) fields {
	return fields{"transactionHash": tx, "blockHash": blockHash(5), "blockNumber": "0x5", "status": "0x1", "logs": logs}
}

func with(f fields, name string, value any) fields {
	f[name] = value
	return f
}

// What the token's logs mean, and which answers of a node mean nothing.
func TestOutcomes(t *testing.T) {
	unavailable := mpp.State(255)
	stranger := common.HexToAddress("0xbad")
	for name, c := range map[string]struct {
		since int64
		bend  func(n *fakeNode, a *authorization)
		want  mpp.State
		deep  bool
	}{
		"not used, in time":        {-60, func(n *fakeNode, a *authorization) {}, mpp.Pending, false},
		"not used, time over":      {60, func(n *fakeNode, a *authorization) {}, mpp.Gone, true},
		"not used, not deep":       {3, func(n *fakeNode, a *authorization) {}, mpp.Pending, false},
		"used, paid":               {-60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled, true},
		"used after time is over?": {60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled, true},
		"used, in a block that is gone": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.bend["eth_getTransactionReceipt"] = with(n.bend["eth_getTransactionReceipt"].(fields), "blockHash", blockHash(9))
		}, mpp.Settled, false},
		"used, in the newest block": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			r := with(n.bend["eth_getTransactionReceipt"].(fields), "blockHash", blockHash(10))
			n.bend["eth_getTransactionReceipt"] = with(r, "blockNumber", "0xa")
		}, mpp.Settled, false},
		"used to pay somebody else": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, usedTopic), transferTo(a, stranger, a.value))
		}, mpp.Mismatched, true},
		"used to pay less": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, usedTopic), transferTo(a, a.to, a.value-1))
		}, mpp.Mismatched, true},
		"used, without a transfer": {-60, func(n *fakeNode, a *authorization) { n.receipt(a, logOf(a, usedTopic)) }, mpp.Mismatched, true},
		"used, another's transfer further on": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, usedTopic), transferTo(a, stranger, 1), transferTo(a, a.to, a.value))
		}, mpp.Mismatched, true},
		"used, another's transfer before": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, transferTo(a, a.to, a.value), logOf(a, usedTopic))
		}, mpp.Mismatched, true},
		"used, the transfer of another token": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, usedTopic), with(transferTo(a, a.to, a.value), "address", stranger))
		}, mpp.Mismatched, true},
		"cancelled": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, cancelledTopic))
			n.bend["eth_getLogs"] = []fields{logOf(a, cancelledTopic)}
		}, mpp.Gone, true},
		"cancelled, beside a transfer": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, cancelledTopic), transferTo(a, a.to, a.value))
			n.bend["eth_getLogs"] = []fields{logOf(a, cancelledTopic)}
		}, mpp.Gone, true},
		"known, no event": {60, func(n *fakeNode, a *authorization) {
			n.bend["eth_call"], n.bend["eth_getLogs"] = yes, []fields{}
		}, mpp.Pending, false},
		"known, events of others": {60, func(n *fakeNode, a *authorization) {
			other := *a
			other.nonce[0]++
			n.bend["eth_call"] = yes
			n.bend["eth_getLogs"] = []fields{logOf(&other, usedTopic), with(logOf(a, usedTopic), "address", stranger), with(logOf(a, usedTopic), "removed", true)}
		}, mpp.Pending, false},
		"no receipt": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.bend["eth_getTransactionReceipt"] = nil
		}, unavailable, false},
		"another's receipt": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.bend["eth_getTransactionReceipt"] = with(receiptOf(), "transactionHash", common.Hash{1})
		}, unavailable, false},
		"a receipt without the event": {-60, func(n *fakeNode, a *authorization) { n.receipt(a, transferTo(a, a.to, a.value)) }, unavailable, false},
		"a receipt that was reverted": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.bend["eth_getTransactionReceipt"] = with(n.bend["eth_getTransactionReceipt"].(fields), "status", "0x0")
		}, unavailable, false},
		"a token that says nothing": {60, func(n *fakeNode, a *authorization) { n.bend["eth_call"] = "0x" }, unavailable, false},
		"a token that says two":     {60, func(n *fakeNode, a *authorization) { n.bend["eth_call"] = no[:65] + "2" }, unavailable, false},
		"a token that reverts":      {60, func(n *fakeNode, a *authorization) { n.bend["eth_call"] = errors.New("reverted") }, unavailable, false},
		"a node that finds no logs": {60, func(n *fakeNode, a *authorization) { n.bend["eth_call"], n.bend["eth_getLogs"] = yes, errors.New("no") }, unavailable, false},
		"a node of another chain":   {60, func(n *fakeNode, a *authorization) { n.bend["eth_chainId"] = "0x1" }, unavailable, false},
		"a node without blocks":     {60, func(n *fakeNode, a *authorization) { n.bend["eth_getBlockByNumber"] = nil }, unavailable, false},
		"a node that repeats a block": {60, func(n *fakeNode, a *authorization) {
			n.bend["eth_getBlockByNumber"] = n.answer("eth_getBlockByNumber", []json.RawMessage{[]byte(`"latest"`)})
		}, unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, m, p, a := fake(t, c.since)
			n.bend["eth_call"] = no
			c.bend(n, a)
			// Before it is settled, and as the record is kept after.
			for _, reference := range []string{p.Reference, tx.Hex()} {
				p.Reference = reference
				o, err := m.Outcome(t.Context(), p)
				switch {
				case c.want == unavailable:
					if !errors.Is(err, mpp.ErrUnavailable) {
						t.Errorf("%v: %s, %v; want nothing to be concluded", o.State, o.Detail, err)
					}
				case err != nil || o.State != c.want || o.Deep != c.deep:
					t.Errorf("%v (deep %v): %s, %v; want %v (deep %v)", o.State, o.Deep, o.Detail, err, c.want, c.deep)
				case o.State == mpp.Settled && o.Reference != tx.Hex():
					t.Errorf("reference %q", o.Reference)
				}
			}
		})
	}
}

// What the chain has of an authorisation that this process knows nothing of. Where the
// token knows the nonce and the node shows no event yet, nothing is concluded: its
// events may come later than its state.
func TestSeen(t *testing.T) {
	unavailable := mpp.State(255)
	for name, c := range map[string]struct {
		since int64
		bend  func(*fakeNode, *authorization)
		want  mpp.State // unavailable: nothing can be concluded
	}{
		"not used yet":              {-60, func(n *fakeNode, _ *authorization) { n.bend["eth_call"] = no }, mpp.Pending},
		"never used":                {60, func(n *fakeNode, _ *authorization) { n.bend["eth_call"] = no }, mpp.Gone},
		"used":                      {-60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled},
		"used, a while ago":         {60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled},
		"known, no event yet":       {-60, func(n *fakeNode, _ *authorization) { n.bend["eth_call"], n.bend["eth_getLogs"] = yes, []fields{} }, unavailable},
		"known, not used in time":   {60, func(n *fakeNode, _ *authorization) { n.bend["eth_call"], n.bend["eth_getLogs"] = yes, []fields{} }, mpp.Gone},
		"a node that finds no logs": {60, func(n *fakeNode, _ *authorization) { n.bend["eth_call"], n.bend["eth_getLogs"] = yes, errors.New("no") }, unavailable},
	} {
		n, m, p, a := fake(t, c.since)
		c.bend(n, a)
		o, err := m.Seen(t.Context(), p, p.ValidBefore.Add(-10*time.Minute))
		if c.want == unavailable {
			if !errors.Is(err, mpp.ErrUnavailable) {
				t.Errorf("%s: %v: %s, %v; want nothing to be concluded", name, o.State, o.Detail, err)
			}
		} else if err != nil || o.State != c.want {
			t.Errorf("%s: %v: %s, %v; want %v", name, o.State, o.Detail, err, c.want)
		}
	}
}

// Two authorisations of before the recipient changed, submitted in one
// transaction, both count; what came to today's in it does not.
func TestWhatATransactionBroughtIsWhatItPaidTheSignedRecipient(t *testing.T) {
	n, m, p, a := fake(t, -60)
	n.receipt(a, logOf(a, usedTopic), transferTo(a, a.to, a.value), transferTo(a, a.to, a.value), transferTo(a, common.Address{1}, 7*a.value))
	m.Recipient = common.Address{1}
	for _, reference := range []string{p.Reference, tx.Hex()} {
		p.Reference = reference
		if o, err := m.Outcome(t.Context(), p); err != nil || o.State != mpp.Settled || o.Received != 2*p.Cents {
			t.Errorf("%v: %s, %v; %d cents", o.State, o.Detail, err, o.Received)
		}
	}
}

// receipt is what the node has of the transaction in which, it says, the nonce was
// used.
func (n *fakeNode) receipt(a *authorization, logs ...fields) {
	n.bend["eth_call"], n.bend["eth_getTransactionReceipt"] = yes, receiptOf(logs...)
	n.bend["eth_getLogs"] = []fields{logOf(a, usedTopic)}
}

func (n *fakeNode) used(a *authorization) {
	n.receipt(a, logOf(a, usedTopic), transferTo(a, a.to, a.value))
}

// What a node says of gas is believed within bounds, and a key is in no error.
func TestNodesThatLieAboutGas(t *testing.T) {
	for name, answers := range map[string]fields{
		"no gas":        {"eth_estimateGas": "0x0"},
		"endless gas":   {"eth_estimateGas": "0xffffffffffff"},
		"no tip":        {"eth_maxPriorityFeePerGas": nil},
		"no balance":    {"eth_getBalance": nil},
		"no count":      {"eth_getTransactionCount": "many"},
		"no such chain": {"eth_chainId": "0x1"},
	} {
		n, m, p, _ := fake(t, -60)
		n.bend["eth_call"], n.bend["eth_estimateGas"] = no, "0x13880"
		for method, a := range answers {
			n.bend[method] = a
		}
		if o, err := m.Broadcast(t.Context(), p, &account{}); !errors.Is(err, mpp.ErrUnavailable) || strings.Contains(err.Error(), hex.EncodeToString(crypto.FromECDSA(wallet(99).Key))) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	n, m, p, _ := fake(t, -60)
	n.bend["eth_call"], n.bend["eth_estimateGas"], n.bend["eth_maxPriorityFeePerGas"] = no, "0x13880", "0xffffffffffff"
	if err := m.Simulate(t.Context(), p); !errors.Is(err, mpp.ErrUnavailable) {
		t.Errorf("an endless tip: %v", err)
	}
}

// What an account holds is the token's to say.
func TestHoldsIsTheTokensToSay(t *testing.T) {
	for units, enough := range map[uint64]bool{2_150_000: true, 2_149_999: false, 0: false} {
		n, m, p, _ := fake(t, -60)
		n.bend["eth_call"] = hexutil.Bytes(number(units))
		err := m.Holds(t.Context(), p, 215)
		if no, refused := errors.AsType[*mpp.Rejection](err); enough != (err == nil) || !enough && (!refused || no.Reason != mpp.ReasonFunds) {
			t.Errorf("%d units: %v", units, err)
		}
		n.bend["eth_call"] = errors.New("execution reverted")
		if err := m.Holds(t.Context(), p, 215); !errors.Is(err, mpp.ErrUnavailable) {
			t.Errorf("a token that does not say: %v", err)
		}
	}
}
