package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

var (
	token     = common.HexToAddress("0x0000000000000000000000000000000000000a11")
	recipient = common.HexToAddress("0x0000000000000000000000000000000000000b22")
	payer     = common.HexToAddress("0x0000000000000000000000000000000000000c33")
)

// chain is a node with one block a second, which mined some transfers.
type chain struct {
	height    uint64
	oldest    uint64 // block that it still has
	spoken    bool   // says of others that it has dropped them, and not just null
	receipts  uint64 // block from which on it still has receipts and logs
	behind    uint64 // blocks that it lacks when it is asked for logs
	most      uint64 // blocks that one search may cover
	busy      int    // searches that it refuses
	silent    bool
	unlisted  bool   // finds no transaction by its hash
	others    uint64 // a block in so many has a transaction of others, if not 0
	transfers []transfer
	named     []named
	asked     int // for these
	searches  int
	longest   uint64 // of these, in blocks
}

// transfer is one log.
type transfer struct {
	block uint64
	tx    common.Hash
	to    common.Address
	units int64
}

// named is a log that names a payment.
type named struct {
	block  uint64
	tx     common.Hash
	topics []common.Hash
}

func (c *chain) log(t transfer) map[string]any {
	return map[string]any{"address": token, "transactionHash": t.tx, "blockNumber": hexutil.Uint64(t.block),
		"topics": []common.Hash{node.TransferTopic, common.BytesToHash(payer[:]), common.BytesToHash(t.to[:])},
		"data":   common.BytesToHash(big.NewInt(t.units).Bytes())}
}

var errDropped = paytest.NodeError{Code: 4444, Text: "pruned history unavailable"}

func blockOf(n uint64) map[string]any {
	return map[string]any{"number": hexutil.Uint64(n), "hash": common.BigToHash(new(big.Int).SetUint64(n + 1)), "timestamp": hexutil.Uint64(1_000_000 + n)}
}

func (c *chain) answer(method string, params []json.RawMessage) any {
	switch method {
	case "eth_chainId":
		return "0x7"
	case "eth_getBlockByNumber":
		n := hexutil.Uint64(c.height)
		if string(params[0]) != `"latest"` {
			_ = json.Unmarshal(params[0], &n)
		}
		if uint64(n) < c.oldest && c.spoken {
			return errDropped
		}
		if uint64(n) < c.oldest || uint64(n) > c.height {
			return nil
		}
		b := blockOf(uint64(n))
		if c.others > 0 && uint64(n)%c.others == 0 {
			b["transactions"] = []any{b["hash"]}
		}
		return b
	case "eth_getLogs":
		c.searches++
		var q struct {
			FromBlock, ToBlock hexutil.Uint64
			Topics             []any
		}
		_ = json.Unmarshal(params[0], &q)
		c.longest = max(c.longest, uint64(q.ToBlock-q.FromBlock)+1)
		if c.busy--; c.busy >= 0 {
			return errors.New("too many requests")
		}
		if uint64(q.ToBlock-q.FromBlock)+1 > c.most {
			return errors.New("range too large")
		}
		if uint64(q.FromBlock) < c.oldest {
			return errors.New("pruned")
		}
		logs := []any{}
		if q.Topics[0] != node.TransferTopic.Hex() {
			c.asked++
			for _, n := range c.named {
				if n.block >= uint64(q.FromBlock) && n.block <= uint64(q.ToBlock) && q.Topics[0] == n.topics[0].Hex() {
					logs = append(logs, map[string]any{"address": token, "transactionHash": n.tx, "blockNumber": hexutil.Uint64(n.block), "topics": n.topics})
				}
			}
			return logs
		}
		for _, t := range c.transfers {
			if t.block >= max(c.receipts, uint64(q.FromBlock)) && t.block <= uint64(q.ToBlock) {
				logs = append(logs, c.log(t))
			}
		}
		return logs
	case "eth_getTransactionByHash":
		if c.unlisted {
			return errors.New("no index of transactions")
		}
		var hash common.Hash
		_ = json.Unmarshal(params[0], &hash)
		for _, t := range c.transfers {
			if t.tx == hash {
				return map[string]any{"hash": hash, "blockNumber": hexutil.Uint64(t.block)}
			}
		}
	case "eth_getTransactionReceipt":
		var hash common.Hash
		_ = json.Unmarshal(params[0], &hash)
		if n := hash.Big().Uint64() - 1; c.others > 0 && n%c.others == 0 && n >= c.receipts && n <= c.height {
			return map[string]any{}
		}
		var logs []any
		var at uint64
		for _, t := range c.transfers {
			if t.tx == hash && t.block >= c.receipts {
				logs, at = append(logs, c.log(t)), t.block
			}
		}
		if logs == nil {
			return nil
		}
		return map[string]any{"transactionHash": hash, "blockHash": blockOf(at)["hash"], "blockNumber": hexutil.Uint64(at), "status": "0x1", "logs": logs}
	}
	return nil
}

func (c *chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.silent {
		panic(http.ErrAbortHandler)
	}
	calls := paytest.ReadCalls(r)
	if calls.List[len(calls.List)-1].Method == "eth_getLogs" {
		c.height -= c.behind
		defer func() { c.height += c.behind }()
	}
	calls.Answer(w, c.answer)
}

func open(t *testing.T) (*chain, node.Payments) {
	t.Helper()
	c := &chain{height: 5000, most: 300}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	n, err := node.Dial(server.URL, 7, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return c, node.Payments{Node: n, Token: token, Recipient: recipient, Depth: 2}
}

func at(block uint64) time.Time { return time.Unix(1_000_000+int64(block), 0).UTC() }

// errEnough is what a receiver ends a search with.
var errEnough = errors.New("enough")

// Transfers are found in deep blocks only, by transaction, in whole cents, also
// when the node takes only short ranges.
func TestTransfersAreFound(t *testing.T) {
	c, p := open(t)
	one, two, three, four, five := common.Hash{1}, common.Hash{2}, common.Hash{3}, common.Hash{4}, common.Hash{5}
	c.transfers = []transfer{
		{99, five, recipient, 1_000_000},              // before the instant asked for
		{100, one, recipient, 1_000_000},              // in the first block
		{2500, two, recipient, 1_009_999},             // not whole cents
		{2500, two, recipient, 500_000},               // twice in one transaction
		{2501, three, recipient, 9_999},               // less than a cent
		{4998, four, recipient, 20_000},               // just deep
		{4999, common.Hash{6}, recipient, 30_000_000}, // not deep yet
	}
	var got []string
	until, err := p.Transfers(t.Context(), at(100), func(x mpp.Transfer) error {
		got = append(got, fmt.Sprint(x.Reference[:4], x.Payer, " ", x.Cents, " ", x.At.Equal(at(100)) || x.At.Equal(at(2500)) || x.At.Equal(at(4998))))
		return nil
	})
	want := "[0x01did:pkh:eip155:7:" + fmt.Sprintf("%#x", payer[:]) + " 100 true 0x02did:pkh:eip155:7:" + fmt.Sprintf("%#x", payer[:]) + " 150 true 0x04did:pkh:eip155:7:" + fmt.Sprintf("%#x", payer[:]) + " 2 true]"
	if err != nil || fmt.Sprint(got) != want || !until.Equal(at(4998)) {
		t.Errorf("%v until %v, %v\nwant %s", got, until, err, want)
	}
	if c.searches < 4900/300 || c.searches > 65 {
		t.Errorf("%d searches", c.searches)
	}
	c.searches = 0
	if _, err := p.Transfers(t.Context(), at(100), func(mpp.Transfer) error { return errEnough }); !errors.Is(err, errEnough) || c.searches > 5 {
		t.Errorf("who had enough got %v after %d searches", err, c.searches)
	}
	none := func(x mpp.Transfer) error { t.Errorf("found %+v", x); return nil }
	if until, err := p.Transfers(t.Context(), at(6000), none); err != nil || !until.Equal(at(6000)) {
		t.Errorf("%v, %v", until, err)
	}
	c.silent = true
	if _, err := p.Transfers(t.Context(), at(100), none); !errors.Is(err, mpp.ErrUnavailable) {
		t.Errorf("a silent node: %v", err)
	}
}

// Transfers come with the payments that the token names in their transactions.
func TestBoundTransfers(t *testing.T) {
	one, two, memo := common.Hash{1}, common.Hash{2}, common.Hash{0x5a}
	from, to := common.BytesToHash(payer[:]), common.BytesToHash(recipient[:])
	for method, logs := range map[string][2][]common.Hash{
		"tempo": {{node.MemoTopic, from, to, memo}, {node.MemoTopic, from, from, memo}},
		"evm":   {{node.UsedTopic, from, memo}, {node.UsedTopic, from}},
	} {
		c, p := open(t)
		p.Method = method
		c.transfers = []transfer{{1000, one, recipient, 1_000_000}, {4000, two, recipient, 1_000_000}}
		c.named = []named{{1000, one, logs[0]}, {4000, one, logs[0]}, {4000, two, logs[1]}}
		found := map[string][]mpp.Bound{}
		_, err := p.Transfers(t.Context(), at(100), func(x mpp.Transfer) error { found[x.Reference] = x.Bound; return nil })
		want := map[string][]mpp.Bound{one.Hex(): {{Payer: p.Payer(payer), Binding: memo.Hex()}}, two.Hex(): nil}
		if err != nil || !reflect.DeepEqual(found, want) || c.asked != 2 {
			t.Errorf("%s: %v, %v, asked %d times", method, found, err, c.asked)
		}
	}
}

// A node need not have blocks that are much older than what it is asked about.
func TestTransfersAreFoundOnANodeWithoutOldBlocks(t *testing.T) {
	for _, spoken := range []bool{false, true} {
		c, p := open(t)
		c.spoken, c.oldest, c.transfers = spoken, 3000, []transfer{{4500, common.Hash{1}, recipient, 1_000_000}}
		for since, found := range map[uint64]int{4990: 0, 4501: 0, 4500: 1, 4400: 1, 4000: 1, 3500: 1, 3001: 1} {
			n := 0
			if _, err := p.Transfers(t.Context(), at(since), func(mpp.Transfer) error { n++; return nil }); err != nil || n != found {
				t.Errorf("since block %d: %d found, %v", since, n, err)
			}
		}
		// Of what it had before, nothing is said.
		for _, since := range []uint64{3000, 2999, 2000, 0} {
			if until, err := p.Transfers(t.Context(), at(since), func(mpp.Transfer) error { return nil }); !errors.Is(err, mpp.ErrUnavailable) {
				t.Errorf("since block %d: until %v, %v", since, until, err)
			}
		}
	}
}

// What a node without the receipts of then finds no transfers in was not searched. Where
// nobody used the chain, it need not show that it has them.
func TestTransfersAreNotFoundOnANodeWithoutOldReceipts(t *testing.T) {
	for _, tc := range []struct {
		others, since uint64
		err           error
	}{
		{1, 3000, nil}, {1, 3001, nil}, {1, 2999, mpp.ErrUnavailable}, {1, 1000, mpp.ErrUnavailable},
		{20, 2981, nil}, {20, 2980, mpp.ErrUnavailable}, {20, 2970, mpp.ErrUnavailable},
		{500, 2500, mpp.ErrUnavailable}, {500, 2501, nil}, {500, 2468, mpp.ErrUnavailable}, {500, 2467, nil}, {0, 1000, nil},
	} {
		c, p := open(t)
		c.receipts, c.others = 3000, tc.others
		until, err := p.Transfers(t.Context(), at(tc.since), func(mpp.Transfer) error { t.Error("found"); return nil })
		if !errors.Is(err, tc.err) || until.IsZero() == (tc.err == nil) {
			t.Errorf("transactions in one block of %d, since block %d: until %v, %v", tc.others, tc.since, until, err)
		}
	}
	// Nor was what is before the first that it finds: the scan must not continue from there.
	c, p := open(t)
	c.receipts, c.others, c.transfers = 3000, 1, []transfer{{3050, common.Hash{1}, recipient, 1_000_000}}
	for since, want := range map[uint64]error{3000: errEnough, 2900: mpp.ErrUnavailable} {
		if _, err := p.Transfers(t.Context(), at(since), func(mpp.Transfer) error { return errEnough }); !errors.Is(err, want) {
			t.Errorf("since block %d: who had enough got %v", since, err)
		}
	}
}

// A node that refused some searches is not asked about single blocks from then on, and
// one with a limit is seldom asked for more.
func TestSearchesGrowAgain(t *testing.T) {
	for _, tc := range []struct {
		busy         int
		height, most uint64
		searches     int
	}{{10, 5000, 50_000, 160}, {1, 100_000, 50_000, 70}, {0, 100_000, 1000, 110}} {
		c, p := open(t)
		c.busy, c.height, c.most = tc.busy, tc.height, tc.most
		_, err := p.Transfers(t.Context(), at(1), func(mpp.Transfer) error { return nil })
		if err != nil || c.searches > tc.searches || c.longest > 2000 {
			t.Errorf("%+v: %d searches of up to %d blocks, %v", tc, c.searches, c.longest, err)
		}
	}
}

// The first block of an instant is found on chains of any length, from any block on.
func TestFirstSince(t *testing.T) {
	c, p := open(t)
	for _, last := range []uint64{0, 1, 2, 63, 64, 65, 127, 128, 129, 200, 5000} {
		c.height = last
		for _, want := range []uint64{0, 1, 2, 62, 63, 64, 65, 66, 127, 128, 136, 1000, 4935, 4936, 4937, 5000} {
			if got, err := p.Node.FirstSince(t.Context(), last, at(want).Unix()); err != nil || got != min(want, last) {
				t.Errorf("of %d blocks, the first since block %d: %d, %v", last, want, got, err)
			}
		}
	}
}

// A node that has not all blocks of a search yet may answer it with what it has. What
// it lacks is not taken for empty.
func TestNodeThatIsBehindHasNotSearchedEverything(t *testing.T) {
	c, p := open(t)
	c.transfers = []transfer{{4500, common.Hash{1}, recipient, 1_000_000}}
	for behind, want := range map[uint64]error{0: nil, 2: nil, 3: mpp.ErrUnavailable} {
		c.behind = behind
		n := 0
		if _, err := p.Transfers(t.Context(), at(4000), func(mpp.Transfer) error { n++; return nil }); !errors.Is(err, want) || n != 1 {
			t.Errorf("%d blocks behind: %d found, %v", behind, n, err)
		}
	}
}

// What one transaction brought is said when its block is deep.
func TestReceivedByATransaction(t *testing.T) {
	c, p := open(t)
	c.transfers = []transfer{{4000, common.Hash{1}, recipient, 1_000_000}, {4000, common.Hash{1}, payer, 7_000_000},
		{4999, common.Hash{2}, recipient, 1_000_000}, {4000, common.Hash{3}, payer, 1_000_000}}
	for _, tc := range []struct {
		name, reference string
		cents           int64
		err             error
	}{
		{"paid", common.Hash{1}.Hex(), 100, nil},
		{"not deep", common.Hash{2}.Hex(), 0, mpp.ErrUnavailable},
		{"to somebody else", common.Hash{3}.Hex(), 0, mpp.ErrNoTransfer},
		{"unknown", common.Hash{9}.Hex(), 0, mpp.ErrNoTransfer},
		{"no hash", "0x12", 0, mpp.ErrNoTransfer},
	} {
		got, err := p.By(context.Background(), tc.reference)
		if !errors.Is(err, tc.err) || got.Cents != tc.cents {
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
	}
	c.receipts = 4001
	if _, err := p.By(context.Background(), common.Hash{1}.Hex()); !errors.Is(err, mpp.ErrUnavailable) {
		t.Errorf("from a node that keeps no receipts of then: %v", err)
	}
	// A receipt is enough; without one, silence about the transaction is no answer.
	c.receipts, c.unlisted = 0, true
	for reference, want := range map[common.Hash]error{{1}: nil, {9}: mpp.ErrUnavailable} {
		if _, err := p.By(context.Background(), reference.Hex()); !errors.Is(err, want) {
			t.Errorf("%s from a node that finds no transactions: %v", reference, err)
		}
	}
	c.unlisted = false
	earlier := node.Payments{Token: token, Recipient: payer}.Payee()
	if got, err := p.Received(context.Background(), earlier, common.Hash{3}.Hex()); err != nil || got.Cents != 100 {
		t.Errorf("to a payee of earlier: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "/", payer.Hex(), token.Hex() + "/0x1", token.Hex() + "/" + payer.Hex() + "/"} {
		if _, err := p.Received(context.Background(), bad, common.Hash{3}.Hex()); err == nil || errors.Is(err, mpp.ErrNoTransfer) {
			t.Errorf("%q is a payee", bad)
		}
	}
	c.silent = true
	if _, err := p.By(context.Background(), common.Hash{1}.Hex()); !errors.Is(err, mpp.ErrUnavailable) {
		t.Errorf("a silent node: %v", err)
	}
}
