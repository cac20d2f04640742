package tempo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/mpp"
)

// maxAnswer bounds what is read of a node's answer, in bytes.
const maxAnswer = 4 << 20

// dial makes a client for the node at address; it connects when first used.
func dial(address string, timeout time.Duration) (*rpc.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("tempo: the node's address must be an http or https URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	client := &http.Client{
		Transport: bounded{transport},
		// A little more than the context of each call, which should speak first.
		Timeout:       timeout + 5*time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	node, err := rpc.DialOptions(context.Background(), address, rpc.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("tempo: node: %w", withoutAddress(err))
	}
	return node, nil
}

// bounded cuts every response body at maxAnswer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

// ask sends questions as one batch: the client matches a batch's answers to
// its questions by id, and it is one node that answers all of them. Each
// question's own error is left in it; an error here, or no answer to one of
// them, is ErrUnavailable.
func (m *Method) ask(ctx context.Context, questions ...rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	if err := m.node.BatchCallContext(ctx, questions); err != nil {
		return unavailable(err)
	}
	for _, q := range questions {
		var spoken rpc.Error
		if q.Error != nil && !errors.As(q.Error, &spoken) {
			return unavailable(q.Error)
		}
	}
	return nil
}

// unavailable wraps what went wrong with the node for the log.
func unavailable(err error) error {
	return fmt.Errorf("tempo: %w: %s", mpp.ErrUnavailable, nodeText(err))
}

var longHex = regexp.MustCompile(`0x[0-9a-fA-F]{65,}`)

// nodeText is what an error of the node may say in a log: shortened, without
// the node's address, which can carry a key, and without the transactions that
// some nodes quote.
func nodeText(err error) string {
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

// firstError is the first error among the questions' own, as ErrUnavailable.
func firstError(questions ...rpc.BatchElem) error {
	for _, q := range questions {
		if q.Error != nil {
			return unavailable(q.Error)
		}
	}
	return nil
}

// block is what is used of a block.
type block struct {
	Number    *hexutil.Uint64 `json:"number"`
	Hash      *common.Hash    `json:"hash"`
	Timestamp *hexutil.Uint64 `json:"timestamp"`
	BaseFee   *hexutil.Big    `json:"baseFeePerGas"`
	GasLimit  *hexutil.Uint64 `json:"gasLimit"`
}

func (b *block) whole() bool {
	return b != nil && b.Number != nil && b.Hash != nil && b.Timestamp != nil
}

func (b *block) number() uint64  { return uint64(*b.Number) }
func (b *block) time() time.Time { return time.Unix(int64(*b.Timestamp), 0).UTC() }

// head asks for the newest block and then the other questions, in one batch,
// and makes sure that the node is on our chain. The others are answered by a
// node that has at least that block: it is named before they are looked up.
func (m *Method) head(ctx context.Context, others ...rpc.BatchElem) (*block, error) {
	var chain hexutil.Uint64
	var newest *block
	questions := append([]rpc.BatchElem{
		{Method: "eth_chainId", Args: []any{}, Result: &chain},
		{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &newest},
	}, others...)
	if err := m.ask(ctx, questions...); err != nil {
		return nil, err
	}
	copy(others, questions[2:])
	if err := firstError(questions[:2]...); err != nil {
		return nil, err
	}
	if uint64(chain) != m.cfg.ChainID {
		return nil, unavailable(fmt.Errorf("the node is on chain %d", uint64(chain)))
	}
	if !newest.whole() {
		return nil, unavailable(errors.New("the node names no newest block"))
	}
	return newest, nil
}

// blockAt asks for one block by its number.
func (m *Method) blockAt(ctx context.Context, number uint64) (*block, error) {
	var b *block
	q := rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(number), false}, Result: &b}
	questions := []rpc.BatchElem{q}
	if err := m.ask(ctx, questions...); err != nil {
		return nil, err
	}
	if err := firstError(questions...); err != nil {
		return nil, err
	}
	if !b.whole() || b.number() != number {
		return nil, unavailable(errors.New("the node has no such block"))
	}
	return b, nil
}

// Clock is the time of the newest block.
func (m *Method) Clock(ctx context.Context) (time.Time, error) {
	newest, err := m.head(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return newest.time(), nil
}
