package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// juggledUnits is a dollar.
const juggledUnits = 1_000_000

// juggle lets an account of the chain have a dollar that is away in the middle of each
// block, until stop is called: it sends it off before what others send, and a second
// account sends it back after that. The chain goes by the most that is bid for gas.
func (s *shop) juggle(purse, partner devchain.Account) (thief paytest.EVM, stop func()) {
	s.t.Helper()
	thief = paytest.EVM{Key: purse.Key}
	s.endow(thief, juggledUnits)
	s.endow(paytest.EVM{Key: partner.Key}, 0)
	ctx, cancel := context.WithCancel(context.Background())
	pass := func(from, to devchain.Account, most uint64) {
		data := fmt.Sprintf("0xa9059cbb%024x%x%064x", 0, to.Address.Bytes(), juggledUnits)
		s.chain.Call(ctx, nil, "eth_sendTransaction", map[string]any{"from": from.Address, "to": devchain.USDC, "data": data,
			"gas": "0x186a0", "maxFeePerGas": hexutil.Uint64(most), "maxPriorityFeePerGas": "0x0"})
	}
	var group sync.WaitGroup
	group.Go(func() {
		for last := hexutil.Uint64(0); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var b struct{ Number, BaseFeePerGas hexutil.Uint64 }
			if err := s.chain.Call(ctx, &b, "eth_getBlockByNumber", "latest", false); err == nil && b.Number != last {
				last = b.Number
				pass(purse, partner, 100e9)
				pass(partner, purse, uint64(b.BaseFeePerGas+b.BaseFeePerGas/8+1))
			}
		}
	})
	return thief, func() { cancel(); group.Wait() }
}

// by names the client of a request, as a trusted proxy does.
func by(client string, header ...string) []string {
	return append([]string{"X-Forwarded-For", client, "X-Forwarded-Proto", "https", "Content-Type", "application/json"}, header...)
}

// reverted is how many transactions of the gas account were mined and reverted, of the
// blocks from one on, and the gas that they used.
func (s *shop) reverted(from uint64) (count int, gas uint64) {
	s.t.Helper()
	var newest hexutil.Uint64
	if err := s.chain.Call(s.t.Context(), &newest, "eth_blockNumber"); err != nil {
		s.t.Fatal(err)
	}
	for n := from; n <= uint64(newest); n++ {
		var receipts []struct {
			From            common.Address
			Status, GasUsed hexutil.Uint64
		}
		if err := s.chain.Call(s.t.Context(), &receipts, "eth_getBlockReceipts", hexutil.Uint64(n)); err != nil {
			s.t.Fatal(err)
		}
		for _, r := range receipts {
			if r.From == s.gas && r.Status == 0 {
				count++
				gas += uint64(r.GasUsed)
			}
		}
	}
	return count, gas
}

// TestAPlainAccountWastesGasOnceAnHour: an account that has its dollar away within each
// block costs one submission an authorisation, and is then refused, by whatever client and
// also by the next process. Others pay meanwhile, from its address too, and the operator sees
// what it was.
func TestAPlainAccountWastesGasOnceAnHour(t *testing.T) {
	t.Parallel()
	s := evmShop(t, "--trusted-proxy", "127.0.0.1")
	var began hexutil.Uint64
	if err := s.chain.Call(t.Context(), &began, "eth_blockNumber"); err != nil {
		t.Fatal(err)
	}
	const (
		attacker, other = "198.51.100.66", "198.51.100.67"
		path            = "/api/register"
	)
	body := ""
	n := len(s.chain.Accounts)
	thief, stop := s.juggle(s.chain.Accounts[n-2], s.chain.Accounts[n-3])
	defer stop()
	attack := func(client string, alter ...paytest.EVMAlter) reply {
		t.Helper()
		unpaid := s.send(http.MethodPost, path, []byte(body), by(client)...)
		if unpaid.Status != http.StatusPaymentRequired {
			return unpaid
		}
		return s.send(http.MethodPost, path, []byte(body), by(client, "Authorization", thief.Header(s.challenge(unpaid), alter...))...)
	}
	// It may take more than one try to have the money away at the right moment.
	tries, count, gas := 0, 0, uint64(0)
	eventually(t, "a reverted submission", longEnough, func() bool {
		tries++
		body = fmt.Sprintf(`{"name":"Juggler","url":"https://juggler-%d.dev/","kind":"agent"}`, tries)
		if r := attack(attacker, paytest.ValidFor(30*time.Second)); r.Status == http.StatusCreated {
			s.endow(thief, juggledUnits)
		}
		count, gas = s.reverted(uint64(began))
		return count > 0
	})
	t.Logf("%d submissions reverted, %d gas", count, gas)
	if count > 1 {
		t.Errorf("%d submissions of one authorisation were reverted", count)
	}
	refused := func() {
		t.Helper()
		for _, client := range []string{attacker, other} {
			if r := attack(client); r.Status != http.StatusServiceUnavailable || r.code(t) != "payments_unavailable" || r.document(t)["reason"] != "wasted_gas" {
				t.Errorf("by %s: %d %s", client, r.Status, r.Body)
			}
			named := s.send(http.MethodPost, path, []byte(body), by(client, "Wallet-Account", thief.Address().Hex())...)
			if named.Status != http.StatusServiceUnavailable || named.document(t)["reason"] != "wasted_gas" {
				t.Errorf("its 402 by %s: %d %s", client, named.Status, named.Body)
			}
		}
		if again, _ := s.reverted(uint64(began)); again != count {
			t.Errorf("%d submissions were reverted", again)
		}
	}
	refused()
	s.stop()
	s.launch()
	refused()
	out, err := s.operate("payments", "gas")
	if err != nil || !strings.Contains(out, fmt.Sprintf("%d gas wasted within the last hour, of at most 5000000", gas)) ||
		!strings.Contains(out, attacker) || !strings.Contains(out, strings.ToLower(thief.Address().Hex())) {
		t.Errorf("payments gas: %v\n%s", err, out)
	}
	payer := s.payer()
	unpaid := s.send(http.MethodPost, path, []byte(body), by(attacker)...)
	if r := s.send(http.MethodPost, path, []byte(body), by(attacker, "Authorization", payer.Header(s.challenge(unpaid)))...); r.Status != http.StatusCreated {
		t.Errorf("an honest payer: %d %s\n%s", r.Status, r.Body, s.log)
	}
}

// TestAccountsWithCodeWasteNoGas: a contract, or an account that has delegated to one,
// that agrees to simulations and not to submissions never comes to be submitted.
func TestAccountsWithCodeWasteNoGas(t *testing.T) {
	t.Parallel()
	s := evmShop(t)
	const path, body = "/api/register", `{"name":"Fickle","url":"https://fickle.dev/","kind":"agent"}`
	// It agrees where gas costs nothing.
	contract := common.HexToAddress("0x0000000000000000000000000000000000f1c41e")
	const fickle = "0x3a601257631626ba7e60e01b5f5260205ff35b5f5ffd"
	if err := s.chain.Call(t.Context(), nil, "anvil_setCode", contract, fickle); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{"a contract": fickle, "a delegation": "0xef0100" + contract.Hex()[2:]} {
		payer := s.payer()
		if err := s.chain.Call(t.Context(), nil, "anvil_setCode", payer.Address(), code); err != nil {
			t.Fatal(err)
		}
		r := s.present(path, body, payer.Header(s.offer(path, body), paytest.ValidFor(30*time.Second)))
		if r.Status != http.StatusPaymentRequired || r.document(t)["reason"] != "account_has_code" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	t.Logf("%d submissions", s.submissions())
	if n := s.submissions(); n != 0 {
		t.Errorf("%d submissions", n)
	}
}

// TestEvmChallengesLiveForAMinute: the reference client lets its authorisation end with
// the challenge.
func TestEvmChallengesLiveForAMinute(t *testing.T) {
	t.Parallel()
	s := evmShop(t)
	_, client := chain(t)
	const path, body = "/api/register", `{"name":"Brief","url":"https://brief.dev/","kind":"agent"}`
	before := time.Now().Truncate(time.Second)
	c := s.offer(path, body)
	expires, err := c.ExpiresAt()
	if life := expires.Sub(before); err != nil || life < time.Minute || life > time.Minute+5*time.Second {
		t.Errorf("the challenge lives %v, %v", life, err)
	}
	header, err := client.Sign(t.Context(), wallet(t).HexKey(), c.Header(), "evm")
	if err != nil {
		t.Fatal(err)
	}
	var payload struct{ ValidBefore string }
	cred, _, err := mpp.ParseAuthorization([]string{header})
	if err != nil || json.Unmarshal(cred.Payload, &payload) != nil || payload.ValidBefore != fmt.Sprint(expires.Unix()) {
		t.Errorf("signed until %s, want %d", payload.ValidBefore, expires.Unix())
	}
	if r := s.present(path, body, header); r.Status != http.StatusCreated {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
