package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// One payment, from the simulation to the block that stays, and after a restart.
func (m *market) settles() {
	method, w := m.method, m.payer()
	p := m.decode(method, w, challenge(m.T, method))
	if err := method.Simulate(m.Context(), p); err != nil {
		m.Fatal(err)
	}
	m.becomes(method, p, mpp.Pending, false)
	m.submit(method, p, "submitted")
	m.submit(method, p, "submitted")
	m.becomes(method, p, mpp.Pending, false)
	m.mine(1)
	o := m.becomes(method, p, mpp.Settled, false)
	if m.balance(method.Recipient) != 1_000_000 || m.status(common.HexToHash(o.Reference)) != 1 {
		m.Errorf("%d paid by %s", m.balance(method.Recipient), o.Reference)
	}
	if again, err := method.Broadcast(m.Context(), p, &account{}); err != nil || again.State != mpp.Settled || again.Reference != o.Reference {
		m.Errorf("submitted once more: %+v, %v", again, err)
	}
	if no, ok := errors.AsType[*mpp.Rejection](method.Simulate(m.Context(), p)); !ok || no.Reason != mpp.ReasonUsed {
		m.Errorf("simulated once more: %v", no)
	}
	if seen, err := newMethod(m.T, func(c *Config) { *c = method.cfg }).Outcome(m.Context(), p, time.Now().Add(-5*time.Minute)); err != nil || seen.State != mpp.Settled || seen.Reference != o.Reference {
		m.Errorf("seen as %+v, %v", seen, err)
	}
	m.mine(2)
	restarted := newMethod(m.T, func(c *Config) { *c = method.cfg })
	if found := m.becomes(restarted, p, mpp.Settled, true); found.Reference != o.Reference {
		m.Errorf("found in %s, was in %s", found.Reference, o.Reference)
	}
	p.Reference = o.Reference
	m.becomes(restarted, p, mpp.Settled, true)
	if t, err := restarted.Received(m.Context(), restarted.Payee(), o.Reference); err != nil || t.Cents != 100 || t.Payer != p.Payer {
		m.Errorf("received %+v, %v", t, err)
	}
}

// Somebody else is quicker, in the same block: ours is reverted, theirs has paid
// us, once.
func (m *market) frontRun() {
	method, w := m.shop(), m.payer()
	c := challenge(m.T, method)
	p := m.decode(method, w, c)
	m.submit(method, p, "submitted")
	ours := last(method, p)
	theirs := m.stranger(w.Submission(c), 40e9)
	m.mine(1)
	if m.status(ours) != 0 || m.status(theirs) != 1 {
		m.Fatal("ours was first")
	}
	if o := m.becomes(method, p, mpp.Settled, false); o.Reference != theirs.Hex() {
		m.Errorf("settled by %s, want %s", o.Reference, theirs)
	}
	if m.balance(method.Recipient) != 1_000_000 {
		m.Error("paid more or less than once")
	}
	m.mine(2)
	m.becomes(method, p, mpp.Settled, true)
}

// The payer takes it back, or uses its nonce otherwise, while ours is in flight.
func (m *market) overtaken() {
	method := m.shop()
	for name, c := range map[string]struct {
		data  func(w paytest.EVM, c mpp.Challenge) []byte
		state mpp.State
	}{
		"cancelled": {func(w paytest.EVM, c mpp.Challenge) []byte { return w.Cancellation(c) }, mpp.Gone},
		"diverted": {func(w paytest.EVM, c mpp.Challenge) []byte {
			return w.Submission(c, func(d *paytest.EVMDraft) { d.To = w.Address() })
		}, mpp.Mismatched},
		"a unit short": {func(w paytest.EVM, c mpp.Challenge) []byte {
			return w.Submission(c, func(d *paytest.EVMDraft) { d.Value = big.NewInt(999_999) })
		}, mpp.Mismatched},
	} {
		w, ch := m.payer(), challenge(m.T, method)
		p := m.decode(method, w, ch)
		m.submit(method, p, "submitted")
		ours := last(method, p)
		m.stranger(c.data(w, ch), 40e9)
		m.mine(1)
		o := m.becomes(method, p, mpp.Pending, false)
		if !strings.HasSuffix(o.Detail, "not final yet") {
			m.Errorf("%s: %s", name, o.Detail)
		}
		wasted := func(o mpp.Outcome) {
			m.Helper()
			if o.Wasted == nil || o.Wasted.Transaction != ours.Hex() {
				m.Errorf("%s, and we were late: wasted %+v", name, o.Wasted)
			}
		}
		wasted(o)
		m.submit(method, p, o.Detail)
		m.mine(2)
		wasted(m.becomes(method, p, c.state, true))
		var no *mpp.Rejection
		if err := method.Simulate(m.Context(), p); !errors.As(err, &no) {
			m.Errorf("%s: simulated: %v", name, err)
		}
	}
}

// Many at once share the gas account: each is submitted once, none is in the way
// of another, and one that is lost leaves no gap.
func (m *market) manyAtOnce() {
	method := m.shop()
	const payments = 20
	ps := make([]mpp.Payment, payments)
	for i := range ps {
		ps[i] = m.decode(method, m.payer(), challenge(m.T, method))
	}
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { m.submit(method, p, "submitted") })
	}
	wg.Wait()
	// The node forgets the first, as nodes do when their pools are full.
	var first common.Hash
	for _, s := range method.gas.sent {
		if m.nonce(s.hash) == 0 {
			first = s.hash
		}
	}
	m.call(nil, "anvil_dropTransaction", first)
	m.mine(1)
	if n := m.mined(method); n != 0 {
		m.Fatalf("%d were mined behind a gap", n)
	}
	m.wait(patience)
	for _, p := range ps {
		m.submit(method, p, "submitted")
	}
	m.mine(1)
	for _, p := range ps {
		m.becomes(method, p, mpp.Settled, false)
	}
	if n := m.mined(method); n != payments || m.balance(method.Recipient) != payments*1_000_000 {
		m.Errorf("%d transactions paid %d", n, m.balance(method.Recipient))
	}
}

// A transaction that is lost, and whose authorisation somebody else has used
// meanwhile, is not sent again; what came after it takes its nonce.
func (m *market) gapCloses() {
	method, w := m.shop(), m.payer()
	c := challenge(m.T, method)
	lost, stuck := m.decode(method, w, c), m.decode(method, m.payer(), challenge(m.T, method))
	m.submit(method, lost, "submitted")
	m.submit(method, stuck, "submitted")
	hash := last(method, lost)
	m.call(nil, "anvil_dropTransaction", hash)
	m.stranger(w.Submission(c), 1e9)
	m.mine(1)
	m.becomes(method, lost, mpp.Settled, false)
	m.becomes(method, stuck, mpp.Pending, false)
	m.submit(method, stuck, "submitted")
	m.mine(1)
	m.becomes(method, stuck, mpp.Settled, false)
	if m.balance(method.Recipient) != 2_000_000 {
		m.Errorf("%d paid", m.balance(method.Recipient))
	}
}

// A transaction that the block's price has left behind is replaced by one that
// pays more, under the same nonce.
func (m *market) feesRise() {
	method := m.shop()
	p := m.decode(method, m.payer(), challenge(m.T, method))
	m.submit(method, p, "submitted")
	was := last(method, p)
	m.feeRisesAbove(method, p)
	m.mine(1)
	m.becomes(method, p, mpp.Pending, false)
	m.wait(patience)
	m.submit(method, p, "submitted")
	now := last(method, p)
	if now == was {
		m.Fatal("the same transaction was sent again")
	}
	m.mine(1)
	if o := m.becomes(method, p, mpp.Settled, false); o.Reference != now.Hex() || m.mined(method) != 1 {
		m.Errorf("settled by %s, want %s, of %d", o.Reference, now, m.mined(method))
	}
	// Above the highest fee, no payer is bound.
	cheap := m.shop(func(c *Config) { c.MaxFee = 3 })
	q := m.decode(cheap, m.payer(), challenge(m.T, cheap))
	if err := cheap.Simulate(m.Context(), q); !errors.Is(err, mpp.ErrUnavailable) {
		m.Errorf("simulated while gas is dear: %v", err)
	}
	if o, err := cheap.Broadcast(m.Context(), q, &account{}); !errors.Is(err, mpp.ErrUnavailable) {
		m.Errorf("submitted while gas is dear: %+v, %v", o, err)
	}
	if _, err := cheap.Clock(m.Context()); !errors.Is(err, mpp.ErrUnavailable) {
		m.Errorf("ready while gas is dear: %v", err)
	}
}

// A wallet with one dollar signs for three: one is paid, the others are not even
// submitted, and end with their time.
func (m *market) oneDollarThrice() {
	method, w := m.shop(), m.payer()
	m.endow(w, 1_000_000)
	var ps []mpp.Payment
	for range 3 {
		p := m.decode(method, w, challenge(m.T, method), paytest.ValidFor(4*time.Minute))
		if err := method.Simulate(m.Context(), p); err != nil {
			m.Fatal(err)
		}
		ps = append(ps, p)
	}
	m.submit(method, ps[0], "submitted")
	m.submit(method, ps[1], "not submitted")
	m.submit(method, ps[2], "not submitted")
	m.mine(1)
	m.becomes(method, ps[0], mpp.Settled, false)
	m.becomes(method, ps[1], mpp.Pending, false)
	m.wait(300)
	m.submit(method, ps[1], "not submitted: its time is over")
	m.becomes(method, ps[1], mpp.Pending, false)
	m.mine(2)
	m.becomes(method, ps[1], mpp.Gone, true)
	m.becomes(method, ps[2], mpp.Gone, true)
	if m.mined(method) != 1 {
		m.Errorf("%d transactions", m.mined(method))
	}
}

// What the configuration says of the token is compared with the token.
func (m *market) misconfigured() {
	if _, err := m.method.Clock(m.Context()); err != nil {
		m.Errorf("as configured: %v", err)
	}
	for name, change := range map[string]func(*Config){
		"name":     func(c *Config) { c.Name = "USDC" },
		"version":  func(c *Config) { c.Version = "1" },
		"no token": func(c *Config) { c.Currency = common.HexToAddress("0x5117") },
		"chain":    func(c *Config) { c.ChainID = 1 },
		"no gas":   func(c *Config) { c.GasKey = freshKey(m.T).Key },
		"no node":  func(c *Config) { c.RPC = "http://127.0.0.1:1" },
	} {
		if _, err := m.shop(change).Clock(m.Context()); !errors.Is(err, mpp.ErrUnavailable) {
			m.Errorf("%s: %v, want that no payment can be taken", name, err)
		}
	}
	// A contract that takes everything and moves nothing has no domain either, so
	// it comes as far as this only when it begins to lie later.
	silent := common.HexToAddress("0x5117")
	m.call(nil, "anvil_setCode", silent, "0x00")
	lying := m.shop(func(c *Config) { c.Currency = silent })
	p := m.decode(lying, m.payer(), challenge(m.T, lying))
	if o, err := lying.Outcome(m.Context(), p, time.Time{}); !errors.Is(err, mpp.ErrUnavailable) {
		m.Errorf("a token that says nothing: %+v, %v", o, err)
	}
}

func TestOnARealChain(t *testing.T) {
	open(t).parts([]part{
		{"a payment settles", (*market).settles},
		{"somebody else is quicker", (*market).frontRun},
		{"the payer is quicker", (*market).overtaken},
		{"many at once", (*market).manyAtOnce},
		{"a gap closes", (*market).gapCloses},
		{"fees rise", (*market).feesRise},
		{"one dollar, three times", (*market).oneDollarThrice}, // last: the chain's clock is ahead from here on
		{"misconfigured", (*market).misconfigured},
	})
}

// part is one of several tests on one chain.
type part struct {
	name string
	do   func(*market)
}

// parts does them one after the other, until one fails.
func (m *market) parts(all []part) {
	outer := m.T
	defer func() { m.T = outer }()
	for _, p := range all {
		if !outer.Run(p.name, func(t *testing.T) { m.T = t; p.do(m) }) {
			return
		}
	}
}

// market is a real chain on which nothing is mined until a test says so.
type market struct {
	*testing.T
	chain  *devchain.Chain
	method *Method

	mu       sync.Mutex
	accounts map[payment]*account // that have paid for its submissions
}

func open(t *testing.T) *market {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a chain, which the short run does not")
	}
	chain, err := devchain.StartBase(t.Context(), devchain.Options{Accounts: 30})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	m := &market{T: t, chain: chain, accounts: map[payment]*account{}}
	m.call(nil, "anvil_setIntervalMining", 0)
	m.method = m.shop()
	return m
}

// shop is a method with a recipient and gas account of its own.
func (m *market) shop(change ...func(*Config)) *Method {
	m.Helper()
	key := freshKey(m.T)
	m.call(nil, "anvil_setBalance", key.Address(), "0xde0b6b3a7640000")
	return newMethod(m.T, append([]func(*Config){func(c *Config) {
		c.RPC, c.GasKey, c.Recipient = m.chain.RPC, key.Key, freshKey(m.T).Address()
	}}, change...)...)
}

func (m *market) call(result any, method string, args ...any) {
	m.Helper()
	if err := m.chain.Call(m.Context(), result, method, args...); err != nil {
		m.Fatal(method, err)
	}
}

func (m *market) payer() paytest.EVM {
	m.Helper()
	w := freshKey(m.T)
	m.endow(w, 50_000_000)
	return w
}

func (m *market) endow(w paytest.EVM, units int64) {
	m.Helper()
	if err := m.chain.Endow(m.Context(), usdc, w.Address(), big.NewInt(units)); err != nil {
		m.Fatal(err)
	}
}

// mine mines blocks, one second apart.
func (m *market) mine(blocks int) {
	m.Helper()
	m.call(nil, "anvil_mine", blocks, 1)
}

func (m *market) decode(method *Method, w paytest.EVM, c mpp.Challenge, changes ...paytest.EVMAlter) mpp.Payment {
	m.Helper()
	p, err := method.Decode(w.Pay(c, changes...))
	if err != nil {
		m.Fatal(err)
	}
	return p
}

// stranger has somebody else call the token, bidding so much for gas.
func (m *market) stranger(data []byte, tip int64) (hash common.Hash) {
	m.Helper()
	m.call(&hash, "eth_sendTransaction", map[string]any{
		"from": m.chain.Accounts[0].Address, "to": usdc, "data": hexutil.Bytes(data), "gas": "0x493e0",
		"maxPriorityFeePerGas": hexutil.EncodeUint64(uint64(tip)), "maxFeePerGas": hexutil.EncodeUint64(uint64(tip) + 50e9)})
	return hash
}

func (m *market) balance(who common.Address) int64 {
	m.Helper()
	b, err := m.chain.Balance(m.Context(), usdc, who)
	if err != nil {
		m.Fatal(err)
	}
	return b.Int64()
}

// status is that of a mined transaction.
func (m *market) status(hash common.Hash) uint64 {
	m.Helper()
	var r *struct{ Status hexutil.Uint64 }
	m.call(&r, "eth_getTransactionReceipt", hash)
	if r == nil {
		m.Fatal("not mined")
	}
	return uint64(r.Status)
}

// becomes asks for the outcome.
func (m *market) becomes(method *Method, p mpp.Payment, state mpp.State, deep bool) mpp.Outcome {
	m.Helper()
	p.Submissions = m.stored(method, p).stored
	o, err := method.Outcome(m.Context(), p, time.Time{})
	if err != nil || o.State != state || o.Deep != deep {
		m.Fatalf("outcome %v (deep %v): %s, %v; want %v (deep %v)", o.State, o.Deep, o.Detail, err, state, deep)
	}
	return o
}

func (m *market) submit(method *Method, p mpp.Payment, detail string) {
	m.Helper()
	m.submitFor(m.stored(method, p), method, p, detail)
}

// stored is the account that has paid for p, as one process knows it.
func (m *market) stored(method *Method, p mpp.Payment) *account {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := payment{method, p.ReplayKey}
	if m.accounts[of] == nil {
		m.accounts[of] = &account{stored: p.Submissions}
	}
	return m.accounts[of]
}

// payment is one as a process knows it.
type payment struct {
	process *Method
	key     string
}

// wait lets the chain's clock go on.
func (m *market) wait(seconds int) {
	m.call(nil, "evm_increaseTime", seconds)
	m.mine(1)
}

func (m *market) nonce(hash common.Hash) int {
	var tx *struct{ Nonce hexutil.Uint64 }
	m.call(&tx, "eth_getTransactionByHash", hash)
	if tx == nil {
		m.Fatal("the node does not know a transaction of ours")
	}
	return int(tx.Nonce)
}

func (m *market) mined(method *Method) int {
	var n hexutil.Uint64
	m.call(&n, "eth_getTransactionCount", method.gas.address, "latest")
	return int(n)
}

func freshKey(t testing.TB) paytest.EVM {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return paytest.EVM{Key: key}
}

// last is the newest transaction that the method has signed for a payment.
func last(method *Method, p mpp.Payment) common.Hash {
	return sent(method, must(method.reopen(p))).hash
}

// sent is the newest submission of an authorisation.
func sent(method *Method, a *authorization) (newest *submission) {
	for _, s := range method.gas.sent {
		if s.of == a.name() && (newest == nil || s.nonce > newest.nonce) {
			newest = s
		}
	}
	return newest
}

func must(a *authorization, err error) *authorization {
	if err != nil {
		panic(fmt.Sprint("a payment of the test cannot be read: ", err))
	}
	return a
}
