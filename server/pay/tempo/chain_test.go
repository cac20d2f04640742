package tempo_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
	"webring/server/pay/tempo"
)

// market is a real chain and what is needed to be paid on it.
type market struct {
	*testing.T
	chain     *devchain.Chain
	recipient common.Address
}

func open(t *testing.T) *market {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a chain, which the short run does not")
	}
	chain, err := devchain.Start(t.Context(), devchain.Options{})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return &market{T: t, chain: chain, recipient: chain.Accounts[99].Address}
}

func (m *market) method(currency common.Address) *tempo.Method {
	m.Helper()
	method, err := tempo.New(tempo.Config{RPC: m.chain.RPC, ChainID: devchain.ChainID, Currency: currency, Recipient: m.recipient, Depth: 1})
	if err != nil {
		m.Fatal(err)
	}
	return method
}

func (m *market) challenge(method *tempo.Method) mpp.Challenge {
	return paytest.Challenge(m, method, time.Now().Add(5*time.Minute))
}

// decode has w pay a fresh challenge for 1.00 and decodes the credential.
func (m *market) decode(method *tempo.Method, w paytest.Tempo, changes ...paytest.TempoAlter) mpp.Payment {
	m.Helper()
	cred, _, err := mpp.ParseAuthorization([]string{w.Header(m.challenge(method), changes...)})
	if err != nil {
		m.Fatal(err)
	}
	p, err := method.Decode(cred)
	if err != nil {
		m.Fatal(err)
	}
	return p
}

func (m *market) call(result any, method string, args ...any) {
	m.Helper()
	if err := m.chain.Call(m.Context(), result, method, args...); err != nil {
		m.Fatal(method, err)
	}
}

// fund sends to fifty dollars.
func (m *market) fund(to common.Address) {
	m.Helper()
	data := append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], common.LeftPadBytes(to[:], 32)...)
	data = append(data, common.LeftPadBytes(big.NewInt(50_000_000).Bytes(), 32)...)
	var receipt struct{ Status string }
	m.call(&receipt, "eth_sendTransactionSync", map[string]any{
		"from": m.chain.Accounts[0].Address, "to": devchain.PathUSD, "data": hexutil.Bytes(data), "gas": "0x2dc6c0",
	})
	if receipt.Status != "0x1" {
		m.Fatal("the transfer of funds failed")
	}
}

func (m *market) balance(who common.Address) int64 {
	m.Helper()
	b, err := m.chain.Balance(m.Context(), devchain.PathUSD, who)
	if err != nil {
		m.Fatal(err)
	}
	return b.Int64()
}

// settle takes p through the whole normal path and checks that it was paid,
// once.
func (m *market) settle(name string, method *tempo.Method, p mpp.Payment) {
	m.Helper()
	before := m.balance(m.recipient)
	if err := method.Simulate(m.Context(), p); err != nil {
		m.Fatalf("%s: simulation: %v", name, err)
	}
	for _, step := range []struct {
		name string
		do   func() (mpp.Outcome, error)
	}{
		{"broadcast", func() (mpp.Outcome, error) { return method.Broadcast(m.Context(), p, nil) }},
		{"outcome", func() (mpp.Outcome, error) { return method.Outcome(m.Context(), p, time.Time{}) }},
	} {
		if got, err := step.do(); err != nil || got.State != mpp.Settled {
			m.Fatalf("%s: %s: %v, %v: %s", name, step.name, got.State, err, got.Detail)
		}
	}
	if got, err := method.Outcome(m.Context(), p, time.Now().Add(-5*time.Minute)); err != nil || got.State != mpp.Settled {
		m.Errorf("%s: seen as %v, %v: %s", name, got.State, err, got.Detail)
	}
	// Sent again, it stays one payment.
	if got, err := method.Broadcast(m.Context(), p, nil); err != nil || got.State != mpp.Settled && got.State != mpp.Pending {
		m.Errorf("%s: sent again: %v, %v: %s", name, got.State, err, got.Detail)
	}
	if grown := m.balance(m.recipient) - before; grown != 1_000_000 {
		m.Errorf("%s: the recipient has %d more, want 1000000", name, grown)
	}
}

// The whole life of payments on a real chain: each kind of signature is paid
// with under the hash we computed, what cannot be paid is refused before it is
// sent, and what went wrong is told apart once nothing can change any more.
func TestOnARealChain(t *testing.T) {
	m := open(t)
	method := m.method(devchain.PathUSD)
	wallet := func(i int) paytest.Tempo { return paytest.Tempo{Key: m.chain.Accounts[i].Key} }

	clock, err := method.Clock(t.Context())
	if err != nil || time.Since(clock).Abs() > time.Minute {
		t.Fatalf("the chain's clock is %v, %v", clock, err)
	}

	m.settle("secp256k1", method, m.decode(method, wallet(1)))
	m.settle("secp256k1, v of 0 or 1", method, m.decode(method, wallet(1), func(d *paytest.TempoDraft) {
		d.Sign = func(digest []byte) []byte { s := wallet(1).Sign(digest); s[64] -= 27; return s }
	}))
	m.settle("secp256k1, high s", method, m.decode(method, wallet(1), func(d *paytest.TempoDraft) {
		d.Sign = func(digest []byte) []byte {
			s := wallet(1).Sign(digest)
			new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(s[32:64])).FillBytes(s[32:64])
			s[64] ^= 7 // 27 ↔ 28
			return s
		}
	}))

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	account := p256Address(key)
	m.fund(account)
	for name, sign := range map[string]func([]byte) []byte{
		"p256":            func(digest []byte) []byte { return p256Sign(key, digest, false) },
		"p256, prehashed": func(digest []byte) []byte { return p256Sign(key, digest, true) },
		"webAuthn":        func(digest []byte) []byte { return webAuthnSign(key, digest) },
	} {
		m.settle(name, method, m.decode(method, wallet(1), func(d *paytest.TempoDraft) {
			d.Sign, d.Source, d.FeeToken = sign, "", devchain.PathUSD[:]
		}))
	}

	root, access := wallet(2), wallet(3)
	underKeychain := func(d *paytest.TempoDraft) {
		d.Sign = func(digest []byte) []byte {
			inner := access.Sign(crypto.Keccak256([]byte{4}, digest, root.Address().Bytes()))
			return append(append([]byte{4}, root.Address().Bytes()...), inner...)
		}
	}
	var no *mpp.Rejection
	if err := method.Simulate(t.Context(), m.decode(method, root, underKeychain)); !errors.As(err, &no) {
		t.Errorf("an access key that the account never authorized: %v", err)
	}
	m.settle("keychain with its authorization", method, m.decode(method, root, underKeychain, func(d *paytest.TempoDraft) {
		terms := []any{uint64(devchain.ChainID), []byte{}, access.Address(), uint64(time.Now().Unix() + 3600)}
		encoded, err := rlp.EncodeToBytes(terms)
		if err != nil {
			t.Fatal(err)
		}
		d.KeyAuthorization = []any{terms, root.Sign(crypto.Keccak256(encoded))}
	}))
	m.settle("keychain, authorized before", method, m.decode(method, root, underKeychain))
	later := paytest.Tempo{Key: newKey(t)}
	m.settle("the account's own key, and an authorization", method, m.decode(method, root, permitting(root.Sign, uint64(devchain.ChainID), []byte{}, later.Address())))
	m.settle("the key that it authorized", method, m.decode(method, root, signedFor(root.Address(), later.Sign)))
	m.settle("access list", method, m.decode(method, wallet(4), func(d *paytest.TempoDraft) {
		d.AccessList = []any{[]any{devchain.PathUSD, [][]byte{make([]byte, 32)}}}
	}))

	// 37: wallets that cannot pay.
	for _, c := range []struct {
		name, reason string // "" for any reason
		p            mpp.Payment
	}{
		{"empty wallet", mpp.ReasonFunds, m.decode(method, paytest.Tempo{Key: newKey(t)})},
		{"too little gas", "", m.decode(method, wallet(4), func(d *paytest.TempoDraft) { d.Gas = uint64(22_000) })},
		{"cap under base fee", mpp.ReasonFee, m.decode(method, wallet(4), func(d *paytest.TempoDraft) { d.MaxPriorityFee, d.MaxFee = uint64(0), uint64(1) })},
		{"no fee", mpp.ReasonFee, m.decode(method, wallet(4), func(d *paytest.TempoDraft) { d.MaxPriorityFee, d.MaxFee = uint64(0), uint64(0) })},
		{"a nonce of T12", mpp.ReasonForm, m.decode(method, wallet(4), paytest.AnyNonce(1))},
		{"a validBefore of T11", mpp.ReasonLong, m.decode(method, wallet(4), paytest.EndsIn(80))},
		{"no such fee token", "", m.decode(method, wallet(4), func(d *paytest.TempoDraft) { d.FeeToken = root.Address().Bytes() })},
	} {
		if no, refused := errors.AsType[*mpp.Rejection](method.Simulate(t.Context(), c.p)); !refused || c.reason != "" && no.Reason != c.reason {
			t.Errorf("%s: %v, want a rejection", c.name, no)
		}
	}

	m.lanes(method)

	// Two contracts that are no tokens: one says yes to everything and moves
	// nothing, the other reverts.
	silent, broken := common.HexToAddress("0x5117"), common.HexToAddress("0xb401")
	m.call(nil, "anvil_setCode", silent, "0x00")
	m.call(nil, "anvil_setCode", broken, "0xfe")
	paysIn := func(d *paytest.TempoDraft) { d.FeeToken = devchain.PathUSD[:] }
	unpaid := map[mpp.State]mpp.Payment{
		mpp.Mismatched: m.decode(m.method(silent), wallet(5), paysIn), // 39
		mpp.Failed:     m.decode(m.method(broken), wallet(5), paysIn), // 38
		mpp.Gone:       m.decode(method, wallet(5)),
	}
	if err := method.Simulate(t.Context(), unpaid[mpp.Mismatched]); err != nil {
		t.Errorf("the silent contract: %v", err)
	}
	if err := method.Simulate(t.Context(), unpaid[mpp.Failed]); !errors.As(err, &no) {
		t.Errorf("the broken contract: %v, want a rejection", err)
	}
	for state, p := range unpaid {
		if state != mpp.Gone {
			if got, err := method.Broadcast(t.Context(), p, nil); err != nil || got.State != mpp.Pending {
				t.Errorf("%v: broadcast: %v, %v: %s", state, got.State, err, got.Detail)
			}
		}
		if got, err := method.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != mpp.Pending {
			t.Errorf("%v: too early: %v, %v: %s", state, got.State, err, got.Detail)
		}
	}
	deep := m.decode(method, wallet(6))
	m.settle("before the jump", method, deep)

	m.call(nil, "evm_increaseTime", 120)
	m.call(nil, "anvil_mine", 3)
	for state, p := range unpaid {
		if got, err := method.Outcome(t.Context(), p, time.Time{}); err != nil || got.State != state || !got.Deep {
			t.Errorf("%v: %v (deep %v), %v: %s", state, got.State, got.Deep, err, got.Detail)
		}
	}
	if got, err := method.Outcome(t.Context(), deep, time.Time{}); err != nil || got.State != mpp.Settled || !got.Deep {
		t.Errorf("settled long ago: %v (deep %v), %v: %s", got.State, got.Deep, err, got.Detail)
	}
	// Too late, it is not taken any more.
	if got, err := method.Broadcast(t.Context(), unpaid[mpp.Gone], nil); err != nil || got.State != mpp.Pending {
		t.Errorf("sent too late: %v, %v: %s", got.State, err, got.Detail)
	}
	if got, err := method.Outcome(t.Context(), unpaid[mpp.Gone], time.Time{}); err != nil || got.State != mpp.Gone {
		t.Errorf("sent too late, outcome: %v, %v: %s", got.State, err, got.Detail)
	}
}

// lanes pays with counted nonces, as other clients than the reference one do, and has nonces used
// up by others.
func (m *market) lanes(method *tempo.Method) {
	m.Helper()
	w := paytest.Tempo{Key: m.chain.Accounts[7].Key}
	next := func() uint64 {
		// The development chain counts what waits in other lanes as pending, so "latest".
		var n hexutil.Uint64
		m.call(&n, "eth_getTransactionCount", w.Address(), "latest")
		return uint64(n)
	}
	price := func(d *paytest.TempoDraft) { // as eth_gasPrice has it
		var gasPrice hexutil.Big
		m.call(&gasPrice, "eth_gasPrice")
		d.MaxFee, d.MaxPriorityFee = gasPrice.ToInt(), gasPrice.ToInt()
	}
	inLane := func(nonce uint64) paytest.TempoAlter {
		return func(d *paytest.TempoDraft) { d.NonceKey, d.Nonce = uint64(77), nonce }
	}
	first := m.decode(method, w, paytest.Counted(next()), price)
	m.settle("the next nonce", method, first)
	m.settle("another lane", method, m.decode(method, w, paytest.Counted(0), price, inLane(0)))
	m.settle("the next nonce of another lane, with an end", method, m.decode(method, w, inLane(1)))

	var no *mpp.Rejection
	for reason, p := range map[string]mpp.Payment{
		mpp.ReasonUsed:  m.decode(method, w, paytest.Counted(next()-1), price),
		mpp.ReasonNonce: m.decode(method, w, paytest.Counted(next()+1), price),
		mpp.ReasonFunds: m.decode(method, paytest.Tempo{Key: newKey(m.T)}, paytest.Counted(0), price),
		mpp.ReasonFee:   m.decode(method, w, paytest.Counted(next()), func(d *paytest.TempoDraft) { d.MaxPriorityFee, d.MaxFee = uint64(0), uint64(1) }),
	} {
		if err := method.Simulate(m.Context(), p); !errors.As(err, &no) || no.Reason != reason {
			m.Errorf("%v, want %s", err, reason)
		}
	}
	if err := method.Simulate(m.Context(), m.decode(method, w, paytest.Counted(5), price, inLane(5))); !errors.As(err, &no) || no.Reason != mpp.ReasonNonce {
		m.Errorf("a gap in another lane: %v", err)
	}

	// Its payer replaces a payment that may have been sent, by one that pays the same under
	// another hash, and by one that does not.
	for name, same := range map[string]bool{"pays the same": true, "does something else": false} {
		c := m.challenge(method)
		nonce := next()
		cred := w.Pay(c, paytest.Counted(nonce), price)
		p, err := method.Decode(cred)
		if err == nil {
			err = method.Simulate(m.Context(), p)
		}
		if err != nil {
			m.Fatal(err)
		}
		raw := w.Transaction(c, paytest.Counted(nonce), price, func(d *paytest.TempoDraft) {
			d.MaxFee = new(big.Int).Mul(d.MaxFee.(*big.Int), big.NewInt(2))
			if !same {
				d.Recipient = w.Address()
			}
		})
		var receipt struct{ Status string }
		if m.call(&receipt, "eth_sendRawTransactionSync", hexutil.Bytes(raw)); receipt.Status != "0x1" {
			m.Fatal("the replacement failed")
		}
		m.call(nil, "anvil_mine", 2)
		soon, cancel := context.WithTimeout(m.Context(), 200*time.Millisecond) // the chain waits for it to be mined
		if got, err := method.Broadcast(soon, p, nil); err != nil || got.State != mpp.Pending {
			m.Errorf("replaced by one that %s, sent: %v, %v: %s", name, got.State, err, got.Detail)
		}
		cancel()
		want, reference := mpp.Gone, ""
		if same {
			want, reference = mpp.Settled, crypto.Keccak256Hash(raw).Hex()
		}
		if got, err := method.Outcome(m.Context(), p, time.Time{}); err != nil || got.State != want || got.Reference != reference || !got.Deep {
			m.Errorf("replaced by one that %s: %+v, %v", name, got, err)
		}
	}
	if got, err := method.Outcome(m.Context(), first, time.Time{}); err != nil || got.State != mpp.Settled || !got.Deep {
		m.Errorf("the first one, later: %+v, %v", got, err)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// point is the public key without its prefix: x, y.
func point(key *ecdsa.PrivateKey) []byte {
	b, err := key.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	return b[1:]
}

func p256Address(key *ecdsa.PrivateKey) common.Address {
	return common.BytesToAddress(crypto.Keccak256(point(key))[12:])
}

// p256RS signs hash; s is as it comes, in half of all cases the high one.
func p256RS(key *ecdsa.PrivateKey, hash []byte) []byte {
	r, s, err := ecdsa.Sign(rand.Reader, key, hash)
	if err != nil {
		panic(err)
	}
	return append(common.LeftPadBytes(r.Bytes(), 32), common.LeftPadBytes(s.Bytes(), 32)...)
}

func p256Sign(key *ecdsa.PrivateKey, digest []byte, prehash bool) []byte {
	flag := byte(0)
	if prehash {
		sum := sha256.Sum256(digest)
		digest, flag = sum[:], 1
	}
	sig := append([]byte{1}, p256RS(key, digest)...)
	return append(append(sig, point(key)...), flag)
}

func webAuthnSign(key *ecdsa.PrivateKey, digest []byte) []byte {
	party := sha256.Sum256([]byte("ring.example"))
	authenticator := append(party[:], 0x05, 0, 0, 0, 1) // user present and verified; counter 1
	client := fmt.Appendf(nil, `{"type":"webauthn.get","challenge":"%s","origin":"https://ring.example","crossOrigin":false}`,
		base64.RawURLEncoding.EncodeToString(digest))
	sum := sha256.Sum256(client)
	hash := sha256.Sum256(append(append([]byte(nil), authenticator...), sum[:]...))
	sig := append(append([]byte{2}, authenticator...), client...)
	return append(append(sig, p256RS(key, hash[:])...), point(key)...)
}

type draft = paytest.TempoDraft

// signedFor signs for the account by key, as an access key does.
func signedFor(account common.Address, key func(digest []byte) []byte) paytest.TempoAlter {
	return func(d *draft) {
		d.Sign = func(digest []byte) []byte {
			inner := key(crypto.Keccak256([]byte{4}, digest, account[:]))
			return append(append([]byte{4}, account[:]...), inner...)
		}
	}
}

// permitting brings along the permission of these terms, signed by sign.
func permitting(sign func(digest []byte) []byte, terms ...any) paytest.TempoAlter {
	return func(d *draft) {
		encoded, err := rlp.EncodeToBytes(terms)
		if err != nil {
			panic(err)
		}
		d.KeyAuthorization = []any{terms, sign(crypto.Keccak256(encoded))}
	}
}

// refused pays a fresh challenge and says whether the payment is refused, by
// Decode or by Simulate, without an effect on the chain; and what was signed.
func (m *market) refused(method *tempo.Method, w paytest.Tempo, changes ...paytest.TempoAlter) (bool, []byte, error) {
	m.Helper()
	c := m.challenge(method)
	cred, _, err := mpp.ParseAuthorization([]string{w.Header(c, changes...)})
	if err != nil {
		m.Fatal(err)
	}
	p, err := method.Decode(cred)
	if err == nil {
		err = method.Simulate(m.Context(), p)
	}
	var no *mpp.Rejection
	return errors.As(err, &no), w.Transaction(c, changes...), err
}

// Transactions that most simulations let pass and that no block takes hold a
// reservation for nothing: they are refused before it, here for reasons that only the chain knows. The chain itself is the
// witness that none of them is mined, whatever becomes of the clock; some
// others it mines, and they revert.
func TestWhatNoBlockTakesIsRefused(t *testing.T) {
	m := open(t)
	method := m.method(devchain.PathUSD)
	account := func(i int) paytest.Tempo { return paytest.Tempo{Key: m.chain.Accounts[i].Key} }
	const chain, none = uint64(devchain.ChainID), uint64(0)
	usd := func(cents uint64, more ...any) []any { return append([]any{devchain.PathUSD, cents * 10_000}, more...) }
	list := func(members ...any) []any { return append([]any{}, members...) }
	selector := common.FromHex("0x95777d59")
	root := account(10)
	sells := func(gas uint64) paytest.TempoAlter { return func(d *draft) { d.Gas = gas } }

	// Honest ones, which must go on to pass.
	for _, tc := range []struct {
		name string
		gas  uint64
		more []any // after chain, kind and key
	}{
		{"expiry", 2_000_000, []any{uint64(time.Now().Unix() + 3600)}},
		{"a limit for each hour", 2_000_000, []any{none, list(usd(500, uint64(3600)))}},
		{"calls of the token", 3_000_000, []any{none, none, list(list(devchain.PathUSD, list()))}},
		{"limits, and calls of one function for us", 5_000_000, []any{uint64(time.Now().Unix() + 3600),
			list(usd(500, uint64(3600)), []any{devchain.AlphaUSD, uint64(5)}),
			list(list(devchain.PathUSD, list(list(selector, list(m.recipient)))))}},
	} {
		key := paytest.Tempo{Key: newKey(t)}
		terms := append([]any{chain, []byte{}, key.Address()}, tc.more...)
		m.settle("authorized with "+tc.name, method, m.decode(method, root, sells(tc.gas),
			signedFor(root.Address(), key.Sign), permitting(root.Sign, terms...)))
	}

	// Keys with a history: one in use, one revoked, one of another kind, one
	// that has spent what it may.
	use := func(name string, key func([]byte) []byte, terms ...any) {
		m.settle(name, method, m.decode(method, root, signedFor(root.Address(), key), permitting(root.Sign, terms...)))
	}
	inUse, revoked, spent := paytest.Tempo{Key: newKey(t)}, paytest.Tempo{Key: newKey(t)}, paytest.Tempo{Key: newKey(t)}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	use("in use", inUse.Sign, chain, []byte{}, inUse.Address())
	use("to be revoked", revoked.Sign, chain, []byte{}, revoked.Address())
	use("to be spent", spent.Sign, chain, []byte{}, spent.Address(), none, list(usd(130)))
	use("P-256", func(d []byte) []byte { return p256Sign(curve, d, false) }, chain, uint64(1), p256Address(curve))
	var receipt struct{ Status string }
	revoke := append(crypto.Keccak256([]byte("revokeKey(address)"))[:4], common.LeftPadBytes(revoked.Address().Bytes(), 32)...)
	m.call(&receipt, "eth_sendRawTransactionSync", hexutil.Bytes(root.Transaction(m.challenge(method), func(d *draft) {
		d.Token, d.Data = common.HexToAddress("0xaaaaaaaa00000000000000000000000000000000"), revoke
	})))
	if receipt.Status != "0x1" {
		t.Fatal("the key was not revoked")
	}
	poor := paytest.Tempo{Key: newKey(t)}
	m.fund(poor.Address())

	type alters = []paytest.TempoAlter
	sent := make(map[string]common.Hash)
	for _, tc := range []struct {
		name    string
		by      paytest.Tempo
		changes alters
		reverts bool // it can be mined, and reverts at the payer's cost
	}{
		{name: "a fee beyond the balance", by: root, changes: alters{func(d *draft) { d.MaxFee = new(big.Int).Lsh(common.Big1, 120) }}},
		{name: "a fee token that does not exist", by: root, changes: alters{func(d *draft) {
			d.FeeToken = common.HexToAddress("0x20c0000000000000000000000000000000009999").Bytes()
		}}},
		{name: "a fee token without a balance", by: poor, changes: alters{func(d *draft) { d.FeeToken = devchain.AlphaUSD[:] }}},
		{name: "validBefore beyond the chain's window", by: root, changes: alters{func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 60) }}},
		{name: "authorized again by the account's own key", by: root, changes: alters{permitting(root.Sign, chain, []byte{}, inUse.Address())}},
		{name: "authorized again", by: root, changes: alters{signedFor(root.Address(), inUse.Sign), permitting(root.Sign, chain, []byte{}, inUse.Address())}},
		{name: "revoked", by: root, changes: alters{signedFor(root.Address(), revoked.Sign)}},
		{name: "revoked and authorized again", by: root, changes: alters{signedFor(root.Address(), revoked.Sign), permitting(root.Sign, chain, []byte{}, revoked.Address())}},
		{name: "a P-256 key signs as a passkey", by: root, changes: alters{signedFor(root.Address(), func(d []byte) []byte { return webAuthnSign(curve, d) })}},
		{name: "a key that has spent all", by: root, changes: alters{signedFor(root.Address(), spent.Sign)}, reverts: true},
	} {
		refused, raw, err := m.refused(method, tc.by, tc.changes...)
		if !refused {
			t.Errorf("%s: %v, want a rejection", tc.name, err)
		}
		if tc.reverts {
			continue
		}
		// Sent all the same, as it would have been after a reservation.
		sent[tc.name] = crypto.Keccak256Hash(raw)
		if err := m.chain.Call(t.Context(), nil, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
			t.Logf("%s: the chain says %v", tc.name, err)
		}
	}
	m.call(nil, "anvil_mine", 3)
	m.call(nil, "evm_increaseTime", 120)
	m.call(nil, "anvil_mine", 3)
	for name, hash := range sent {
		var mined map[string]any
		if m.call(&mined, "eth_getTransactionReceipt", hash); mined != nil {
			t.Errorf("%s: the chain mined it: this row shows nothing", name)
		}
	}
}
