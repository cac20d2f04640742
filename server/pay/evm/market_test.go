package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
	"webring/server/pay/evm/evmtest"
	"webring/server/pay/mpp"
)

// market is a real chain on which nothing is mined until a test says so.
type market struct {
	*testing.T
	chain  *devchain.Chain
	method *Method
}

func open(t *testing.T) *market {
	t.Helper()
	chain, err := devchain.StartBase(t.Context(), devchain.Options{Accounts: 30})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	m := &market{T: t, chain: chain}
	m.call(nil, "anvil_setIntervalMining", 0)
	m.method = m.shop()
	return m
}

// shop is a method whose recipient and gas account nobody else has.
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

func (m *market) payer() evmtest.Wallet {
	m.Helper()
	w := freshKey(m.T)
	m.endow(w, 50_000_000)
	return w
}

func (m *market) endow(w evmtest.Wallet, units int64) {
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

func (m *market) decode(method *Method, w evmtest.Wallet, c mpp.Challenge, changes ...evmtest.Alter) mpp.Payment {
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
	o, err := method.Outcome(m.Context(), p)
	if err != nil || o.State != state || o.Deep != deep {
		m.Fatalf("outcome %v (deep %v): %s, %v; want %v (deep %v)", o.State, o.Deep, o.Detail, err, state, deep)
	}
	return o
}

func (m *market) submit(method *Method, p mpp.Payment, detail string) {
	m.Helper()
	if o, err := method.Broadcast(m.Context(), p, &account{}); err != nil || o.State != mpp.Pending || !strings.HasPrefix(o.Detail, detail) {
		m.Fatalf("submitted: %v, %v: %s; want %q", o.State, err, o.Detail, detail)
	}
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

func freshKey(t testing.TB) evmtest.Wallet {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return evmtest.Wallet{Key: key}
}

// last is the newest transaction that the method has signed for a payment.
func last(method *Method, p mpp.Payment) common.Hash {
	all := method.gas.transactions(must(method.reopen(p)))
	return all[len(all)-1].hash
}

func must(a *authorization, err error) *authorization {
	if err != nil {
		panic(fmt.Sprint("a payment of the test cannot be read: ", err))
	}
	return a
}
