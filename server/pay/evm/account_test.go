package evm

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// smart is where tests without a chain have a smart account.
var smart = common.HexToAddress("0x1271")

// place gives an address at which nothing is yet, with fifty dollars.
func (m *market) place() common.Address {
	m.Helper()
	w := m.payer()
	return w.Address()
}

func (m *market) putCode(at common.Address, code string) {
	m.Helper()
	m.call(nil, "anvil_setCode", at, code)
}

// deploy puts a smart account of these owners at a new address.
func (m *market) deploy(owners ...paytest.EVM) common.Address {
	m.Helper()
	at, all := m.place(), []common.Address{}
	for _, w := range owners {
		all = append(all, w.Address())
	}
	if err := m.chain.PutAccount(m.Context(), at, all...); err != nil {
		m.Fatal(err)
	}
	return at
}

// pays is what a wallet presents by MPP and by x402 for two challenges of a method.
func (m *market) pays(method *Method, w paytest.EVM, changes ...paytest.EVMAlter) map[string]mpp.Credential {
	m.Helper()
	_, accepted := exactChallenge(m.T, method)
	return map[string]mpp.Credential{
		"mpp":  w.Pay(challenge(m.T, method), changes...),
		"x402": presented(m.T, w.Exact(accepted, changes...).Header()),
	}
}

func TestSmartAccounts(t *testing.T) {
	open(t).parts([]part{
		{"they pay", (*market).smartAccountsPay},
		{"two signatures", (*market).twoSignatures},
		{"what they do not sign", (*market).unsigned},
		{"code changes its answer", (*market).codeChanges},
		{"code comes late", (*market).codeComes},
	})
}

// Smart accounts pay by MPP and by x402: with one owner or several, with a signature that is
// wrapped although they are deployed, and by delegation.
func (m *market) smartAccountsPay() {
	one, two := freshKey(m.T), freshKey(m.T)
	delegate := m.payer()
	m.putCode(delegate.Address(), "0xef0100"+m.deploy().Hex()[2:])
	for name, c := range map[string]struct {
		wallet   paytest.EVM
		changes  []paytest.EVMAlter
		contract bool
	}{
		"one owner":          {one, []paytest.EVMAlter{paytest.As(m.deploy(one), one)}, true},
		"two owners":         {one, []paytest.EVMAlter{paytest.As(m.deploy(one, two), one, two)}, true},
		"one owner, wrapped": {one, []paytest.EVMAlter{paytest.As(m.deploy(one), one), paytest.Wrapped}, true},
		"a delegation":       {delegate, nil, false},
	} {
		method := m.shop(offersExact)
		for protocol, cred := range m.pays(method, c.wallet, c.changes...) {
			p, err := method.Decode(cred)
			if err != nil || p.Contract != c.contract || p.Bearer != (protocol == "x402") {
				m.Fatalf("%s, %s: %+v, %v", name, protocol, p, err)
			}
			if err := method.Simulate(m.Context(), p); err != nil {
				m.Fatalf("%s, %s: %v", name, protocol, err)
			}
			x := &account{}
			m.submitFor(x, method, p, "submitted")
			m.mine(1)
			m.becomes(method, p, mpp.Settled, false)
			m.mine(2)
			o := m.becomes(newMethod(m.T, func(c *Config) { *c = method.cfg }), p, mpp.Settled, true)
			used, limit, _ := m.costs(common.HexToHash(o.Reference))
			m.Logf("%s, %s: %d gas of at most %d", name, protocol, used, limit)
		}
		if m.balance(method.Recipient) != 2_000_000 {
			m.Errorf("%s: %d paid", name, m.balance(method.Recipient))
		}
	}
}

// An account with code can have many signatures of one authorisation: they are one payment.
func (m *market) twoSignatures() {
	method, owner := m.shop(), freshKey(m.T)
	as, c := paytest.As(m.deploy(owner), owner), challenge(m.T, method)
	p := m.decode(method, owner, c, as)
	q := m.decode(method, owner, c, as, func(d *paytest.EVMDraft) { d.Sign = owner.HighS })
	if bytes.Equal(p.Raw, q.Raw) || p.ReplayKey != q.ReplayKey || p.Reference != q.Reference {
		m.Errorf("%s of %x and %s of %x", p.ReplayKey, p.Raw, q.ReplayKey, q.Raw)
	}
	if err := method.Simulate(m.Context(), q); err != nil {
		m.Fatal(err)
	}
	m.submit(method, p, "submitted")
	m.mine(1)
	o := m.becomes(method, p, mpp.Settled, false)
	if no, ok := errors.AsType[*mpp.Rejection](method.Simulate(m.Context(), q)); !ok || no.Reason != mpp.ReasonUsed {
		m.Errorf("the other: %v", no)
	}
	// The token knows the authorisation alone, so the other was paid by the same transaction.
	if same := m.becomes(newMethod(m.T, func(c *Config) { *c = method.cfg }), q, mpp.Settled, false); same.Reference != o.Reference || m.balance(method.Recipient) != 1_000_000 {
		m.Errorf("%s and %s, %d paid", o.Reference, same.Reference, m.balance(method.Recipient))
	}
}

// Code of accounts. They answer every question alike.
const (
	agrees   = "0x631626ba7e60e01b5f5260205ff3"
	refuses  = "0x5f5ffd"
	says0    = "0x60205ff3"
	says4    = "0x631626ba7e60e01b5f5260045ff3" // the right word, and no more than that
	saysMuch = "0x620dbba05ff3"
	stops    = "0x00"
	burns    = "0x5b5f56"
	// slow agrees after some 600 000 gas.
	slow = "0x5f5b60010180614e2011600157631626ba7e60e01b5f5260205ff3"
)

// What an account's code does not accept is refused before anything is submitted, in words
// that say what to do, and so is what only the code of an account could accept that has none.
func (m *market) unsigned() {
	method, owner, other := m.shop(offersExact), freshKey(m.T), freshKey(m.T)
	coded := func(code string) common.Address {
		at := m.place()
		m.putCode(at, code)
		return at
	}
	delegate := m.payer()
	m.putCode(delegate.Address(), "0xef0100"+coded(refuses).Hex()[2:])
	poor := m.deploy(owner)
	m.endow(owner, 0)
	if err := m.chain.Endow(m.Context(), usdc, poor, big.NewInt(999_999)); err != nil {
		m.Fatal(err)
	}
	as := func(at common.Address, by ...paytest.EVM) []paytest.EVMAlter {
		return []paytest.EVMAlter{paytest.As(at, by...)}
	}
	signs := func(n int) paytest.EVMAlter {
		return func(d *paytest.EVMDraft) { d.Sign = func([]byte) []byte { return make([]byte, n) } }
	}
	compact := func(d *paytest.EVMDraft) {
		sign := d.Sign
		d.Sign = func(digest []byte) []byte { return sign(digest)[:64] }
	}
	for name, c := range map[string]struct {
		changes []paytest.EVMAlter
		reason  string
		says    string
	}{
		"another's signature":           {as(m.deploy(owner), other), mpp.ReasonSigner, "does not accept"},
		"one of two signatures":         {as(m.deploy(owner, other), owner), mpp.ReasonSigner, "does not accept"},
		"no signature":                  {append(as(m.deploy(owner), owner), signs(0)), mpp.ReasonSigner, "does not accept"},
		"no money":                      {as(poor, owner), mpp.ReasonFunds, ""},
		"code that refuses":             {as(coded(refuses), owner), mpp.ReasonSigner, "does not accept"},
		"code that says 0":              {as(coded(says0), owner), mpp.ReasonSigner, "does not accept"},
		"code that says too little":     {as(coded(says4), owner), mpp.ReasonSigner, "does not accept"},
		"code that says too much":       {as(coded(saysMuch), owner), mpp.ReasonSigner, "does not accept"},
		"code that stops":               {as(coded(stops), owner), mpp.ReasonSigner, "does not accept"},
		"code that burns all gas":       {as(coded(burns), owner), mpp.ReasonSigner, "does not accept"},
		"code that takes too much gas":  {as(coded(slow), owner), mpp.ReasonGas, "200000"},
		"an account to be deployed":     {append(as(m.place(), owner), paytest.Wrapped), mpp.ReasonAbsent, "deploy it"},
		"two owners, to be deployed":    {append(as(m.place(), owner, other), paytest.Wrapped), mpp.ReasonAbsent, "deploy it"},
		"the same, not wrapped":         {as(m.place(), owner, other), mpp.ReasonAbsent, "deploy it"},
		"a key of another address":      {as(m.place(), owner), mpp.ReasonSigner, "not the payer's"},
		"a compact one of such a key":   {append(as(m.place(), owner), compact), mpp.ReasonSigner, "not the payer's"},
		"the longest signature":         {append(as(coded(refuses)), signs(maxSignature)), mpp.ReasonSigner, "does not accept"},
		"a signature that is too long":  {append(as(coded(agrees)), signs(maxSignature+1)), mpp.ReasonForm, "2048"},
		"a wrapper that cannot be read": {append(as(coded(agrees)), func(d *paytest.EVMDraft) { d.Sign = func([]byte) []byte { return mark } }), mpp.ReasonForm, "ERC-6492"},
		"another token":                 {append(as(m.deploy(owner), owner), func(d *paytest.EVMDraft) { d.Token[0]++ }), mpp.ReasonSigner, "does not accept"},
		"a delegation that refuses":     {[]paytest.EVMAlter{paytest.As(delegate.Address(), delegate)}, mpp.ReasonSigner, "does not accept"},
	} {
		for protocol, cred := range m.pays(method, owner, c.changes...) {
			p, err := method.Decode(cred)
			if err == nil {
				err = method.Simulate(m.Context(), p)
			}
			no, ok := errors.AsType[*mpp.Rejection](err)
			if !ok || no.Code != mpp.CodeVerify || no.Reason != c.reason || !strings.Contains(no.Detail, c.says) {
				m.Errorf("%s, %s: %v, want %s", name, protocol, err, c.reason)
			}
			if p.Raw != nil {
				m.submit(method, p, "not submitted")
			}
		}
	}
	m.mine(1)
	if n := m.mined(method); n != 0 || m.balance(method.Recipient) != 0 {
		m.Errorf("%d transactions, %d paid", n, m.balance(method.Recipient))
	}
}

// Code that changes its answer once it was asked costs one submission of bounded gas, which the
// next process knows, too.
func (m *market) codeChanges() {
	for name, then := range map[string]string{"refuses": refuses, "burns all gas": burns, "is gone": "0x"} {
		method, at, x := m.shop(), m.place(), &account{}
		m.putCode(at, agrees)
		p := m.decode(method, freshKey(m.T), challenge(m.T, method), paytest.As(at, freshKey(m.T)), paytest.ValidFor(4*time.Minute))
		if err := method.Simulate(m.Context(), p); err != nil {
			m.Fatal(err)
		}
		m.submitFor(x, method, p, "submitted")
		m.putCode(at, then)
		m.mine(1)
		used, limit, _ := m.costs(last(method, p))
		m.putCode(at, agrees)
		restarted := newMethod(m.T, func(c *Config) { *c = method.cfg })
		p.Submissions = x.stored
		for _, asked := range []*Method{method, restarted} {
			o := m.becomes(asked, p, mpp.Pending, false)
			if w := o.Wasted; w == nil || w.Gas != used || used > limit || limit > maxGas {
				m.Errorf("%s: wasted %+v, used %d of %d", name, w, used, limit)
			}
			m.submitFor(x, asked, p, "mined and reverted")
		}
		m.Logf("%s: %d gas of at most %d", name, used, limit)
		m.mine(1)
		if n := m.mined(method); n != 1 || m.balance(method.Recipient) != 0 {
			m.Errorf("%s: %d submissions, %d paid", name, n, m.balance(method.Recipient))
		}
	}
}

// An account that comes to code after it was asked costs one submission, too.
func (m *market) codeComes() {
	method, w, x := m.shop(), m.payer(), &account{}
	p := m.decode(method, w, challenge(m.T, method))
	m.submitFor(x, method, p, "submitted")
	m.putCode(w.Address(), burns)
	m.mine(1)
	p.Submissions = x.stored
	if o := m.becomes(method, p, mpp.Pending, false); o.Wasted == nil || len(x.stored) != 1 {
		m.Errorf("wasted %+v, submitted %+v", o.Wasted, x.stored)
	}
}

// The record of what a smart account has signed is taken up as it was stored, and in no other
// way.
func TestReopenComparesWhatAContractSigned(t *testing.T) {
	m := newMethod(t)
	p, err := take(m, wallet(1).Pay(challenge(t, m), paytest.As(smart, wallet(1), wallet(2))), time.Now())
	if err != nil || !p.Contract {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := m.reopen(p); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){"chain": func(c *Config) { c.ChainID++ }, "token": func(c *Config) { c.Currency[0]++ }} {
		if _, err := newMethod(t, change).reopen(p); err == nil {
			t.Errorf("taken up with another %s", name)
		}
	}
	signature := len(p.Raw) - 160 - 1 // the last byte of its length, its 130 bytes, and padding
	for i := range p.Raw {
		broken := p
		broken.Raw = bytes.Clone(p.Raw)
		broken.Raw[i] ^= 1
		after := i >= 4+3*32 && i < 4+4*32 // validAfter, which the code signs for
		if _, err := m.reopen(broken); err == nil && !after && (i < signature || i >= signature+131) {
			t.Errorf("taken up with byte %d changed", i)
		}
	}
	p.Contract = false
	if _, err := m.reopen(p); err == nil {
		t.Error("taken up as signed by a key")
	}
}

// A signature that only code can accept is verified and settled by one and the same call, with the
// whole signature, also if it is as long as that of a key. A key's goes by v, r and s.
func TestVerificationAndSettlementAreTheSameCall(t *testing.T) {
	n, m, _, _ := fake(t, -60)
	n.Bend["eth_call"], n.Bend["eth_getCode"] = no, "0x00"
	var verified []hexutil.Bytes
	n.Bend["eth_estimateGas"] = func(params []json.RawMessage) any {
		var q struct{ Data hexutil.Bytes }
		json.Unmarshal(params[0], &q)
		verified = append(verified, q.Data)
		return "0x13880"
	}
	for name, c := range map[string]struct {
		changes  []paytest.EVMAlter
		function []byte
	}{
		"one owner":  {[]paytest.EVMAlter{paytest.As(smart, wallet(1))}, wholeSelector},
		"wrapped":    {[]paytest.EVMAlter{paytest.As(smart, wallet(1)), paytest.Wrapped}, wholeSelector},
		"two owners": {[]paytest.EVMAlter{paytest.As(smart, wallet(1), wallet(2))}, wholeSelector},
		"its key":    {nil, selector},
	} {
		p, err := take(m, wallet(7).Pay(challenge(t, m), c.changes...), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		verified = nil
		if err := m.Simulate(t.Context(), p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.last.Store(nil)
		x := &account{}
		if o, err := m.Broadcast(t.Context(), p, x); err != nil || o.Detail != "submitted" {
			t.Fatalf("%s: %+v, %v", name, o, err)
		}
		raw := sent(m, must(m.reopen(p))).raw
		if len(verified) != 2 || len(x.stored) != 1 || !bytes.Equal(verified[0], verified[1]) || !bytes.Contains(raw, verified[0]) || !bytes.HasPrefix(verified[0], c.function) {
			t.Errorf("%s: verified %x, sent %d", name, verified, len(x.stored))
		}
	}
}

// FuzzUnwrap holds that a signature is unwrapped to what was wrapped, and that nothing else
// is taken for a wrapper.
func FuzzUnwrap(f *testing.F) {
	m := newMethod(f)
	c := challenge(f, m)
	for _, n := range []int{0, 1, 65, 130} {
		var wrapped []byte
		note := func(d *paytest.EVMDraft) {
			d.Sign = func([]byte) []byte { return bytes.Repeat([]byte{7}, n) }
			paytest.Wrapped(d)
			wrap := d.Sign
			d.Sign = func(digest []byte) []byte { wrapped = wrap(digest); return wrapped }
		}
		wallet(1).Pay(c, note)
		f.Add(wrapped)
	}
	f.Add([]byte{})
	f.Add(mark)
	f.Fuzz(func(t *testing.T, signature []byte) {
		own, wrapped, err := unwrap(signature)
		switch {
		case wrapped != bytes.HasSuffix(signature, mark):
			t.Fatalf("wrapped: %v", wrapped)
		case !wrapped && (err != nil || !bytes.Equal(own, signature)):
			t.Fatalf("%x of %x, %v", own, signature, err)
		case wrapped && err == nil:
			again, err := wrapper.Pack(common.Address{}, []byte{}, own)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := unwrap(slices.Concat(again, mark)); err != nil || !bytes.Equal(got, own) || !bytes.Contains(signature, own) {
				t.Fatalf("%x of %x, and then %x, %v", own, signature, got, err)
			}
		}
	})
}

// What the tests' wallets wrap is what the ABI says.
func TestWrappedIsByTheABI(t *testing.T) {
	d := paytest.EVMDraft{Sign: func(digest []byte) []byte { return digest }}
	paytest.Wrapped(&d)
	digest := crypto.Keccak256([]byte("anything"))
	want, err := wrapper.Pack(common.Address{19: 0xfa}, []byte("deploy"), digest)
	if got := d.Sign(digest); err != nil || !bytes.Equal(got, slices.Concat(want, mark)) {
		t.Errorf("%x, want %x: %v", got, want, err)
	}
}
