package tempo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

func TestSimulate(t *testing.T) {
	accept := ""
	for _, tc := range []struct {
		name  string
		spoil func(*fakeNode)
		want  string // a part of the rejection's detail, or "unavailable", or accept
	}{
		{"goes through", func(*fakeNode) {}, accept},
		{"37: the transfer reverts", func(n *fakeNode) {
			n.bendTo("eth_call", paytest.NodeError{Code: 3, Text: "execution reverted: 0x" + strings.Repeat("ab", 200)})
		}, "would not go through"},
		{"37: no balance for the fee", func(n *fakeNode) { n.bendTo("eth_call", paytest.NodeError{Code: -32003, Text: "insufficient funds"}) }, "holds less than is to be paid"},
		{"a node that ignores calls", func(n *fakeNode) {
			n.Bend["eth_call"] = func(params []json.RawMessage) any {
				if strings.Contains(string(params[0]), `"calls"`) {
					return "0x"
				}
				return paytest.NodeError{Code: 3, Text: "execution reverted"}
			}
		}, "would not go through"},
		{"a nonce that only later forks take", func(n *fakeNode) {
			n.bendTo("eth_call", paytest.NodeError{Code: -32000, Text: "tempo transaction error: expiring nonce transaction must have nonce == 0"})
		}, "no other nonce than 0"},
		{"a validBefore that only later forks take", func(n *fakeNode) {
			n.bendTo("eth_call", paytest.NodeError{Code: -32000, Text: "nonce manager error: expiring nonce valid_before (9) too far in the future: must be within 30s"})
		}, "validBefore so far ahead"},
		{"base fee above the cap", func(n *fakeNode) {
			b := paytest.Block(9, after(-1))
			b["baseFeePerGas"] = "0x174876e801" // 100e9 + 1
			n.bendTo("eth_getBlockByNumber", b)
		}, "below the network's base fee"},
		{"base fee at the cap", func(n *fakeNode) {
			b := paytest.Block(9, after(-1))
			b["baseFeePerGas"] = "0x174876e800"
			n.bendTo("eth_getBlockByNumber", b)
		}, accept},
		{"gas above the block's", func(n *fakeNode) {
			b := paytest.Block(9, after(-1))
			b["gasLimit"] = "0x1e847f" // 2e6 - 1
			n.bendTo("eth_getBlockByNumber", b)
		}, "does not fit a block"},
		{"gas that fills the block", func(n *fakeNode) {
			b := paytest.Block(9, after(-1))
			b["gasLimit"] = "0x1e8480"
			n.bendTo("eth_getBlockByNumber", b)
		}, accept},
		{"method not found", func(n *fakeNode) { n.bendTo("eth_call", paytest.NodeError{Code: -32601, Text: "no such method"}) }, "unavailable"},
		{"limit exceeded", func(n *fakeNode) { n.bendTo("eth_call", paytest.NodeError{Code: -32005, Text: "slow down"}) }, "unavailable"},
		{"another chain", func(n *fakeNode) { n.bendTo("eth_chainId", "0x1") }, "unavailable"},
		{"nonsense", func(n *fakeNode) { n.bendTo("eth_call", 7) }, "unavailable"},
	} {
		n, m, p := newFake(t)
		tc.spoil(n)
		checkSimulation(t, tc.name, m.Simulate(t.Context(), p), tc.want)
	}
}

func checkSimulation(t *testing.T, name string, err error, want string) {
	t.Helper()
	var no *mpp.Rejection
	switch {
	case want == "" && err == nil:
	case want == "unavailable" && isUnavailable(err):
	case want != "" && errors.As(err, &no) && no.Code == mpp.CodeVerify && strings.Contains(no.Detail, want):
		if strings.Contains(err.Error(), "ababab") {
			t.Errorf("%s: the error quotes long data: %v", name, err)
		}
	default:
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// The simulation is the signed transaction's: same sender, calls, times and
// fees, and no signature.
func TestSimulationSaysWhatWasSigned(t *testing.T) {
	n, m, _ := newFake(t)
	p, err := take(m, wallet(7).Pay(challenge(t, m), func(d *paytest.TempoDraft) {
		d.FeeToken, d.AccessList = token[:], []any{[]any{token, [][]byte{make([]byte, 32)}}}
	}), now)
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	n.Bend["eth_call"] = func(params []json.RawMessage) any {
		sent = append(sent, string(params[0]))
		return "0x"
	}
	if err := m.Simulate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	tx, _ := readTransaction(p.Raw)
	data := hexutil.Encode(tx.Calls[0].Data)
	sender, to := node.LowerHex(tx.sender), node.LowerHex(token)
	want := []string{
		fmt.Sprintf(`{"accessList":[{"address":"%s","storageKeys":["0x%064x"]}],"calls":[{"data":"%s","to":"%s","value":"0x0"}],"chainId":"0xa5bf","feeToken":"%s","from":"%s","gas":"0x1e8480","maxFeePerGas":"0x174876e800","maxPriorityFeePerGas":"0x3b9aca00","nonce":"0x0","nonceKey":"0x%s","type":"0x76","validAfter":"%s","validBefore":"%s"}`,
			to, 0, data, to, to, sender, strings.Repeat("ff", 32), hexutil.EncodeUint64(after(-3600)), hexutil.EncodeUint64(after(25))),
		fmt.Sprintf(`{"data":"%s","from":"%s","gas":"0x1e8480","to":"%s"}`, data, sender, to),
	}
	want = append(want, fmt.Sprintf(`{"data":"0x70a08231%064s","to":"%s"}`, sender[2:], to))
	if !slices.Equal(sent, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
	}
}

// What stands in for the signature tells its kind and length, the access key,
// and the permission that came along: the chain reckons their gas, and judges.
func TestSimulationNamesTheKey(t *testing.T) {
	r := readRecorded(t)
	want := map[string]string{ // the envelope's keyType, keyData, keyId; whether there is a permission
		"secp256k1":                        "- - - false",
		"p256":                             "p256 - - false",
		"webAuthn":                         "webAuthn 0x00aa - false",
		"keychain of secp256k1":            "secp256k1 - 0xf1f6619b38a98d6de0800f1defc0a6399eb6d30c false",
		"keychain of p256":                 "p256 - 0x3349a3da6adbcfc7026407813e4966cf212912f1 false",
		"keychain with its authorization":  "p256 - 0x3349a3da6adbcfc7026407813e4966cf212912f1 true",
		"keychain authorized by a passkey": "secp256k1 - 0xf1f6619b38a98d6de0800f1defc0a6399eb6d30c true",
	}
	seen := 0
	for _, v := range r.Credentials {
		if want[v.Name] == "" {
			continue
		}
		seen++
		tx, err := readTransaction(common.FromHex(v.Raw))
		if err != nil {
			t.Fatal(err)
		}
		e := envelope(tx)
		var got []string
		for _, field := range []string{"keyType", "keyData", "keyId"} {
			text := "-"
			if e[field] != nil {
				quoted, err := json.Marshal(e[field])
				if err != nil {
					t.Fatal(err)
				}
				text = strings.Trim(string(quoted), `"`)
			}
			got = append(got, text)
		}
		if got := fmt.Sprint(strings.Join(got, " "), " ", e["keyAuthorization"] != nil); got != want[v.Name] {
			t.Errorf("%s: %s, want %s", v.Name, got, want[v.Name])
		}
	}
	if seen != len(want) {
		t.Errorf("%d seen, want %d", seen, len(want))
	}
}

// The node is told the witness of a permission, as it stands in what the account signed: the account may have
// burned it.
func TestSimulationNamesTheWitness(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	root, access := wallet(7), wallet(8)
	for want, terms := range map[string][]any{"<nil>": nil, "0x" + strings.Repeat("53", 32): {uint64(0), uint64(0), uint64(0), bytes.Repeat([]byte{0x53}, 32)}} {
		p, err := take(m, root.Pay(challenge(t, m), func(d *paytest.TempoDraft) {
			d.KeyAuthorization, d.Sign = permit(root, 42431, access.Address(), terms...), underKeychain(root.Address(), access)
		}), now)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := m.reopen(p)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(envelope(tx)["keyAuthorization"])
		var told map[string]any
		if err != nil || json.Unmarshal(text, &told) != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(told["witness"]); got != want {
			t.Errorf("the node is told %s, want %s", got, want)
		}
	}
}

// Anyone can sign with a key of his own in the name of a rich account; only the
// chain knows that the account never gave him the key. And only the chain knows
// that a permission, good once, is so no longer.
func TestSimulateAsksForTheAccessKey(t *testing.T) {
	access, root := wallet(8), wallet(7)
	word := func(v uint64) string { return fmt.Sprintf("%064x", v) }
	padded := func(a common.Address) string { return common.BytesToHash(a[:]).Hex()[2:] }
	key := padded(access.Address())
	// The words: kind, key, expiry, whether limits apply, whether it is revoked.
	known, unknown := word(0)+key+word(after(3600))+word(0)+word(0), word(0)+word(0)+word(0)+word(0)+word(0)
	revoked := word(0) + word(0) + word(0) + word(0) + word(1)
	for _, tc := range []struct {
		name       string
		words      string
		left       uint64 // of the currency; the payment takes 1 000 000, and 200 000 at most for the fee
		authorized bool   // the key's permission comes along
		itself     bool   // and the account signs with its own key
		want       string
	}{
		{name: "known", words: known},
		{name: "known, with enough left", words: word(0) + key + word(after(3600)) + word(1) + word(0), left: 1_200_000},
		{name: "known, with less", words: word(0) + key + word(after(3600)) + word(1) + word(0), left: 1_199_999, want: "may not spend as much"},
		{name: "known until the last second", words: word(0) + key + word(after(25)) + word(0) + word(0)},
		{name: "expires before", words: word(0) + key + word(after(24)) + word(0) + word(0), want: "no such access key"},
		{name: "of another kind", words: word(1) + key + word(after(3600)) + word(0) + word(0), want: "no such access key"},
		{name: "revoked, still listed", words: word(0) + key + word(after(3600)) + word(0) + word(1), want: "no such access key"},
		{name: "revoked", words: revoked, want: "no such access key"},
		{name: "unknown", words: unknown, want: "no such access key"},
		{name: "another", words: word(0) + word(7) + word(after(3600)) + word(0) + word(0), want: "no such access key"},
		{name: "a node without the keychain", words: "", want: "no such access key"},
		{name: "authorized, unknown", words: unknown, authorized: true},
		{name: "authorized, known", words: known, authorized: true, want: "used already"},
		{name: "authorized, revoked", words: revoked, authorized: true, want: "used already"},
		{name: "authorized, a node without the keychain", words: "", authorized: true, want: "no such access key"},
		{name: "authorized by the account's own payment, unknown", words: unknown, authorized: true, itself: true},
		{name: "authorized by the account's own payment, known", words: known, authorized: true, itself: true, want: "used already"},
	} {
		n, m, _ := newFake(t)
		p, err := take(m, root.Pay(challenge(t, m), func(d *paytest.TempoDraft) {
			if !tc.itself {
				d.Sign = underKeychain(root.Address(), access)
			}
			if tc.authorized {
				d.KeyAuthorization = permit(root, 42431, access.Address())
			}
		}), now)
		if err != nil {
			t.Fatal(err)
		}
		n.Bend["eth_call"] = func(params []json.RawMessage) any {
			asked := string(params[0])
			switch {
			case !strings.Contains(asked, `"to":"0xaaaaaaaa`):
				return "0x"
			case strings.Contains(asked, `"0xbc298553`+padded(root.Address())+key+`"`):
				return "0x" + tc.words
			case strings.Contains(asked, padded(root.Address())+key+padded(token)+`"`):
				return "0x" + word(tc.left) + word(0)
			}
			t.Errorf("%s: asked %s", tc.name, asked)
			return "0x"
		}
		checkSimulation(t, tc.name, m.Simulate(t.Context(), p), tc.want)
	}
}

// What an account holds is the token's to say; nonsense and silence are no answer.
func TestHoldsIsTheTokensToSay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer any
		want   string
	}{
		{"exactly as much", common.BigToHash(big.NewInt(2_150_000)), ""},
		{"a unit less", common.BigToHash(big.NewInt(2_149_999)), "the account holds less than this payment and its others"},
		{"nothing", common.Hash{}, "the account holds less"},
		{"more than 64 bits", common.MaxHash, ""},
		{"no word", "0x", "unavailable"},
		{"no number", 7, "unavailable"},
		{"an error", paytest.NodeError{Code: 3, Text: "execution reverted"}, "unavailable"},
	} {
		n, m, p := newFake(t)
		var asked string
		n.Bend["eth_call"] = func(params []json.RawMessage) any {
			asked = string(params[0])
			return tc.answer
		}
		checkSimulation(t, tc.name, m.Holds(t.Context(), p, 215), tc.want)
		tx, _ := readTransaction(p.Raw)
		if want := fmt.Sprintf(`{"data":"0x70a08231%064s","to":"%s"}`, node.LowerHex(tx.sender)[2:], node.LowerHex(token)); asked != want {
			t.Errorf("asked %s, want %s", asked, want)
		}
	}
}

var alpha = common.HexToAddress("0x20c0000000000000000000000000000000000001")

// A swap is exactly the two calls before the transfer, each refused for its own reason where
// it is not.
func TestDecodeRefusesSwaps(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	type s = paytest.Swap
	swapping := func(changes ...func(*s)) paytest.TempoAlter { return paytest.Swapping(alpha, 1_010_000, changes...) }
	swapped := func(change func(d *paytest.TempoDraft)) paytest.TempoAlter {
		return func(d *paytest.TempoDraft) { swapping()(d); change(d) }
	}
	// The three calls of an honest swap, in another order or number.
	ordered := func(at ...int) paytest.TempoAlter {
		return swapped(func(d *paytest.TempoDraft) {
			three := append(d.Before, []any{d.Token, d.Value, paytest.TransferWithMemo(d.Recipient, d.Amount, d.Memo)})
			calls := []any{}
			for _, i := range at {
				calls = append(calls, three[i])
			}
			d.Calls = calls
		})
	}
	plain := func(change func(*s)) paytest.TempoAlter { return swapping(change) }
	honest := &s{Approves: alpha, Spender: exchange, Approved: big.NewInt(1_010_000), Exchange: exchange, Sells: alpha, Buys: token,
		Amount: big.NewInt(1_000_000), Most: big.NewInt(1_010_000)}
	data := func(i int) []byte { return bytes.Clone(honest.Calls()[i].([]any)[2].([]byte)) }
	for _, tc := range []struct {
		name, reason, detail string
		change               paytest.TempoAlter
	}{
		{"swap first", mpp.ReasonForm, "first of three calls must be approve", ordered(1, 0, 2)},
		{"transfer first", mpp.ReasonForm, "last call must be transferWithMemo", ordered(2, 0, 1)},
		{"transfer before the swap", mpp.ReasonForm, "last call must be transferWithMemo", ordered(0, 2, 1)},
		{"no transfer", mpp.ReasonForm, "exactly one call", ordered(0, 1)},
		{"no approval", mpp.ReasonForm, "exactly one call", ordered(1, 2)},
		{"two approvals", mpp.ReasonForm, "second of three calls must be swapExactAmountOut", ordered(0, 0, 2)},
		{"two swaps", mpp.ReasonForm, "exactly one call", ordered(0, 1, 1, 2)},
		{"two transfers", mpp.ReasonForm, "exactly one call", ordered(0, 1, 2, 2)},
		{"a second transfer instead of the swap", mpp.ReasonForm, "second of three calls must be swapExactAmountOut", ordered(0, 2, 2)},
		{"other spender", mpp.ReasonForm, "approval must be for Tempo's exchange", plain(func(s *s) { s.Spender = stranger })},
		{"other exchange", mpp.ReasonForm, "of Tempo's exchange", plain(func(s *s) { s.Exchange = stranger })},
		{"approval of another token", mpp.ReasonToken, "sell the token that is approved", plain(func(s *s) { s.Sells = stranger })},
		{"approve of no token", mpp.ReasonForm, "first of three calls must be approve", plain(func(s *s) { s.Approves, s.Sells = stranger, stranger })},
		{"another function of the token", mpp.ReasonForm, "first of three calls must be approve", plain(func(s *s) {
			s.ApproveData = append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], data(0)[4:]...)
		})},
		{"another function of the exchange", mpp.ReasonForm, "swapExactAmountOut", plain(func(s *s) {
			s.SwapData = append(crypto.Keccak256([]byte("swapExactAmountIn(address,address,uint128,uint128)"))[:4], data(1)[4:]...)
		})},
		{"buys another token", mpp.ReasonToken, "buy the token that is paid", plain(func(s *s) { s.Buys = stranger })},
		{"sells what it buys", mpp.ReasonToken, "for another", plain(func(s *s) { s.Approves, s.Sells = token, token })},
		{"buys more", mpp.ReasonAmount, "exactly what is paid", plain(func(s *s) { s.Amount = big.NewInt(1_000_001) })},
		{"buys less", mpp.ReasonAmount, "exactly what is paid", plain(func(s *s) { s.Amount = big.NewInt(999_999) })},
		{"buys 2⁶⁴ more", mpp.ReasonAmount, "exactly what is paid", plain(func(s *s) { s.Amount.Add(s.Amount, new(big.Int).Lsh(big.NewInt(1), 64)) })},
		{"sells 2⁶³", mpp.ReasonAmount, "out of range", plain(func(s *s) { s.Most = new(big.Int).Lsh(common.Big1, 63) })},
		{"sells 2⁶⁴", mpp.ReasonAmount, "out of range", plain(func(s *s) { s.Most = new(big.Int).Lsh(common.Big1, 64) })},
		{"dirt above the spender", mpp.ReasonForm, "approval must be for", plain(func(s *s) { s.ApproveData = data(0); s.ApproveData[4] = 1 })},
		{"dirt above the token sold", mpp.ReasonToken, "token that is approved", plain(func(s *s) { s.SwapData = data(1); s.SwapData[4] = 1 })},
		{"dirt above the token bought", mpp.ReasonToken, "token that is paid", plain(func(s *s) { s.SwapData = data(1); s.SwapData[36] = 1 })},
		{"padded approval", mpp.ReasonForm, "first of three calls", plain(func(s *s) { s.ApproveData = append(data(0), 0) })},
		{"padded swap", mpp.ReasonForm, "second of three calls", plain(func(s *s) { s.SwapData = append(data(1), 0) })},
		{"cut swap", mpp.ReasonForm, "second of three calls", plain(func(s *s) { s.SwapData = data(1)[:131] })},
		{"approval with value", mpp.ReasonForm, "no value", plain(func(s *s) { s.ApproveValue = uint64(1) })},
		{"swap with value", mpp.ReasonForm, "no value", plain(func(s *s) { s.SwapValue = uint64(1) })},
		{"pays somebody else", mpp.ReasonRecipient, "somebody else", swapped(func(d *paytest.TempoDraft) { d.Recipient = stranger })},
		{"pays less than is asked for", mpp.ReasonAmount, "another amount", func(d *paytest.TempoDraft) { d.Amount = big.NewInt(999_999); swapping()(d) }},
		{"pays in another token", mpp.ReasonToken, "another token", func(d *paytest.TempoDraft) { d.Token = stranger; swapping()(d) }},
		{"transfer without a memo", mpp.ReasonForm, "last call must be transferWithMemo", swapped(func(d *paytest.TempoDraft) {
			d.Data = append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], paytest.TransferWithMemo(d.Recipient, d.Amount, d.Memo)[4:68]...)
		})},
		{"for another challenge", mpp.ReasonChallenge, "not for this challenge", swapped(func(d *paytest.TempoDraft) { d.Memo = paytest.Memo(c.Realm, "another") })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := take(m, wallet(7).Pay(c, tc.change), now)
			var no *mpp.Rejection
			if !errors.As(err, &no) || no.Code != mpp.CodeVerify || no.Reason != tc.reason || !strings.Contains(no.Detail, tc.detail) || p.Raw != nil {
				t.Errorf("%v, %+v; want %s, %q", err, p, tc.reason, tc.detail)
			}
		})
	}
	for name, change := range map[string]func(*s){
		"as the reference client":     func(*s) {},
		"approves less":               func(s *s) { s.Approved = big.NewInt(1_000_000) },
		"for less than is paid":       func(s *s) { s.Approved, s.Most = big.NewInt(990_000), big.NewInt(990_000) },
		"for twice what is paid":      func(s *s) { s.Approved, s.Most = big.NewInt(2_000_000), big.NewInt(2_000_000) },
		"sells another TIP-20 token":  func(s *s) { s.Approves[19], s.Sells[19] = 9, 9 },
		"approves a single base unit": func(s *s) { s.Approved = big.NewInt(1) },
		"approves nothing":            func(s *s) { s.Approved = new(big.Int) },
		"approves all":                func(s *s) { s.Approved = common.MaxHash.Big() },
		"sells without measure":       func(s *s) { s.Most = new(big.Int).SetUint64(1<<63 - 1) },
	} {
		p, err := take(m, wallet(7).Pay(c, swapping(change)), now)
		if err != nil || p.Cents != 100 || p.Payee != m.Payee() {
			t.Errorf("%s: %v, %+v", name, err, p)
			continue
		}
		if tx, err := m.reopen(p); err != nil || tx.swap == nil || tx.amount != 1_000_000 {
			t.Errorf("%s: stored and read again: %v", name, err)
		}
	}
}

// newSwap is newFake with a payment by swap, and a node that says that it would go through.
func newSwap(t *testing.T, changes ...paytest.TempoAlter) (*fakeNode, *Method, mpp.Payment) {
	t.Helper()
	n, m, _ := newFake(t)
	p, err := take(m, wallet(7).Pay(challenge(t, m), append([]paytest.TempoAlter{paytest.Swapping(alpha, 1_010_000)}, changes...)...), now)
	if err != nil {
		t.Fatal(err)
	}
	n.bendTo("eth_simulateV1", simulates(p))
	return n, m, p
}

// simulates is an honest node's answer to the calls of a swap, one after the other.
func simulates(p mpp.Payment, change ...func(calls []fields)) []fields {
	logs := paidReceipt(p, 9)["logs"].([]fields)
	calls := []fields{
		{"status": "0x1", "returnData": common.BigToHash(big.NewInt(1)), "logs": logs[:1]},
		{"status": "0x1", "returnData": common.BigToHash(big.NewInt(1_000_100)), "logs": []fields{}},
		{"status": "0x1", "returnData": "0x", "logs": logs[1:]},
	}
	for _, c := range change {
		c(calls)
	}
	return []fields{{"calls": calls}}
}

// A swap is simulated whole: as a transaction, and its calls one after the other, of which
// the last must log the payment.
func TestSimulateSwap(t *testing.T) {
	reverts := func(at int, signature string) func([]fields) {
		return func(calls []fields) {
			calls[at]["status"], calls[at]["logs"] = "0x0", []fields{}
			calls[at]["returnData"] = hexutil.Encode(append(crypto.Keccak256([]byte(signature))[:4], make([]byte, 96)...))
		}
	}
	changed := func(change ...func([]fields)) func(*fakeNode, mpp.Payment) {
		return func(n *fakeNode, p mpp.Payment) { n.bendTo("eth_simulateV1", simulates(p, change...)) }
	}
	for _, tc := range []struct {
		name  string
		spoil func(*fakeNode, mpp.Payment)
		want  string
	}{
		{"goes through", func(*fakeNode, mpp.Payment) {}, ""},
		{"the price has risen", changed(reverts(1, "MaxInputExceeded()")), "more than the swap's maximum"},
		{"no liquidity", changed(reverts(1, "InsufficientLiquidity()")), "has not as much of the token asked for"},
		{"no such pair", changed(reverts(1, "PairDoesNotExist()")), "does not trade these tokens"},
		{"too little approved", changed(reverts(1, "InsufficientAllowance()")), "approve its maximum"},
		{"an empty wallet", changed(reverts(1, "InsufficientBalance(uint256,uint256,address)")), "holds less than the swap takes"},
		{"another error", changed(reverts(0, "Paused()")), "would not go through"},
		{"the transfer fails", changed(reverts(2, "PolicyForbids()")), "would not go through"},
		{"no logs", changed(func(calls []fields) { calls[2]["logs"] = []fields{} }), "payment after the swap would not go through"},
		{"logs of another call", changed(func(calls []fields) { calls[1]["logs"], calls[2]["logs"] = calls[2]["logs"], []fields{} }), "payment after the swap"},
		{"status without a number", changed(func(calls []fields) { delete(calls[0], "status") }), "unavailable"},
		{"two calls", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_simulateV1", []fields{{"calls": simulates(p)[0]["calls"].([]fields)[:2]}})
		}, "unavailable"},
		{"no block", func(n *fakeNode, p mpp.Payment) { n.bendTo("eth_simulateV1", []fields{}) }, "unavailable"},
		{"a node that does not know the question", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_simulateV1", paytest.NodeError{Code: -32601, Text: "no such method"})
		}, "pay from an account that holds the token asked for"},
		{"slow down", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_simulateV1", paytest.NodeError{Code: -32005, Text: "slow down"})
		}, "unavailable"},
		{"refused whole", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_simulateV1", paytest.NodeError{Code: -38014, Text: "no"})
		}, "would not go through"},
		{"the transaction itself is refused", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_call", paytest.NodeError{Code: 3, Text: "execution reverted"})
		}, "would not go through"},
		{"no money for the fee", func(n *fakeNode, p mpp.Payment) {
			n.bendTo("eth_call", paytest.NodeError{Code: -32003, Text: "insufficient fee token balance"})
		}, "with the network's fee"},
	} {
		n, m, p := newSwap(t)
		tc.spoil(n, p)
		checkSimulation(t, tc.name, m.Simulate(t.Context(), p), tc.want)
	}

	n, m, p := newSwap(t)
	var sent []string
	for _, method := range []string{"eth_call", "eth_simulateV1"} {
		answer := n.Bend[method]
		n.Bend[method] = func(params []json.RawMessage) any {
			sent = append(sent, string(params[0]))
			if answer != nil {
				return answer
			}
			return "0x"
		}
	}
	if err := m.Simulate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	tx, err := readTransaction(p.Raw)
	if err != nil {
		t.Fatal(err)
	}
	var whole, singly []string
	for _, c := range tx.Calls {
		whole = append(whole, fmt.Sprintf(`{"data":"%s","to":"%s","value":"0x0"}`, hexutil.Encode(c.Data), node.LowerHex(c.To)))
		singly = append(singly, fmt.Sprintf(`{"data":"%s","from":"%s","to":"%s"}`, hexutil.Encode(c.Data), node.LowerHex(tx.sender), node.LowerHex(c.To)))
	}
	if len(sent) != 2 || !strings.HasPrefix(sent[0], `{"calls":[`+strings.Join(whole, ",")+`],"chainId"`) ||
		sent[1] != `{"blockStateCalls":[{"calls":[`+strings.Join(singly, ",")+`]}]}` {
		t.Errorf("asked\n%s", strings.Join(sent, "\n"))
	}
}

// What an account must hold for a swap beside its other payments is of the token that it sells.
func TestHoldsForSwapsIsOfTheTokenSold(t *testing.T) {
	for units, want := range map[int64]string{2_160_000: "", 2_159_999: "the account holds less than this payment and its others"} {
		n, m, p := newSwap(t)
		var asked string
		n.Bend["eth_call"] = func(params []json.RawMessage) any {
			asked = string(params[0])
			return common.BigToHash(big.NewInt(units))
		}
		checkSimulation(t, fmt.Sprint(units), m.Holds(t.Context(), p, 215), want)
		if !strings.Contains(asked, `"to":"`+node.LowerHex(alpha)+`"`) {
			t.Errorf("asked %s", asked)
		}
	}
}

// An access key spends what it approves, what it pays, and the fee, which an unnamed token
// pays that is the first of all: here the currency.
func TestSwapsOfAccessKeysAreWithinTheirLimits(t *testing.T) {
	access, root := wallet(8), wallet(7)
	both := func(sold, paid uint64) any { return []any{[]any{alpha, sold}, []any{token, paid}} }
	for name, tc := range map[string]struct {
		limits any
		fee    []byte
		taken  bool
	}{
		"enough":                         {both(1_010_000, 1_200_000), nil, true},
		"too little of the one sold":     {both(1_009_999, 1_200_000), nil, false},
		"too little of the one paid":     {both(1_010_000, 1_199_999), nil, false},
		"none of the one sold":           {limits(token, 9_000_000), nil, false},
		"the fee in the one sold":        {both(1_210_000, 1_000_000), alpha[:], true},
		"too little for the fee in that": {both(1_209_999, 1_000_000), alpha[:], false},
	} {
		n, m, _ := newFake(t)
		p, err := take(m, root.Pay(challenge(t, m), paytest.Swapping(alpha, 1_010_000), func(d *paytest.TempoDraft) {
			d.Sign = underKeychain(root.Address(), access)
			d.KeyAuthorization = permit(root, 42431, access.Address(), after(3600), tc.limits)
			if tc.fee != nil {
				d.FeeToken = tc.fee
			}
		}), now)
		if (err == nil) != tc.taken {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		n.bendTo("eth_simulateV1", simulates(p))
		word := func(v uint64) string { return fmt.Sprintf("%064x", v) }
		n.bendTo("eth_call", "0x"+strings.Repeat(word(0), 5))
		if err := m.Simulate(t.Context(), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of a key that is known already, the keychain is asked for both.
	for _, tc := range []struct {
		sold, paid uint64
		want       string
	}{{1_010_000, 1_200_000, ""}, {1_009_999, 1_200_000, "may not spend as much"}, {1_010_000, 1_199_999, "may not spend as much"}} {
		n, m, p := newSwap(t, func(d *paytest.TempoDraft) { d.Sign = underKeychain(root.Address(), access) })
		n.Bend["eth_call"] = func(params []json.RawMessage) any {
			padded := func(a common.Address) string { return common.BytesToHash(a[:]).Hex()[2:] }
			asked := string(params[0])
			key := access.Address()
			switch {
			case strings.Contains(asked, padded(key)+padded(alpha)):
				return fmt.Sprintf("0x%064x%064x", tc.sold, 0)
			case strings.Contains(asked, padded(key)+padded(token)):
				return fmt.Sprintf("0x%064x%064x", tc.paid, 0)
			case strings.Contains(asked, node.LowerHex(keychain)):
				return fmt.Sprintf("0x%064x%s%064x%064x%064x", 0, padded(key), after(3600), 1, 0)
			}
			return "0x"
		}
		checkSimulation(t, fmt.Sprint(tc), m.Simulate(t.Context(), p), tc.want)
	}
}
