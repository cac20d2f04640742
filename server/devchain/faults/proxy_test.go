package faults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"webring/server/devchain/faults"
)

// node answers each call with how often it was asked.
func node(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var calls []struct {
			ID     int
			Method string
		}
		json.Unmarshal(body, &calls)
		n := asked.Add(1)
		var answers []map[string]any
		for _, c := range calls {
			var result any = n
			if c.Method == "eth_getTransactionReceipt" {
				result = map[string]any{"blockHash": "0x01", "transactionHash": "0x02", "status": "0x1"}
			}
			if c.Method == "eth_getBlockByNumber" {
				result = map[string]any{"number": "0x2", "timestamp": "0x1"}
			}
			answers = append(answers, map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": result})
		}
		json.NewEncoder(w).Encode(answers)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// Each fault does what its comment says, and reaches the node or not.
func TestFaults(t *testing.T) {
	const batch = `[{"id":1,"method":"eth_blockNumber","params":[]},{"id":22,"method":"eth_getTransactionReceipt","params":["0x02"]}]`
	for _, c := range []struct {
		fault   faults.Fault
		body    string
		reaches int64
		want    string // "": no answer
	}{
		{faults.None, batch, 1, `[{"jsonrpc":"2.0","id":1,"result":2},{"jsonrpc":"2.0","id":22,"result":{"blockHash":"0x01","status":"0x1","transactionHash":"0x02"}}]`},
		{faults.Delay, batch, 1, `[{"jsonrpc":"2.0","id":1,"result":2},{"jsonrpc":"2.0","id":22,"result":{"blockHash":"0x01","status":"0x1","transactionHash":"0x02"}}]`},
		{faults.DropBefore, batch, 0, ""},
		{faults.DropAfter, batch, 1, ""},
		{faults.Unwell, batch, 0, "<html><body>The node is unwell.</body></html>"},
		{faults.Garbage, batch, 1, `[{"id":1,"jsonrpc":"2.0","result":2},{"id":22,"jsonrpc":"2.0","result"`},
		{faults.Stale, batch, 0, `[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":22,"result":{"blockHash":"0x01","status":"0x1","transactionHash":"0x02"}}]`},
		{faults.Reordered, batch, 1, `[{"jsonrpc":"2.0","id":22,"result":{"blockHash":"0x01","status":"0x1","transactionHash":"0x02"}},{"jsonrpc":"2.0","id":1,"result":2}]`},
		{faults.NoReceipt, batch, 1, `[{"jsonrpc":"2.0","id":1,"result":2},{"jsonrpc":"2.0","id":22,"result":null}]`},
		{faults.Swallow, `[{"id":3,"method":"eth_sendRawTransaction","params":["0x"]}]`, 0, `[{"jsonrpc":"2.0","id":3,"result":"0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"}]`},
		{faults.WrongChain, `[{"id":3,"method":"eth_chainId","params":[]}]`, 1, `[{"jsonrpc":"2.0","id":3,"result":"0x2a"}]`},
		{faults.Ahead, `[{"id":3,"method":"eth_getBlockByNumber","params":["latest",false]}]`, 1, `[{"jsonrpc":"2.0","id":3,"result":{"number":"0x2","timestamp":"0x1e13381"}}]`},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			url, asked := node(t)
			p, err := faults.New(url)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			post := func(body string) string {
				res, err := http.Post(p.URL, "application/json", bytes.NewReader([]byte(body)))
				if err != nil {
					return ""
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				if err != nil {
					return ""
				}
				return string(bytes.TrimSpace(text))
			}
			post(batch) // so that there is something to be stale
			before := asked.Load()
			p.Follow(faults.All(c.fault))
			got := post(c.body)
			if n := asked.Load() - before; n != c.reaches {
				t.Errorf("the node was asked %d times, want %d", n, c.reaches)
			}
			if c.fault == faults.Garbage {
				if json.Valid([]byte(got)) || got == "" {
					t.Errorf("%s is no garbage", got)
				}
			} else if same(got) != same(c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p.Count(c.fault) < 1 {
				t.Errorf("not counted: %s", p.Summary())
			}
		})
	}
}

// same spells JSON in one way.
func same(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return fmt.Sprint(v)
}
