package tempo

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/tempo/tempotest"
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
			n.bendTo("eth_call", nodeError{3, "execution reverted: 0x" + strings.Repeat("ab", 200)})
		}, "would not go through"},
		{"37: no balance for the fee", func(n *fakeNode) { n.bendTo("eth_call", nodeError{-32003, "insufficient funds"}) }, "holds less than is to be paid"},
		{"a node that ignores calls", func(n *fakeNode) {
			n.bend["eth_call"] = func(params []json.RawMessage) any {
				if strings.Contains(string(params[0]), `"calls"`) {
					return "0x"
				}
				return nodeError{3, "execution reverted"}
			}
		}, "would not go through"},
		{"base fee above the cap", func(n *fakeNode) {
			b := fakeBlock(9, after(-1))
			b["baseFeePerGas"] = "0x174876e801" // 100e9 + 1
			n.bendTo("eth_getBlockByNumber", b)
		}, "below the network's base fee"},
		{"base fee at the cap", func(n *fakeNode) {
			b := fakeBlock(9, after(-1))
			b["baseFeePerGas"] = "0x174876e800"
			n.bendTo("eth_getBlockByNumber", b)
		}, accept},
		{"gas above the block's", func(n *fakeNode) {
			b := fakeBlock(9, after(-1))
			b["gasLimit"] = "0x1e847f" // 2e6 - 1
			n.bendTo("eth_getBlockByNumber", b)
		}, "does not fit a block"},
		{"gas that fills the block", func(n *fakeNode) {
			b := fakeBlock(9, after(-1))
			b["gasLimit"] = "0x1e8480"
			n.bendTo("eth_getBlockByNumber", b)
		}, accept},
		{"method not found", func(n *fakeNode) { n.bendTo("eth_call", nodeError{-32601, "no such method"}) }, "unavailable"},
		{"limit exceeded", func(n *fakeNode) { n.bendTo("eth_call", nodeError{-32005, "slow down"}) }, "unavailable"},
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
	p, err := take(m, wallet(7).Pay(challenge(t, m), func(d *tempotest.Draft) { d.FeeToken = token[:] }), now)
	if err != nil {
		t.Fatal(err)
	}
	var sent []string
	n.bend["eth_call"] = func(params []json.RawMessage) any {
		sent = append(sent, string(params[0]))
		return "0x"
	}
	if err := m.Simulate(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	tx, _ := readTransaction(p.Raw)
	data := hexutil.Encode(tx.calls[0].data)
	sender, to := node.LowerHex(tx.sender), node.LowerHex(token)
	want := []string{
		fmt.Sprintf(`{"calls":[{"data":"%s","to":"%s","value":"0x0"}],"chainId":"0xa5bf","feeToken":"%s","from":"%s","gas":"0x1e8480","maxFeePerGas":"0x174876e800","maxPriorityFeePerGas":"0x3b9aca00","nonce":"0x0","nonceKey":"0x%s","type":"0x76","validAfter":"%s","validBefore":"%s"}`,
			data, to, to, sender, strings.Repeat("ff", 32), hexutil.EncodeUint64(after(-3600)), hexutil.EncodeUint64(after(25))),
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
	} {
		n, m, _ := newFake(t)
		p, err := take(m, root.Pay(challenge(t, m), func(d *tempotest.Draft) {
			d.Sign = underKeychain(root.Address(), access)
			if tc.authorized {
				d.KeyAuthorization = permit(root, 42431, access.Address())
			}
		}), now)
		if err != nil {
			t.Fatal(err)
		}
		n.bend["eth_call"] = func(params []json.RawMessage) any {
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
		{"an error", nodeError{3, "execution reverted"}, "unavailable"},
	} {
		n, m, p := newFake(t)
		var asked string
		n.bend["eth_call"] = func(params []json.RawMessage) any {
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
