package tempo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

// Which answers of the chain are a verdict, and how deep. Numbers 38 and 39
// are those of the list of what must be refused; validBefore is 25 s from now.
func TestOutcome(t *testing.T) {
	set := func(key string, v any) func(fields, []fields) { return func(r fields, _ []fields) { r[key] = v } }
	setLog := func(i int, key string, v any) func(fields, []fields) {
		return func(_ fields, logs []fields) { logs[i][key] = v }
	}
	topic := func(i, j int, h common.Hash) func(fields, []fields) {
		return func(_ fields, logs []fields) { logs[i]["topics"].([]common.Hash)[j] = h }
	}
	other := common.BytesToHash(stranger[:])
	long := []int64{1, 26, 27, 28} // the blocks at which nothing can change any more
	for _, tc := range []struct {
		name    string
		mined   []int64
		receipt func(mpp.Payment) any
		want    mpp.State
		deep    bool
	}{
		{"not mined, still valid", nil, nil, mpp.Pending, false},
		{"not mined, last second", []int64{25, 25, 25}, nil, mpp.Pending, false},
		{"not mined, expired but not deep", []int64{26, 27}, nil, mpp.Pending, false},
		{"never mined", []int64{26, 27, 28}, nil, mpp.Gone, true},
		{"paid in the newest block", nil, func(p mpp.Payment) any { return paidReceipt(p, 9) }, mpp.Settled, false},
		{"paid one block ago", []int64{1}, func(p mpp.Payment) any { return paidReceipt(p, 9) }, mpp.Settled, false},
		{"paid two blocks ago", []int64{1, 2}, func(p mpp.Payment) any { return paidReceipt(p, 9) }, mpp.Settled, true},
		{"paid in a block that is no longer there", []int64{1, 2}, func(p mpp.Payment) any {
			return with(paidReceipt(p, 9), set("blockHash", paytest.BlockHash(77)))
		}, mpp.Settled, false},
		{"38: reverted, not deep", []int64{1}, func(p mpp.Payment) any { return with(paidReceipt(p, 9), set("status", "0x0")) }, mpp.Pending, false},
		{"38: reverted in a block that is no longer there", []int64{1, 2, 3}, func(p mpp.Payment) any {
			return with(paidReceipt(p, 9), func(r fields, logs []fields) { r["status"], r["blockHash"] = "0x0", paytest.BlockHash(77) })
		}, mpp.Pending, false},
		{"38: reverted for good", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), set("status", "0x0")) }, mpp.Failed, true},
		{"39: no logs, not deep", []int64{1}, func(p mpp.Payment) any { return with(paidReceipt(p, 9), set("logs", []fields{})) }, mpp.Pending, false},
		{"39: no logs", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), set("logs", []fields{})) }, mpp.Mismatched, true},
		{"39: another token", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), setLog(2, "address", stranger)) }, mpp.Mismatched, true},
		{"39: transfer of another token", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), setLog(1, "address", stranger)) }, mpp.Mismatched, true},
		{"39: another amount", long, func(p mpp.Payment) any {
			return with(paidReceipt(p, 9), setLog(2, "data", common.BytesToHash([]byte{1})))
		}, mpp.Mismatched, true},
		{"39: amount of another length", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), setLog(2, "data", "0x0f4240")) }, mpp.Mismatched, true},
		{"39: to somebody else", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), topic(2, 2, other)) }, mpp.Mismatched, true},
		{"39: transfer to somebody else", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), topic(1, 2, other)) }, mpp.Mismatched, true},
		{"39: from somebody else", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), topic(2, 1, other)) }, mpp.Mismatched, true},
		{"39: another memo", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), topic(2, 3, other)) }, mpp.Mismatched, true},
		{"39: memo event alone", long, func(p mpp.Payment) any {
			return with(paidReceipt(p, 9), func(r fields, logs []fields) { r["logs"] = []fields{logs[0], logs[2]} })
		}, mpp.Mismatched, true},
		{"39: transfer event alone", long, func(p mpp.Payment) any {
			return with(paidReceipt(p, 9), func(r fields, logs []fields) { r["logs"] = logs[:2] })
		}, mpp.Mismatched, true},
		{"39: removed", long, func(p mpp.Payment) any { return with(paidReceipt(p, 9), setLog(2, "removed", true)) }, mpp.Mismatched, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, m, p := newFake(t)
			n.mine(tc.mined...)
			if tc.receipt != nil {
				n.receipt = tc.receipt(p)
			}
			got, err := m.Outcome(t.Context(), p, time.Time{})
			if err != nil || got.State != tc.want || got.Deep != tc.deep {
				t.Errorf("%v (deep %v), %v: %s; want %v (deep %v)", got.State, got.Deep, err, got.Detail, tc.want, tc.deep)
			}
		})
	}
}

// A payment that is known to have come to nothing is told of as soon as the block that
// says so is deep, long before it could no longer be mined; but not if the transfer was
// mined all the same.
func TestRevertedPaymentIsKnownAsSoonAsItsBlockIsDeep(t *testing.T) {
	for blocks, want := range []mpp.State{mpp.Pending, mpp.Pending, mpp.Failed} {
		n, m, p := newFake(t)
		n.mine([]int64{1, 2}[:blocks]...)
		n.receipt = with(paidReceipt(p, 9), func(r fields, _ []fields) { r["status"] = "0x0" })
		if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != want || got.Deep != (want == mpp.Failed) {
			t.Errorf("%d blocks on top: %v (deep %v), %v: %s; want %v", blocks, got.State, got.Deep, err, got.Detail, want)
		} else if want == mpp.Failed && got.Detail != "mined, but reverted" {
			t.Error(got.Detail)
		}
		hash := n.replace(p, 9)
		elsewhere := map[mpp.State]mpp.State{mpp.Failed: mpp.Settled}[want]
		if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != elsewhere || got.State == mpp.Settled && got.Reference != hash.Hex() {
			t.Errorf("%d blocks on top, and the transfer under another hash: %v, %v: %s", blocks, got.State, err, got.Detail)
		}
		n.Bend["eth_getLogs"] = func([]json.RawMessage) any { return paytest.NodeError{Code: -32005, Text: "limit exceeded"} }
		if got, err := m.Outcome(t.Context(), p, time.Time{}); want == mpp.Failed && !isUnavailable(err) || got.State != mpp.Pending {
			t.Errorf("%d blocks on top, and no logs: %v, %v: %s", blocks, got.State, err, got.Detail)
		}
	}
}

// Of a payment that was not mined it is said when the block is due that decides.
func TestOutcomeSaysWhenItsBlockIsDue(t *testing.T) {
	for _, c := range []struct {
		mined []int64
		due   int64 // seconds from now; 0: not known
	}{
		{nil, 0},
		{[]int64{25}, 0},
		{[]int64{22, 24, 26}, 30}, // two blocks take four seconds
		{[]int64{22, 24, 26, 28}, 30},
		{[]int64{24, 25, 26, 27}, 28},
	} {
		n, m, p := newFake(t)
		n.mine(c.mined...)
		var want time.Time
		if c.due > 0 {
			want = p.ValidBefore.Add(time.Duration(c.due-25) * time.Second)
		}
		if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Pending || !got.Due.Equal(want) {
			t.Errorf("%v: %v, %v, due %v, want %v", c.mined, got.State, err, got.Due, want)
		}
	}
}

// A transfer that answers the challenge under another hash is the payment's, once its block
// is deep and its receipt shows it.
func TestOutcomeLooksForTheTransferUnderAnotherHash(t *testing.T) {
	n, m, p := newFake(t)
	n.mine(26, 27, 28)
	hash := n.replace(p, 9)
	var filter struct {
		FromBlock, ToBlock hexutil.Uint64
		Address            common.Address
		Topics             []common.Hash
	}
	n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
		json.Unmarshal(params[0], &filter)
		return n.logs
	}
	got, err := m.Outcome(t.Context(), p, time.Time{})
	if err != nil || got.State != mpp.Settled || !got.Deep || got.Reference != hash.Hex() {
		t.Errorf("%+v, %v", got, err)
	}
	p.Reference = got.Reference // as it is stored then
	if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Settled {
		t.Errorf("asked again: %+v, %v", got, err)
	}
	// Nothing was held until its end, up to which it is looked for nevertheless.
	p.ValidBefore, p.Until = p.ValidBefore.Add(-15*time.Second), p.ValidBefore
	if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Settled || n.Times[filter.ToBlock] < after(24) {
		t.Errorf("held for less: %+v, %v, searched until %d s", got, err, int64(n.Times[filter.ToBlock])-now.Unix())
	}
	for name, spoil := range map[string]func(r fields){
		"without its receipt":              func(fields) { n.other = nil },
		"a receipt without the transfer":   func(r fields) { r["logs"] = []fields{} },
		"a receipt of a block that went":   func(r fields) { r["blockHash"] = paytest.BlockHash(77) },
		"a log that names no transaction":  func(fields) { delete(n.logs[0].(fields), "transactionHash") },
		"a receipt of a transaction alone": func(r fields) { r["transactionHash"] = common.HexToHash("0x02") },
	} {
		n.replace(p, 9)
		spoil(n.other)
		if got, err := m.Outcome(t.Context(), p, time.Time{}); !isUnavailable(err) || got.State != mpp.Pending {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if filter.FromBlock != 0 || filter.ToBlock != 10 || filter.Address != token || len(filter.Topics) != 4 {
		t.Errorf("searched %+v", filter)
	}
}

// The search for such logs starts shortly before the challenge can have been
// issued, not at genesis.
func TestOutcomeSearchesARecentRange(t *testing.T) {
	n, m, p := newFake(t)
	n.Times = nil
	n.beBusy(0)
	for i := range int64(5000) {
		n.mine(i - 4980)
	}
	n.mine(26, 27, 28)
	var filter struct{ FromBlock hexutil.Uint64 }
	n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
		json.Unmarshal(params[0], &filter)
		return []any{}
	}
	got, err := m.Outcome(t.Context(), p, time.Time{})
	if err != nil || got.State != mpp.Gone {
		t.Fatalf("%v, %v", got.State, err)
	}
	at := int64(n.Times[filter.FromBlock]) - now.Unix()
	if want := int64(25 - node.SearchBack/time.Second); at != want {
		t.Errorf("searched from %d s, want %d s", at, want)
	}
	if asked := n.Asked["eth_getBlockByNumber"]; asked > 30 {
		t.Errorf("%d blocks were asked for", asked)
	}
}

// As long as a payment is open, its range does not grow: a node that searches no more
// blocks at a time than came since, and has no old ones, decides about it all the same.
func TestOutcomeOfAPaymentThatWasOpenForLong(t *testing.T) {
	const most = 500
	for name, tc := range map[string]struct {
		elsewhere uint64 // block with the transfer under another hash
		want      mpp.State
	}{
		"never mined": {0, mpp.Gone}, "mined under another hash": {4990, mpp.Settled},
	} {
		t.Run(name, func(t *testing.T) {
			n, m, p := newFake(t)
			n.Times = nil
			for i := range int64(9000) { // one a second, the last long after
				n.mine(i - 4980)
			}
			n.replace(p, tc.elsewhere)
			log := n.logs[0]
			last := uint64(0)
			n.Bend["eth_getLogs"] = func(params []json.RawMessage) any {
				var q struct{ FromBlock, ToBlock hexutil.Uint64 }
				json.Unmarshal(params[0], &q)
				if q.ToBlock-q.FromBlock >= most {
					return paytest.NodeError{Code: -32005, Text: "range too wide"}
				}
				last = max(last, uint64(q.ToBlock))
				if uint64(q.FromBlock) <= tc.elsewhere && tc.elsewhere <= uint64(q.ToBlock) {
					return []any{log}
				}
				return []any{}
			}
			n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
				number := hexutil.Uint64(len(n.Times) - 1)
				if json.Unmarshal(params[0], &number); number < 500 {
					return nil
				}
				return paytest.Block(uint64(number), n.Times[number])
			}
			if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != tc.want {
				t.Errorf("%v, %v: %s", got.State, err, got.Detail)
			}
			if tc.want == mpp.Gone && int64(n.Times[last]) != now.Unix()+26 {
				t.Errorf("searched until %d s", int64(n.Times[last])-now.Unix())
			}
		})
	}
}

// Between the two rounds of questions the chain may move on, or the answers
// may come from a node that is behind.
func TestOutcomeBetweenTheQuestions(t *testing.T) {
	t.Run("mined after all", func(t *testing.T) {
		n, m, p := newFake(t)
		n.mine(26, 27, 28)
		rounds := 0
		n.Bend["eth_getTransactionReceipt"] = func([]json.RawMessage) any {
			if rounds++; rounds == 1 {
				return nil
			}
			return paidReceipt(p, 9)
		}
		if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Settled {
			t.Errorf("%v, %v", got.State, err)
		}
	})
	// The logs come from the one, or the receipt.
	for _, round := range []int{2, 3} {
		t.Run(fmt.Sprintf("another node, behind, in round %d", round), func(t *testing.T) {
			n, m, p := newFake(t)
			n.mine(26, 27, 28)
			rounds := 0
			n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
				number := hexutil.Uint64(12)
				if json.Unmarshal(params[0], &number); string(params[0]) == `"latest"` {
					if rounds++; rounds == round {
						number = 9
					}
				}
				return paytest.Block(uint64(number), n.Times[number])
			}
			if got, err := m.Outcome(t.Context(), p, time.Time{}); !isUnavailable(err) {
				t.Errorf("%v, %v", got.State, err)
			}
			if got, err := m.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Gone {
				t.Errorf("once it is there: %v, %v", got.State, err)
			}
		})
	}
}

// A node that has just the blocks that are searched may have them on a branch that was
// left, without the transfer.
func TestOutcomeFromANodeOnALeftBranch(t *testing.T) {
	for newest, deep := range map[int]bool{11: false, 12: false, 13: true} {
		n, m, p := newFake(t)
		n.mine(24, 26, 27, 28, 29, 30) // searched until block 11; 13 is deep
		n.replace(p, 10)
		log := n.logs[0]
		// The batch with the logs is the second that begins with this.
		batch, behind := 0, false
		n.Bend["eth_chainId"] = func([]json.RawMessage) any {
			batch++
			behind = batch == 2
			return hexutil.Uint64(42431)
		}
		n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
			number := hexutil.Uint64(len(n.Times) - 1)
			if json.Unmarshal(params[0], &number); string(params[0]) == `"latest"` && behind {
				number = hexutil.Uint64(newest)
			}
			return paytest.Block(uint64(number), n.Times[number])
		}
		n.Bend["eth_getLogs"] = func([]json.RawMessage) any {
			if behind && !deep {
				return []any{}
			}
			return []any{log}
		}
		got, err := m.Outcome(t.Context(), p, time.Time{})
		if isUnavailable(err) == deep || (got.State == mpp.Settled) != deep {
			t.Errorf("newest block %d: %v, %v: %s", newest, got.State, err, got.Detail)
		}
	}
}

// A node that has forgotten the receipts of the time of a payment, as pruned ones do,
// finds no logs of then either, and says nothing about it. It may have the headers.
func TestOutcomeFromANodeWithoutOldReceipts(t *testing.T) {
	for kept, unavailable := range map[int]bool{0: false, 10: true, 20: true} {
		n, m, p := newFake(t)
		n.beBusy(kept)
		for i := range int64(20) {
			n.mine(26 + i)
		}
		got, err := m.Outcome(t.Context(), p, time.Time{})
		if isUnavailable(err) != unavailable || !unavailable && got.State != mpp.Gone {
			t.Errorf("receipts from block %d on: %v, %v: %s", kept, got.State, err, got.Detail)
		}
		// Nor is a payment of long ago taken to be none when nothing else is known of it.
		n.mine(926, 927, 928)
		got, err = m.Outcome(t.Context(), p, now)
		if isUnavailable(err) != unavailable || !unavailable && got.State != mpp.Gone {
			t.Errorf("receipts from block %d on, long ago: %v, %v: %s", kept, got.State, err, got.Detail)
		}
	}
}

// What a node says of a transaction that nothing else is known of.
func TestSeen(t *testing.T) {
	for name, c := range map[string]struct {
		mined []int64
		spoil func(*fakeNode, mpp.Payment)
		want  mpp.State
	}{
		"not yet":            {nil, func(*fakeNode, mpp.Payment) {}, mpp.Pending},
		"over, and not deep": {[]int64{26, 27}, func(*fakeNode, mpp.Payment) {}, mpp.Pending},
		"over":               {[]int64{26, 27, 28}, func(*fakeNode, mpp.Payment) {}, mpp.Gone},
		"mined":              {nil, func(n *fakeNode, p mpp.Payment) { n.receipt = paidReceipt(p, 9) }, mpp.Settled},
		"mined and reverted": {nil, func(n *fakeNode, p mpp.Payment) {
			n.receipt = with(paidReceipt(p, 9), func(r fields, _ []fields) { r["status"] = "0x0" })
		}, mpp.Failed},
		"mined, and diverted": {nil, func(n *fakeNode, p mpp.Payment) {
			n.receipt = with(paidReceipt(p, 9), func(r fields, _ []fields) { r["logs"] = []fields{} })
		}, mpp.Mismatched},
	} {
		n, m, p := newFake(t)
		n.mine(c.mined...)
		c.spoil(n, p)
		if got, err := m.Outcome(t.Context(), p, now); err != nil || got.State != c.want {
			t.Errorf("%s: %v, %v: %s; want %v", name, got.State, err, got.Detail, c.want)
		}
	}
}

// What cannot be true is not believed: no verdict comes of it, for any of the
// questions.
func TestNonsenseOfTheNodeIsUnavailable(t *testing.T) {
	receipt := func(change func(fields, []fields)) func(*fakeNode, mpp.Payment) {
		return func(n *fakeNode, p mpp.Payment) { n.receipt = with(paidReceipt(p, 9), change) }
	}
	for name, spoil := range map[string]func(*fakeNode, mpp.Payment){
		"another chain": func(n *fakeNode, _ mpp.Payment) { n.bendTo("eth_chainId", "0x1") },
		"no chain id": func(n *fakeNode, _ mpp.Payment) {
			n.bendTo("eth_chainId", paytest.NodeError{Code: -32000, Text: "busy"})
		},
		"chain id no number": func(n *fakeNode, _ mpp.Payment) { n.bendTo("eth_chainId", "many") },
		"no newest block":    func(n *fakeNode, _ mpp.Payment) { n.bendTo("eth_getBlockByNumber", nil) },
		"block without time": func(n *fakeNode, _ mpp.Payment) {
			n.bendTo("eth_getBlockByNumber", fields{"number": "0x1", "hash": paytest.BlockHash(1)})
		},
		"receipt refused": func(n *fakeNode, _ mpp.Payment) {
			n.bendTo("eth_getTransactionReceipt", paytest.NodeError{Code: -32000, Text: "busy"})
		},
		"receipt no object":          func(n *fakeNode, _ mpp.Payment) { n.receipt = 7 },
		"receipt empty":              func(n *fakeNode, _ mpp.Payment) { n.receipt = fields{} },
		"another transaction's":      receipt(func(r fields, _ []fields) { r["transactionHash"] = paytest.BlockHash(1) }),
		"another sender's":           receipt(func(r fields, _ []fields) { r["from"] = stranger }),
		"status 2":                   receipt(func(r fields, _ []fields) { r["status"] = "0x2" }),
		"no status":                  receipt(func(r fields, _ []fields) { delete(r, "status") }),
		"no block":                   receipt(func(r fields, _ []fields) { delete(r, "blockNumber") }),
		"another transaction's logs": receipt(func(_ fields, logs []fields) { logs[2]["transactionHash"] = paytest.BlockHash(1) }),
		"mined, without a receipt": func(n *fakeNode, p mpp.Payment) {
			n.mine(26, 27, 28)
			n.bendTo("eth_getTransactionByHash", fields{"hash": p.Reference, "blockNumber": "0x9"})
		},
		"logs refused": func(n *fakeNode, _ mpp.Payment) {
			n.mine(26, 27, 28)
			n.bendTo("eth_getLogs", paytest.NodeError{Code: -32005, Text: "range too wide"})
		},
		"an old block missing": func(n *fakeNode, _ mpp.Payment) {
			n.mine(26, 27, 28)
			n.Bend["eth_getBlockByNumber"] = func(params []json.RawMessage) any {
				if string(params[0]) == `"latest"` {
					return paytest.Block(12, n.Times[12])
				}
				return nil
			}
		},
	} {
		n, m, p := newFake(t)
		spoil(n, p)
		if got, err := m.Outcome(t.Context(), p, time.Time{}); !isUnavailable(err) || got.State != mpp.Pending {
			t.Errorf("%s: %v, %v", name, got.State, err)
		}
	}
}

// Transport failures say nothing either, and their text carries neither the
// node's address nor the transaction.
func TestSilentAndBrokenNodes(t *testing.T) {
	hang := make(chan struct{})
	// Signed transactions go to the node that was configured and nowhere else.
	honest, _, _ := newFake(t)
	elsewhere := httptest.NewServer(honest)
	defer elsewhere.Close()
	for name, handler := range map[string]http.HandlerFunc{
		"500":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 500) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"wrong ids": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `[{"jsonrpc":"2.0","id":999,"result":"0xa5bf"}]`)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `["`, strings.Repeat("a", node.MaxAnswer), `"]`)
		},
		"silent":     func(_ http.ResponseWriter, r *http.Request) { <-hang },
		"empty":      func(http.ResponseWriter, *http.Request) {},
		"empty list": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			if name == "silent" {
				defer close(hang)
			}
			m := newMethod(t, Config{RPC: server.URL + "/secret-key", Currency: token, Recipient: recipient, Timeout: 200 * time.Millisecond})
			p, err := take(m, wallet(7).Pay(challenge(t, m)), now)
			if err != nil {
				t.Fatal(err)
			}
			_, outcome := m.Outcome(t.Context(), p, time.Time{})
			_, clock := m.Clock(t.Context())
			for _, err := range []error{outcome, clock, m.Simulate(t.Context(), p)} {
				if !isUnavailable(err) {
					t.Errorf("%v is not ErrUnavailable", err)
				} else if strings.Contains(err.Error(), "secret-key") {
					t.Errorf("the error names the node: %v", err)
				}
			}
			got, err := m.Broadcast(t.Context(), p, nil)
			if err != nil || got.State != mpp.Pending || got.Detail == "" || strings.Contains(got.Detail, "secret-key") {
				t.Errorf("broadcast: %v, %v: %s", got.State, err, got.Detail)
			}
		})
	}
}

func TestBroadcast(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*fakeNode, mpp.Payment)
		want  mpp.State
	}{
		{"mined and paid", func(n *fakeNode, p mpp.Payment) { n.bendTo("eth_sendRawTransactionSync", paidReceipt(p, 9)) }, mpp.Settled},
		{"38: mined and reverted", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_sendRawTransactionSync", with(paidReceipt(p, 9), func(r fields, _ []fields) { r["status"] = "0x0" }))
		}, mpp.Pending},
		{"39: mined elsewhere", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_sendRawTransactionSync", with(paidReceipt(p, 9), func(r fields, _ []fields) { r["logs"] = []fields{} }))
		}, mpp.Pending},
		{"without the synchronous method", func(n *fakeNode, p mpp.Payment) { n.bendTo("eth_sendRawTransaction", p.Reference) }, mpp.Pending},
		{"without any method", func(*fakeNode, mpp.Payment) {}, mpp.Pending},
		{"known already", func(n *fakeNode, _ mpp.Payment) {
			n.bendTo("eth_sendRawTransactionSync", paytest.NodeError{Code: -32003, Text: "already imported"})
		}, mpp.Pending},
		{"refused", func(n *fakeNode, _ mpp.Payment) {
			n.bendTo("eth_sendRawTransactionSync", paytest.NodeError{Code: -32000, Text: "expired"})
		}, mpp.Pending},
		{"null", func(n *fakeNode, _ mpp.Payment) { n.bendTo("eth_sendRawTransactionSync", nil) }, mpp.Pending},
		{"another's receipt", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_sendRawTransactionSync", with(paidReceipt(p, 9), func(r fields, _ []fields) { r["transactionHash"] = paytest.BlockHash(1) }))
		}, mpp.Pending},
	} {
		n, m, p := newFake(t)
		tc.spoil(n, p)
		got, err := m.Broadcast(t.Context(), p, nil)
		if err != nil || got.State != tc.want || got.Deep || got.Detail == "" {
			t.Errorf("%s: %v, %v: %s", tc.name, got.State, err, got.Detail)
		}
		if n.Asked["eth_sendRawTransaction"] != 0 && n.Bend["eth_sendRawTransactionSync"] != nil {
			t.Errorf("%s: sent by the other method as well", tc.name)
		}
	}
}

// A record that was damaged, or that belongs to another chain, leads to no
// question and no verdict.
func TestDamagedRecordsAreErrors(t *testing.T) {
	n, m, good := newFake(t)
	elsewhere := newMethod(t, Config{ChainID: 4217, Currency: token, Recipient: recipient})
	for name, p := range map[string]mpp.Payment{
		"no bytes":      {Reference: good.Reference},
		"other bytes":   {Reference: good.Reference, Raw: append([]byte(nil), good.Raw[:len(good.Raw)-1]...)},
		"other hash":    {Reference: paytest.BlockHash(1).Hex(), Raw: good.Raw},
		"not canonical": {Reference: good.Reference, Raw: append(good.Raw[:len(good.Raw):len(good.Raw)], 0)},
	} {
		_, outcome := m.Outcome(context.Background(), p, time.Time{})
		_, broadcast := m.Broadcast(context.Background(), p, nil)
		for _, err := range []error{outcome, broadcast, m.Simulate(context.Background(), p)} {
			if err == nil || isUnavailable(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := elsewhere.Outcome(t.Context(), good, time.Time{}); err == nil || isUnavailable(err) {
		t.Errorf("another chain's record: %v", err)
	}
	if len(n.Asked) != 0 {
		t.Errorf("the node was asked: %v", n.Asked)
	}
}

func TestNewRefusesHalfAConfiguration(t *testing.T) {
	good := Config{RPC: "http://127.0.0.1:1", ChainID: 1, Currency: token, Recipient: recipient}
	if m, err := New(good); err != nil || m.Name() != "tempo" || m.Network() != "tempo:1" {
		t.Errorf("New: %v", err)
	}
	for name, spoil := range map[string]func(*Config){
		"no node": func(c *Config) { c.RPC = "" }, "a file": func(c *Config) { c.RPC = "/tmp/node.ipc" },
		"a socket": func(c *Config) { c.RPC = "ws://127.0.0.1:1" }, "no chain": func(c *Config) { c.ChainID = 0 },
		"no currency": func(c *Config) { c.Currency = common.Address{} }, "no recipient": func(c *Config) { c.Recipient = common.Address{} },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
