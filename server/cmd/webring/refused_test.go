package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

type draft = paytest.TempoDraft

// stage is a ring with one member, for one attack after the other. Numbers of
// cases are those of the list of what must be refused, in payments.md.
type stage struct {
	*origin
	key    []byte // of the origin's challenges
	wallet devchain.Account
	body   string // of an honest bid
	// spent is a credential that was used, of a challenge for body.
	spent    mpp.Credential
	spentRaw []byte
}

func newStage(t *testing.T) *stage {
	o := ring(t)
	o.join("Target", "agent", "")
	text, err := os.ReadFile(filepath.Join(o.data, "mpp-secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{origin: o, key: key, wallet: wallet(t), body: `{"member":"target","amount":"1.00"}`}
	w := paytest.Tempo{Key: s.wallet.Key}
	ch := s.fresh()
	s.spent, s.spentRaw = w.Pay(ch), w.Transaction(ch)
	if r := s.present(s.field(s.spent)); r.Status != http.StatusOK {
		t.Fatalf("an honest payment: %d %s", r.Status, r.Body)
	}
	o.confirmed()
	return s
}

func (s *stage) fresh() mpp.Challenge {
	return s.challenge(s.post("/api/bid", s.body))
}

func (s *stage) present(authorization ...string) reply {
	header := []string{}
	for _, a := range authorization {
		header = append(header, "Authorization", a)
	}
	return s.post("/api/bid", s.body, header...)
}

func (s *stage) field(c mpp.Credential) string {
	s.t.Helper()
	field, err := c.Header()
	if err != nil {
		s.t.Fatal(err)
	}
	return field
}

// signed answers a fresh challenge with an altered transaction.
func (s *stage) signed(changes ...paytest.TempoAlter) string {
	return signedBy(s.wallet, s.fresh(), changes...)
}

// bent answers a fresh challenge honestly and alters the credential.
func (s *stage) bent(change func(c *mpp.Credential)) string {
	c := paytest.Tempo{Key: s.wallet.Key}.Pay(s.fresh())
	change(&c)
	return s.field(c)
}

// reissued is bent by the origin itself: the challenge is its own.
func (s *stage) reissued(change func(c *mpp.Challenge), changes ...paytest.TempoAlter) string {
	ch := s.fresh()
	change(&ch)
	mpp.Keys{Current: s.key}.Sign(&ch)
	return signedBy(s.wallet, ch, changes...)
}

// spelt alters the JSON text of an honest credential.
func (s *stage) spelt(old, new string) string {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s.signed(), "Payment "))
	if err != nil || !bytes.Contains(raw, []byte(old)) {
		s.t.Fatalf("%v: no %s in %s", err, old, raw)
	}
	return "Payment " + base64.RawURLEncoding.EncodeToString(bytes.Replace(raw, []byte(old), []byte(new), 1))
}

// asking alters the request inside a challenge.
func (s *stage) asking(member string, value any) func(c *mpp.Credential) {
	return func(c *mpp.Credential) {
		var request map[string]any
		if err := mpp.DecodeJSON(c.Challenge.Request, &request); err != nil {
			s.t.Fatal(err)
		}
		request[member] = value
		var err error
		if c.Challenge.Request, err = mpp.EncodeJSON(request); err != nil {
			s.t.Fatal(err)
		}
	}
}

// payload gives an honest credential another payload.
func payload(text string) func(c *mpp.Credential) {
	return func(c *mpp.Credential) { c.Payload = []byte(text) }
}

// respelt is the spent transaction with another signature of the same key over
// the same bytes: v as 0 or 1, or the high s that belongs to it.
func (s *stage) respelt(high bool) string {
	raw := bytes.Clone(s.spentRaw)
	signature := raw[len(raw)-65:]
	if high {
		order := crypto.S256().Params().N
		v := new(big.Int).Sub(order, new(big.Int).SetBytes(signature[32:64]))
		copy(signature[32:64], common.LeftPadBytes(v.Bytes(), 32))
		signature[64] ^= 27 ^ 28
	} else {
		signature[64] -= 27
	}
	return s.field(mpp.Credential{Challenge: s.spent.Challenge, Source: s.spent.Source,
		Payload: []byte(`{"type":"transaction","signature":"` + hexutil.Encode(raw) + `"}`)})
}

// refusals are the cases that leave no trace at all. send gives the values of
// the Authorization fields that go with the honest body.
var refusals = []struct {
	number int
	name   string
	status int
	code   string
	send   func(s *stage) []string
}{
	{1, "not base64", 402, "malformed_credential", one(func(s *stage) string { return "Payment !!!" })},
	{2, "padded", 402, "malformed_credential", one(func(s *stage) string { return s.signed() + "=" })},
	{2, "standard alphabet", 402, "malformed_credential", one(func(s *stage) string {
		raw := []byte(`{"challenge":{},"payload":{},"source":"???>>>"}`)
		return "Payment " + base64.RawStdEncoding.EncodeToString(raw)
	})},
	{2, "broken by a space", 402, "malformed_credential", one(func(s *stage) string { f := s.signed(); return f[:80] + " " + f[80:] })},
	{3, "an array", 402, "malformed_credential", one(func(s *stage) string { return "Payment " + base64.RawURLEncoding.EncodeToString([]byte(`[1]`)) })},
	{3, "a string", 402, "malformed_credential", one(func(s *stage) string { return "Payment " + base64.RawURLEncoding.EncodeToString([]byte(`"x"`)) })},
	{4, "a key twice", 402, "malformed_credential", one(func(s *stage) string { return s.spelt(`"source":`, `"source":"","source":`) })},
	{4, "a key in another case", 402, "malformed_credential", one(func(s *stage) string { return s.spelt(`"source":`, `"Source":`) })},
	{5, "oversized", 431, "credential_too_large", one(func(s *stage) string { return "Payment " + strings.Repeat("A", 16<<10+1) })},
	{6, "two credentials", 400, "multiple_credentials", func(s *stage) []string { return []string{s.signed(), s.signed()} }},
	{7, "forged id", 402, "invalid_challenge", one(func(s *stage) string {
		return s.bent(func(c *mpp.Credential) { c.Challenge.ID = strings.Repeat("A", 43) })
	})},
	{8, "changed amount", 402, "invalid_challenge", one(func(s *stage) string { return s.bent(s.asking("amount", "10000")) })},
	{9, "changed recipient", 402, "invalid_challenge", one(func(s *stage) string { return s.bent(s.asking("recipient", "0x"+strings.Repeat("11", 20))) })},
	{9, "changed currency", 402, "invalid_challenge", one(func(s *stage) string {
		return s.bent(s.asking("currency", strings.ToLower(devchain.AlphaUSD.Hex())))
	})},
	{10, "expiry extended", 402, "invalid_challenge", one(func(s *stage) string {
		return s.bent(func(c *mpp.Credential) {
			c.Challenge.Expires = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		})
	})},
	{11, "expiry removed", 402, "invalid_challenge", one(func(s *stage) string { return s.bent(func(c *mpp.Credential) { c.Challenge.Expires = "" }) })},
	{11, "issued without expiry", 402, "invalid_challenge", one(func(s *stage) string { return s.reissued(func(c *mpp.Challenge) { c.Expires = "" }) })},
	{12, "digest removed", 402, "invalid_challenge", one(func(s *stage) string { return s.bent(func(c *mpp.Credential) { c.Challenge.Digest = "" }) })},
	{12, "issued without digest", 402, "invalid_challenge", one(func(s *stage) string { return s.reissued(func(c *mpp.Challenge) { c.Digest = "" }) })},
	{13, "opaque altered", 402, "invalid_challenge", one(func(s *stage) string {
		return s.bent(func(c *mpp.Credential) { c.Challenge.Opaque += "A" })
	})},
	{14, "other realm", 402, "invalid_challenge", one(func(s *stage) string { return s.reissued(func(c *mpp.Challenge) { c.Realm = "other.dev" }) })},
	{14, "other secret", 402, "invalid_challenge", one(func(s *stage) string {
		return s.bent(func(c *mpp.Credential) {
			mpp.Keys{Current: bytes.Repeat([]byte{7}, 32)}.Sign(&c.Challenge)
		})
	})},
	{15, "expired", 402, "payment_expired", one(func(s *stage) string {
		return s.reissued(func(c *mpp.Challenge) { c.Expires = time.Now().Add(-time.Second).UTC().Format(time.RFC3339) })
	})},
	{16, "register credential on bid", 402, "invalid_challenge", one(func(s *stage) string {
		return signedBy(s.wallet, s.challenge(s.post("/api/register", `{"name":"Other","url":"https://other.dev/","kind":"agent"}`)))
	})},
	{17, "same route, other body", 402, "invalid_challenge", one(func(s *stage) string {
		return signedBy(s.wallet, s.challenge(s.post("/api/bid", s.body+" ")))
	})},
	{18, "dear body, challenge of another price", 402, "invalid_challenge", one(func(s *stage) string {
		return signedBy(s.wallet, s.challenge(s.post("/api/bid", strings.Replace(s.body, "1.00", "1.01", 1))))
	})},
	{19, "unknown method", 400, "unsupported_method", one(func(s *stage) string { return s.bent(func(c *mpp.Credential) { c.Challenge.Method = "card" }) })},
	{20, "proof", 402, "verification_failed", one(func(s *stage) string { return s.bent(payload(`{"type":"proof","signature":"0x00"}`)) })},
	{21, "hash", 402, "verification_failed", one(func(s *stage) string {
		return s.bent(payload(`{"type":"hash","signature":"0x` + strings.Repeat("ab", 32) + `"}`))
	})},
	{22, "type 0x02", 402, "verification_failed", altered(func(d *draft) { d.Type = 2 })},
	{23, "fee payer asked for", 402, "verification_failed", altered(func(d *draft) { d.FeePayer = []byte{0} })},
	{23, "fee payer signed", 402, "verification_failed", altered(func(d *draft) {
		d.FeePayer = []any{uint64(0), bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}
	})},
	{23, "type 0x78", 402, "verification_failed", altered(func(d *draft) { d.Type = 0x78 })},
	{24, "trailing bytes", 402, "verification_failed", altered(func(d *draft) { d.Wire = func(raw []byte) []byte { return append(raw, 0) } })},
	{24, "non-canonical integer", 402, "verification_failed", altered(func(d *draft) { d.ChainID = rlp.RawValue{0x83, 0, 0xa5, 0xbf} })},
	{25, "unsigned", 402, "verification_failed", altered(func(d *draft) { d.Unsigned = true })},
	{26, "high s of a consumed transaction", 409, "credential_reused", one(func(s *stage) string { return s.respelt(true) })},
	{26, "other v of a consumed transaction", 409, "credential_reused", one(func(s *stage) string { return s.respelt(false) })},
	{27, "other chain", 402, "verification_failed", altered(func(d *draft) { d.ChainID = uint64(1) })},
	{28, "other token", 402, "verification_failed", altered(func(d *draft) { d.Token = devchain.BetaUSD })},
	{29, "a unit less", 402, "verification_failed", altered(func(d *draft) { d.Amount = big.NewInt(999_999) })},
	{29, "a unit more", 402, "verification_failed", altered(func(d *draft) { d.Amount = big.NewInt(1_000_001) })},
	{30, "plain transfer", 402, "verification_failed", altered(func(d *draft) {
		d.Data = append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], append(common.LeftPadBytes(d.Recipient[:], 32), common.LeftPadBytes(d.Amount.Bytes(), 32)...)...)
	})},
	{31, "memo of another challenge", 402, "verification_failed", one(func(s *stage) string {
		return s.signed(func(d *draft) { d.Memo = paytest.Memo(s.spent.Challenge.Realm, s.spent.Challenge.ID) })
	})},
	{32, "memo of another realm", 402, "verification_failed", one(func(s *stage) string {
		ch := s.fresh()
		return signedBy(s.wallet, ch, func(d *draft) { d.Memo = paytest.Memo("other.dev", ch.ID) })
	})},
	{33, "padded calldata", 402, "verification_failed", altered(func(d *draft) {
		d.Data = append(paytest.TransferWithMemo(d.Recipient, d.Amount, d.Memo), make([]byte, 32)...)
	})},
	{34, "validBefore missing", 402, "verification_failed", altered(func(d *draft) { d.ValidBefore = uint64(0) })},
	{34, "validBefore past", 402, "payment_expired", altered(func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() - 60) })},
	{34, "validBefore beyond expires", 402, "verification_failed", one(func(s *stage) string {
		return s.reissued(func(c *mpp.Challenge) { c.Expires = time.Now().Add(40 * time.Second).UTC().Format(time.RFC3339) },
			func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 60) })
	})},
	{34, "validBefore too far", 402, "verification_failed", altered(func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 120) })},
	{35, "validAfter in the future", 402, "verification_failed", altered(func(d *draft) { d.ValidAfter = uint64(time.Now().Unix() + 20) })},
	{36, "source is not the signer", 402, "verification_failed", altered(func(d *draft) { d.Source = "did:pkh:eip155:42431:0x" + strings.Repeat("01", 20) })},
	{37, "no balance", 402, "verification_failed", one(func(s *stage) string { return signedBy(freshAccount(s.t), s.fresh()) })},
	{40, "replay after success", 409, "credential_reused", one(func(s *stage) string { return s.field(s.spent) })},
	{42, "the same transaction under a second challenge", 402, "verification_failed", one(func(s *stage) string {
		return s.field(mpp.Credential{Challenge: s.fresh(), Payload: s.spent.Payload, Source: s.spent.Source})
	})},
	{43, "re-spelled hash", 409, "credential_reused", one(func(s *stage) string {
		var p map[string]string
		if err := json.Unmarshal(s.spent.Payload, &p); err != nil {
			s.t.Fatal(err)
		}
		text := fmt.Sprintf(`{"type":"transaction","signature":"0x%s"}`, strings.ToUpper(p["signature"][2:]))
		return s.field(mpp.Credential{Challenge: s.spent.Challenge, Source: s.spent.Source, Payload: []byte(text)})
	})},
}

func one(send func(s *stage) string) func(*stage) []string {
	return func(s *stage) []string { return []string{send(s)} }
}

func altered(change paytest.TempoAlter) func(*stage) []string {
	return one(func(s *stage) string { return s.signed(change) })
}

// traces is everything that a refused credential must leave as it was.
func (s *stage) traces() string {
	s.t.Helper()
	version, err := s.operate("version")
	if err != nil {
		s.t.Fatalf("%v\n%s", err, version)
	}
	payments, err := s.operate("payments", "list", "--all")
	if err != nil {
		s.t.Fatalf("%v\n%s", err, payments)
	}
	return fmt.Sprint(version, payments, string(s.get("/api/ring").Body), s.received())
}

// TestWhatMustBeRefused goes through the list, but for the cases that leave what
// their row names, which follow.
func TestWhatMustBeRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	before := s.traces()
	for _, c := range refusals {
		t.Run(fmt.Sprintf("%02d %s", c.number, c.name), func(t *testing.T) {
			o := *s.origin
			o.t = t
			s := &stage{&o, s.key, s.wallet, s.body, s.spent, s.spentRaw}
			r := s.present(c.send(s)...)
			if r.Status != c.status || r.code(t) != c.code {
				t.Errorf("%d %s; want %d %s", r.Status, r.Body, c.status, c.code)
			}
			if offers := r.Header.Values("WWW-Authenticate"); len(offers) > 0 != (c.status == 402) {
				t.Errorf("%d with %d challenges", r.Status, len(offers))
			} else if c.status == 402 {
				if ch := s.challenge(r); ch.ID == "" || ch.Digest != mpp.Digest([]byte(s.body)) {
					t.Errorf("the challenge is not a fresh one: %+v", ch)
				}
			}
			if r.Header.Get("Payment-Receipt") != "" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("header: %v", r.Header)
			}
			if after := s.traces(); after != before {
				t.Errorf("a trace is left:\n%s\nbefore it was\n%s", after, before)
			}
		})
	}
	t.Run("41 fifty at once", func(t *testing.T) {
		received := s.received()
		credential := s.signed()
		var group sync.WaitGroup
		statuses := make(chan int, 50)
		for range 50 {
			group.Go(func() {
				if r, err := s.try(http.MethodPost, "/api/bid", []byte(s.body), "Authorization", credential, "Content-Type", "application/json"); err == nil {
					statuses <- r.Status
				}
			})
		}
		group.Wait()
		close(statuses)
		count := map[int]int{}
		for status := range statuses {
			count[status]++
		}
		if count[200] != 1 || count[409] != 49 || s.received()-received != 100 {
			t.Errorf("%v, %d cents", count, s.received()-received)
		}
	})
}
