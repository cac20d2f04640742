package tempo

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

var (
	token     = common.HexToAddress("0x20c0000000000000000000000000000000000000")
	recipient = common.HexToAddress("0x70997970c51812dc3a010c7d01b50e0d17dc79c8")
	stranger  = common.HexToAddress("0x00000000000000000000000000000000deadbeef")
	now       = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
)

func testKey(n int64) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(common.LeftPadBytes(big.NewInt(n).Bytes(), 32))
	if err != nil {
		panic(err)
	}
	return key
}

func wallet(n int64) paytest.Tempo {
	return paytest.Tempo{Key: testKey(n), Now: func() time.Time { return now }}
}

// challenge asks for 1.00, for five minutes.
func challenge(t testing.TB, m *Method) mpp.Challenge {
	return paytest.Challenge(t, m, now.Add(5*time.Minute))
}

var take = paytest.Take

// after is n seconds after the tests' now, as a field of a transaction.
func after(n int64) uint64 { return uint64(now.Unix() + n) }

// Hostile transactions, each really signed, each refused for its own reason.
// The numbers are those of the list of what must be refused.
func TestDecodeRefuses(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	w := wallet(7)
	type d = paytest.TempoDraft
	const verify = mpp.CodeVerify
	one := func(to common.Address, value any, data []byte) []any { return []any{to, value, data} }
	calldata := paytest.TransferWithMemo(recipient, big.NewInt(1_000_000), paytest.Memo(c.Realm, c.ID))
	for _, tc := range []struct {
		name, code, detail string
		change             paytest.TempoAlter
	}{
		{"19: another method's payload type", mpp.CodeMalformed, "payload is malformed", func(d *d) { d.PayloadType = "authorization" }},
		{"20: proof", verify, "only signed transactions", func(d *d) { d.PayloadType = "proof" }},
		{"21: hash", verify, "only signed transactions", func(d *d) {
			d.Payload = map[string]string{"type": "hash", "hash": "0x" + strings.Repeat("ab", 32)}
		}},
		{"payload without 0x", mpp.CodeMalformed, "payload is malformed", func(d *d) {
			d.Payload = map[string]string{"type": "transaction", "signature": "76c0"}
		}},
		{"payload not hex", mpp.CodeMalformed, "payload is malformed", func(d *d) {
			d.Payload = map[string]string{"type": "transaction", "signature": "0x76zz"}
		}},
		{"payload empty", verify, "empty or too large", func(d *d) {
			d.Payload = map[string]string{"type": "transaction", "signature": "0x"}
		}},
		{"22: type 0x02", verify, "of type 0x76", func(d *d) { d.Type = 0x02 }},
		{"22: legacy transaction", verify, "of type 0x76", func(d *d) { d.Wire = func(raw []byte) []byte { return raw[1:] } }},
		{"23: fee payer's type", verify, "pays no fees", func(d *d) { d.Type = 0x78 }},
		{"23: fee payer asked for", verify, "pays no fees", func(d *d) { d.FeePayer = []byte{0} }},
		{"23: fee payer signed", verify, "pays no fees", func(d *d) { d.FeePayer = []any{uint64(0), uint64(1), uint64(2)} }},
		{"24: trailing byte", verify, "canonical RLP", func(d *d) { d.Wire = func(raw []byte) []byte { return append(raw, 0) } }},
		{"24: last byte missing", verify, "canonical RLP", func(d *d) { d.Wire = func(raw []byte) []byte { return raw[:len(raw)-1] } }},
		{"24: leading zero in an integer", verify, "canonical RLP", func(d *d) { d.Gas = rlp.RawValue{0x82, 0x00, 0xff} }},
		{"24: zero as a byte", verify, "canonical RLP", func(d *d) { d.Nonce = rlp.RawValue{0x00} }},
		{"24: short string in long form", verify, "canonical RLP", func(d *d) { d.Gas = rlp.RawValue{0xb8, 0x01, 0xff} }},
		{"24: single byte with a prefix", verify, "canonical RLP", func(d *d) { d.Gas = rlp.RawValue{0x81, 0x01} }},
		{"24: fee with a leading zero", verify, "canonical RLP", func(d *d) { d.MaxFee = []byte{0, 1} }},
		{"24: fee of 17 bytes", verify, "fee is out of range", func(d *d) { d.MaxFee = bytes.Repeat([]byte{1}, 17) }},
		{"24: list of calls in long form", verify, "canonical RLP", func(d *d) {
			d.Wire = func(raw []byte) []byte { return lengthen(raw) }
		}},
		{"too large", verify, "empty or too large", func(d *d) { d.Data = make([]byte, maxRaw) }},
		{"25: unsigned", verify, "not signed", func(d *d) { d.Unsigned = true }},
		{"25: unsigned with a key authorization", verify, "not signed", func(d *d) { d.Unsigned, d.KeyAuthorization = true, []any{} }},
		{"25: empty signature", verify, "kind of signature", func(d *d) { d.Sign = func([]byte) []byte { return nil } }},
		{"25: too many fields", verify, "number of fields", func(d *d) {
			d.KeyAuthorization = rlp.RawValue{0xc0, 0xc0}
		}},
		{"27: other chain", verify, "another chain", func(d *d) { d.ChainID = uint64(4217) }},
		{"28: other token", verify, "another token", func(d *d) { d.Token = common.HexToAddress("0x20c0000000000000000000000000000000000001") }},
		{"29: amount + 1", verify, "another amount", func(d *d) { d.Amount = big.NewInt(1_000_001) }},
		{"29: amount − 1", verify, "another amount", func(d *d) { d.Amount = big.NewInt(999_999) }},
		{"29: amount + 2⁶⁴", verify, "out of range", func(d *d) { d.Amount.Add(d.Amount, new(big.Int).Lsh(big.NewInt(1), 64)) }},
		{"other recipient", verify, "somebody else", func(d *d) { d.Recipient = stranger }},
		{"dirt above the recipient", verify, "out of range", func(d *d) { d.Data = append([]byte(nil), calldata...); d.Data[4] = 1 }},
		{"30: plain transfer", verify, "must be transferWithMemo", func(d *d) {
			d.Data = append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], calldata[4:68]...)
		}},
		{"30: transferFrom", verify, "must be transferWithMemo", func(d *d) {
			d.Data = append(crypto.Keccak256([]byte("transferFromWithMemo(address,address,uint256,bytes32)"))[:4], calldata[4:]...)
		}},
		{"no calldata", verify, "must be transferWithMemo", func(d *d) { d.Data = []byte{} }},
		{"31: memo of another challenge", verify, "not for this challenge", func(d *d) { d.Memo = paytest.Memo(c.Realm, "another") }},
		{"32: memo of another realm", verify, "not for this realm", func(d *d) { d.Memo = paytest.Memo("other.example", c.ID) }},
		{"memo of another version", verify, "not for this realm", func(d *d) { d.Memo[4] = 2 }},
		{"memo without the tag", verify, "not for this realm", func(d *d) { d.Memo[0] = 0 }},
		{"33: padded calldata", verify, "exactly 100 bytes", func(d *d) { d.Data = append(calldata[:100:100], 0) }},
		{"33: calldata cut", verify, "exactly 100 bytes", func(d *d) { d.Data = calldata[:99] }},
		{"34: validBefore missing", verify, "which the expiring nonce needs", func(d *d) { d.ValidBefore = uint64(0) }},
		{"34: validBefore past", mpp.CodeExpired, "too soon", func(d *d) { d.ValidBefore = after(-1) }},
		{"34: validBefore in 4 s", mpp.CodeExpired, "too soon", func(d *d) { d.ValidBefore = after(4) }},
		{"34: validBefore in 301 s", verify, "for longer than it may", func(d *d) { d.ValidBefore = after(301) }},
		{"34: validBefore beyond time", verify, "no usable validBefore", func(d *d) { d.ValidBefore = ^uint64(0) }},
		{"35: validAfter in the future", verify, "not valid yet", func(d *d) { d.ValidAfter = after(1) }},
		{"35: validAfter beyond time", verify, "not valid yet", func(d *d) { d.ValidAfter = ^uint64(0) }},
		{"36: source is not the signer", verify, "source is not the signer", func(d *d) { d.Source = "did:pkh:eip155:42431:" + stranger.Hex() }},
		{"36: source on another chain", verify, "source is not the signer", func(d *d) { d.Source = strings.Replace(d.Source, "42431", "4217", 1) }},
		{"36: source is no DID", verify, "source is not the signer", func(d *d) { d.Source = w.Address().Hex() }},
		{"36: signed for somebody else", verify, "source is not the signer", func(d *d) { d.Sign = wallet(8).Sign }},
		{"two calls", verify, "exactly one call", func(d *d) {
			d.Calls = []any{one(token, uint64(0), calldata), one(token, uint64(0), calldata)}
		}},
		{"no call", verify, "exactly one call", func(d *d) { d.Calls = []any{} }},
		{"call with value", verify, "no value", func(d *d) { d.Value = uint64(1) }},
		{"call that creates", verify, "canonical RLP", func(d *d) { d.Calls = []any{[]any{[]byte{}, uint64(0), calldata}} }},
		{"call of two parts", verify, "canonical RLP", func(d *d) { d.Calls = []any{[]any{token, uint64(0)}} }},
		{"access list of no contract", verify, "canonical RLP", func(d *d) { d.AccessList = []any{[]any{[]byte{1}, []any{}}} }},
		{"access list of no slot", verify, "canonical RLP", func(d *d) { d.AccessList = []any{[]any{token, []any{[]byte{1}}}} }},
		{"access list of three parts", verify, "canonical RLP", func(d *d) { d.AccessList = []any{[]any{token, []any{}, uint64(0)}} }},
		{"no access list", verify, "canonical RLP", func(d *d) { d.AccessList = []byte{} }},
		{"authorization list", verify, "must be empty", func(d *d) { d.AuthorizationList = []any{[]any{}} }},
		{"fee token no address", verify, "fee token", func(d *d) { d.FeeToken = []byte{1} }},
		{"gas without measure", verify, "gas is out of range", func(d *d) { d.Gas = uint64(1_000_000_000_000) }},
		{"gas above the bound", verify, "gas is out of range", func(d *d) { d.Gas = uint64(maxGas + 1) }},
		{"gas below any transaction's", verify, "gas is out of range", func(d *d) { d.Gas = uint64(minGas - 1) }},
		{"keychain of the old form", verify, "no longer", func(d *d) {
			d.Sign = func(digest []byte) []byte {
				return append(append([]byte{3}, w.Address().Bytes()...), w.Sign(digest)...)
			}
		}},
		{"tip above the cap", verify, "priority fee", func(d *d) { d.MaxPriorityFee = uint64(200e9) }},
		{"signature of zeroes", verify, "does not verify", func(d *d) { d.Sign = func([]byte) []byte { return make([]byte, 65) } }},
		{"v of 2", verify, "does not verify", func(d *d) {
			d.Sign = func(digest []byte) []byte { s := w.Sign(digest); s[64] = 2; return s }
		}},
		{"multisig", verify, "kind of signature", func(d *d) { d.Sign = func([]byte) []byte { return append([]byte{5}, make([]byte, 80)...) } }},
		{"keychain in keychain", verify, "kind of signature", func(d *d) {
			d.Sign = func(digest []byte) []byte {
				inner := append(append([]byte{4}, stranger[:]...), w.Sign(digest)...)
				return append(append([]byte{4}, stranger[:]...), inner...)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := take(m, w.Pay(c, tc.change), now)
			var no *mpp.Rejection
			if !errors.As(err, &no) {
				t.Fatalf("not refused: %v, error %v", p, err)
			}
			if no.Code != tc.code || !strings.Contains(no.Detail, tc.detail) {
				t.Errorf("refused as %s, %q; want %s, %q", no.Code, no.Detail, tc.code, tc.detail)
			}
			if p.Raw != nil {
				t.Error("a refusal comes with a payment")
			}
		})
	}
}

// lengthen spells the outer list's length with a leading zero byte.
func lengthen(raw []byte) []byte {
	// 0x76 0xf9 hi lo …: two length bytes become three.
	return append([]byte{raw[0], 0xfa, 0x00, raw[2], raw[3]}, raw[4:]...)
}

// The same signed transaction stands or falls with the challenge around it.
func TestDecodeHoldsThePaymentToTheChallenge(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	for _, tc := range []struct {
		name   string
		now    time.Time
		change func(*mpp.Challenge)
		code   string
	}{
		{"as asked", now, func(*mpp.Challenge) {}, ""},
		{"8: asks for more", now, asks(m, 101, token, recipient), mpp.CodeVerify},
		{"9: pays somebody else", now, asks(m, 100, token, stranger), mpp.CodeVerify},
		{"9: in another token", now, asks(m, 100, stranger, recipient), mpp.CodeVerify},
		{"9: on another chain", now, asks(newMethod(t, Config{ChainID: 4217, Currency: token, Recipient: recipient}), 100, token, recipient), mpp.CodeUnapplied},
		{"asks for nothing", now, func(c *mpp.Challenge) { c.Request = "" }, mpp.CodeUnapplied},
		{"asks for less than a cent", now, requests(`{"amount":"1","currency":"` + node.LowerHex(token) + `","methodDetails":{"chainId":42431,"supportedModes":["pull"]},"recipient":"` + node.LowerHex(recipient) + `"}`), mpp.CodeUnapplied},
		{"asks in other words", now, requests(`{"amount":"1000000","currency":"` + node.LowerHex(token) + `","methodDetails":{"chainId":42431,"supportedModes":["pull"]},"recipient":"` + node.LowerHex(recipient) + `","memo":""}`), mpp.CodeUnapplied},
		{"15: expired", now.Add(5 * time.Minute), func(*mpp.Challenge) {}, mpp.CodeExpired},
		{"34: valid beyond expires", now, func(c *mpp.Challenge) { c.Expires = now.Add(24 * time.Second).Format(time.RFC3339) }, mpp.CodeVerify},
		{"until expires", now, func(c *mpp.Challenge) { c.Expires = now.Add(25 * time.Second).Format(time.RFC3339) }, ""},
		{"42: under a second challenge", now, func(c *mpp.Challenge) { c.ID = "second" }, mpp.CodeVerify},
		{"32: under another realm", now, func(c *mpp.Challenge) { c.Realm = "other.example" }, mpp.CodeVerify},
	} {
		cred := wallet(7).Pay(c)
		tc.change(&cred.Challenge)
		_, err := take(m, cred, tc.now)
		var no *mpp.Rejection
		if tc.code == "" && err != nil || tc.code != "" && (!errors.As(err, &no) || no.Code != tc.code) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.code)
		}
	}
}

// asks has a challenge ask for something else, as m would have under another
// configuration.
func asks(m *Method, cents int64, currency, recipient common.Address) func(*mpp.Challenge) {
	return func(c *mpp.Challenge) { c.Request, _ = m.request(cents, currency, recipient) }
}

// requests has a challenge ask for what some JSON says.
func requests(text string) func(*mpp.Challenge) {
	return func(c *mpp.Challenge) { c.Request, _ = mpp.EncodeJSON(json.RawMessage(text)) }
}

// A payment to an earlier recipient, or in an earlier token, is read by its own
// challenge, and says so.
func TestDecodeNamesThePayee(t *testing.T) {
	before, today := newMethod(t, Config{Currency: token, Recipient: recipient}), newMethod(t, Config{Currency: stranger, Recipient: stranger})
	p, err := take(today, wallet(7).Pay(challenge(t, before)), now)
	if err != nil || p.Payee != before.Payee() || p.Cents != 100 {
		t.Errorf("%+v, %v; want %s", p, err, before.Payee())
	}
	c := challenge(t, before)
	memo := paytest.Memo(c.Realm, c.ID)
	if p, err := take(today, wallet(7).Pay(c), now); err != nil || p.Binding != common.Hash(memo).Hex() {
		t.Errorf("%+v, %v; want %x", p, err, memo)
	}
}

// The window's edges, and what a credential may leave out.
func TestDecodeAccepts(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	for name, change := range map[string]paytest.TempoAlter{
		"5 s ahead":       func(d *paytest.TempoDraft) { d.ValidBefore = after(5) },
		"300 s ahead":     func(d *paytest.TempoDraft) { d.ValidBefore = after(300) },
		"validAfter now":  func(d *paytest.TempoDraft) { d.ValidAfter = after(0) },
		"no validAfter":   func(d *paytest.TempoDraft) { d.ValidAfter = uint64(0) },
		"no source":       func(d *paytest.TempoDraft) { d.Source = "" },
		"fee token":       func(d *paytest.TempoDraft) { d.FeeToken = token[:] },
		"client's memo":   func(d *paytest.TempoDraft) { copy(d.Memo[15:25], "our client") },
		"source in lower": func(d *paytest.TempoDraft) { d.Source = strings.ToLower(d.Source) },
		"fee of 16 bytes": func(d *paytest.TempoDraft) { d.MaxFee = bytes.Repeat([]byte{1}, 16) },
		"no fee":          func(d *paytest.TempoDraft) { d.MaxFee, d.MaxPriorityFee = uint64(0), uint64(0) },
		"access list": func(d *paytest.TempoDraft) {
			d.AccessList = []any{[]any{token, [][]byte{make([]byte, 32)}}, []any{stranger, []any{}}}
		},
	} {
		if _, err := take(m, wallet(7).Pay(c, change), now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// 26: other spellings of the signature of one transaction lead to the same
// bytes, hash and replay key, so that a consumed one is known again.
func TestOneTransactionHasOneReplayKey(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	w := wallet(7)
	honest, err := take(m, w.Pay(c), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(honest.ReplayKey) != len("tempo:42431:")+64 || honest.ReplayKey != "tempo:42431:"+honest.Reference[2:] || honest.ReplayKey != strings.ToLower(honest.ReplayKey) {
		t.Errorf("replay key %s of %s", honest.ReplayKey, honest.Reference)
	}
	n := crypto.S256().Params().N
	for name, spell := range map[string]func(sig []byte){
		"v of 0 or 1": func(sig []byte) { sig[64] -= 27 },
		"high s": func(sig []byte) {
			new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:64])).FillBytes(sig[32:64])
			sig[64] ^= 7 // 27 ↔ 28
		},
		"high s, v of 0 or 1": func(sig []byte) {
			new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:64])).FillBytes(sig[32:64])
			sig[64] = 28 - sig[64]
		},
	} {
		var spelt []byte
		p, err := take(m, w.Pay(c, func(d *paytest.TempoDraft) {
			d.Sign = func(digest []byte) []byte { spelt = w.Sign(digest); spell(spelt); return spelt }
		}), now)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.ReplayKey != honest.ReplayKey || !bytes.Equal(p.Raw, honest.Raw) || p.Payer != honest.Payer {
			t.Errorf("%s: another payment: %s, not %s", name, p.ReplayKey, honest.ReplayKey)
		}
	}
	// The hex of the payload may be written in upper case: same bytes.
	upper := w.Pay(c)
	text := strings.Replace(string(upper.Payload), "0x76", "0X76", 1)
	upper.Payload = []byte(text)
	if _, err := take(m, upper, now); err == nil {
		t.Error("0X is taken for 0x")
	}
	upper.Payload = []byte(strings.Replace(strings.ToUpper(string(w.Pay(c).Payload)), `{"SIGNATURE":"0X`, `{"signature":"0x`, 1))
	upper.Payload = []byte(strings.Replace(string(upper.Payload), `"TYPE":"TRANSACTION"`, `"type":"transaction"`, 1))
	if p, err := take(m, upper, now); err != nil || p.ReplayKey != honest.ReplayKey {
		t.Errorf("upper-case digits: %v", err)
	}
}

// Decoding never panics, and what it takes it takes again in the same form.
func FuzzDecodeTransaction(f *testing.F) {
	for _, v := range readRecorded(f).Credentials {
		f.Add(common.FromHex(v.Raw))
	}
	m := newMethod(f, Config{Currency: token, Recipient: recipient})
	f.Add(wallet(7).Transaction(challenge(f, m)))
	f.Add(wallet(7).Transaction(challenge(f, m), paytest.Swapping(alpha, 1_010_000)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := readTransaction(raw)
		if err != nil {
			var no *mpp.Rejection
			if !errors.As(err, &no) {
				t.Fatalf("refused with %T: %v", err, err)
			}
			return
		}
		again, err := readTransaction(tx.raw)
		if err != nil || again.hash != tx.hash || !bytes.Equal(again.raw, tx.raw) || again.sender != tx.sender {
			t.Fatalf("the canonical form is not canonical: %v", err)
		}
	})
}

// An account that pays itself brings nothing, today's recipient or an earlier one.
func TestTheRecipientCannotPayItself(t *testing.T) {
	before := newMethod(t, Config{Currency: token, Recipient: wallet(7).Address()})
	for name, m := range map[string]*Method{"today": before, "earlier": newMethod(t, Config{Currency: token, Recipient: recipient})} {
		_, err := take(m, wallet(7).Pay(challenge(t, before)), now)
		if no, refused := errors.AsType[*mpp.Rejection](err); !refused || no.Reason != mpp.ReasonSigner {
			t.Errorf("%s: %v", name, err)
		}
	}
}
