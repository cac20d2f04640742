package tempo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/mpp"
	"webring/server/tempo/tempotest"
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
		{"37: no balance for the fee", func(n *fakeNode) { n.bendTo("eth_call", nodeError{-32003, "insufficient funds"}) }, "would not go through"},
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
	p, err := m.Decode(wallet(7).Pay(challenge(t, m), func(d *tempotest.Draft) { d.FeeToken = token[:] }), 100, now)
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
	data := hexutil.Encode(tx.data)
	sender, to := lowerHex(tx.sender), lowerHex(token)
	want := []string{
		fmt.Sprintf(`{"calls":[{"data":"%s","to":"%s","value":"0x0"}],"chainId":"0xa5bf","feeToken":"%s","from":"%s","gas":"0x1e8480","maxFeePerGas":"0x174876e800","maxPriorityFeePerGas":"0x3b9aca00","nonce":"0x0","nonceKey":"0x%s","type":"0x76","validAfter":"%s","validBefore":"%s"}`,
			data, to, to, sender, strings.Repeat("ff", 32), hexutil.EncodeUint64(after(-3600)), hexutil.EncodeUint64(after(25))),
		fmt.Sprintf(`{"data":"%s","from":"%s","gas":"0x1e8480","to":"%s"}`, data, sender, to),
	}
	if len(sent) != 2 || sent[0] != want[0] || sent[1] != want[1] {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(want, "\n"))
	}
}

// Anyone can sign with a key of his own in the name of a rich account; only the
// chain knows that the account never gave him the key.
func TestSimulateAsksForTheAccessKey(t *testing.T) {
	access := wallet(8)
	word := func(v uint64) string { return fmt.Sprintf("%064x", v) }
	padded := func(a common.Address) string { return common.BytesToHash(a[:]).Hex()[2:] }
	key := padded(access.Address())
	for name, tc := range map[string]struct{ words, want string }{
		"known":                         {word(0) + key + word(after(3600)) + word(1) + word(0), ""},
		"known until the last second":   {word(0) + key + word(after(25)) + word(0) + word(0), ""},
		"expires before":                {word(0) + key + word(after(24)) + word(0) + word(0), "no such access key"},
		"revoked":                       {word(0) + key + word(after(3600)) + word(0) + word(1), "no such access key"},
		"unknown":                       {word(0) + word(0) + word(0) + word(0) + word(0), "no such access key"},
		"another":                       {word(0) + word(7) + word(after(3600)) + word(0) + word(0), "no such access key"},
		"a node without the precompile": {"", "no such access key"},
	} {
		n, m, _ := newFake(t)
		root := wallet(7)
		p, err := m.Decode(root.Pay(challenge(t, m), func(d *tempotest.Draft) { d.Sign = underKeychain(root.Address(), access) }), 100, now)
		if err != nil {
			t.Fatal(err)
		}
		n.bend["eth_call"] = func(params []json.RawMessage) any {
			if strings.Contains(string(params[0]), `"to":"0xaaaaaaaa`) {
				if !strings.Contains(string(params[0]), "0xbc298553"+padded(root.Address())+key) {
					t.Errorf("asked %s", params[0])
				}
				return "0x" + tc.words
			}
			return "0x"
		}
		checkSimulation(t, name, m.Simulate(t.Context(), p), tc.want)
	}
}
