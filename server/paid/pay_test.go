package paid_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/big"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
	"webring/server/pay/tempo"
	"webring/server/sites/score"
)

// bare is a service on a ring with one member, ada, outside of any bubble.
func bare(b testing.TB) *paid.Service {
	b.Helper()
	books, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(b.TempDir(), "head"), Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { books.Close() })
	err = books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: base, Fee: 100, MinBid: 100, Grace: 1, Decay: 1, RequiredScore: 40}, nil)
		if err == nil {
			_, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
				&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.dev"}})
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	network := newNetwork()
	s, err := paid.New(paid.Config{Ledger: books, Methods: []paid.Method{&method{node{network, &new(process).dead}, "coin"}},
		Scorer: &scorer{results: map[string]score.Result{}}, Realm: realm, Keys: mpp.Keys{Current: challengeKey}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// What a challenge for a bid costs, without the connection that it goes over.
func BenchmarkChallenge(b *testing.B) {
	s := bare(b)
	call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Client: "192.0.2.1", Secure: true}
	b.ReportAllocs()
	for b.Loop() {
		if a := s.Handle(context.Background(), call); a.Status != 402 {
			b.Fatalf("%d %s", a.Status, a.Body)
		}
	}
}

// Whatever is sent, a paid request gets an answer of a known kind, and nothing is granted
// without a payment.
func FuzzHandle(f *testing.F) {
	s := bare(f)
	a := s.Handle(context.Background(), paid.Call{Operation: paid.OpBid, Body: []byte(fund), Secure: true})
	challenge := answer{&testing.T{}, a}.challenges()[0] // which does not fail on a 402
	payload, err := json.Marshal(transaction{Challenge: challenge.ID, Payer: "bob", Cents: 150, ValidBefore: 1})
	if err != nil {
		f.Fatal(err)
	}
	late, err := mpp.Credential{Challenge: challenge, Payload: payload}.Header()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, []byte(fund), late, "", "")
	f.Add(true, []byte(fund), "Payment e30", "coin/charge;q=0.5", "key")
	f.Add(false, []byte(bob), "", "*/*", "key")
	f.Fuzz(func(t *testing.T, bids bool, body []byte, authorization, accept, key string) {
		op := paid.OpRegister
		if bids {
			op = paid.OpBid
		}
		c := paid.Call{Operation: op, Body: body, AcceptPayment: accept, IdempotencyKey: key, Client: "192.0.2.1", Secure: true}
		if authorization != "" {
			c.Authorization = []string{authorization}
		}
		a := s.Handle(context.Background(), c)
		switch a.Status {
		case 400, 402, 404, 409, 410, 413, 422, 431, 503:
		default:
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		answer{t, a}.form()
	})
}

// onTempo has the ring take Tempo charges: what people send is checked by the
// real method, and the network behind it is ours.
func onTempo(r *ring) {
	m, err := tempo.New(tempo.Config{RPC: "http://127.0.0.1:9/", ChainID: 42431, Currency: token, Recipient: treasury})
	if err != nil {
		r.t.Fatal(err)
	}
	r.methods = func(dead *atomic.Bool) []paid.Method {
		return []paid.Method{&tempoCharge{node{r.network, dead}, offered{m}, m}}
	}
}

var (
	token    = common.HexToAddress("0x20c0000000000000000000000000000000000000")
	treasury = common.HexToAddress("0x70997970c51812dc3a010c7d01b50e0d17dc79c8")
	stranger = common.HexToAddress("0x00000000000000000000000000000000deadbeef")
)

// tempoCharge has the network of node, and everything else of the method.
type tempoCharge struct {
	node
	offered
	tempo *tempo.Method
}

// offered lies deeper, so that what node has comes first.
type offered struct{ *tempo.Method }

func (m *tempoCharge) Payee() string { return m.tempo.Payee() }

func (m *tempoCharge) Decode(c mpp.Credential) (mpp.Payment, error) {
	_ = m.ask("decode")
	return m.tempo.Decode(c)
}

// attack is one attempt to get something that was not paid for. Each builds on
// an honest challenge for ada's registration, for 1.00.
type attack struct {
	name   string // begins with its number in the list of what must be refused
	status int
	code   api.Code
	// dear says that the network had to be asked to find out.
	dear bool
	// The request: by default ada's body, to register, with what alter makes
	// of the challenge and the transaction, or else with the field given.
	op, body  string
	challenge func(r *ring, c *mpp.Challenge)
	sign      paytest.TempoAlter
	fields    func(r *ring, honest string) []string
	before    func(r *ring)
}

const (
	malformed = api.MalformedCredential
	foreign   = api.InvalidChallenge
	expired   = api.PaymentExpired
	unpaid    = api.VerificationFailed
)

// text replaces the credential by some text that is made of the honest one's
// base64url.
func text(f func(honest string) string) func(*ring, string) []string {
	return func(_ *ring, honest string) []string {
		return []string{"Payment " + f(strings.TrimPrefix(honest, "Payment "))}
	}
}

// document replaces it by the base64url of some JSON made of the honest JSON.
func document(f func(honest string) string) func(*ring, string) []string {
	return text(func(honest string) string {
		plain, err := base64.RawURLEncoding.DecodeString(honest)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString([]byte(f(string(plain))))
	})
}

func swap(old, new string) func(string) string {
	return func(s string) string {
		if !strings.Contains(s, old) {
			panic("nothing to replace: " + old)
		}
		return strings.Replace(s, old, new, 1)
	}
}

// request has a challenge ask for something else.
func request(amount, currency, recipient string) func(*ring, *mpp.Challenge) {
	return func(r *ring, c *mpp.Challenge) {
		var err error
		c.Request, err = mpp.EncodeJSON(map[string]any{"amount": amount, "currency": currency, "recipient": recipient,
			"methodDetails": map[string]any{"chainId": 42431, "supportedModes": []string{"pull"}}})
		r.must(err)
	}
}

type draft = paytest.TempoDraft

var attacks = []attack{
	{name: "1 not base64", status: 402, code: malformed, fields: text(func(string) string { return "{}!" })},
	{name: "1 nothing after the scheme", status: 402, code: malformed, fields: text(func(string) string { return "" })},
	{name: "2 padded base64", status: 402, code: malformed, fields: text(func(s string) string { return s + "==" })},
	{name: "2 standard alphabet", status: 402, code: malformed, fields: text(func(s string) string { return "+/" + s[2:] })},
	{name: "2 broken into lines", status: 402, code: malformed, fields: text(func(s string) string { return s[:40] + "\r\n" + s[40:] })},
	{name: "3 a JSON array", status: 402, code: malformed, fields: document(func(s string) string { return "[" + s + "]" })},
	{name: "3 null", status: 402, code: malformed, fields: document(func(string) string { return "null" })},
	{name: "3 an empty object", status: 402, code: malformed, fields: document(func(string) string { return "{}" })},
	{name: "3 an object and more", status: 402, code: malformed, fields: document(func(s string) string { return s + "{}" })},
	{name: "4 a key twice", status: 402, code: malformed, fields: document(swap(`"payload":`, `"payload":{},"payload":`))},
	{name: "4 a key in another case", status: 402, code: malformed, fields: document(swap(`"payload":`, `"Payload":{},"payload":`))},
	{name: "4 a challenge's key twice", status: 402, code: malformed, fields: document(swap(`"id":`, `"id":"x","id":`))},
	{name: "5 oversized", status: 431, code: api.CredentialTooLarge, fields: text(func(s string) string { return strings.Repeat("A", mpp.MaxCredential+1) })},
	{name: "6 two credentials", status: 400, code: api.MultipleCredentials, fields: func(_ *ring, h string) []string { return []string{h, h} }},
	{name: "6 two credentials in one field", status: 400, code: api.MultipleCredentials, fields: func(_ *ring, h string) []string { return []string{h + ", " + h} }},
	{name: "6 a second one that cannot be read", status: 400, code: api.MultipleCredentials, fields: func(_ *ring, h string) []string { return []string{h, "payment ?"} }},
	{name: "7 forged id", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) { c.ID = strings.Repeat("A", 43) }},
	{name: "8 changed amount", status: 402, code: foreign, challenge: request("1", token.Hex(), treasury.Hex())},
	{name: "9 changed recipient", status: 402, code: foreign, challenge: request("1000000", token.Hex(), stranger.Hex())},
	{name: "9 changed currency", status: 402, code: foreign, challenge: request("1000000", stranger.Hex(), treasury.Hex())},
	{name: "10 expiry extended", status: 402, code: foreign, challenge: func(r *ring, c *mpp.Challenge) {
		c.Expires = r.now().Add(time.Hour).UTC().Format(time.RFC3339)
	}},
	{name: "11 expiry removed", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) { c.Expires = "" }},
	{name: "11 no expiry in a challenge of ours", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) {
		c.Expires = ""
		mpp.Keys{Current: challengeKey}.Sign(c)
	}},
	{name: "12 digest removed", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) { c.Digest = "" }},
	{name: "12 no digest in a challenge of ours", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) {
		c.Digest = ""
		mpp.Keys{Current: challengeKey}.Sign(c)
	}},
	{name: "13 opaque altered", status: 402, code: foreign, challenge: func(r *ring, c *mpp.Challenge) {
		pinned := map[string]string{}
		r.must(mpp.DecodeJSON(c.Opaque, &pinned))
		pinned["score"] = "100"
		var err error
		c.Opaque, err = mpp.EncodeJSON(pinned)
		r.must(err)
	}},
	{name: "13 opaque removed", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) { c.Opaque = "" }},
	{name: "14 other realm", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) {
		c.Realm = "other.example"
		mpp.Keys{Current: challengeKey}.Sign(c)
	}},
	{name: "14 other secret", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) { mpp.Keys{Current: make([]byte, 32)}.Sign(c) }},
	{name: "14 other intent", status: 402, code: foreign, challenge: func(_ *ring, c *mpp.Challenge) {
		c.Intent = "session"
		mpp.Keys{Current: challengeKey}.Sign(c)
	}},
	{name: "15 expired", status: 402, code: expired, before: func(*ring) { time.Sleep(5 * time.Minute) }},
	{name: "15 expired and forged", status: 402, code: foreign, before: func(*ring) { time.Sleep(5 * time.Minute) },
		challenge: func(_ *ring, c *mpp.Challenge) { c.ID = strings.Repeat("A", 43) }},
	{name: "16 register credential on bid", status: 402, code: foreign, op: paid.OpBid, body: `{"member":"first","amount":"1.00"}`},
	{name: "17 same route, other body", status: 402, code: foreign, body: `{"name":"Mallory","url":"https://ada.dev","kind":"agent"}`},
	{name: "17 same route, other URL", status: 402, code: foreign, body: bob},
	{name: "17 same words, other bytes", status: 402, code: foreign, body: ada + " "},
	{name: "17 other bytes, and expired", status: 402, code: foreign, body: ada + " ", before: func(*ring) { time.Sleep(5 * time.Minute) }},
	{name: "17 a body that is none", status: 422, code: api.InvalidRequest, body: "{"},
	{name: "17 a bid below the minimum, and a credential that cannot be read", status: 422, code: api.BidTooLow, op: paid.OpBid,
		body: `{"member":"first","amount":"0.99"}`, fields: text(func(string) string { return "{}!" })},
	{name: "17 a bid on nobody, and a forged id", status: 404, code: api.UnknownMember, op: paid.OpBid,
		body: `{"member":"nobody","amount":"1.00"}`, challenge: func(_ *ring, c *mpp.Challenge) { c.ID = strings.Repeat("A", 43) }},
	{name: "18 cheap challenge on a dear body", status: 402, code: foreign, body: `{"name":"Ada","url":"https://ada.dev","kind":"agent","bid":"1000.00"}`},
	{name: "19 unknown method", status: 400, code: api.UnsupportedMethod, challenge: func(_ *ring, c *mpp.Challenge) { c.Method = "evm" }},
	{name: "20 proof", status: 402, code: unpaid, sign: func(d *draft) { d.PayloadType = "proof" }},
	{name: "21 hash", status: 402, code: unpaid, sign: func(d *draft) {
		d.Payload = map[string]string{"type": "hash", "hash": "0x" + strings.Repeat("ab", 32)}
	}},
	{name: "21 a payload of another method", status: 402, code: malformed, sign: func(d *draft) { d.PayloadType = "authorization" }},
	{name: "22 type 0x02", status: 402, code: unpaid, sign: func(d *draft) { d.Type = 2 }},
	{name: "23 fee payer asked for", status: 402, code: unpaid, sign: func(d *draft) { d.FeePayer = []byte{0} }},
	{name: "23 fee payer's type", status: 402, code: unpaid, sign: func(d *draft) { d.Type = 0x78 }},
	{name: "24 trailing byte", status: 402, code: unpaid, sign: func(d *draft) { d.Wire = func(raw []byte) []byte { return append(raw, 0) } }},
	{name: "24 integer with a leading zero", status: 402, code: unpaid, sign: func(d *draft) { d.Gas = rlp.RawValue{0x82, 0, 0xff} }},
	{name: "25 unsigned", status: 402, code: unpaid, sign: func(d *draft) { d.Unsigned = true }},
	{name: "27 other chain", status: 402, code: unpaid, sign: func(d *draft) { d.ChainID = uint64(4217) }},
	{name: "28 other token", status: 402, code: unpaid, sign: func(d *draft) { d.Token = stranger }},
	{name: "29 a unit more", status: 402, code: unpaid, sign: func(d *draft) { d.Amount = big.NewInt(1_000_001) }},
	{name: "29 a unit less", status: 402, code: unpaid, sign: func(d *draft) { d.Amount = big.NewInt(999_999) }},
	{name: "30 plain transfer", status: 402, code: unpaid, sign: func(d *draft) {
		d.Data = paytest.TransferWithMemo(treasury, big.NewInt(1_000_000), [32]byte{})[:68]
		copy(d.Data, crypto.Keccak256([]byte("transfer(address,uint256)"))[:4])
	}},
	{name: "31 memo of another challenge", status: 402, code: unpaid, sign: func(d *draft) { d.Memo = paytest.Memo(realm, "another") }},
	{name: "32 memo of another realm", status: 402, code: unpaid, sign: func(d *draft) { d.Memo[5] ^= 1 }},
	{name: "33 padded calldata", status: 402, code: unpaid, sign: func(d *draft) {
		d.Data = append(paytest.TransferWithMemo(d.Recipient, d.Amount, d.Memo), 0)
	}},
	{name: "34 no validBefore", status: 402, code: unpaid, sign: func(d *draft) { d.ValidBefore = uint64(0) }},
	{name: "34 validBefore past", status: 402, code: expired, sign: validBefore(-1)},
	{name: "34 validBefore in 4 s", status: 503, code: api.PaymentPending, sign: validBefore(4)},
	{name: "34 validBefore in 301 s", status: 402, code: unpaid, sign: validBefore(301)},
	{name: "34 validBefore after expires", status: 402, code: unpaid, before: func(*ring) { time.Sleep(4*time.Minute + 40*time.Second) }, sign: validBefore(25)},
	{name: "35 validAfter in the future", status: 402, code: unpaid, sign: func(d *draft) { d.ValidAfter = d.ValidBefore }},
	{name: "36 source is not the signer", status: 402, code: unpaid, sign: func(d *draft) { d.Source = "did:pkh:eip155:42431:" + stranger.Hex() }},
	{name: "37 no balance", status: 402, code: unpaid, dear: true, before: func(r *ring) {
		r.network.simulate = refuse
	}},
	{name: "37 the network is silent about it", status: 503, code: api.PaymentsUnavailable, dear: true, before: func(r *ring) {
		r.network.simulate = silence
	}},
}

// validBefore is so many seconds from now.
func validBefore(seconds int64) paytest.TempoAlter {
	return func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + seconds) }
}

func tempoWallet(n int64) paytest.Tempo {
	key, err := crypto.ToECDSA(common.LeftPadBytes(big.NewInt(n).Bytes(), 32))
	if err != nil {
		panic(err)
	}
	return paytest.Tempo{Key: key}
}

// pay answers a challenge with a really signed transaction.
func (r *ring) pay(w paytest.Tempo, c mpp.Challenge, changes ...paytest.TempoAlter) string {
	r.t.Helper()
	return r.present(w.Pay(c, changes...))
}

// Every row is refused with its own status and code, with a fresh challenge
// where paying again is right and none where it is not; it asks the network at most
// whether the transaction is there, leaves no trace, and the honest payer is served
// afterwards.
func TestRefused(t *testing.T) {
	for _, c := range attacks {
		inRing(t, c.name, func(t *testing.T, r *ring) {
			first := `{"name":"First","url":"https://first.dev","kind":"agent"}`
			r.post(paid.OpRegister, first, r.pay(tempoWallet(1), r.challenge(paid.OpRegister, first))).is(201, "")
			op, body := c.op, c.body
			if op == "" {
				op = paid.OpRegister
			}
			if body == "" {
				body = ada
			}
			ch := r.challenge(paid.OpRegister, ada)
			if c.before != nil {
				c.before(r)
			}
			if c.challenge != nil {
				c.challenge(r, &ch)
			}
			var changes []paytest.TempoAlter
			if c.sign != nil {
				changes = append(changes, c.sign)
			}
			fields := []string{r.pay(tempoWallet(2), ch, changes...)}
			if c.fields != nil {
				fields = c.fields(r, fields[0])
			}
			size := r.size()
			cheap, dear := r.network.questions("decode", "seen"), r.network.questions("simulate", "broadcast", "outcome")
			ours := (mpp.Keys{Current: challengeKey}).Signed(ch) && ch.Intent == mpp.Charge

			for range 2 {
				a := r.post(op, body, fields...).is(c.status, c.code)
				for _, fresh := range a.challenges() {
					if fresh.ID == ch.ID {
						t.Error("the challenge is not fresh")
					}
				}
			}
			if now := r.size(); now != size || len(r.open()) != 0 {
				t.Errorf("a trace: %s, before %s; %d open", now, size, len(r.open()))
			}
			if n := r.network.questions("simulate", "broadcast", "outcome") - dear; (n != 0) != c.dear {
				t.Errorf("the network was asked %d questions", n)
			}
			switch n := r.network.questions("decode", "seen") - cheap; {
			case n != 0 && !ours:
				t.Error("a transaction was looked at although the challenge is not ours")
			case n > 4:
				t.Errorf("a transaction was looked at %d times for two requests", n)
			}

			r.network.change(func() { r.network.simulate = nil })
			again := r.challenge(paid.OpRegister, ada)
			r.post(paid.OpRegister, ada, r.pay(tempoWallet(3), again)).is(201, "")
		}, onTempo)
	}
}

// 26, 40, 43: a consumed transaction in whatever spelling is answered by what
// became of it, and never by an invitation to pay.
func TestConsumedTransactionInOtherSpellings(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpRegister, ada)
		w := tempoWallet(2)
		r.post(paid.OpRegister, ada, r.pay(w, ch)).is(201, "")
		size := r.size()
		n := crypto.S256().Params().N
		for name, change := range map[string]paytest.TempoAlter{
			"40: the same again": func(*draft) {},
			"26: v of 0 or 1": func(d *draft) {
				d.Sign = func(digest []byte) []byte { s := w.Sign(digest); s[64] -= 27; return s }
			},
			"26: high s": func(d *draft) {
				d.Sign = func(digest []byte) []byte {
					s := w.Sign(digest)
					new(big.Int).Sub(n, new(big.Int).SetBytes(s[32:64])).FillBytes(s[32:64])
					s[64] ^= 7
					return s
				}
			},
			"43: as a hash":       func(d *draft) { d.PayloadType = "hash" },
			"another transaction": func(d *draft) { d.Gas = uint64(1_000_000) },
		} {
			t.Log(name)
			r.post(paid.OpRegister, ada, r.pay(w, ch, change)).is(409, api.CredentialReused).
				shows("outcome", "applied").shows("links.self", base+"/api/ring/ada")
		}
		time.Sleep(time.Hour)
		r.post(paid.OpRegister, ada, r.pay(w, ch)).is(409, api.CredentialReused) // not payment_expired
		same(t, r.size(), size)
	}, onTempo)
}

// 42: one transaction cannot answer two challenges. The memo says so on Tempo;
// were it otherwise, the replay keys would.
func TestOneTransactionUnderTwoChallenges(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		one, two := r.challenge(paid.OpRegister, ada), r.challenge(paid.OpRegister, ada)
		honest := tempoWallet(2).Pay(one)
		r.post(paid.OpRegister, ada, r.present(honest)).is(201, "")
		second := `{"member":"ada","amount":"1.00"}`
		ch := r.challenge(paid.OpBid, second)
		for _, c := range []mpp.Challenge{two, ch} {
			honest.Challenge = c
			body, op := ada, paid.OpRegister
			if c == ch {
				body, op = second, paid.OpBid
			}
			a := r.post(op, body, r.present(honest))
			if a.Status < 400 || r.stored(c) != nil {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
	}, onTempo)
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		unbound := func(tx *transaction) { tx.Challenge, tx.Salt = "", "the only one" }
		one, two := r.challenge(paid.OpBid, fund), r.challenge(paid.OpBid, fund)
		r.post(paid.OpBid, fund, r.sign(one, "bob", 150, unbound)).is(200, "")
		a := r.post(paid.OpBid, fund, r.sign(two, "bob", 150, unbound)).is(409, api.CredentialReused)
		if a.member("outcome") != "applied" || r.total("ada") != 250 || r.stored(two) != nil {
			t.Errorf("ada has %d: %s", r.total("ada"), a.Body)
		}
	})
}

func refuse(context.Context, mpp.Payment) error {
	return &mpp.Rejection{Code: mpp.CodeVerify, Detail: "the payment would not go through"}
}

func silence(context.Context, mpp.Payment) error { return errNode }

// One transaction answers no second challenge while the next process has its payment open, either: on a 402 its payer
// would pay again.
func TestOneTransactionUnderTwoChallengesAfterARestart(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		payload := r.bearer("bob", 150)
		present := func() string {
			return r.present(mpp.Credential{Challenge: r.challenge(paid.OpBid, fund), Payload: payload})
		}
		one, two := present(), present()
		r.network.change(func() { r.network.fates["bob"] = fate{after: 10 * time.Second} })
		next := r.failAt("broadcast")
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{one}})
		time.Sleep(time.Second)
		next()
		r.network.change(func() { r.network.simulate = refuse })
		r.post(paid.OpBid, fund, two).is(409, api.CredentialReused).shows("outcome", "pending")
		time.Sleep(time.Minute)
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
	})
}
