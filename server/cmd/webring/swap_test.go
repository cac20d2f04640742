package main

import (
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/pay/paytest"
)

// calling is the calldata of a function, with its arguments as words.
func calling(function string, arguments ...[]byte) hexutil.Bytes {
	data := crypto.Keccak256([]byte(function))[:4]
	for _, a := range arguments {
		data = append(data, common.LeftPadBytes(a, 32)...)
	}
	return data
}

// mined has a development account make a call.
func mined(t *testing.T, from, to common.Address, data hexutil.Bytes) {
	t.Helper()
	c, _ := chain(t)
	var receipt struct{ Status string }
	err := c.Call(t.Context(), &receipt, "eth_sendTransactionSync", map[string]any{"from": from, "to": to, "data": data, "gas": "0x2dc6c0"})
	if err != nil || receipt.Status != "0x1" {
		t.Fatalf("%v, %v", err, receipt)
	}
}

// exchanging is a wallet that holds pathUSD and nothing else, on a chain whose exchange sells
// AlphaUSD for it, a thousandth above par.
func exchanging(t *testing.T) devchain.Account {
	t.Helper()
	maker, buyer := wallet(t).Address, freshAccount(t)
	mined(t, maker, devchain.PathUSD, calling("transfer(address,uint256)", buyer.Address[:], big.NewInt(20_000_000).Bytes()))
	const plenty = 1_000_000_000
	mined(t, maker, devchain.AlphaUSD, calling("approve(address,uint256)", paytest.Exchange[:], big.NewInt(plenty).Bytes()))
	mined(t, maker, paytest.Exchange, calling("createPair(address)", devchain.AlphaUSD[:]))
	mined(t, maker, paytest.Exchange, calling("place(address,uint128,bool,int16)", devchain.AlphaUSD[:], big.NewInt(plenty).Bytes(), nil, big.NewInt(100).Bytes()))
	return buyer
}

// TestPaymentBySwap: a wallet that holds another token than the one asked for joins and bids
// with the reference client's autoSwap, and what it pays is like any other payment to the
// operator. Other calls before the transfer are refused before anything is sent.
func TestPaymentBySwap(t *testing.T) {
	t.Parallel()
	w := exchanging(t)
	c, _ := chain(t)
	proxy, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	var sent atomic.Int32
	proxy.Follow(func(methods []string) faults.Fault {
		if faults.On(faults.Sends, faults.Delay)(methods) != faults.None {
			sent.Add(1)
		}
		return faults.None
	})
	o := start(t, "--tempo-rpc", proxy.URL, "--tempo-currency", devchain.AlphaUSD.Hex(), "--core", "native") // which starts quickly

	swaps := func(path, body string, status int) {
		t.Helper()
		p, err := o.tryBy([]string{"swap"}, w, http.MethodPost, path, body)
		if err != nil || p.Status != status {
			t.Fatalf("%s: %v: %d %s\n%s", path, err, p.Status, p.Body, o.log)
		}
		checkReceipt(t, p)
	}
	swaps("/api/register", `{"name":"Swapper","url":"https://swapper.dev/","kind":"agent","bid":"2.00"}`, http.StatusCreated)
	const body = `{"member":"swapper","amount":"1.00"}`
	swaps("/api/bid", body, http.StatusOK)
	if n := o.receivedIn(devchain.AlphaUSD); n != 400 || at(t, o.boardRow("swapper"), "paid_total_usd") != "4.00" {
		t.Errorf("%d cents, %v", n, o.boardRow("swapper"))
	}
	// 4.00 at a thousandth above par, and fees of less than a cent.
	spent := 20_000_000 - units(t, devchain.PathUSD, w.Address).Int64()
	if kept := units(t, devchain.AlphaUSD, w.Address); spent < 4_004_000 || spent > 4_100_000 || kept.Sign() != 0 {
		t.Errorf("the wallet has spent %d units and kept %s of what it bought", spent, kept)
	}

	// A swap that the payer has sent is found, and has its effect when it is presented. It may
	// offer and approve more than the exchange takes.
	swapping := paytest.Swapping(devchain.PathUSD, 3_000_000, func(s *paytest.Swap) { s.Approved = common.MaxHash.Big() })
	ch := o.challenge(o.post("/api/bid", body))
	raw := paytest.Tempo{Key: w.Key}.Transaction(ch, swapping)
	credential := signedBy(w, ch, swapping)
	var receipt struct{ Status, TransactionHash string }
	if err := c.Call(t.Context(), &receipt, "eth_sendRawTransactionSync", hexutil.Bytes(raw)); err != nil || receipt.Status != "0x1" {
		t.Fatalf("%v, %v", receipt, err)
	}
	eventually(t, "a stray swap", longEnough, func() bool {
		out, err := o.operate("payments", "scan", "--since", "1h")
		return err == nil && strings.Contains(out, receipt.TransactionHash) && strings.Contains(out, "1.00")
	})
	if r := o.post("/api/bid", body, "Authorization", credential); r.Status != 200 || r.Header.Get("Payment-Receipt") == "" {
		t.Errorf("presented late: %d %s", r.Status, r.Body)
	}

	// One that was sent by a process that died then has its effect in the next.
	o.stop()
	o.env = []string{"WEBRING_FAILPOINT=broadcast"}
	o.launch()
	credential = signedBy(w, o.challenge(o.post("/api/bid", body)), swapping)
	if r, err := o.try(http.MethodPost, "/api/bid", []byte(body), "Authorization", credential, "Content-Type", "application/json"); err == nil {
		t.Errorf("answered all the same: %d %s", r.Status, r.Body)
	}
	o.waitGone()
	o.env = nil
	o.launch()
	eventually(t, "the effect of a swap", longEnough, func() bool { return at(t, o.boardRow("swapper"), "paid_total_usd") == "6.00" })
	if n := o.receivedIn(devchain.AlphaUSD); n != 600 {
		t.Errorf("%d cents", n)
	}
	o.confirmed()
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "4 transactions asked for") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.operate("payments", "scan", "--since", "1h"); err != nil || strings.Contains(out, "0x") {
		t.Errorf("%v\n%s", err, out)
	}

	traces := func() string {
		out, err := o.operate("payments", "list", "--all")
		version, err2 := o.operate("version")
		if err != nil || err2 != nil {
			t.Fatalf("%v, %v\n%s%s", err, err2, out, version)
		}
		return fmt.Sprint(out, version, string(o.get("/api/ring").Body), o.receivedIn(devchain.AlphaUSD), sent.Load())
	}
	before := traces()
	type swap = paytest.Swap
	bent := func(change func(s *swap)) paytest.TempoAlter {
		return paytest.Swapping(devchain.PathUSD, 1_010_000, change)
	}
	calls := func(order ...int) paytest.TempoAlter {
		return func(d *draft) {
			swapping(d)
			three := append(d.Before, []any{d.Token, uint64(0), paytest.TransferWithMemo(d.Recipient, d.Amount, d.Memo)})
			picked := []any{}
			for _, i := range order {
				picked = append(picked, three[i])
			}
			d.Calls = picked
		}
	}
	besides := func(change func(d *draft)) paytest.TempoAlter { return func(d *draft) { swapping(d); change(d) } }
	for _, v := range []struct {
		name, reason, says string
		by                 devchain.Account
		change             paytest.TempoAlter
	}{
		{"another order", "unsupported_form", "first of three calls must be approve", w, calls(1, 0, 2)},
		{"the transfer first", "unsupported_form", "last call must be transferWithMemo", w, calls(2, 0, 1)},
		{"an approval alone", "unsupported_form", "exactly one call, the transfer, or three", w, calls(0, 2)},
		{"a second transfer", "unsupported_form", "exactly one call, the transfer, or three", w, calls(0, 1, 2, 2)},
		{"a second transfer for the swap", "unsupported_form", "second of three calls must be swapExactAmountOut", w, calls(0, 2, 2)},
		{"another token sold", "wrong_token", "must sell the token that is approved", w, bent(func(s *swap) { s.Sells = devchain.BetaUSD })},
		{"another token bought", "wrong_token", "must buy the token that is paid", w, bent(func(s *swap) { s.Buys = devchain.BetaUSD })},
		{"another spender", "unsupported_form", "must be for Tempo's exchange", w, bent(func(s *swap) { s.Spender = w.Address })},
		{"another exchange", "unsupported_form", "of Tempo's exchange", w, bent(func(s *swap) { s.Exchange = o.recipient })},
		{"another amount bought", "wrong_amount", "buy exactly what is paid", w, bent(func(s *swap) { s.Amount = big.NewInt(2_000_000) })},
		{"no measure", "wrong_amount", "out of range", w, bent(func(s *swap) { s.Most = new(big.Int).Lsh(common.Big1, 64) })},
		{"nothing approved", "wrong_amount", "approve its maximum", w, bent(func(s *swap) { s.Approved = new(big.Int) })},
		{"another recipient", "wrong_recipient", "pays somebody else", w, besides(func(d *draft) { d.Recipient = w.Address })},
		{"no memo", "unsupported_form", "must be transferWithMemo", w, besides(func(d *draft) {
			d.Data = calling("transfer(address,uint256)", d.Recipient[:], d.Amount.Bytes())
		})},
		{"a maximum below the price", "reverted", "asks for more than the swap's maximum", w, paytest.Swapping(devchain.PathUSD, 1_000_000)},
		{"a token that is not traded for it", "reverted", "", w, paytest.Swapping(devchain.BetaUSD, 1_010_000)},
		{"nothing to sell", "insufficient_funds", "holds less than the swap takes", freshAccount(t), swapping},
	} {
		r := o.post("/api/bid", body, "Authorization", signedBy(v.by, o.challenge(o.post("/api/bid", body)), v.change))
		doc := r.document(t)
		if detail, _ := doc["detail"].(string); r.Status != 402 || r.code(t) != "verification_failed" || doc["reason"] != v.reason || !strings.Contains(detail, v.says) {
			t.Errorf("%s: %d %s; want %s, %q", v.name, r.Status, r.Body, v.reason, v.says)
		}
	}
	if after := traces(); after != before {
		t.Errorf("a trace is left:\n%s\nbefore it was\n%s", after, before)
	}
}
