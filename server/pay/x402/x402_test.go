package x402_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// presented is what @x402/fetch 2.27.0 sends for an offer of this ring, without its base64.
const presented = `{"x402Version":2,"payload":{"authorization":{"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","to":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","value":"1000000","validAfter":"0","validBefore":"1793880050","nonce":"0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"},"signature":"0x00"},"resource":{"url":"https://ring.example/api/bid","description":"Bid 1.00 USD on ada","mimeType":"application/json"},"accepted":{"scheme":"exact","network":"eip155:8453","amount":"1000000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":50,"extra":{"name":"USD Coin","version":"2","challenge":{"id":"aWQ","realm":"ring.example","method":"evm","intent":"x402","request":"e30","expires":"2026-11-05T12:00:00Z","digest":"sha-256=:AA==:","opaque":"e30"}}}}`

var offer = x402.Offer{Scheme: "exact", Network: "eip155:8453", Amount: "1000000", Asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
	PayTo: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", MaxTimeoutSeconds: 50, Extra: x402.Extra{Name: "USD Coin", Version: "2",
		Challenge: mpp.Challenge{ID: "aWQ", Realm: "ring.example", Method: "evm", Intent: x402.Intent, Request: "e30", Expires: "2026-11-05T12:00:00Z", Digest: "sha-256=:AA==:", Opaque: "e30"}}}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestParse(t *testing.T) {
	p, found, err := x402.Parse([]string{"", " " + encoded(presented) + " "})
	if err != nil || !found || p.Accepted != offer || p.Credential().Challenge != offer.Extra.Challenge || !strings.HasPrefix(string(p.Payload), `{"authorization"`) {
		t.Fatalf("%v %v %+v", found, err, p)
	}
	if text := fmt.Sprintf("%v %+v %s %#v", *p, p, p, *p); strings.Contains(text, "signature") {
		t.Errorf("prints %s", text)
	}
	if p, found, err := x402.Parse([]string{"", ","}); p != nil || found || err != nil {
		t.Errorf("of nothing: %v %v %v", p, found, err)
	}
	// Both alphabets, padded or not. "??>" has letters that differ between them.
	spelled := strings.Replace(presented, "Bid 1.00", "??>>>Bid 1.00", 1)
	for _, more := range []string{"", " ", "  "} {
		for name, e := range map[string]*base64.Encoding{"standard": base64.StdEncoding, "unpadded": base64.RawStdEncoding, "base64url": base64.URLEncoding, "base64url, unpadded": base64.RawURLEncoding} {
			if p, _, err := x402.Parse([]string{e.EncodeToString([]byte(spelled + more))}); err != nil || p.Accepted != offer {
				t.Errorf("%s with %d: %v", name, len(more), err)
			}
		}
	}
	for name, c := range map[string]struct {
		values []string
		err    error
	}{
		"twice":              {[]string{encoded(presented), encoded(presented)}, mpp.ErrMultiple},
		"twice in a line":    {[]string{encoded(presented) + "," + encoded("{}")}, mpp.ErrMultiple},
		"too long":           {[]string{encoded(strings.Repeat(" ", mpp.MaxCredential) + presented)}, mpp.ErrTooLarge},
		"no base64":          {[]string{presented[:10]}, mpp.ErrMalformed},
		"line break":         {[]string{encoded(presented)[:40] + "\n" + encoded(presented)[40:]}, mpp.ErrMalformed},
		"no JSON":            {[]string{encoded("x402")}, mpp.ErrMalformed},
		"no object":          {[]string{encoded("[]")}, mpp.ErrMalformed},
		"nothing in it":      {[]string{encoded("{}")}, mpp.ErrMalformed},
		"version 1":          {[]string{encoded(`{"x402Version":1,"scheme":"exact","network":"base","payload":{"signature":"0x00"}}`)}, x402.ErrVersion},
		"version 3":          {[]string{encoded(strings.Replace(presented, ":2,", ":3,", 1))}, mpp.ErrMalformed},
		"padding within":     {[]string{encoded(presented)[:40] + "=" + encoded(presented)[40:]}, mpp.ErrMalformed},
		"a name twice":       {[]string{encoded(strings.Replace(presented, `"scheme"`, `"scheme":"upto","scheme"`, 1))}, mpp.ErrMalformed},
		"a name in capitals": {[]string{encoded(strings.Replace(presented, `"payTo"`, `"PayTo"`, 1))}, mpp.ErrMalformed},
		"payload of text":    {[]string{encoded(`{"x402Version":2,"payload":"x","accepted":{}}`)}, mpp.ErrMalformed},
		"not encoded":        {[]string{" " + presented}, mpp.ErrMalformed},
		"twice not encoded":  {[]string{presented, presented}, mpp.ErrMalformed},
		"a word after it":    {[]string{encoded(presented + "x")}, mpp.ErrMalformed},
	} {
		if p, found, err := x402.Parse(c.values); p != nil || !found || !errors.Is(err, c.err) {
			t.Errorf("%s: %v %v %v, want %v", name, p, found, err, c.err)
		}
	}
}

func TestFieldsAreWhatClientsRead(t *testing.T) {
	text, err := x402.Required{Version: x402.Version, Error: "Pay", Resource: x402.Resource{URL: "https://ring.example/api/bid"}, Accepts: []x402.Offer{offer}}.Header()
	if err != nil {
		t.Fatal(err)
	}
	required, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !strings.HasPrefix(string(required), `{"x402Version":2,"error":"Pay","resource":{"url":"https://ring.example/api/bid"},"accepts":[{"scheme":"exact","network":"eip155:8453","amount":"1000000",`) {
		t.Errorf("%s: %v", required, err)
	}
	for text, r := range map[string]x402.Response{
		`{"success":true,"payer":"0x01","transaction":"0x02","network":"eip155:1"}`:                              {Success: true, Payer: "0x01", Transaction: "0x02", Network: "eip155:1"},
		`{"success":false,"errorReason":"expired","errorMessage":"Late.","transaction":"","network":"eip155:1"}`: {ErrorReason: "expired", ErrorMessage: "Late.", Network: "eip155:1"},
	} {
		if got, err := base64.StdEncoding.DecodeString(r.Header()); err != nil || string(got) != text {
			t.Errorf("%s, want %s", got, text)
		}
	}
}

// FuzzParse holds what is taken against a stricter reader, which refuses names that stand
// twice and what is no UTF-8.
func FuzzParse(f *testing.F) {
	for _, text := range []string{presented, "{}", `{"x402Version":2,"payload":{}}`, `{"x402Version":2,"payload":{},"accepted":{"extra":{"challenge":{"id":"a","ID":"b"}}}}`,
		`{"x402Version":2,"payload":{},"accepted":null,"extensions":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`} {
		f.Add(encoded(text), "")
		f.Add(encoded(text), encoded(text))
		f.Add(text+",", base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		p, found, err := x402.Parse([]string{one, two})
		if (p != nil) != (found && err == nil) || !found && err != nil {
			t.Fatalf("%v %v %v", p, found, err)
		}
		if p == nil {
			return
		}
		if len(p.Payload) > mpp.MaxCredential || p.Payload[0] != '{' || !json.Valid(p.Payload) || !jsontext.Value(p.Payload).IsValid() {
			t.Fatalf("payload %s", p.Payload)
		}
		// What was read, written and read again is the same.
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := x402.Parse([]string{encoded(string(text))}); err == nil && again.Accepted != p.Accepted {
			t.Fatalf("%+v became %+v", p, again)
		}
	})
}
