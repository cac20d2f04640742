package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one way to spoil an exchange.
type Fault int

// The faults. Whatever is not said to stay away from the node reaches it.
const (
	None        Fault = iota
	Delay             // it arrives late
	DropBefore        // the connection ends, and the node never hears of it
	DropAfter         // the connection ends, after the node has done its work
	Unwell            // 503 with a page instead of an answer; the node never hears of it
	Garbage           // JSON that ends in the middle
	Confused          // an answer with the id of another question
	Stale             // the answer that the same request had before, if it had one
	Frozen            // the answer that the same request had last, if it had one
	Reordered         // answers of a batch in another order, which JSON-RPC allows
	Reorganised       // receipts that stand in another block than the chain's
	NoReceipt         // receipts that the node says it has not got
	Forged            // receipts of another transaction, with too little in them, or with no known status
	WrongChain        // the node says that it is on another chain
	Ahead             // blocks have times a year later than they were made
	Swallow           // transactions are answered with success and go nowhere
	Later             // transactions are held back and sent later; the requests get no answer
	faults            // how many there are
)

// Dull are the faults of a network and a node that never lies.
var Dull = []Fault{Delay, DropBefore, DropAfter, Unwell, Garbage, Reordered, Stale}

// Lies are those of a node that answers what is not so, in ways that can be
// seen through.
var Lies = []Fault{Confused, Reorganised, NoReceipt, Forged, WrongChain, Ahead}

var names = [faults]string{"none", "delay", "drop before", "drop after", "unwell", "garbage", "confused", "stale", "frozen", "reordered",
	"reorganised", "no receipt", "forged", "wrong chain", "ahead", "swallow", "later"}

// String is the fault's name.
func (f Fault) String() string { return names[f] }

// Plan says what happens to a request with these methods. It is called by one
// goroutine at a time.
type Plan func(methods []string) Fault

// Pass spoils nothing.
func Pass([]string) Fault { return None }

// On spoils requests that hold a method with this prefix.
func On(method string, f Fault) Plan {
	return func(methods []string) Fault {
		if slices.ContainsFunc(methods, func(m string) bool { return strings.HasPrefix(m, method) }) {
			return f
		}
		return None
	}
}

// Sends are the methods that send a transaction, as a beginning of their names.
const Sends = "eth_sendRawTransaction"

// All spoils everything.
func All(f Fault) Plan { return func([]string) Fault { return f } }

// Dice spoils one request in oneIn, each time in one of these ways.
func Dice(seed uint64, oneIn int, ways ...Fault) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	return func([]string) Fault {
		if random.IntN(oneIn) > 0 {
			return None
		}
		return ways[random.IntN(len(ways))]
	}
}

// Proxy is a JSON-RPC node that is another one's unreliable voice.
type Proxy struct {
	URL string

	node   string
	server *http.Server
	client *http.Client

	mu     sync.Mutex
	plan   Plan
	heard  func(method string, params json.RawMessage)
	before map[string][]byte // the first answers by request, without ids
	latest map[string][]byte // and the last ones
	count  [faults]int
	later  time.Duration
	wait   time.Duration
	held   sync.WaitGroup
}

// New starts a proxy before the node at this URL. It passes everything until it
// is told otherwise. End it with Close.
func New(node string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "http://" + listener.Addr().String(), node: node, plan: Pass, before: map[string][]byte{}, latest: map[string][]byte{},
		client: &http.Client{Timeout: time.Minute}, wait: 700 * time.Millisecond, later: 3 * time.Second}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go p.server.Serve(listener)
	return p, nil
}

// Close ends the proxy, and waits for what it still holds back.
func (p *Proxy) Close() {
	p.server.Close()
	p.held.Wait()
	p.client.CloseIdleConnections()
}

// Follow sets the plan from now on.
func (p *Proxy) Follow(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// Tell has heard called with each question, before anything becomes of it. It may be
// called concurrently.
func (p *Proxy) Tell(heard func(method string, params json.RawMessage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = heard
}

// Count is how often a fault has happened.
func (p *Proxy) Count(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[f]
}

// Summary names the faults that have happened, with their numbers.
func (p *Proxy) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var said []string
	for f, n := range p.count {
		if n > 0 {
			said = append(said, Fault(f).String()+" "+strconv.Itoa(n))
		}
	}
	return strings.Join(said, ", ")
}

// question is one JSON-RPC call.
type question struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// response is an answer to one.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// maxBody bounds what is read of a request or an answer, in bytes.
const maxBody = 8 << 20

// ServeHTTP takes one request to its end, whatever that is.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	questions, batch := parse[question](body)
	methods := make([]string, len(questions))
	for i, q := range questions {
		methods[i] = q.Method
	}
	p.mu.Lock()
	heard, f := p.heard, p.plan(methods)
	p.count[f]++
	p.mu.Unlock()
	for _, q := range questions {
		if heard != nil {
			heard(q.Method, q.Params)
		}
	}

	switch f {
	case DropBefore:
		panic(http.ErrAbortHandler)
	case Unwell:
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "<html><body>The node is unwell.</body></html>")
		return
	case Delay:
		time.Sleep(p.wait)
	case Swallow:
		if On(Sends, f)(methods) == f {
			write(w, batch, swallowed(questions))
			return
		}
	case Later:
		if On(Sends, f)(methods) == f {
			p.held.Go(func() {
				time.Sleep(p.later)
				p.ask(body)
			})
			panic(http.ErrAbortHandler)
		}
	case Stale, Frozen:
		if known := p.remembered(f, questions); known != nil {
			write(w, batch, known)
			return
		}
	}
	answer, err := p.ask(body)
	if err != nil || f == DropAfter {
		panic(http.ErrAbortHandler)
	}
	if f == Garbage {
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer[:len(answer)/2])
		return
	}
	answers, _ := parse[response](answer)
	p.remember(questions, answers)
	for i := range answers {
		answers[i] = bend(f, methodOf(questions, answers[i].ID), answers[i])
	}
	if f == Reordered {
		slices.Reverse(answers)
	}
	write(w, batch, answers)
}

// ask passes a request on.
func (p *Proxy) ask(body []byte) ([]byte, error) {
	res, err := p.client.Post(p.node, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, maxBody))
}

// parse reads one question or answer, or a batch of them. What is none reaches the node as it is.
func parse[T any](body []byte) (all []T, batch bool) {
	if batch = bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")); batch {
		_ = json.Unmarshal(body, &all)
		return all, true
	}
	var one T
	_ = json.Unmarshal(body, &one)
	return []T{one}, false
}

func write(w http.ResponseWriter, batch bool, answers []response) {
	w.Header().Set("Content-Type", "application/json")
	for i := range answers {
		if answers[i].Version = "2.0"; answers[i].Error == nil && answers[i].Result == nil {
			answers[i].Result = json.RawMessage("null")
		}
	}
	var v any = answers
	if !batch && len(answers) > 0 {
		v = answers[0]
	}
	// A client that is gone cannot be told.
	_ = json.NewEncoder(w).Encode(v)
}

func methodOf(questions []question, id json.RawMessage) string {
	for _, q := range questions {
		if bytes.Equal(q.ID, id) {
			return q.Method
		}
	}
	return ""
}

// key is a request without its ids.
func key(questions []question) string {
	var b strings.Builder
	for _, q := range questions {
		b.WriteString(q.Method)
		b.Write(q.Params)
	}
	return b.String()
}

// mostRemembered bounds how many answers are kept.
const mostRemembered = 10_000

// remember keeps the first answers to a request, the older, the staler, and the last.
func (p *Proxy) remember(questions []question, answers []response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := key(questions)
	_, known := p.before[k]
	if !known && len(p.before) > mostRemembered || len(answers) != len(questions) {
		return
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return
	}
	if p.latest[k] = text; !known {
		p.before[k] = text
	}
}

// remembered gives the first answers to a request for Stale and the last for Frozen, nil if there are
// none.
func (p *Proxy) remembered(f Fault, questions []question) (answers []response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.before
	if f == Frozen {
		by = p.latest
	}
	_ = json.Unmarshal(by[key(questions)], &answers)
	for i := range answers {
		answers[i].ID = questions[i].ID
	}
	return answers
}

func swallowed(questions []question) (answers []response) {
	for _, q := range questions {
		answers = append(answers, response{ID: q.ID, Result: json.RawMessage(`"0x` + strings.Repeat("5e", 32) + `"`)})
	}
	return answers
}

// bend makes one answer untrue.
func bend(f Fault, method string, a response) response {
	isReceipt := method == "eth_getTransactionReceipt" || method == Sends+"Sync"
	var receipt map[string]any
	if isReceipt {
		_ = json.Unmarshal(a.Result, &receipt)
	}
	switch {
	case f == Confused:
		a.ID = json.RawMessage("4000000")
		return a
	case f == WrongChain && method == "eth_chainId":
		a.Result = json.RawMessage(`"0x2a"`)
		return a
	case f == NoReceipt && method == "eth_getTransactionReceipt":
		a.Result = json.RawMessage("null")
		return a
	case f == Ahead && method == "eth_getBlockByNumber":
		var block map[string]any
		_ = json.Unmarshal(a.Result, &block)
		text, _ := block["timestamp"].(string)
		if second, err := strconv.ParseInt(text, 0, 64); err == nil {
			block["timestamp"] = "0x" + strconv.FormatInt(second+365*24*3600, 16)
			a.Result, _ = json.Marshal(block)
		}
		return a
	case receipt == nil:
		return a
	case f == Reorganised:
		receipt["blockHash"] = "0x" + strings.Repeat("de", 32)
	case f == Forged:
		if len(a.ID)%2 == 0 {
			delete(receipt, "status")
		} else {
			receipt["transactionHash"] = "0x" + strings.Repeat("ab", 32)
		}
	default:
		return a
	}
	if text, err := json.Marshal(receipt); err == nil {
		a.Result = text
	}
	return a
}
