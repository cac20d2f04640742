package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/evm/evmtest"
	"webring/server/pay/mpp"
)

// An authorisation that was mined and reverted, because its payer had the money away in
// that block alone, is not submitted again, and what it cost is told.
func TestARevertedAuthorizationIsNotSubmittedAgain(t *testing.T) {
	m := open(t)
	method, w := m.method, m.payer()
	p := m.decode(method, w, challenge(t, method), evmtest.ValidFor(4*time.Minute))
	m.submit(method, p, "submitted")
	ours := last(method, p)
	m.endow(w, 0)
	m.mine(1)
	m.endow(w, 1_000_000)
	const rounds = 20
	for range rounds {
		o := m.becomes(method, p, mpp.Pending, false)
		if o.Wasted == nil || o.Wasted.Transaction != ours.Hex() || o.Wasted.Late || !strings.Contains(o.Detail, "not submitted again") {
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
	if o := m.becomes(method, p, mpp.Gone, true); o.Wasted == nil || o.Wasted.Late {
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

// One whose nonce another transaction has taken never was mined, and is submitted anew.
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

// A revert after the authorisation's end is the chain's fault, as nothing is submitted
// that has hardly time; and one that somebody else made to pay us has not cost gas for nothing.
func TestWhoIsToBlameForARevert(t *testing.T) {
	m := open(t)
	brief := m.shop()
	p := m.decode(brief, m.payer(), challenge(t, brief), m.validFor((enough-1)*time.Second))
	m.submit(brief, p, "not submitted: too little of its time is left")
	for _, valid := range []time.Duration{enough * time.Second, time.Minute} {
		method := m.shop()
		p := m.decode(method, m.payer(), challenge(t, method), m.validFor(valid))
		m.submit(method, p, "submitted")
		m.wait(90)
		if o := m.becomes(method, p, mpp.Pending, false); o.Wasted == nil || !o.Wasted.Late {
			t.Errorf("valid for %v: %+v", valid, o.Wasted)
		}
	}
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

// validFor is [evmtest.ValidFor] by the chain's clock.
func (m *market) validFor(d time.Duration) evmtest.Alter {
	var b struct{ Timestamp hexutil.Uint64 }
	m.call(&b, "eth_getBlockByNumber", "latest", false)
	return func(a *evmtest.Draft) { a.ValidBefore = big.NewInt(int64(b.Timestamp) + int64(d/time.Second)) }
}

// agrees is the code of a contract that says of every signature that it is its own.
const agrees = "0x631626ba7e60e01b5f5260205ff3"

// Accounts with code are refused before anything is bound, and where they come to it
// later, nothing is submitted.
func TestAccountsWithCodeAreRefused(t *testing.T) {
	m := open(t)
	contract := common.HexToAddress("0x1271")
	m.call(nil, "anvil_setCode", contract, agrees)
	for name, code := range map[string]string{"a contract": agrees, "a delegation": "0xef0100" + contract.Hex()[2:]} {
		method, w := m.shop(), m.payer()
		c := challenge(t, method)
		p := m.decode(method, w, c)
		if err := method.Simulate(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		m.call(nil, "anvil_setCode", w.Address(), code)
		if no, ok := errors.AsType[*mpp.Rejection](method.Simulate(t.Context(), p)); !ok || no.Reason != mpp.ReasonCode {
			t.Errorf("%s: %v", name, no)
		}
		m.submit(method, p, "not submitted")
		// The token takes the account's word for it, as USDC does.
		foreign := w.Submission(c, func(d *evmtest.Draft) { d.Sign = freshKey(t).Sign })
		hash := m.stranger(foreign, 1e9)
		m.mine(1)
		if m.status(hash) != 1 || m.balance(method.Recipient) != 1_000_000 {
			t.Errorf("%s: the token did not ask the account", name)
		}
	}
}

// What waits to be mined counts in a simulation, and so do our account and its fees.
func TestSimulationsAreOfWhatWouldBeMined(t *testing.T) {
	m := open(t)
	method, rich := m.method, m.chain.Accounts[1]
	w := evmtest.Wallet{Key: rich.Key}
	p := m.decode(method, w, challenge(t, method))
	if err := method.Simulate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	away := fmt.Sprintf("0xa9059cbb%064x%064x", 0x5117, m.balance(rich.Address))
	m.call(nil, "eth_sendTransaction", map[string]any{"from": rich.Address, "to": usdc, "data": away, "gas": "0x493e0"})
	if err := method.Simulate(t.Context(), p); !errors.As(err, new(*mpp.Rejection)) {
		t.Errorf("while the money is leaving: %v", err)
	}
	// This token goes through for whoever pays nothing for gas.
	free := common.HexToAddress("0xf4ee")
	m.call(nil, "anvil_setCode", free, "0x3a600557005b5f5ffd")
	fickle := m.shop(func(c *Config) { c.Currency = free })
	q := m.decode(fickle, m.payer(), challenge(t, fickle))
	if err := fickle.Simulate(t.Context(), q); !errors.As(err, new(*mpp.Rejection)) {
		t.Errorf("where only simulations go through: %v", err)
	}
}

// submitFor is Broadcast at the expense of x.
func (m *market) submitFor(x *account, method *Method, p mpp.Payment, detail string) {
	m.Helper()
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
	m.call(nil, "anvil_setNextBlockBaseFeePerGas", "0x861c46800") // 36 gwei, more than is bid
	m.mine(1)
	m.wait(patience)
	m.submitFor(x, method, p, "submitted")
	m.mine(1)
	m.becomes(method, p, mpp.Settled, false)
	if len(x.allowed) != 1 || len(x.stored) != 2 || x.stored[0].Nonce != x.stored[1].Nonce || x.stored[0].Gas != x.allowed[0] {
		t.Fatalf("allowed %v, stored %+v", x.allowed, x.stored)
	}
	if _, limit, _ := m.costs(common.HexToHash(x.stored[1].Transaction)); limit != x.allowed[0] {
		t.Errorf("allowed %d gas, and the limit is %d", x.allowed[0], limit)
	}
}

// The next process knows from what was stored that a submission of the last one was mined
// and reverted, and submits no other.
func TestARestartDoesNotHideARevert(t *testing.T) {
	m := open(t)
	method, w, x := m.method, m.payer(), &account{}
	p := m.decode(method, w, challenge(t, method), evmtest.ValidFor(4*time.Minute))
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
