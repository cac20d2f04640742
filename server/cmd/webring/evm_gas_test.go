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
	"webring/server/pay/x402"
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
	if err != nil || !strings.Contains(out, "each of at most 2000000000000000\n") || !strings.Contains(out, fmt.Sprint(gas)) ||
		!strings.Contains(out, attacker) || !strings.Contains(out, strings.ToLower(thief.Address().Hex())) {
		t.Errorf("payments gas: %v\n%s", err, out)
	}
	payer := s.payer()
	unpaid := s.send(http.MethodPost, path, []byte(body), by(attacker)...)
	if r := s.send(http.MethodPost, path, []byte(body), by(attacker, "Authorization", payer.Header(s.challenge(unpaid)))...); r.Status != http.StatusCreated {
		t.Errorf("an honest payer: %d %s\n%s", r.Status, r.Body, s.log)
	}
}

// TestSmartAccountsJoinAndBid has the reference clients of MPP and of x402 join and bid with smart
// accounts, and shows what no gas is spent on: code that agrees to simulations alone, and an
// account that is not deployed yet, which pays with the same signature once it is.
func TestSmartAccountsJoinAndBid(t *testing.T) {
	t.Parallel()
	_, client := chain(t)
	s := evmShop(t)
	one, two := freshWallet(t), freshWallet(t)
	pays := func(by, path, body string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		key, account := devchain.Account{Key: one.Key}, s.smart(one)
		p, err := client.Pay(ctx, key.HexKey(), devchain.Request{By: []string{by}, As: &account, Method: http.MethodPost, URL: s.base + path,
			Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
		if err != nil || p.Status != status {
			t.Fatalf("POST %s by %s: %v, %d %s\n%s", path, by, err, p.Status, p.Body, s.log)
		}
		if by == "x402" {
			sentField(x402.SignatureField, p.Authorization)
		}
	}
	const bid = `{"member":"clever","amount":"1.00"}`
	pays("evm", "/api/register", `{"name":"Clever","url":"https://clever.dev/","kind":"agent"}`, 201)
	pays("x402", "/api/register", `{"name":"Cleverer","url":"https://cleverer.dev/","kind":"agent"}`, 201)
	pays("evm", "/api/bid", bid, 200)
	pays("x402", "/api/bid", bid, 200)
	both := paytest.As(s.smart(one, two), one, two)
	for name, credential := range map[string]string{
		"two owners, mpp":  one.Header(s.offer("/api/bid", bid), both),
		"two owners, x402": one.Exact(s.exact("/api/bid", bid), both).Header(),
	} {
		if r := s.present("/api/bid", bid, credential); r.Status != 200 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		if r := s.present("/api/bid", bid, credential); r.Status != 409 || r.code(t) != "credential_reused" {
			t.Errorf("%s again: %d %s", name, r.Status, r.Body)
		}
	}
	// Another signature of the same authorisation, for another offer, is the same payment.
	as := paytest.As(s.smart(one), one)
	first := one.Exact(s.exact("/api/bid", bid), as)
	second := one.Exact(s.exact("/api/bid", bid), as, func(d *paytest.EVMDraft) {
		d.Nonce, d.ValidBefore, d.Sign = first.Draft.Nonce, first.Draft.ValidBefore, one.HighS
	})
	if r := s.present("/api/bid", bid, first.Header()); r.Status != 200 {
		t.Errorf("the first signature: %d %s", r.Status, r.Body)
	}
	if r := s.present("/api/bid", bid, second.Header()); r.Status != 409 || r.code(t) != "credential_reused" {
		t.Errorf("the second signature: %d %s", r.Status, r.Body)
	}
	if s.authorized() != 700 || s.submissions() != 7 {
		t.Errorf("%d cents in %d transactions, want 700 in 7", s.authorized(), s.submissions())
	}

	// The first agrees where gas costs nothing.
	fickle, refuses := s.payer().Address(), s.payer()
	later := s.payer().Address()
	for at, code := range map[common.Address]string{fickle: "0x3a601257631626ba7e60e01b5f5260205ff35b5f5ffd", refuses.Address(): "0xef0100" + fickle.Hex()[2:]} {
		if err := s.chain.Call(t.Context(), nil, "anvil_setCode", at, code); err != nil {
			t.Fatal(err)
		}
	}
	early := one.Header(s.offer("/api/bid", bid), paytest.As(later, one), paytest.Wrapped)
	for name, c := range map[string]struct{ credential, reason string }{
		"code that agrees to simulations alone": {one.Header(s.offer("/api/bid", bid), paytest.As(fickle, one)), "reverted"},
		"a delegation to it":                    {refuses.Header(s.offer("/api/bid", bid)), "reverted"},
		"the signature of another owner":        {one.Header(s.offer("/api/bid", bid), paytest.As(s.smart(two), one)), "wrong_signer"},
		"an account that is not deployed":       {early, "account_not_deployed"},
		"the same by x402":                      {one.Exact(s.exact("/api/bid", bid), paytest.As(later, one), paytest.Wrapped).Header(), "account_not_deployed"},
	} {
		if r := s.present("/api/bid", bid, c.credential); r.Status != http.StatusPaymentRequired || r.document(t)["reason"] != c.reason {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	if s.authorized() != 700 || s.submissions() != 7 {
		t.Errorf("%d cents in %d transactions, want 700 in 7", s.authorized(), s.submissions())
	}
	if err := s.chain.PutAccount(t.Context(), later, one.Address()); err != nil {
		t.Fatal(err)
	}
	if r := s.present("/api/bid", bid, early); r.Status != 200 || s.authorized() != 800 {
		t.Errorf("once it is deployed: %d %s", r.Status, r.Body)
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
