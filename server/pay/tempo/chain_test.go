package tempo_test

import (
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
	"webring/server/pay/tempo"
	"webring/server/pay/tempo/tempotest"
)

// market is a real chain and what is needed to be paid on it.
type market struct {
	*testing.T
	chain     *devchain.Chain
	recipient common.Address
	keys      mpp.Keys
	sold      int
}

func open(t *testing.T) *market {
	t.Helper()
	chain, err := devchain.Start(t.Context(), devchain.Options{})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return &market{T: t, chain: chain, recipient: chain.Accounts[99].Address, keys: mpp.Keys{Current: make([]byte, 32)}}
}

func (m *market) method(currency common.Address) *tempo.Method {
	m.Helper()
	method, err := tempo.New(tempo.Config{RPC: m.chain.RPC, ChainID: devchain.ChainID, Currency: currency, Recipient: m.recipient, Depth: 1})
	if err != nil {
		m.Fatal(err)
	}
	return method
}

// challenge is a fresh one for 1.00.
func (m *market) challenge(method *tempo.Method) mpp.Challenge {
	m.Helper()
	request, err := method.Request(100)
	if err != nil {
		m.Fatal(err)
	}
	m.sold++
	opaque, _ := mpp.EncodeJSON(map[string]string{"n": fmt.Sprint(m.sold)})
	c := mpp.Challenge{Realm: "ring.example", Method: "tempo", Intent: "charge", Request: request, Opaque: opaque,
		Expires: time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339)}
	m.keys.Sign(&c)
	return c
}

// decode has w pay a fresh challenge for 1.00 and decodes the credential.
func (m *market) decode(method *tempo.Method, w tempotest.Wallet, changes ...tempotest.Alter) mpp.Payment {
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
		{"outcome", func() (mpp.Outcome, error) { return method.Outcome(m.Context(), p) }},
	} {
		if got, err := step.do(); err != nil || got.State != mpp.Settled {
			m.Fatalf("%s: %s: %v, %v: %s", name, step.name, got.State, err, got.Detail)
		}
	}
	if got, err := method.Seen(m.Context(), p, time.Now().Add(-5*time.Minute)); err != nil || got.State != mpp.Settled {
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
	wallet := func(i int) tempotest.Wallet { return tempotest.Wallet{Key: m.chain.Accounts[i].Key} }

	clock, err := method.Clock(t.Context())
	if err != nil || time.Since(clock).Abs() > time.Minute {
		t.Fatalf("the chain's clock is %v, %v", clock, err)
	}

	m.settle("secp256k1", method, m.decode(method, wallet(1)))
	m.settle("secp256k1, v of 0 or 1", method, m.decode(method, wallet(1), func(d *tempotest.Draft) {
		d.Sign = func(digest []byte) []byte { s := wallet(1).Sign(digest); s[64] -= 27; return s }
	}))
	m.settle("secp256k1, high s", method, m.decode(method, wallet(1), func(d *tempotest.Draft) {
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
		m.settle(name, method, m.decode(method, wallet(1), func(d *tempotest.Draft) {
			d.Sign, d.Source, d.FeeToken = sign, "", devchain.PathUSD[:]
		}))
	}

	root, access := wallet(2), wallet(3)
	underKeychain := func(d *tempotest.Draft) {
		d.Sign = func(digest []byte) []byte {
			inner := access.Sign(crypto.Keccak256([]byte{4}, digest, root.Address().Bytes()))
			return append(append([]byte{4}, root.Address().Bytes()...), inner...)
		}
	}
	var no *mpp.Rejection
	if err := method.Simulate(t.Context(), m.decode(method, root, underKeychain)); !errors.As(err, &no) {
		t.Errorf("an access key that the account never authorized: %v", err)
	}
	m.settle("keychain with its authorization", method, m.decode(method, root, underKeychain, func(d *tempotest.Draft) {
		terms := []any{uint64(devchain.ChainID), []byte{}, access.Address(), uint64(time.Now().Unix() + 3600)}
		encoded, err := rlp.EncodeToBytes(terms)
		if err != nil {
			t.Fatal(err)
		}
		d.KeyAuthorization = []any{terms, root.Sign(crypto.Keccak256(encoded))}
	}))
	m.settle("keychain, authorized before", method, m.decode(method, root, underKeychain))

	// 37: wallets that cannot pay.
	for name, p := range map[string]mpp.Payment{
		"empty wallet":       m.decode(method, tempotest.Wallet{Key: newKey(t)}),
		"too little gas":     m.decode(method, wallet(4), func(d *tempotest.Draft) { d.Gas = uint64(22_000) }),
		"cap under base fee": m.decode(method, wallet(4), func(d *tempotest.Draft) { d.MaxPriorityFee, d.MaxFee = uint64(0), uint64(1) }),
		"no such fee token":  m.decode(method, wallet(4), func(d *tempotest.Draft) { d.FeeToken = root.Address().Bytes() }),
	} {
		if err := method.Simulate(t.Context(), p); !errors.As(err, &no) {
			t.Errorf("%s: %v, want a rejection", name, err)
		}
	}

	// Two contracts that are no tokens: one says yes to everything and moves
	// nothing, the other reverts.
	silent, broken := common.HexToAddress("0x5117"), common.HexToAddress("0xb401")
	m.call(nil, "anvil_setCode", silent, "0x00")
	m.call(nil, "anvil_setCode", broken, "0xfe")
	paysIn := func(d *tempotest.Draft) { d.FeeToken = devchain.PathUSD[:] }
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
		if got, err := method.Outcome(t.Context(), p); err != nil || got.State != mpp.Pending {
			t.Errorf("%v: too early: %v, %v: %s", state, got.State, err, got.Detail)
		}
	}
	deep := m.decode(method, wallet(6))
	m.settle("before the jump", method, deep)

	m.call(nil, "evm_increaseTime", 120)
	m.call(nil, "anvil_mine", 3)
	for state, p := range unpaid {
		if got, err := method.Outcome(t.Context(), p); err != nil || got.State != state || !got.Deep {
			t.Errorf("%v: %v (deep %v), %v: %s", state, got.State, got.Deep, err, got.Detail)
		}
	}
	if got, err := method.Outcome(t.Context(), deep); err != nil || got.State != mpp.Settled || !got.Deep {
		t.Errorf("settled long ago: %v (deep %v), %v: %s", got.State, got.Deep, err, got.Detail)
	}
	// Too late, it is not taken any more.
	if got, err := method.Broadcast(t.Context(), unpaid[mpp.Gone], nil); err != nil || got.State != mpp.Pending {
		t.Errorf("sent too late: %v, %v: %s", got.State, err, got.Detail)
	}
	if got, err := method.Outcome(t.Context(), unpaid[mpp.Gone]); err != nil || got.State != mpp.Gone {
		t.Errorf("sent too late, outcome: %v, %v: %s", got.State, err, got.Detail)
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
