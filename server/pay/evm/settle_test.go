package evm

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

type fields = paytest.Fields

// fakeNode has the receipt of tx.
type fakeNode struct {
	*paytest.Node
	mined any
}

func (n *fakeNode) answer(method string, params []json.RawMessage) any {
	switch method {
	case "eth_getTransactionReceipt":
		if string(params[0]) == `"`+tx.Hex()+`"` {
			return n.mined
		}
	case "eth_getTransactionCount", "eth_maxPriorityFeePerGas":
		return "0x1"
	case "eth_sendRawTransaction":
		return tx
	case "eth_getBalance":
		return "0xde0b6b3a7640000"
	}
	return nil
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
	n := &fakeNode{Node: paytest.NewNode(8453)}
	n.Answer = n.answer
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	m := newMethod(t, func(c *Config) { c.RPC = server.URL })
	p, err := take(m, wallet(7).Pay(challenge(t, m)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(11) {
		n.Times = append(n.Times, uint64(p.ValidBefore.Unix()+since-20+2*i))
	}
	return n, m, p, must(m.reopen(p))
}

var tx = common.HexToHash("0x7a")

func logOf(a *authorization, topic common.Hash) fields {
	return fields{"address": usdc, "topics": []common.Hash{topic, common.Hash(node.Word(a.from)), a.nonce}, "data": "0x", "transactionHash": tx, "blockNumber": "0x5"}
}

func transferTo(a *authorization, to common.Address, units uint64) fields {
	return fields{"address": usdc, "data": hexutil.Bytes(node.Number(units)), "transactionHash": tx, "blockNumber": "0x5", "topics": []common.Hash{
		common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"), common.Hash(node.Word(a.from)), common.Hash(node.Word(to))}}
}

func receiptOf(logs ...fields) fields {
	return fields{"transactionHash": tx, "blockHash": paytest.BlockHash(5), "blockNumber": "0x5", "status": "0x1", "logs": logs}
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
		"used at its end, which the first node did not know": {60, func(n *fakeNode, a *authorization) {
			n.used(a)
			asked := 0
			n.Bend["eth_call"] = func([]json.RawMessage) any {
				if asked++; asked == 1 {
					return no
				}
				return yes
			}
		}, mpp.Settled, true},
		"used, in a block that is gone": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.mined = with(n.mined.(fields), "blockHash", paytest.BlockHash(9))
		}, mpp.Settled, false},
		"used, in the newest block": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			r := with(n.mined.(fields), "blockHash", paytest.BlockHash(10))
			n.mined = with(r, "blockNumber", "0xa")
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
			n.Bend["eth_getLogs"] = []fields{logOf(a, cancelledTopic)}
		}, mpp.Gone, true},
		"cancelled, beside a transfer": {-60, func(n *fakeNode, a *authorization) {
			n.receipt(a, logOf(a, cancelledTopic), transferTo(a, a.to, a.value))
			n.Bend["eth_getLogs"] = []fields{logOf(a, cancelledTopic)}
		}, mpp.Gone, true},
		"known, no event": {60, func(n *fakeNode, a *authorization) {
			n.Bend["eth_call"], n.Bend["eth_getLogs"] = yes, []fields{}
		}, mpp.Pending, false},
		"known, events of others": {60, func(n *fakeNode, a *authorization) {
			other := *a
			other.nonce[0]++
			n.Bend["eth_call"] = yes
			n.Bend["eth_getLogs"] = []fields{logOf(&other, usedTopic), with(logOf(a, usedTopic), "address", stranger), with(logOf(a, usedTopic), "removed", true)}
		}, mpp.Pending, false},
		"no receipt": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.mined = nil
		}, unavailable, false},
		"another's receipt": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.mined = with(receiptOf(), "transactionHash", common.Hash{1})
		}, unavailable, false},
		"a receipt without the event": {-60, func(n *fakeNode, a *authorization) { n.receipt(a, transferTo(a, a.to, a.value)) }, unavailable, false},
		"a receipt that was reverted": {-60, func(n *fakeNode, a *authorization) {
			n.used(a)
			n.mined = with(n.mined.(fields), "status", "0x0")
		}, unavailable, false},
		"a token that says nothing": {60, func(n *fakeNode, a *authorization) { n.Bend["eth_call"] = "0x" }, unavailable, false},
		"a token that says two":     {60, func(n *fakeNode, a *authorization) { n.Bend["eth_call"] = no[:65] + "2" }, unavailable, false},
		"a token that reverts":      {60, func(n *fakeNode, a *authorization) { n.Bend["eth_call"] = errors.New("reverted") }, unavailable, false},
		"a node that finds no logs": {60, func(n *fakeNode, a *authorization) { n.Bend["eth_call"], n.Bend["eth_getLogs"] = yes, errors.New("no") }, unavailable, false},
		"a node of another chain":   {60, func(n *fakeNode, a *authorization) { n.Bend["eth_chainId"] = "0x1" }, unavailable, false},
		"a node without blocks":     {60, func(n *fakeNode, a *authorization) { n.Bend["eth_getBlockByNumber"] = nil }, unavailable, false},
		"a node that repeats a block": {60, func(n *fakeNode, a *authorization) {
			n.Bend["eth_getBlockByNumber"] = n.Block([]json.RawMessage{[]byte(`"latest"`)})
		}, unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, m, p, a := fake(t, c.since)
			n.Bend["eth_call"] = no
			c.bend(n, a)
			// Before it is settled, and as the record is kept after.
			for _, reference := range []string{p.Reference, tx.Hex()} {
				p.Reference = reference
				o, err := m.Outcome(t.Context(), p, time.Time{})
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

// The second answer may come from a node that has gone back, or is another one and behind. If it lacks
// the block that decides, it does not prove that an authorisation was never used.
func TestANodeThatWentBackProvesNothing(t *testing.T) {
	for newest, proves := range map[int]bool{0: false, 7: false, 8: true, 10: true} { // 8 is after the end, and deep
		n, m, p, _ := fake(t, 60)
		n.Bend["eth_call"] = no
		rounds := 0
		n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
			if string(params[0]) != `"latest"` {
				return n.Block(params)
			}
			number := len(n.Times) - 1
			if rounds++; rounds == 2 {
				number = newest
			}
			return paytest.Block(uint64(number), n.Times[number])
		}
		o, err := m.Outcome(t.Context(), p, time.Time{})
		if proves != (err == nil && o.State == mpp.Gone) || !proves && !errors.Is(err, mpp.ErrUnavailable) {
			t.Errorf("block %d: %v: %s, %v", newest, o.State, o.Detail, err)
		}
		if o, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || o.State != mpp.Gone {
			t.Errorf("once it is there: %v: %s, %v", o.State, o.Detail, err)
		}
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
		"not used yet":              {-60, func(n *fakeNode, _ *authorization) { n.Bend["eth_call"] = no }, mpp.Pending},
		"never used":                {60, func(n *fakeNode, _ *authorization) { n.Bend["eth_call"] = no }, mpp.Gone},
		"used":                      {-60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled},
		"used, a while ago":         {60, func(n *fakeNode, a *authorization) { n.used(a) }, mpp.Settled},
		"known, no event yet":       {-60, func(n *fakeNode, _ *authorization) { n.Bend["eth_call"], n.Bend["eth_getLogs"] = yes, []fields{} }, unavailable},
		"known, not used in time":   {60, func(n *fakeNode, _ *authorization) { n.Bend["eth_call"], n.Bend["eth_getLogs"] = yes, []fields{} }, mpp.Gone},
		"a node that finds no logs": {60, func(n *fakeNode, _ *authorization) { n.Bend["eth_call"], n.Bend["eth_getLogs"] = yes, errors.New("no") }, unavailable},
	} {
		n, m, p, a := fake(t, c.since)
		c.bend(n, a)
		o, err := m.Outcome(t.Context(), p, p.ValidBefore.Add(-10*time.Minute))
		if c.want == unavailable {
			if !errors.Is(err, mpp.ErrUnavailable) {
				t.Errorf("%s: %v: %s, %v; want nothing to be concluded", name, o.State, o.Detail, err)
			}
		} else if err != nil || o.State != c.want || o.Over.IsZero() == (c.want == mpp.Gone) {
			t.Errorf("%s: %v: %s, %v; want %v", name, o.State, o.Detail, err, c.want)
		}
	}
}

// A refused payment is asked about once, so the block that the last clock showed will not do for it.
func TestARefusedPaymentIsLookedForInTheNewestBlock(t *testing.T) {
	n, m, p, a := fake(t, -60)
	m.tokenSeen.Store(time.Now().Unix())
	if _, err := m.Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Times = append(n.Times, n.Times[len(n.Times)-1]+2)
	n.used(a)
	n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
		var q struct{ ToBlock hexutil.Uint64 }
		if json.Unmarshal(params[0], &q); int(q.ToBlock) < len(n.Times)-1 {
			return []fields{}
		}
		return []fields{logOf(a, usedTopic)}
	}
	if o, err := m.Outcome(t.Context(), p, p.ValidBefore.Add(-4*time.Minute)); err != nil || o.State != mpp.Settled {
		t.Errorf("%v: %s, %v", o.State, o.Detail, err)
	}
}

// The nonce of an x402 authorisation is its payer's, so it can have been used long before the offer that it is presented
// for. It is looked for where its payer let it be used; if that began too long ago, nothing is concluded.
func TestSeenBeforeTheOffer(t *testing.T) {
	for name, c := range map[string]struct {
		validAfter time.Duration // before its end
		used, gone bool
	}{
		"used":                      {12 * time.Minute, true, false},
		"used, of any time":         {50 * 365 * 24 * time.Hour, true, false},
		"its nonce known, not used": {12 * time.Minute, false, true},
		"the same, of any time":     {50 * 365 * 24 * time.Hour, false, false},
	} {
		n, m, p, a := fake(t, 60)
		a.validAfter = a.validBefore - uint64(c.validAfter/time.Second)
		p.Bearer, p.Contract, p.Raw = true, true, a.calldata() // whose signature nobody looks at
		n.Times = nil
		for i := range uint64(100) { // one every ten seconds, the last a minute after its end
			n.Times = append(n.Times, a.validBefore+60-10*(99-i))
		}
		const block = 30 // ten minutes before its end
		n.Bend["eth_call"], n.mined = yes, receiptOf(logOf(a, usedTopic), transferTo(a, a.to, a.value))
		n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
			var q struct{ FromBlock, ToBlock hexutil.Uint64 }
			if json.Unmarshal(params[0], &q); !c.used || q.FromBlock > block || q.ToBlock < block {
				return []fields{}
			}
			return []fields{logOf(a, usedTopic)}
		}
		o, err := m.Outcome(t.Context(), p, p.ValidBefore.Add(-4*time.Minute))
		switch {
		case c.used && (err != nil || o.State != mpp.Settled), c.gone && (err != nil || o.State != mpp.Gone), !c.used && !c.gone && !errors.Is(err, mpp.ErrUnavailable):
			t.Errorf("%s: %v: %s, %v", name, o.State, o.Detail, err)
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
		if o, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || o.State != mpp.Settled || o.Received != 2*p.Cents {
			t.Errorf("%v: %s, %v; %d cents", o.State, o.Detail, err, o.Received)
		}
	}
}

// receipt is what the node has of the transaction in which, it says, the nonce was
// used.
func (n *fakeNode) receipt(a *authorization, logs ...fields) {
	n.Bend["eth_call"], n.mined = yes, receiptOf(logs...)
	n.Bend["eth_getLogs"] = []fields{logOf(a, usedTopic)}
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
		n.Bend["eth_call"], n.Bend["eth_estimateGas"] = no, "0x13880"
		for method, a := range answers {
			n.Bend[method] = a
		}
		if o, err := m.Broadcast(t.Context(), p, &account{}); !errors.Is(err, mpp.ErrUnavailable) || strings.Contains(err.Error(), hex.EncodeToString(crypto.FromECDSA(wallet(99).Key))) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	n, m, p, _ := fake(t, -60)
	n.Bend["eth_call"], n.Bend["eth_estimateGas"], n.Bend["eth_maxPriorityFeePerGas"] = no, "0x13880", "0xffffffffffff"
	if err := m.Simulate(t.Context(), p); !errors.Is(err, mpp.ErrUnavailable) {
		t.Errorf("an endless tip: %v", err)
	}
}

// A submission costs no more than was allowed for it, however often it is replaced, and that is no
// more than a usual one costs at the highest fee. Where it would, the payment is refused.
func TestASubmissionCostsNoMoreThanWasAllowed(t *testing.T) {
	most := Most(100e9) // [newMethod] has this fee
	for _, c := range []struct {
		code, gas string
		tip       int64
		refused   bool
	}{
		{"0x00", "0x27100", 60e9, true}, // 160 000, and a quarter more
		{"0x00", "0x27100", 40e9, false},
		{"0x00", "0x13880", 95e9, false}, // 80 000
		{"0x", "0x27100", 60e9, true},
		{"0x", "0x13880", 10e9, false},
	} {
		n, m, p, a := fake(t, -60)
		n.Bend["eth_call"], n.Bend["eth_estimateGas"], n.Bend["eth_getCode"] = no, c.gas, c.code
		n.Bend["eth_maxPriorityFeePerGas"] = hexutil.EncodeUint64(uint64(c.tip))
		err := m.Simulate(t.Context(), p)
		if is, ok := errors.AsType[*mpp.Rejection](err); ok != c.refused || ok && is.Reason != mpp.ReasonGas || !ok && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		x := &account{}
		o, err := m.Broadcast(t.Context(), p, x)
		if sent := len(x.stored) == 1; err != nil || sent == c.refused {
			t.Fatalf("%+v: %+v, %v", c, o, err)
		} else if !sent {
			continue
		}
		st, err := m.standing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first := sent(m, a)
		for range 50 {
			s := m.gas.sign(a, first.nonce, first.gas, first.highest, st)
			if cost := new(big.Int).Mul(s.fees.most, new(big.Int).SetUint64(s.gas)); cost.Cmp(x.allowed[0]) > 0 || cost.Cmp(most) > 0 || s.fees.tip.Cmp(s.fees.most) > 0 {
				t.Fatalf("%+v: %d gas at %v, tip %v", c, s.gas, s.fees.most, s.fees.tip)
			}
		}
	}
}

// What an account holds is the token's to say.
func TestHoldsIsTheTokensToSay(t *testing.T) {
	for units, enough := range map[uint64]bool{2_150_000: true, 2_149_999: false, 0: false} {
		n, m, p, _ := fake(t, -60)
		n.Bend["eth_call"] = hexutil.Bytes(node.Number(units))
		err := m.Holds(t.Context(), p, 215)
		if no, refused := errors.AsType[*mpp.Rejection](err); enough != (err == nil) || !enough && (!refused || no.Reason != mpp.ReasonFunds) {
			t.Errorf("%d units: %v", units, err)
		}
		n.Bend["eth_call"] = errors.New("execution reverted")
		if err := m.Holds(t.Context(), p, 215); !errors.Is(err, mpp.ErrUnavailable) {
			t.Errorf("a token that does not say: %v", err)
		}
	}
}

// account pays for everything, unless it is closed, and remembers what it has paid for.
type account struct {
	closed, full bool
	allowed      []*big.Int // wei
	stored       []mpp.Submission
}

func (x *account) Allow(most *big.Int) error {
	if x.closed {
		return errors.New("the account is closed")
	}
	x.allowed = append(x.allowed, most)
	return nil
}

func (x *account) Store(s mpp.Submission) error {
	if x.full {
		return errors.New("the disk is full")
	}
	if !slices.Contains(x.stored, s) {
		x.stored = append(x.stored, s)
	}
	return nil
}

// since gives what a node was asked in a call of fn.
func (n *fakeNode) since(fn func()) map[string]int {
	count := func() map[string]int {
		n.Lock()
		defer n.Unlock()
		return maps.Clone(n.Asked)
	}
	before, after := count(), map[string]int{}
	fn()
	for method, times := range count() {
		if times > before[method] {
			after[method] = times - before[method]
		}
	}
	return after
}

// Whoever asks soon after the clock was asked shares its block and what the gas
// account had in it: of that, nothing is asked again before the next block. A trial asks
// for what is pending, which changes at any time.
func TestHeadAndAccountAreAskedOnceABlockForAll(t *testing.T) {
	n, m, p, _ := fake(t, -60)
	n.Bend["eth_call"], n.Bend["eth_estimateGas"], n.Bend["eth_getCode"] = no, "0x13880", "0x"
	m.tokenSeen.Store(time.Now().Unix())
	clock := func() {
		if at, err := m.Clock(t.Context()); err != nil || uint64(at.Unix()) != n.Times[len(n.Times)-1] {
			t.Fatalf("clock: %v, %v", at, err)
		}
	}
	asked := n.since(clock)
	if want := map[string]int{"eth_chainId": 1, "eth_getBlockByNumber": 1, "eth_getTransactionCount": 1, "eth_getBalance": 1, "eth_maxPriorityFeePerGas": 1}; !maps.Equal(asked, want) {
		t.Errorf("a new block: asked %v, want %v", asked, want)
	}
	asked = n.since(func() {
		clock()
		for range 8 {
			if err := m.Simulate(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
	})
	if want := map[string]int{"eth_chainId": 1, "eth_getBlockByNumber": 9, "eth_call": 16, "eth_estimateGas": 8, "eth_getCode": 8}; !maps.Equal(asked, want) {
		t.Errorf("the same block: asked %v, want %v", asked, want)
	}
	n.Lock()
	n.Times = append(n.Times, n.Times[len(n.Times)-1]+2)
	n.Unlock()
	if asked := n.since(clock); asked["eth_getBalance"] != 1 {
		t.Errorf("the next block: asked %v", asked)
	}
}

// An authorisation in a pending transaction costs one question a block.
// When it is mined, what was heard of the gas account before is not believed any more.
func TestSubmissionThatWaitsCostsOneQuestion(t *testing.T) {
	n, m, p, a := fake(t, -60)
	m.tokenSeen.Store(time.Now().Unix())
	n.Bend["eth_call"], n.Bend["eth_estimateGas"], n.Bend["eth_getCode"] = no, "0x13880", "0x"
	look := func(state mpp.State) {
		t.Helper()
		if _, err := m.Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := m.Outcome(t.Context(), p, time.Time{})
		if err != nil || o.State != state {
			t.Fatalf("%v: %s, %v", o.State, o.Detail, err)
		}
		if o.State == mpp.Pending {
			if o, err = m.Broadcast(t.Context(), p, &account{}); err != nil || o.Detail != "submitted" {
				t.Fatalf("%s, %v", o.Detail, err)
			}
		}
	}
	look(mpp.Pending)
	asked := n.since(func() { look(mpp.Pending) })
	delete(asked, "eth_chainId")
	delete(asked, "eth_getBlockByNumber") // of the clock
	if want := map[string]int{"eth_call": 1}; !maps.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	n.used(a)
	look(mpp.Settled)
	asked = n.since(func() {
		if _, err := m.standing(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if asked["eth_getTransactionCount"] != 1 {
		t.Errorf("after it was mined: asked %v", asked)
	}
}

// An authorisation that was mined and reverted, because its payer had the money away in
// that block alone, is not submitted again, and what it cost is told.
func TestARevertedAuthorizationIsNotSubmittedAgain(t *testing.T) {
	m := open(t)
	method, w := m.method, m.payer()
	p := m.decode(method, w, challenge(t, method), paytest.ValidFor(4*time.Minute))
	m.submit(method, p, "submitted")
	ours := last(method, p)
	m.endow(w, 0)
	m.mine(1)
	m.endow(w, 1_000_000)
	const rounds = 20
	for range rounds {
		o := m.becomes(method, p, mpp.Pending, false)
		if o.Wasted == nil || o.Wasted.Transaction != ours.Hex() || !strings.Contains(o.Detail, "not submitted again") {
			t.Fatalf("%+v: %s", o.Wasted, o.Detail)
		}
		m.submit(method, p, "mined and reverted")
		m.mine(1)
	}
	used, limit, cost := m.costs(ours)
	t.Logf("%d transactions in %d blocks, %d gas of at most %d", m.mined(method), rounds+1, used, limit)
	if n := m.mined(method); n != 1 {
		t.Errorf("%d submissions, want 1", n)
	}
	if limit > 130_000 {
		t.Errorf("the limit is %d gas", limit)
	}
	o := m.becomes(method, p, mpp.Pending, false)
	if o.Wasted.Gas != used || o.Wasted.Wei != cost.String() {
		t.Errorf("wasted %+v, and the chain took %d gas for %s wei", o.Wasted, used, cost)
	}
	m.wait(300)
	m.mine(3)
	if o := m.becomes(method, p, mpp.Gone, true); o.Wasted == nil {
		t.Errorf("at its end: %+v", o.Wasted)
	}
}

// costs is what a mined transaction used and might have used, in gas, and what it cost.
func (m *market) costs(hash common.Hash) (used, limit uint64, wei *big.Int) {
	var r struct {
		GasUsed           hexutil.Uint64
		EffectiveGasPrice *hexutil.Big
	}
	var tx struct{ Gas hexutil.Uint64 }
	m.call(&r, "eth_getTransactionReceipt", hash)
	m.call(&tx, "eth_getTransactionByHash", hash)
	wei = new(big.Int).Mul(new(big.Int).SetUint64(uint64(r.GasUsed)), (*big.Int)(r.EffectiveGasPrice))
	return uint64(r.GasUsed), uint64(tx.Gas), wei
}

// If another transaction has taken its nonce, it was never mined, and is submitted anew.
func TestAnAuthorizationThatNeverWasMinedIsSubmittedAgain(t *testing.T) {
	m := open(t)
	method := m.method
	p, other := m.decode(method, m.payer(), challenge(t, method)), m.decode(method, m.payer(), challenge(t, method))
	m.submit(method, p, "submitted")
	m.call(nil, "anvil_dropTransaction", last(method, p))
	m.submit(newMethod(t, func(c *Config) { *c = method.cfg }), other, "submitted")
	m.mine(1)
	m.becomes(method, p, mpp.Pending, false)
	m.submit(method, p, "submitted")
	m.mine(1)
	m.becomes(method, p, mpp.Settled, false)
	m.becomes(method, other, mpp.Settled, false)
}

// Nothing is submitted that has hardly time; and an authorisation that somebody else made to pay us
// has not cost gas for nothing.
func TestWhoIsToBlameForARevert(t *testing.T) {
	m := open(t)
	brief := m.shop()
	p := m.decode(brief, m.payer(), challenge(t, brief), m.validFor((enough-1)*time.Second))
	m.submit(brief, p, "not submitted: too little of its time is left")
	p = m.decode(brief, m.payer(), challenge(t, brief), m.validFor(enough*time.Second))
	m.submit(brief, p, "submitted")
	method, w := m.shop(), m.payer()
	c := challenge(t, method)
	p = m.decode(method, w, c, m.validFor(time.Minute))
	m.submit(method, p, "submitted")
	m.stranger(w.Submission(c, m.validFor(time.Minute)), 40e9)
	m.mine(1)
	if m.status(last(method, p)) != 0 {
		t.Fatal("ours was first")
	}
	if o := m.becomes(method, p, mpp.Settled, false); o.Wasted != nil {
		t.Errorf("paid by a stranger's transaction: %+v", o.Wasted)
	}
}

// validFor is [paytest.ValidFor] by the chain's clock.
func (m *market) validFor(d time.Duration) paytest.EVMAlter {
	var b struct{ Timestamp hexutil.Uint64 }
	m.call(&b, "eth_getBlockByNumber", "latest", false)
	return func(a *paytest.EVMDraft) { a.ValidBefore = big.NewInt(int64(b.Timestamp) + int64(d/time.Second)) }
}

// What waits to be mined counts in a simulation, and so do our account and its fees.
func TestSimulationsAreOfWhatWouldBeMined(t *testing.T) {
	m := open(t)
	method, rich := m.method, m.chain.Accounts[1]
	w := paytest.EVM{Key: rich.Key}
	p := m.decode(method, w, challenge(t, method))
	if err := method.Simulate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	away := fmt.Sprintf("0xa9059cbb%064x%064x", 0x5117, m.balance(rich.Address))
	m.call(nil, "eth_sendTransaction", map[string]any{"from": rich.Address, "to": usdc, "data": away, "gas": "0x493e0"})
	if err := method.Simulate(t.Context(), p); !errors.As(err, new(*mpp.Rejection)) {
		t.Errorf("while the money is leaving: %v", err)
	}
	// Calls of this token succeed only without a gas price.
	free := common.HexToAddress("0xf4ee")
	m.call(nil, "anvil_setCode", free, "0x3a600557005b5f5ffd")
	fickle := m.shop(func(c *Config) { c.Currency = free })
	q := m.decode(fickle, m.payer(), challenge(t, fickle))
	if err := fickle.Simulate(t.Context(), q); !errors.As(err, new(*mpp.Rejection)) {
		t.Errorf("where only simulations go through: %v", err)
	}
}

// feeRisesAbove has the next block cost more than was bid for a payment.
func (m *market) feeRisesAbove(method *Method, p mpp.Payment) {
	m.Helper()
	a, err := method.reopen(p)
	if err != nil {
		m.Fatal(err)
	}
	m.call(nil, "anvil_setNextBlockBaseFeePerGas", (*hexutil.Big)(new(big.Int).Add(sent(method, a).fees.most, big.NewInt(1e9))))
}

// submitFor is Broadcast at the expense of x.
func (m *market) submitFor(x *account, method *Method, p mpp.Payment, detail string) {
	m.Helper()
	m.mu.Lock()
	m.accounts[payment{method, p.ReplayKey}] = x
	m.mu.Unlock()
	p.Submissions = x.stored
	if o, err := method.Broadcast(m.Context(), p, x); err != nil || o.State != mpp.Pending || !strings.HasPrefix(o.Detail, detail) {
		m.Fatalf("submitted: %v, %v: %s; want %q", o.State, err, o.Detail, detail)
	}
}

// Nothing is sent that is not allowed and stored. A replacement is stored as well, and
// needs no other leave: what is in flight has to be mined.
func TestSubmissionsAreAllowedAndStoredBeforeTheyAreSent(t *testing.T) {
	m := open(t)
	method := m.method
	p := m.decode(method, m.payer(), challenge(t, method))
	x := &account{closed: true}
	m.submitFor(x, method, p, "not submitted: the account is closed")
	x.closed, x.full = false, true
	m.submitFor(x, method, p, "not submitted: the disk is full")
	m.submitFor(x, method, p, "not submitted: the disk is full")
	m.mine(1)
	if n := m.mined(method); n != 0 || len(x.allowed) != 1 {
		t.Fatalf("%d mined, %d allowed", n, len(x.allowed))
	}
	x.full = false
	m.submitFor(x, method, p, "submitted")
	x.closed = true
	m.feeRisesAbove(method, p)
	m.mine(1)
	m.wait(patience)
	m.submitFor(x, method, p, "submitted")
	m.mine(1)
	m.becomes(method, p, mpp.Settled, false)
	if len(x.allowed) != 1 || len(x.stored) != 2 || x.stored[0].Nonce != x.stored[1].Nonce {
		t.Fatalf("allowed %v, stored %+v", x.allowed, x.stored)
	}
	if _, limit, cost := m.costs(common.HexToHash(x.stored[1].Transaction)); limit != x.stored[0].Gas || cost.Cmp(x.allowed[0]) > 0 {
		t.Errorf("allowed %d wei, paid %d; the limit is %d", x.allowed[0], cost, limit)
	}
}

// The next process knows from what was stored that a submission of the last one was mined
// and reverted, and submits no other.
func TestARestartDoesNotHideARevert(t *testing.T) {
	m := open(t)
	method, w, x := m.method, m.payer(), &account{}
	p := m.decode(method, w, challenge(t, method), paytest.ValidFor(4*time.Minute))
	m.submitFor(x, method, p, "submitted")
	m.endow(w, 0)
	m.mine(1)
	m.endow(w, 1_000_000)
	was := m.becomes(method, p, mpp.Pending, false).Wasted
	restarted := newMethod(t, func(c *Config) { *c = method.cfg })
	p.Submissions = x.stored
	m.submitFor(x, restarted, p, "mined and reverted")
	if o := m.becomes(restarted, p, mpp.Pending, false); was == nil || o.Wasted == nil || *o.Wasted != *was {
		t.Errorf("wasted %+v, and before the restart %+v", o.Wasted, was)
	}
	m.mine(1)
	if n := m.mined(method); n != 1 {
		t.Errorf("%d submissions", n)
	}
}
