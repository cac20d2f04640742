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

type draft = tempotest.Draft

// signedFor signs for the account by key, as an access key does.
func signedFor(account common.Address, key func(digest []byte) []byte) tempotest.Alter {
	return func(d *draft) {
		d.Sign = func(digest []byte) []byte {
			inner := key(crypto.Keccak256([]byte{4}, digest, account[:]))
			return append(append([]byte{4}, account[:]...), inner...)
		}
	}
}

// permitting brings along the permission of these terms, signed by sign.
func permitting(sign func(digest []byte) []byte, terms ...any) tempotest.Alter {
	return func(d *draft) {
		encoded, err := rlp.EncodeToBytes(terms)
		if err != nil {
			panic(err)
		}
		d.KeyAuthorization = []any{terms, sign(crypto.Keccak256(encoded))}
	}
}

// assertionOf is the WebAuthn signature of client data in the caller's words,
// given the challenge that must stand in it.
func assertionOf(key *ecdsa.PrivateKey, digest []byte, words func(challenge string) string) []byte {
	party := sha256.Sum256([]byte("ring.example"))
	authenticator := append(party[:], 0x05, 0, 0, 0, 1)
	client := []byte(words(base64.RawURLEncoding.EncodeToString(digest)))
	sum := sha256.Sum256(client)
	hash := sha256.Sum256(append(authenticator[:37:37], sum[:]...))
	sig := append(append([]byte{2}, authenticator...), client...)
	rs := p256RS(key, hash[:])
	for rs[32] >= 0x7f { // the chain takes low s only
		rs = p256RS(key, hash[:])
	}
	return append(append(sig, rs...), point(key)...)
}

// refused pays a fresh challenge and says whether the payment is refused, by
// Decode or by Simulate, without an effect on the chain; and what was signed.
func (m *market) refused(method *tempo.Method, w tempotest.Wallet, changes ...tempotest.Alter) (bool, []byte, error) {
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
// reservation for nothing: they are refused before it. The chain itself is the
// witness that none of them is mined, whatever becomes of the clock; some
// others it mines, and they revert.
func TestWhatNoBlockTakesIsRefused(t *testing.T) {
	m := open(t)
	method := m.method(devchain.PathUSD)
	account := func(i int) tempotest.Wallet { return tempotest.Wallet{Key: m.chain.Accounts[i].Key} }
	const chain, none = uint64(devchain.ChainID), uint64(0)
	usd := func(cents uint64, more ...any) []any { return append([]any{devchain.PathUSD, cents * 10_000}, more...) }
	list := func(members ...any) []any { return append([]any{}, members...) }
	selector := common.FromHex("0x95777d59")
	root := account(10)
	sells := func(gas uint64) tempotest.Alter { return func(d *draft) { d.Gas = gas } }

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
		key := tempotest.Wallet{Key: newKey(t)}
		terms := append([]any{chain, []byte{}, key.Address()}, tc.more...)
		m.settle("authorized with "+tc.name, method, m.decode(method, root, sells(tc.gas),
			signedFor(root.Address(), key.Sign), permitting(root.Sign, terms...)))
	}

	// Keys with a history: one in use, one revoked, one of another kind, one
	// that has spent what it may.
	use := func(name string, key func([]byte) []byte, terms ...any) {
		m.settle(name, method, m.decode(method, root, signedFor(root.Address(), key), permitting(root.Sign, terms...)))
	}
	inUse, revoked, spent := tempotest.Wallet{Key: newKey(t)}, tempotest.Wallet{Key: newKey(t)}, tempotest.Wallet{Key: newKey(t)}
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
	passkey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m.fund(p256Address(passkey))
	plainWords := func(challenge string) string {
		return fmt.Sprintf(`{"type":"webauthn.get","challenge":"%s"}`, challenge)
	}
	says := func(words string) tempotest.Alter {
		return func(d *draft) {
			d.Source, d.FeeToken = "", devchain.PathUSD[:]
			d.Sign = func(digest []byte) []byte {
				return assertionOf(passkey, digest, func(c string) string { return fmt.Sprintf(words, c) })
			}
		}
	}
	m.settle("a passkey's plain words", method, m.decode(method, root, says(`{"type":"webauthn.get","challenge":"%s","other":{"a":[1]}}`)))
	poor := tempotest.Wallet{Key: newKey(t)}
	m.fund(poor.Address())

	type alters = []tempotest.Alter
	sent := make(map[string]common.Hash)
	fresh := tempotest.Wallet{Key: newKey(t)} // authorized by nobody yet
	under := signedFor(root.Address(), fresh.Sign)
	with := func(more ...any) alters {
		return alters{under, permitting(root.Sign, append([]any{chain, []byte{}, fresh.Address()}, more...)...)}
	}
	for _, tc := range []struct {
		name    string
		by      tempotest.Wallet
		changes alters
		reverts bool // it can be mined, and reverts at the payer's cost
	}{
		{name: "gas above the block's limit", by: root, changes: alters{sells(40_000_000)}},
		{name: "gas without measure", by: root, changes: alters{sells(1e12)}},
		{name: "no gas", by: root, changes: alters{sells(0)}},
		{name: "no fee", by: root, changes: alters{func(d *draft) { d.MaxFee, d.MaxPriorityFee = none, none }}},
		{name: "a fee beyond the balance", by: root, changes: alters{func(d *draft) { d.MaxFee = new(big.Int).Lsh(common.Big1, 120) }}},
		{name: "a fee token that does not exist", by: root, changes: alters{func(d *draft) {
			d.FeeToken = common.HexToAddress("0x20c0000000000000000000000000000000009999").Bytes()
		}}},
		{name: "a fee token without a balance", by: poor, changes: alters{func(d *draft) { d.FeeToken = devchain.AlphaUSD[:] }}},
		{name: "validBefore beyond the chain's window", by: root, changes: alters{func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 60) }}},

		{name: "the account signs, unknown kind", by: root, changes: alters{permitting(root.Sign, chain, uint64(7), fresh.Address())}},
		{name: "the account signs, no key", by: root, changes: alters{permitting(root.Sign, chain, []byte{}, common.Address{})}},
		{name: "the account signs, a key in use", by: root, changes: alters{permitting(root.Sign, chain, []byte{}, inUse.Address())}},
		{name: "the account signs, limits malformed", by: root, changes: alters{permitting(root.Sign, chain, []byte{}, fresh.Address(), none, list(uint64(1)))}},
		{name: "the account signs, too many terms", by: root, changes: alters{permitting(root.Sign, chain, []byte{}, fresh.Address(), none, none, none, none, none, none, none)}},

		{name: "another kind", by: root, changes: alters{under, permitting(root.Sign, chain, uint64(1), fresh.Address())}},
		{name: "unknown kind", by: root, changes: alters{under, permitting(root.Sign, chain, uint64(3), fresh.Address())}},
		{name: "any chain", by: root, changes: alters{under, permitting(root.Sign, none, []byte{}, fresh.Address())}},
		{name: "no expiry, spelt out", by: root, changes: with(none)},
		{name: "limit is no list", by: root, changes: with(none, list(uint64(5)))},
		{name: "no period, spelt out", by: root, changes: with(none, list(usd(500, none)))},
		{name: "two limits to a token", by: root, changes: with(none, list(usd(500), usd(500)))},
		{name: "limit of 2²⁰⁰", by: root, changes: with(none, list([]any{devchain.PathUSD, new(big.Int).Lsh(common.Big1, 200)}))},
		{name: "nothing may be spent", by: root, changes: with(none, list())},
		{name: "too little for the fee", by: root, changes: with(none, list([]any{devchain.PathUSD, uint64(1)}))},
		{name: "nothing of the currency", by: root, changes: with(none, list([]any{devchain.AlphaUSD, uint64(5_000_000)}))},
		{name: "enough but for the fee", by: root, changes: with(none, list(usd(100))), reverts: true},
		{name: "a contract twice", by: root, changes: append(with(none, none, list(list(devchain.PathUSD, list()), list(devchain.PathUSD, list()))), sells(5_000_000))},
		{name: "no contract", by: root, changes: append(with(none, none, list(list(common.Address{}, list()), list(devchain.PathUSD, list()))), sells(5_000_000))},
		{name: "a function twice", by: root, changes: append(with(none, none, list(list(devchain.PathUSD, list(list(selector, list()), list(selector, list()))))), sells(5_000_000))},
		{name: "a recipient twice", by: root, changes: append(with(none, none, list(list(devchain.PathUSD, list(list(selector, list(m.recipient, m.recipient)))))), sells(6_000_000))},
		{name: "a function without recipients", by: root, changes: append(with(none, none, list(list(devchain.PathUSD, list(list(selector))))), sells(5_000_000))},
		{name: "a witness", by: root, changes: with(none, none, none, make([]byte, 32))},
		{name: "an administrator", by: root, changes: with(none, none, none, none, uint64(1))},
		{name: "permission signed with v of 0 or 1", by: root, changes: alters{under,
			permitting(func(d []byte) []byte { s := root.Sign(d); s[64] -= 27; return s }, chain, []byte{}, fresh.Address())}},
		{name: "permission signed with a high s", by: root, changes: alters{under,
			permitting(func(d []byte) []byte {
				s := root.Sign(d)
				new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(s[32:64])).FillBytes(s[32:64])
				s[64] ^= 7 // 27 ↔ 28
				return s
			}, chain, []byte{}, fresh.Address())}},
		{name: "authorized again", by: root, changes: alters{signedFor(root.Address(), inUse.Sign), permitting(root.Sign, chain, []byte{}, inUse.Address())}},
		{name: "revoked", by: root, changes: alters{signedFor(root.Address(), revoked.Sign)}},
		{name: "revoked and authorized again", by: root, changes: alters{signedFor(root.Address(), revoked.Sign), permitting(root.Sign, chain, []byte{}, revoked.Address())}},
		{name: "a P-256 key signs as a passkey", by: root, changes: alters{signedFor(root.Address(), func(d []byte) []byte { return assertionOf(curve, d, plainWords) })}},
		{name: "a key that has spent all", by: root, changes: alters{signedFor(root.Address(), spent.Sign)}, reverts: true},
		{name: "the old form of an access key's signature", by: root, changes: alters{func(d *draft) {
			d.Sign = func(digest []byte) []byte {
				return append(append([]byte{3}, root.Address().Bytes()...), inUse.Sign(digest)...)
			}
		}}},

		{name: "a passkey says its type twice", by: root, changes: alters{says(`{"type":"x","type":"webauthn.get","challenge":"%s"}`)}},
		{name: "a passkey's name is no UTF-8", by: root, changes: alters{says(`{"type":"webauthn.get","challenge":"%s",` + "\"\xff\":1}")}},
		{name: "a passkey's name is half a surrogate", by: root, changes: alters{says(`{"type":"webauthn.get","challenge":"%s","\ud800":1}`)}},
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

// What keeps a payment from going through is told by its reason, as the chain shows
// it. Nothing is seen of a payment that was not sent: that is open until its time is
// over.
func TestARealChainSaysWhyNot(t *testing.T) {
	m := open(t)
	method := m.method(devchain.PathUSD)
	poor := tempotest.Wallet{Key: newKey(t)}
	rich := tempotest.Wallet{Key: m.chain.Accounts[20].Key}
	for reason, p := range map[string]mpp.Payment{
		mpp.ReasonFunds: m.decode(method, poor),
		mpp.ReasonFee:   m.decode(method, rich, func(d *draft) { d.MaxFee, d.MaxPriorityFee = uint64(1), uint64(0) }),
	} {
		no, ok := errors.AsType[*mpp.Rejection](method.Simulate(t.Context(), p))
		if !ok || no.Reason != reason {
			t.Errorf("%v, want %s", no, reason)
		}
		if o, err := method.Seen(t.Context(), p, time.Now().Add(-5*time.Minute)); err != nil || o.State != mpp.Pending {
			t.Errorf("%s: seen as %v, %v", reason, o.State, err)
		}
	}
	over := m.decode(method, rich, func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() - 60) })
	if o, err := method.Seen(t.Context(), over, time.Now().Add(-5*time.Minute)); err != nil || o.State != mpp.Gone {
		t.Errorf("after its time: seen as %v, %v", o.State, err)
	}
}
