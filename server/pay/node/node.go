package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
)

// MaxAnswer bounds what is read of a node's answer, in bytes.
const MaxAnswer = 4 << 20

// Node is a client of one node, or of a service that answers as one. It is safe
// for concurrent use.
type Node struct {
	client  *rpc.Client
	chain   uint64
	timeout time.Duration

	shared atomic.Pointer[sharedBlock]
	pace   pacer
}

// sharedBlock is the newest block that [Node.Newest] got.
type sharedBlock struct {
	*Block
	until time.Time // when it is too old to be shared
}

// Dial makes a client for the node at address, an http or https URL. The node must be
// on the chain with this id. The client connects when first used; timeout bounds each
// batch of questions, 0 by 15 seconds.
func Dial(address string, chain uint64, timeout time.Duration) (*Node, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("node: the node's address must be an http or https URL")
	}
	if timeout == 0 {
		timeout = 15 * time.Second
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	client := &http.Client{
		Transport: bounded{transport},
		// A little more than the context of each call, which should speak first.
		Timeout:       timeout + 5*time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	connection, err := rpc.DialOptions(context.Background(), address, rpc.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("node: %w", withoutAddress(err))
	}
	return &Node{client: connection, chain: chain, timeout: timeout}, nil
}

// Call asks one question and returns the error unchanged. After an error, the
// question may have reached the node all the same.
func (n *Node) Call(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	return n.client.CallContext(ctx, result, method, args...)
}

// bounded cuts every response body at MaxAnswer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, MaxAnswer), res.Body}
	}
	return res, err
}

// Ask sends questions as one batch, so one node answers all of them. The client
// matches answers to questions by id. A question's own error stays in it. Ask returns
// [mpp.ErrUnavailable] if the batch failed or a question got no answer.
func (n *Node) Ask(ctx context.Context, questions ...rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	if err := n.client.BatchCallContext(ctx, questions); err != nil {
		return Unavailable(err)
	}
	for _, q := range questions {
		var spoken rpc.Error
		if q.Error != nil && !errors.As(q.Error, &spoken) {
			return Unavailable(q.Error)
		}
	}
	return nil
}

// Unavailable gives an error that wraps [mpp.ErrUnavailable] and has the text of err
// for the log: see [Text].
func Unavailable(err error) error {
	return fmt.Errorf("node: %w: %s", mpp.ErrUnavailable, Text(err))
}

var longHex = regexp.MustCompile(`0x[0-9a-fA-F]{65,}`)

// Text is the text of a node's error as it may stand in a log: shortened, without
// the node's address, which can hold a key, and without the transactions that some
// nodes quote.
func Text(err error) string {
	text := longHex.ReplaceAllString(withoutAddress(err).Error(), "0x…")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// FirstError gives the first error that a question holds, as [mpp.ErrUnavailable].
func FirstError(questions ...rpc.BatchElem) error {
	for _, q := range questions {
		if q.Error != nil {
			return Unavailable(q.Error)
		}
	}
	return nil
}

// Block has the fields of a block that are used here. A block from [Node.Head] or
// [Node.BlockAt] has number, hash and timestamp.
type Block struct {
	Number    *hexutil.Uint64 `json:"number"`
	Hash      *common.Hash    `json:"hash"`
	Timestamp *hexutil.Uint64 `json:"timestamp"`
	BaseFee   *hexutil.Big    `json:"baseFeePerGas"`
	GasLimit  *hexutil.Uint64 `json:"gasLimit"`
}

func (b *Block) whole() bool {
	return b != nil && b.Number != nil && b.Hash != nil && b.Timestamp != nil
}

// Height is the number of the block.
func (b *Block) Height() uint64 { return uint64(*b.Number) }

// Time is the timestamp of the block, in whole seconds, UTC.
func (b *Block) Time() time.Time { return time.Unix(int64(*b.Timestamp), 0).UTC() }

// Head asks for the newest block and then the other questions, in one batch, and
// checks that the node is on our chain. The node names its newest block before it
// looks up the others, so their answers are no older than that block.
func (n *Node) Head(ctx context.Context, others ...rpc.BatchElem) (*Block, error) {
	var chain hexutil.Uint64
	var newest *Block
	questions := append([]rpc.BatchElem{
		{Method: "eth_chainId", Args: []any{}, Result: &chain},
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &newest},
	}, others...)
	if err := n.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	copy(others, questions[2:])
	if err := FirstError(questions[:2]...); err != nil {
		return nil, err
	}
	if uint64(chain) != n.chain {
		return nil, Unavailable(fmt.Errorf("the node is on chain %d", uint64(chain)))
	}
	if !newest.whole() {
		return nil, Unavailable(errors.New("the node names no newest block"))
	}
	return newest, nil
}

// errNoBlock says that the node does not have a block. Some nodes answer null then,
// others the code for pruned history.
var errNoBlock = Unavailable(errors.New("the node has no such block"))

const prunedHistory = 4444

// BlockAt asks for one block by its number. A node without it is
// [mpp.ErrUnavailable].
func (n *Node) BlockAt(ctx context.Context, number uint64) (*Block, error) {
	var b *Block
	q := rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(number), false}, Result: &b}
	questions := []rpc.BatchElem{q}
	if err := n.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	if spoken, ok := errors.AsType[rpc.Error](questions[0].Error); ok && spoken.ErrorCode() == prunedHistory {
		return nil, errNoBlock
	}
	if err := FirstError(questions...); err != nil {
		return nil, err
	}
	if !b.whole() || b.Height() != number {
		return nil, errNoBlock
	}
	return b, nil
}

// sharedFor is for how long [Node.Recent] gives a block without asking again.
const sharedFor = time.Second

// Newest is [Node.Head]. [Node.Recent] gives its block for a second.
func (n *Node) Newest(ctx context.Context, others ...rpc.BatchElem) (*Block, error) {
	until := time.Now().Add(sharedFor)
	newest, err := n.Head(ctx, others...)
	if err == nil {
		n.pace.saw(newest)
		n.shared.Store(&sharedBlock{newest, until})
	}
	return newest, err
}

// Recent is [Node.Head] for callers that can use a block that was the newest up to a
// second ago: within a second of a Newest the node is not asked for it again. The
// other questions may be answered by a node that does not have that block.
func (n *Node) Recent(ctx context.Context, others ...rpc.BatchElem) (*Block, error) {
	s := n.shared.Load()
	switch {
	case s == nil || !time.Now().Before(s.until):
		return n.Head(ctx, others...)
	case len(others) == 0:
		return s.Block, nil
	}
	return s.Block, n.Ask(ctx, others...)
}

// firstStep is by how many blocks [Node.FirstSince] first goes back.
const firstStep = 64

// FirstSince finds the first block, up to last, that is not older than second (Unix
// time). Timestamps do not decrease, so it goes back from last in doubling steps until
// it meets an older block, or one that the node does not have, and then bisects. Of
// older blocks the node needs only the one before the result.
func (n *Node) FirstSince(ctx context.Context, last uint64, second int64) (uint64, error) {
	var missing error // the block before low is not there to show that it is older
	older := func(number uint64) (bool, error) {
		switch b, err := n.BlockAt(ctx, number); {
		case errors.Is(err, errNoBlock):
			missing = err
			return true, nil
		case err != nil:
			return false, err
		case int64(*b.Timestamp) < second:
			missing = nil
			return true, nil
		}
		return false, nil
	}
	// The first is one of these, or between them.
	low, high := uint64(0), last
	for step := uint64(firstStep); 0 < step && step <= last; step *= 2 { // to 0 where it overflows
		past, err := older(last - step)
		if err != nil {
			return 0, err
		}
		if past {
			low = last - step + 1
			break
		}
		high = last - step
	}
	for low < high {
		middle := low + (high-low)/2
		past, err := older(middle)
		if err != nil {
			return 0, err
		}
		if past {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, missing
}

// Deep gives the block of a receipt if it has depth blocks on top, up to newest, and is still
// on the chain; otherwise nil. The receipt has passed [Receipt.Check].
func (n *Node) Deep(ctx context.Context, newest *Block, r *Receipt, depth uint64) (*Block, error) {
	at := uint64(*r.BlockNumber)
	if newest.Height() < at || newest.Height()-at < depth {
		return nil, nil
	}
	b, err := n.BlockAt(ctx, at)
	if err != nil || *b.Hash != *r.BlockHash {
		return nil, err
	}
	return b, nil
}

// DeepAfter gives a block later than second (Unix time) with depth blocks on top, or
// nil if there is none yet. Once a block is later than second, due is when depth
// blocks on top of it are to be expected, by the pace of the last ones.
func (n *Node) DeepAfter(ctx context.Context, newest *Block, second, depth uint64) (b *Block, due time.Time, err error) {
	if uint64(*newest.Timestamp) <= second || newest.Height() < depth {
		return nil, due, nil
	}
	if depth == 0 {
		return newest, due, nil
	}
	if b, err = n.BlockAt(ctx, newest.Height()-depth); err != nil {
		return nil, due, err
	}
	if uint64(*b.Timestamp) <= second {
		return nil, time.Unix(int64(second)+1, 0).Add(newest.Time().Sub(b.Time())), nil
	}
	return b, due, nil
}

// pacer learns how far apart blocks are from those that were the newest one after the
// other. A while without blocks is one sample among several, so it hardly counts.
type pacer struct {
	mu      sync.Mutex
	height  uint64 // of the block that the next sample begins with
	second  uint64
	samples []time.Duration // the last ones, in order of arrival
}

// paceSamples is how many samples are kept.
const paceSamples = 15

// saw takes the newest block. Blocks have whole seconds, so a sample spans one at least.
func (p *pacer) saw(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	height, second := b.Height(), uint64(*b.Timestamp)
	switch {
	case p.height == 0 || height < p.height || second < p.second:
	case height == p.height || second == p.second:
		return
	default:
		p.samples = append(p.samples, time.Duration(second-p.second)*time.Second/time.Duration(height-p.height))
		if len(p.samples) > paceSamples {
			p.samples = p.samples[1:]
		}
	}
	p.height, p.second = height, second
}

// Pace is the usual time between two blocks, by the last ones that were the newest; 0
// while too few were seen.
func (n *Node) Pace() time.Duration {
	p := &n.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.samples) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.samples))[len(p.samples)/2]
}
