package evm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
	"webring/server/pay/x402"
)

var (
	usdc      = common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
	recipient = common.HexToAddress("0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
)

// wallet is the one with key number n.
func wallet(n byte) paytest.EVM {
	key, err := crypto.ToECDSA(common.LeftPadBytes([]byte{n}, 32))
	if err != nil {
		panic(err)
	}
	return paytest.EVM{Key: key}
}

func newMethod(t testing.TB, change ...func(*Config)) *Method {
	t.Helper()
	cfg := Config{RPC: "http://127.0.0.1:1", ChainID: 8453, Currency: usdc, Name: "USD Coin", Version: "2", Recipient: recipient,
		Depth: 2, GasKey: wallet(99).Key, MaxFee: 100e9, Timeout: 10 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var take = paytest.Take

// challenge asks for 1.00, for five minutes from now on.
func challenge(t testing.TB, m *Method) mpp.Challenge {
	return paytest.Challenge(t, m, time.Now().Add(5*time.Minute))
}

// Credentials of the reference client decode to the payer, nonce and times that it
// says it signed.
func TestDecodeReferenceClient(t *testing.T) {
	raw, err := os.ReadFile("testdata/mppx.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Now            int64
		Authorizations []struct{ Challenge, Authorization, Source, From, Nonce, Signature, ValidBefore string }
	}
	if err := json.Unmarshal(raw, &recorded); err != nil || len(recorded.Authorizations) == 0 {
		t.Fatal("nothing is recorded: ", err)
	}
	m := newMethod(t)
	for _, v := range recorded.Authorizations {
		cred, found, err := mpp.ParseAuthorization([]string{v.Authorization})
		if err != nil || !found {
			t.Fatalf("found %v, %v", found, err)
		}
		p, err := take(m, cred, time.Unix(recorded.Now, 0))
		if err != nil {
			t.Fatal(err)
		}
		from := strings.ToLower(v.From)
		if p.Payer != "did:pkh:eip155:8453:"+from || p.Payer != strings.ToLower(v.Source) || p.Reference != v.Nonce ||
			p.ReplayKey != "evm:8453:"+from+":"+v.Nonce || p.ValidBefore.Unix() != recorded.Now+300 || p.Cents != 100 || p.Binding != v.Nonce {
			t.Errorf("payment %+v of %+v", p, v)
		}
		// After a crash the stored form leads to the same.
		a, err := m.reopen(p)
		if err != nil {
			t.Fatal(err)
		}
		if sig := hexutil.Encode(a.signature); sig != v.Signature || p.Contract || a.to != recipient || a.value != 1_000_000 {
			t.Errorf("authorisation %+v of %+v", a, v)
		}
	}
}

// Wallets spell the signature of a key in several ways, of which tokens take one: hardware wallets write v as
// 0 or 1, others put it into s (ERC-2098).
func TestOneSignatureInSeveralSpellings(t *testing.T) {
	m := newMethod(t, offersExact)
	w := wallet(1)
	c := challenge(t, m)
	want, err := take(m, w.Pay(c), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, spell := range map[string]func(sig []byte) []byte{
		"v of 0 or 1": func(sig []byte) []byte { sig[64] -= 27; return sig },
		"compact":     func(sig []byte) []byte { sig[32] |= (sig[64] - 27) << 7; return sig[:64] },
	} {
		for kind, changes := range map[string][]paytest.EVMAlter{"plain": nil, "wrapped": {paytest.Wrapped}} {
			alter := append([]paytest.EVMAlter{func(d *paytest.EVMDraft) { d.Sign = func(digest []byte) []byte { return spell(w.Sign(digest)) } }}, changes...)
			p, err := take(m, w.Pay(c, alter...), time.Now())
			if err != nil || p.Contract || p.Payer != want.Payer || p.ReplayKey != want.ReplayKey {
				t.Errorf("%s, %s: %v, %+v", name, kind, err, p)
				continue
			}
			a, err := m.reopen(p)
			if plain, _ := m.reopen(want); err != nil || !bytes.Equal(a.signature, plain.signature) || kind == "plain" && !bytes.Equal(p.Raw, want.Raw) {
				t.Errorf("%s, %s: stored as %x, want %x", name, kind, p.Raw, want.Raw)
			}
			// One that is not by the payer's key may be that of a smart account, and stays as it is.
			alter = append(alter, func(d *paytest.EVMDraft) { d.From, d.Source = smart, "" })
			p, err = take(m, w.Pay(c, alter...), time.Now())
			if err != nil || !p.Contract {
				t.Errorf("%s, %s, for a smart account: %v, %+v", name, kind, err, p)
				continue
			}
			if a, err := m.reopen(p); err != nil || len(a.signature) == 65 && a.signature[64] > 1 {
				t.Errorf("%s, %s, for a smart account: %v, %x", name, kind, err, a.signature)
			}
		}
	}
}

// The second form of a key's signature, with a high s, is not taken for one by the key, however v is
// written: tokens refuse it. So an account without code pays nothing with it, whatever a node says.
func TestAHighSIsNoSignatureOfAKey(t *testing.T) {
	for _, high := range []bool{false, true} {
		for _, less := range []byte{0, 27} {
			n, m, _, _ := fake(t, -60)
			n.Bend["eth_call"], n.Bend["eth_estimateGas"], n.Bend["eth_getCode"] = no, "0x13880", "0x"
			w, x := wallet(7), &account{}
			p, err := take(m, w.Pay(challenge(t, m), func(d *paytest.EVMDraft) {
				d.Sign = func(digest []byte) []byte {
					sig := w.Sign(digest)
					if high {
						sig = w.HighS(digest)
					}
					sig[64] -= less
					return sig
				}
			}), time.Now())
			if err != nil || p.Contract != high {
				t.Fatalf("high %t, v less %d: %v, contract %t", high, less, err, p.Contract)
			}
			refused, is := errors.AsType[*mpp.Rejection](m.Simulate(t.Context(), p))
			if is != high || high && refused.Reason != mpp.ReasonSigner {
				t.Errorf("high %t, v less %d: %v", high, less, refused)
			}
			if _, err := m.Broadcast(t.Context(), p, x); err != nil || (len(x.stored) == 0) != high {
				t.Errorf("high %t, v less %d: %v, submitted %+v", high, less, err, x.stored)
			}
		}
	}
}

// The stored record is of no use to another configuration, and a changed one to
// none.
func TestReopenKnowsItsOwn(t *testing.T) {
	m := newMethod(t)
	p, err := take(m, wallet(1).Pay(challenge(t, m)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.reopen(p); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"chain": func(c *Config) { c.ChainID++ }, "token": func(c *Config) { c.Currency[0]++ },
		"name": func(c *Config) { c.Name += "." }, "version": func(c *Config) { c.Version += "." },
	} {
		if _, err := newMethod(t, change).reopen(p); err == nil {
			t.Errorf("taken up with another %s", name)
		}
	}
	for i := range p.Raw {
		broken := p
		broken.Raw = append([]byte(nil), p.Raw...)
		broken.Raw[i] ^= 1
		if _, err := m.reopen(broken); err == nil {
			t.Errorf("taken up with byte %d changed", i)
		}
	}
	for _, raw := range [][]byte{nil, p.Raw[:len(p.Raw)-1], append(append([]byte(nil), p.Raw...), 0)} {
		if broken := (mpp.Payment{Raw: raw}); func() error { _, err := m.reopen(broken); return err }() == nil {
			t.Errorf("taken up with %d bytes", len(raw))
		}
	}
}

// What no challenge of ours leads to, and so the tests over HTTP cannot show.
func TestDecodeChecksTheChallengeAgain(t *testing.T) {
	m := newMethod(t)
	now := time.Now()
	for name, c := range map[string]struct {
		change func(*mpp.Challenge)
		at     time.Time
		code   string
	}{
		"another amount":    {func(c *mpp.Challenge) { c.Request, _ = m.request(101, usdc, recipient) }, now, mpp.CodeVerify},
		"another recipient": {func(c *mpp.Challenge) { c.Request, _ = m.request(100, usdc, usdc) }, now, mpp.CodeVerify},
		"another token":     {func(c *mpp.Challenge) { c.Request, _ = m.request(100, recipient, recipient) }, now, mpp.CodeUnapplied},
		"another request":   {func(c *mpp.Challenge) { c.Request = c.Request[:4] + c.Request[5:] }, now, mpp.CodeUnapplied},
		"nothing":           {func(c *mpp.Challenge) { c.Request = "" }, now, mpp.CodeUnapplied},
		"expired":           {func(*mpp.Challenge) {}, now.Add(5 * time.Minute), mpp.CodeExpired},
		"about to expire":   {func(*mpp.Challenge) {}, now.Add(5*time.Minute - 5*time.Second), mpp.CodeExpired},
		"about to be late":  {func(*mpp.Challenge) {}, now.Add(5*time.Minute - 20*time.Second), mpp.CodeExpired},
	} {
		ch := challenge(t, m)
		cred := wallet(1).Pay(ch)
		c.change(&cred.Challenge)
		_, err := take(m, cred, c.at)
		var no *mpp.Rejection
		if !errors.As(err, &no) || no.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	if _, err := take(m, wallet(1).Pay(challenge(t, m)), now.Add(5*time.Minute-22*time.Second)); err != nil {
		t.Errorf("in time: %v", err)
	}
	before := newMethod(t, func(c *Config) { c.Recipient = wallet(2).Address() })
	if p, err := take(m, wallet(1).Pay(challenge(t, before)), now); err != nil || p.Payee != before.Payee() {
		t.Errorf("a payment to an earlier recipient: %+v, %v", p, err)
	}
	own := newMethod(t, func(c *Config) { c.Recipient = wallet(1).Address() })
	if _, err := take(own, wallet(1).Pay(challenge(t, own)), now); err == nil {
		t.Error("the recipient pays itself")
	}
}

// FuzzDecode holds that no payload but one signed for the challenge is taken, and
// that what is taken has one stored form.
func FuzzDecode(f *testing.F) {
	m := newMethod(f)
	c, at := challenge(f, m), time.Now()
	f.Add([]byte(wallet(1).Pay(c).Payload))
	f.Add([]byte(wallet(1).Pay(c, func(d *paytest.EVMDraft) { d.Value = big.NewInt(1) }).Payload))
	f.Add([]byte(`{"type":"authorization","from":"0x","value":"1e6","signature":"0x00"}`))
	f.Add([]byte(`{"type":"hash"}`))
	f.Add([]byte(wallet(1).Pay(c, paytest.As(smart, wallet(1), wallet(2))).Payload))
	f.Add([]byte(wallet(1).Pay(c, paytest.As(smart, wallet(1)), paytest.Wrapped).Payload))
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, err := take(m, mpp.Credential{Challenge: c, Payload: payload}, at)
		var no *mpp.Rejection
		if err != nil {
			if !errors.As(err, &no) {
				t.Fatalf("%v is no rejection", err)
			}
			return
		}
		if !p.Contract && p.Payer != "did:pkh:eip155:8453:"+node.LowerHex(wallet(1).Address()) || p.Cents != 100 {
			t.Fatalf("a payment nobody signed: %+v", p)
		}
		if _, err := m.reopen(p); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCalldata holds that an authorisation has one stored form.
func FuzzCalldata(f *testing.F) {
	m := newMethod(f)
	p, err := take(m, wallet(1).Pay(challenge(f, m)), time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Raw)
	f.Add(wallet(1).Submission(challenge(f, m), paytest.As(smart, wallet(1), wallet(2))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := readCalldata(data)
		if err != nil {
			return
		}
		again, err := readCalldata(a.calldata())
		if err != nil || !reflect.DeepEqual(a, again) || string(a.calldata()) != string(data) {
			t.Fatalf("%x reads as %+v and then %+v, %v", data, a, again, err)
		}
	})
}

// exactChallenge is that of an offer of x402, for 1.00, with the offer as clients get it.
func exactChallenge(t testing.TB, m *Method) (mpp.Challenge, paytest.Accepted) {
	t.Helper()
	c := challenge(t, m)
	c.Intent = x402.Intent
	mpp.Keys{Current: make([]byte, mpp.MinKey)}.Sign(&c)
	offer, ok := m.Exact(c.Request)
	if !ok {
		t.Fatal("no offer")
	}
	offer.Extra.Challenge = c
	text, err := json.Marshal(offer)
	if err != nil {
		t.Fatal(err)
	}
	var accepted paytest.Accepted
	if err := json.Unmarshal(text, &accepted); err != nil {
		t.Fatal(err)
	}
	return c, accepted
}

// presented gives the credential in a PAYMENT-SIGNATURE field.
func presented(t testing.TB, field string) mpp.Credential {
	t.Helper()
	p, found, err := x402.Parse([]string{field})
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return p.Credential()
}

func offersExact(c *Config) { c.X402 = true }

func TestExactOffers(t *testing.T) {
	m := newMethod(t, offersExact)
	c, accepted := exactChallenge(t, m)
	if accepted.Scheme != "exact" || accepted.Network != "eip155:8453" || accepted.Amount != "1000000" || accepted.Asset != usdc.Hex() || accepted.PayTo != recipient.Hex() ||
		accepted.MaxTimeoutSeconds != 90 || accepted.Extra["name"] != "USD Coin" || accepted.Extra["version"] != "2" {
		t.Errorf("%+v", accepted)
	}
	for name, change := range map[string]func(*Config){"off": func(c *Config) {}, "another chain": func(c *Config) { c.X402 = true; c.ChainID++ }, "another token": func(c *Config) { c.X402 = true; c.Currency[0]++ }} {
		if offer, ok := newMethod(t, change).Exact(c.Request); ok {
			t.Errorf("%s: %+v", name, offer)
		}
	}
	// A challenge outlives a change of the recipient, and then the offer is the one of then.
	if offer, ok := newMethod(t, offersExact, func(c *Config) { c.Recipient[0]++ }).Exact(c.Request); !ok || offer.PayTo != recipient.Hex() {
		t.Errorf("%+v", offer)
	}
}

// An x402 payment may end after its challenge, by its payer's clock, but not much later
// than its offer says; and its nonce may be any. Of a charge neither is taken.
func TestExactPaymentsHaveTheirOwnBounds(t *testing.T) {
	m := newMethod(t, offersExact)
	c, accepted := exactChallenge(t, m)
	now := time.Now()
	expires, err := c.ExpiresAt()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		alter  []paytest.EVMAlter
		at     time.Time
		reason string
	}{
		"as the client signs it":         {nil, now, ""},
		"a clock that is ahead":          {[]paytest.EVMAlter{paytest.ValidFor(119 * time.Second)}, now, ""},
		"beyond the challenge":           {[]paytest.EVMAlter{paytest.ValidFor(5*time.Minute + 50*time.Second)}, expires.Add(-10 * time.Second), ""},
		"a clock that is too far ahead":  {[]paytest.EVMAlter{paytest.ValidFor(122 * time.Second)}, now, mpp.ReasonLong},
		"a clock that is too far behind": {[]paytest.EVMAlter{paytest.ValidFor(18 * time.Second)}, now, mpp.ReasonExpired},
		"an expired challenge":           {[]paytest.EVMAlter{paytest.ValidFor(6 * time.Minute)}, expires, mpp.ReasonExpired},
		"not yet valid":                  {[]paytest.EVMAlter{func(d *paytest.EVMDraft) { d.ValidAfter.SetInt64(now.Unix() + 30) }}, now, mpp.ReasonEarly},
		"another amount":                 {[]paytest.EVMAlter{func(d *paytest.EVMDraft) { d.Value.SetInt64(2_000_000) }}, now, mpp.ReasonAmount},
		"another recipient":              {[]paytest.EVMAlter{func(d *paytest.EVMDraft) { d.To[0]++ }}, now, mpp.ReasonRecipient},
	} {
		p, err := take(m, presented(t, wallet(1).Exact(accepted, tc.alter...).Header()), tc.at)
		var no *mpp.Rejection
		switch {
		case errors.As(err, &no) && no.Reason == tc.reason && tc.reason != "":
		case err != nil || tc.reason != "":
			t.Errorf("%s: %v, want %q", name, err, tc.reason)
		case !p.Bearer || p.Cents != 100 || p.ReplayKey != "evm:8453:"+p.Payer[len("did:pkh:eip155:8453:"):]+":"+p.Reference:
			t.Errorf("%s: %+v, %s", name, p, p.ReplayKey)
		}
	}
	cred := presented(t, wallet(1).Exact(accepted).Header())
	cred.Challenge = challenge(t, m)
	if _, err := m.Decode(cred); err == nil {
		t.Error("an x402 payload was taken for a charge")
	}
}

// An offer holds for as long as it says: who signs at once has all but the 20 seconds that it
// takes to submit what was signed, and a clock that is half a minute off does not matter to who
// presents it soon.
func TestExactOffersHold(t *testing.T) {
	m := newMethod(t, offersExact)
	_, accepted := exactChallenge(t, m)
	now := time.Now().Truncate(time.Second)
	for _, c := range []struct {
		clock, signed, presented time.Duration // the first ahead of ours, the others from the offer on
		reason                   string
	}{
		{0, 0, 0, ""}, {0, 0, 27, ""}, {0, 0, 35, ""}, {0, 0, 70, ""}, {0, 0, 71, mpp.ReasonExpired}, {0, 19, 89, ""}, {0, 88, 89, ""}, {0, 89, 90, mpp.ReasonExpired},
		{-30, 0, 1, ""}, {-30, 0, 40, ""}, {-30, 0, 41, mpp.ReasonExpired}, {-30, 80, 81, ""}, {-71, 0, 0, mpp.ReasonExpired},
		{30, 0, 0, ""}, {30, 0, 89, ""}, {30, 80, 81, ""}, {31, 0, 0, mpp.ReasonLong}, {31, 0, 1, ""},
	} {
		at := func(s time.Duration) time.Time { return now.Add(s * time.Second) }
		expires := now.Add(time.Duration(accepted.MaxTimeoutSeconds) * time.Second)
		p := mpp.Payment{Bearer: true, ValidBefore: at(c.clock + c.signed + time.Duration(accepted.MaxTimeoutSeconds))}
		no := m.InTime(p, at(c.presented), expires)
		if no == nil != (c.reason == "") || no != nil && no.Reason != c.reason {
			t.Errorf("a clock ahead by %d s, signed after %d s and presented after %d s: %v, want %q", c.clock, c.signed, c.presented, no, c.reason)
		}
	}
}

// FuzzExact holds that a payload is taken as one by the wallet only if it spells an authorisation
// that the wallet has signed.
func FuzzExact(f *testing.F) {
	m := newMethod(f, offersExact)
	c, accepted := exactChallenge(f, m)
	honest := presented(f, wallet(1).Exact(accepted, func(d *paytest.EVMDraft) { d.Nonce = common.Hash{1} }).Header()).Payload
	f.Add([]byte(honest))
	for _, text := range []string{"{}", `{"authorization":{},"signature":"0x"}`, `{"permit2Authorization":{},"signature":"0x"}`, `{"authorization":null}`} {
		f.Add([]byte(text))
	}
	f.Add(bytes.Replace(honest, []byte(`"value":"1`), []byte(`"value":"01`), 1))
	f.Fuzz(func(t *testing.T, payload []byte) {
		text, err := json.Marshal(map[string]any{"x402Version": 2, "accepted": accepted, "payload": json.RawMessage(payload)})
		if err != nil {
			return
		}
		got, _, err := x402.Parse([]string{base64.StdEncoding.EncodeToString(text)})
		if err != nil {
			return
		}
		p, err := m.Decode(got.Credential())
		if err != nil {
			if !errors.As(err, new(*mpp.Rejection)) {
				t.Fatalf("%v is no rejection", err)
			}
			return
		}
		if p.Contract {
			if _, err := m.reopen(p); err != nil || !p.Bearer || p.Cents != 100 {
				t.Fatalf("%+v: %v", p, err)
			}
			return
		}
		want, err := m.Decode(mpp.Credential{Challenge: c, Payload: honest})
		if err != nil || !bytes.Equal(p.Raw, want.Raw) || p.ReplayKey != want.ReplayKey || !p.Bearer {
			t.Fatalf("taken is %s: %+v", payload, p)
		}
	})
}

// What a wallet is given to sign is what the reference client signs: with its signature, the
// credential is taken.
func TestWhatAWalletSignsPays(t *testing.T) {
	m, wallet := newMethod(t), freshKey(t)
	c := challenge(t, m)
	sign, err := m.ToSign(c, wallet.Address())
	if err != nil {
		t.Fatal(err)
	}
	cred := sign.Credential
	if _, err := m.Decode(cred); err == nil {
		t.Error("a credential without a signature is taken")
	}
	var signed struct{ Signature string }
	if err := json.Unmarshal(wallet.Pay(c).Payload, &signed); err != nil {
		t.Fatal(err)
	}
	cred.Payload = json.RawMessage(strings.Replace(string(cred.Payload), `"signature":""`, `"signature":"`+signed.Signature+`"`, 1))
	p, err := m.Decode(cred)
	if err != nil || p.Cents != 100 || p.Payer != node.Accounts(m.cfg.ChainID)+strings.ToLower(wallet.Address().Hex()) {
		t.Errorf("%v: %d cents by %s", err, p.Cents, p.Payer)
	}
	if fields := sign.TypedData.Types["TransferWithAuthorization"]; "TransferWithAuthorization("+spelledOut(fields)+")" != transferName {
		t.Errorf("fields %v", fields)
	}
	c.Request = "e30"
	if _, err := m.ToSign(c, wallet.Address()); err == nil {
		t.Error("a challenge for another token can be signed")
	}
}

func spelledOut(fields []mpp.TypedField) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Type+" "+f.Name)
	}
	return strings.Join(all, ",")
}
