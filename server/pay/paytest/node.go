package paytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
)

// Fields are a JSON object that a node answers with.
type Fields = map[string]any

// NodeError is answered as an error of JSON-RPC. Other errors are answered with code 3.
type NodeError struct {
	Code int
	Text string
}

func (e NodeError) Error() string { return e.Text }

// Node is a node whose every answer a test can bend. Block n has the timestamp Times[n]; the last is
// the newest. Bend has answers by method: a value, an error, or a function of the parameters. Answer,
// when given, answers the methods that are neither bent nor known here.
type Node struct {
	sync.Mutex
	Chain  uint64
	Times  []uint64
	Bend   map[string]any
	Asked  map[string]int
	Answer func(method string, params []json.RawMessage) any
}

// NewNode makes a node without blocks.
func NewNode(chain uint64) *Node {
	return &Node{Chain: chain, Bend: Fields{}, Asked: map[string]int{}}
}

// ServeHTTP implements [http.Handler].
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.Lock()
	defer n.Unlock()
	ReadCalls(r).Answer(w, n.answer)
}

func (n *Node) answer(method string, params []json.RawMessage) any {
	n.Asked[method]++
	bent, ok := n.Bend[method]
	if f, bends := bent.(func([]json.RawMessage) any); bends {
		return f(params)
	}
	switch {
	case ok:
		return bent
	case method == "eth_chainId":
		return hexutil.Uint64(n.Chain)
	case method == "eth_getBlockByNumber":
		return n.Block(params)
	case n.Answer != nil:
		return n.Answer(method, params)
	}
	return nil
}

// Block is what n answers to eth_getBlockByNumber unless that is bent.
func (n *Node) Block(params []json.RawMessage) any {
	number := hexutil.Uint64(len(n.Times) - 1)
	if string(params[0]) != `"latest"` && json.Unmarshal(params[0], &number) != nil || int(number) >= len(n.Times) {
		return nil
	}
	return Block(uint64(number), n.Times[number])
}

// Block is one as a node shows it, and BlockHash its hash.
func Block(number, at uint64) Fields {
	return Fields{"number": hexutil.Uint64(number), "hash": BlockHash(number), "timestamp": hexutil.Uint64(at), "baseFeePerGas": "0x7"}
}

func BlockHash(number uint64) common.Hash {
	return common.BigToHash(new(big.Int).SetUint64(number + 0xb10c))
}

// Calls are the questions of a request.
type Calls struct {
	List []struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	single bool
}

// ReadCalls reads one question, or a batch.
func ReadCalls(r *http.Request) (c Calls) {
	body, _ := io.ReadAll(r.Body)
	if c.single = !bytes.HasPrefix(body, []byte("[")); c.single {
		body = slices.Concat([]byte("["), body, []byte("]"))
	}
	if err := json.Unmarshal(body, &c.List); err != nil {
		panic("paytest: no question of JSON-RPC")
	}
	return c
}

// Answer answers the questions in order.
func (c Calls) Answer(w http.ResponseWriter, answer func(method string, params []json.RawMessage) any) {
	var replies []any
	for _, q := range c.List {
		reply := Fields{"jsonrpc": "2.0", "id": q.ID}
		result := answer(q.Method, q.Params)
		if err, failed := result.(error); failed {
			code := 3
			if e, ok := errors.AsType[NodeError](err); ok {
				code = e.Code
			}
			reply["error"] = Fields{"code": code, "message": err.Error()}
		} else {
			reply["result"] = result
		}
		replies = append(replies, reply)
	}
	w.Header().Set("Content-Type", "application/json")
	if c.single {
		json.NewEncoder(w).Encode(replies[0])
	} else {
		json.NewEncoder(w).Encode(replies)
	}
}

// Challenge is a fresh one of a method for 1.00, signed with a key of zeros.
func Challenge(t testing.TB, m interface {
	Name() string
	Request(cents int64) (string, error)
}, expires time.Time) mpp.Challenge {
	t.Helper()
	request, err := m.Request(100)
	if err != nil {
		t.Fatal(err)
	}
	issued.Lock()
	issued.n++
	opaque, err := mpp.EncodeJSON(map[string]int{"n": issued.n})
	issued.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	c := mpp.Challenge{Realm: "ring.example", Method: m.Name(), Intent: mpp.Charge, Request: request, Opaque: opaque, Expires: expires.UTC().Format(time.RFC3339)}
	mpp.Keys{Current: make([]byte, mpp.MinKey)}.Sign(&c)
	return c
}

var issued struct {
	sync.Mutex
	n int
}

// Take is what the service asks a method about a credential, without a network.
func Take(m interface {
	Decode(mpp.Credential) (mpp.Payment, error)
	InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection
}, c mpp.Credential, now time.Time) (mpp.Payment, error) {
	p, err := m.Decode(c)
	if err != nil {
		return mpp.Payment{}, err
	}
	if p.Binding == "" {
		return mpp.Payment{}, errors.New("paytest: nothing binds the payment to its event")
	}
	expires, err := c.Challenge.ExpiresAt()
	if err != nil {
		return mpp.Payment{}, err
	}
	if no := m.InTime(p, now, expires); no != nil {
		return mpp.Payment{}, no
	}
	return p, nil
}
