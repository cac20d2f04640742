package tempo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// inLane has a draft use a nonce of a lane, and keep its validBefore if it is to end.
func inLane(key any, nonce uint64, ends bool) paytest.TempoAlter {
	return func(d *paytest.TempoDraft) {
		before := d.ValidBefore
		if paytest.Counted(nonce)(d); ends {
			d.ValidBefore = before
		}
		d.NonceKey = key
	}
}

// count has a node say that nonce is the next one from a block on, and 7 before, in the lane of
// the key.
func (n *fakeNode) count(key []byte, nonce, from uint64) {
	next := func(block json.RawMessage) uint64 {
		at := hexutil.Uint64(len(n.Times) - 1)
		if json.Unmarshal(block, &at); uint64(at) >= from {
			return nonce
		}
		return 7
	}
	if len(key) == 0 {
		n.Bend["eth_getTransactionCount"] = func(params []json.RawMessage) any { return hexutil.Uint64(next(params[1])) }
		return
	}
	n.Bend["eth_call"] = func(params []json.RawMessage) any {
		var q struct {
			To   common.Address
			Data hexutil.Bytes
		}
		json.Unmarshal(params[0], &q)
		if q.To != nonces || !bytes.HasSuffix(q.Data, common.LeftPadBytes(key, 32)) || len(q.Data) != 68 {
			return "0x"
		}
		return common.BigToHash(hexutil.MustDecodeBig(hexutil.EncodeUint64(next(params[1])))).Hex()
	}
}

// lanes are the keys that payments of the tests use.
var lanes = map[string]struct {
	key any
	raw []byte
}{"key 0": {uint64(0), nil}, "key 1": {uint64(1), []byte{1}}, "a key of 32 bytes": {bytes.Repeat([]byte{0xee}, 32), bytes.Repeat([]byte{0xee}, 32)}}

// What is decoded of a transaction with a nonce, and what no lane takes.
func TestDecodeLanes(t *testing.T) {
	_, m, _ := newFake(t)
	names := map[string]bool{}
	for name, lane := range lanes {
		for _, ends := range []bool{false, true} {
			c := challenge(t, m)
			p, err := take(m, wallet(7).Pay(c, inLane(lane.key, 7, ends)), now)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := now.Add(300e9)
			if ends {
				want = now.Add(25e9)
			}
			if p.Endless == ends || !p.ValidBefore.Equal(want) || p.Nonce == "" || !strings.HasSuffix(p.Nonce, ":7") {
				t.Errorf("%s: %+v ends at %v, nonce %s", name, p.Endless, p.ValidBefore, p.Nonce)
			}
			if tx, err := m.reopen(p); err != nil || !bytes.Equal(tx.NonceKey, lane.raw) {
				t.Errorf("%s: opened again: %v", name, err)
			}
			names[p.Nonce] = true
		}
	}
	if len(names) != len(lanes) {
		t.Errorf("nonces are called %v", names)
	}
	// Where nonces do not count, any one makes another transaction, and none is used up.
	seen := map[string]bool{}
	c := challenge(t, m)
	for _, nonce := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
		p, err := take(m, wallet(7).Pay(c, paytest.AnyNonce(nonce)), now)
		if err != nil || p.Nonce != "" || p.Endless || seen[p.ReplayKey] {
			t.Errorf("nonce %d: %v, %+v", nonce, err, p)
		}
		if tx, err := m.reopen(p); err != nil || tx.Nonce != nonce {
			t.Errorf("nonce %d, opened again: %v", nonce, err)
		}
		seen[p.ReplayKey] = true
	}
	for _, tc := range []struct {
		detail string
		change paytest.TempoAlter
	}{
		{"are for validators", inLane(append([]byte{0x5b}, make([]byte, 31)...), 0, false)},
		{"not canonical", inLane([]byte{0, 1}, 0, false)},
		{"not canonical", inLane(bytes.Repeat([]byte{1}, 33), 0, false)},
		{"which the expiring nonce needs", inLane(expiringNonce, 0, false)},
	} {
		_, err := m.Decode(wallet(7).Pay(challenge(t, m), tc.change))
		if no, ok := errors.AsType[*mpp.Rejection](err); !ok || !strings.Contains(no.Detail, tc.detail) {
			t.Errorf("%v, want %q", err, tc.detail)
		}
	}
}

// A transaction must be the next one of its lane. One question says so, in the batch of the
// simulation.
func TestSimulateAsksForTheNextNonce(t *testing.T) {
	for name, lane := range lanes {
		for nonce, reason := range map[uint64]string{6: mpp.ReasonUsed, 7: "", 8: mpp.ReasonNonce} {
			n, m, _ := newFake(t)
			p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(lane.key, nonce, false)))
			if err != nil {
				t.Fatal(err)
			}
			n.count(lane.raw, 99, 1000)
			err = m.Simulate(t.Context(), p)
			if no, ok := errors.AsType[*mpp.Rejection](err); ok != (reason != "") || ok && no.Reason != reason {
				t.Errorf("%s, nonce %d: %v, want %q", name, nonce, err, reason)
			}
			if n.Asked["eth_chainId"] != 1 || n.Asked["eth_getTransactionCount"]+n.Asked["eth_call"] != 4 {
				t.Errorf("%s: asked %v", name, n.Asked)
			}
			if no, ok := errors.AsType[*mpp.Rejection](m.Unused(t.Context(), p)); ok != (nonce == 6) || ok && no.Reason != mpp.ReasonUsed {
				t.Errorf("%s, nonce %d: used: %v", name, nonce, no)
			}
			for _, nonsense := range []any{"0x", "7", nil, fields{}, paytest.NodeError{Code: -32000, Text: "no state"}, "0x1" + strings.Repeat("0", 16)} {
				n.Bend["eth_getTransactionCount"], n.Bend["eth_call"] = nonsense, nonsense
				if lane.raw != nil {
					continue // the node's other calls are nonsense, too
				}
				delete(n.Bend, "eth_call")
				for _, err := range []error{m.Simulate(t.Context(), p), m.Unused(t.Context(), p)} {
					if !isUnavailable(err) {
						t.Errorf("%s: the node says %v: %v", name, nonsense, err)
					}
				}
			}
		}
	}
}

// The simulation of a transaction with a nonce names its lane and no time.
func TestSimulationNamesTheLane(t *testing.T) {
	n, m, _ := newFake(t)
	p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(uint64(0x1234), 7, false)))
	if err != nil {
		t.Fatal(err)
	}
	var sent string
	n.Bend["eth_call"] = func(params []json.RawMessage) any {
		sent += string(params[0])
		return fmt.Sprintf("0x%064x", 7)
	}
	err = m.Simulate(t.Context(), p)
	if err != nil || !strings.Contains(sent, `"nonce":"0x7","nonceKey":"0x1234","type":"0x76"}`) || strings.Contains(sent, "valid") {
		t.Errorf("%v, asked %s", err, sent)
	}
}

// A transaction with a nonce can be mined until that is used, by a deep block, or until its
// validBefore if it has one. newFake's blocks end one second ago, and two must follow.
func TestOutcomeInALane(t *testing.T) {
	const never = 1000
	for _, tc := range []struct {
		name  string
		ends  bool
		mined []int64
		used  uint64 // the block by which its nonce was used
		spoil func(n *fakeNode, p mpp.Payment)
		want  mpp.State
		moved bool // settled by another transaction
	}{
		{name: "not mined", want: mpp.Pending, used: never},
		{name: "not mined for an hour", mined: []int64{3600, 3601, 3602}, want: mpp.Pending, used: never},
		{name: "not mined, and over", ends: true, mined: []int64{26, 27, 28}, want: mpp.Gone, used: never},
		{name: "nonce used, not deep", mined: []int64{1, 2}, used: 10, want: mpp.Pending},
		{name: "nonce used, deep", mined: []int64{1, 2, 3}, used: 10, want: mpp.Gone},
		{name: "nonce used, deep, before its end", ends: true, mined: []int64{1, 2, 3}, used: 10, want: mpp.Gone},
		{name: "nonce used by itself", mined: []int64{1, 2, 3}, used: 10, want: mpp.Settled,
			spoil: func(n *fakeNode, p mpp.Payment) { n.receipt = paidReceipt(p, 10) }},
		{name: "nonce used by itself, of which one node knows nothing yet", mined: []int64{1, 2, 3}, used: 10, want: mpp.Settled,
			spoil: func(n *fakeNode, p mpp.Payment) {
				n.Bend["eth_getTransactionReceipt"] = func([]json.RawMessage) any {
					if n.Asked["eth_getTransactionReceipt"] == 1 {
						return nil
					}
					return paidReceipt(p, 10)
				}
			}},
		{name: "replaced by one that pays the same", mined: []int64{1, 2, 3}, used: 10, want: mpp.Settled, moved: true,
			spoil: func(n *fakeNode, p mpp.Payment) { n.replace(p, 10) }},
		{name: "reverted, which used the nonce", mined: []int64{1, 2, 3}, used: 10, want: mpp.Failed,
			spoil: func(n *fakeNode, p mpp.Payment) {
				n.receipt = with(paidReceipt(p, 10), func(r fields, _ []fields) { r["status"], r["logs"] = "0x0", []fields{} })
			}},
	} {
		for name, lane := range lanes {
			n, m, _ := newFake(t)
			p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(lane.key, 7, tc.ends)))
			if err != nil {
				t.Fatal(err)
			}
			n.count(lane.raw, 8, tc.used)
			n.mine(tc.mined...)
			if tc.spoil != nil {
				tc.spoil(n, p)
			}
			got, err := m.Outcome(t.Context(), p, time.Time{})
			if err != nil || got.State != tc.want || (got.Reference != "") != tc.moved || got.State != mpp.Pending && !got.Deep ||
				got.Over.IsZero() == (tc.want == mpp.Gone && tc.used == never) {
				t.Errorf("%s, %s: %+v, %v; want %v", tc.name, name, got, err, tc.want)
			}
			if tc.spoil == nil {
				if got, err := m.Outcome(t.Context(), p, now); err != nil || got.State != tc.want {
					t.Errorf("%s, %s: seen as %+v, %v; want %v", tc.name, name, got, err, tc.want)
				}
			}
		}
	}
	// A block in which another transaction used the nonce is dropped, and the payment is mined
	// instead.
	n, m, _ := newFake(t)
	p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(uint64(0), 7, false)))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		used  uint64
		mined any
		want  mpp.State
	}{{10, nil, mpp.Pending}, {never, nil, mpp.Pending}, {11, paidReceipt(p, 11), mpp.Settled}} {
		n.count(nil, 8, step.used)
		n.mine(1)
		n.receipt = step.mined
		if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != step.want {
			t.Errorf("used by block %d: %+v, %v; want %v", step.used, got, err, step.want)
		}
	}
	// A node that gives no believable nonce says nothing.
	n.receipt = nil
	for _, nonsense := range []any{nil, "0x", "many", paytest.NodeError{Code: -32000, Text: "no state"}} {
		n.bendTo("eth_getTransactionCount", nonsense)
		if got, err := m.Outcome(t.Context(), p, time.Time{}); !isUnavailable(err) || got.State != mpp.Pending {
			t.Errorf("the node says %v: %+v, %v", nonsense, got, err)
		}
	}
}

// A payment without an end that is shown a year later costs a bounded number of questions. That
// nothing was paid is said only once the block in which its nonce was used was searched, however
// late that is.
func TestSeenInALaneLongAgo(t *testing.T) {
	const used = 30_000
	for _, tc := range []struct {
		name     string
		replaced uint64 // the block in which another transaction made the transfer; 0: none
		pruned   bool   // the node has only the states of the last blocks
		searches int
		want     mpp.State
	}{
		{"not replaced", 0, false, 2, mpp.Gone},
		{"replaced at once", 9, false, 1, mpp.Settled},
		{"replaced much later", used, false, 2, mpp.Settled},
		{"replaced much later, of which the node has no state", used, true, 1, mpp.Pending},
	} {
		n, m, _ := newFake(t)
		p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(uint64(0), 7, false)))
		if err != nil {
			t.Fatal(err)
		}
		n.Times = nil
		for i := range int64(40_000) { // a block in a quarter of an hour: more than a year
			n.mine(-1000 + i*900)
		}
		n.count(nil, 8, min(used, cmp.Or(tc.replaced, used)))
		if tc.pruned {
			count := n.Bend["eth_getTransactionCount"].(func([]json.RawMessage) any)
			n.Bend["eth_getTransactionCount"] = func(params []json.RawMessage) any {
				var at hexutil.Uint64
				if json.Unmarshal(params[1], &at); at < 39_000 {
					return paytest.NodeError{Code: -32000, Text: "no state"}
				}
				return count(params)
			}
		}
		if tc.replaced > 0 {
			n.replace(p, tc.replaced)
		}
		all := n.logs
		n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
			var q struct{ FromBlock, ToBlock hexutil.Uint64 }
			if json.Unmarshal(params[0], &q); uint64(q.FromBlock) <= tc.replaced && tc.replaced <= uint64(q.ToBlock) {
				return all
			}
			return []any{}
		}
		for name, ask := range map[string]func() (mpp.Outcome, error){
			"seen":    func() (mpp.Outcome, error) { return m.Outcome(t.Context(), p, now) },
			"outcome": func() (mpp.Outcome, error) { return m.Outcome(t.Context(), p, time.Time{}) },
		} {
			clear(n.Asked)
			got, err := ask()
			if got.State != tc.want || err != nil || (got.Reference != "") != (got.State == mpp.Settled) {
				t.Errorf("%s, %s: %+v, %v", tc.name, name, got, err)
			}
			if n.Asked["eth_getLogs"] != tc.searches || n.Asked["eth_getTransactionCount"] > 20 || n.Asked["eth_getBlockByNumber"] > 100 {
				t.Errorf("%s, %s: asked %v", tc.name, name, n.Asked)
			}
		}
	}
}

// A payment with a nonce and an end that was replaced by one that is mined after that end has
// settled.
func TestReplacedByOneThatEndsLater(t *testing.T) {
	n, m, _ := newFake(t)
	p, err := m.Decode(wallet(7).Pay(challenge(t, m), inLane(uint64(0), 7, true)))
	if err != nil {
		t.Fatal(err)
	}
	n.mine(26, 27, 28, 29) // the first is its end
	n.count(nil, 8, 11)
	hash := n.replace(p, 11)
	all := n.logs
	n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
		var q struct{ ToBlock hexutil.Uint64 }
		if json.Unmarshal(params[0], &q); q.ToBlock < 11 {
			return []any{}
		}
		return all
	}
	if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Settled || got.Reference != hash.Hex() {
		t.Errorf("%+v, %v", got, err)
	}
}
