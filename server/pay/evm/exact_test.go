package evm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/pay/evm/evmtest"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// exactChallenge is that of an offer of x402, for 1.00, with the offer as clients get it.
func exactChallenge(t testing.TB, m *Method) (mpp.Challenge, evmtest.Accepted) {
	t.Helper()
	c := challenge(t, m)
	c.Intent = x402.Intent
	keys.Sign(&c)
	offer, ok := m.Exact(c.Request)
	if !ok {
		t.Fatal("no offer")
	}
	offer.Extra.Challenge = c
	text, err := json.Marshal(offer)
	if err != nil {
		t.Fatal(err)
	}
	var accepted evmtest.Accepted
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
		accepted.MaxTimeoutSeconds != 50 || accepted.Extra["name"] != "USD Coin" || accepted.Extra["version"] != "2" {
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
		alter  []evmtest.Alter
		at     time.Time
		reason string
	}{
		"as the client signs it":         {nil, now, ""},
		"a clock that is ahead":          {[]evmtest.Alter{evmtest.ValidFor(100 * time.Second)}, now, ""},
		"beyond the challenge":           {[]evmtest.Alter{evmtest.ValidFor(5*time.Minute + 50*time.Second)}, expires.Add(-10 * time.Second), ""},
		"a clock that is too far ahead":  {[]evmtest.Alter{evmtest.ValidFor(112 * time.Second)}, now, mpp.ReasonLong},
		"a clock that is too far behind": {[]evmtest.Alter{evmtest.ValidFor(18 * time.Second)}, now, mpp.ReasonExpired},
		"an expired challenge":           {[]evmtest.Alter{evmtest.ValidFor(6 * time.Minute)}, expires, mpp.ReasonExpired},
		"not yet valid":                  {[]evmtest.Alter{func(d *evmtest.Draft) { d.ValidAfter.SetInt64(now.Unix() + 30) }}, now, mpp.ReasonEarly},
		"another amount":                 {[]evmtest.Alter{func(d *evmtest.Draft) { d.Value.SetInt64(2_000_000) }}, now, mpp.ReasonAmount},
		"another recipient":              {[]evmtest.Alter{func(d *evmtest.Draft) { d.To[0]++ }}, now, mpp.ReasonRecipient},
		"another token":                  {[]evmtest.Alter{func(d *evmtest.Draft) { d.Token[0]++ }}, now, mpp.ReasonSigner},
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

// FuzzExact holds that a payload is taken only if it spells an authorisation that the wallet
// has signed.
func FuzzExact(f *testing.F) {
	m := newMethod(f, offersExact)
	c, accepted := exactChallenge(f, m)
	honest := presented(f, wallet(1).Exact(accepted, func(d *evmtest.Draft) { d.Nonce = common.Hash{1} }).Header()).Payload
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
		want, err := m.Decode(mpp.Credential{Challenge: c, Payload: honest})
		if err != nil || !bytes.Equal(p.Raw, want.Raw) || p.ReplayKey != want.ReplayKey || !p.Bearer {
			t.Fatalf("taken is %s: %+v", payload, p)
		}
	})
}
