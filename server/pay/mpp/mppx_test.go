package mpp_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"webring/server/pay/mpp"
)

// recorded is what the reference client made; server/devchain/README.md says
// how.
type recorded struct {
	SecretKey  string
	Challenges []struct {
		Name, Header, Authorization string
		Request                     any
		Meta                        map[string]string
		Challenge                   mpp.Challenge
	}
	Digests  []struct{ Body, Digest string }
	Receipts []struct {
		Receipt struct {
			Method, Reference, Timestamp string
		}
		Header string
	}
}

func readRecorded(t *testing.T) recorded {
	t.Helper()
	raw, err := os.ReadFile("testdata/mppx.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Same key, same fields: same challenge id, same header up to the order of
// parameters, and the client's echo comes back as the challenge that went out.
func TestChallengesAreThoseOfTheReferenceClient(t *testing.T) {
	r := readRecorded(t)
	keys := mpp.Keys{Current: []byte(r.SecretKey)}
	for _, v := range r.Challenges {
		t.Run(v.Name, func(t *testing.T) {
			c := v.Challenge
			want := c.ID
			c.ID = ""
			var err error
			if c.Request, err = mpp.EncodeJSON(v.Request); err != nil {
				t.Fatal(err)
			}
			if v.Meta != nil {
				if c.Opaque, err = mpp.EncodeJSON(v.Meta); err != nil {
					t.Fatal(err)
				}
				if c.Opaque != v.Challenge.Opaque {
					t.Errorf("opaque is %s, the client's %s", c.Opaque, v.Challenge.Opaque)
				}
			}
			keys.Sign(&c)
			if c.ID != want || !keys.Verify(c) {
				t.Errorf("id %s, the client's %s", c.ID, want)
			}
			if got, want := parameters(c.Header()), parameters(v.Header); got != want {
				t.Errorf("header\n%s, the client's\n%s", got, want)
			}
			cred, found, err := mpp.ParseAuthorization([]string{v.Authorization})
			if err != nil || !found {
				t.Fatalf("credential: found %v, %v", found, err)
			}
			if cred.Challenge != c {
				t.Error("the client's echo is another challenge")
			}
			if cred.Source != "did:pkh:eip155:42431:0x1" {
				t.Errorf("source %q", cred.Source)
			}
			var payload struct{ Type, Signature string }
			if json.Unmarshal(cred.Payload, &payload) != nil || payload.Type != "transaction" {
				t.Errorf("payload %s", cred.Payload)
			}
		})
	}
}

// parameters sorts a header's auth-params, because their order means nothing.
func parameters(header string) string {
	rest, _ := strings.CutPrefix(header, "Payment ")
	params := strings.Split(rest, `", `)
	for i := range params {
		params[i] = strings.TrimSuffix(params[i], `"`)
	}
	sorted := map[string]string{}
	for _, p := range params {
		name, value, _ := strings.Cut(p, `="`)
		sorted[name] = value
	}
	text, _ := json.MarshalIndent(sorted, "", " ")
	return string(text)
}

// The client writes the same digest without the colons of RFC 9530; it only
// echoes ours.
func TestDigestIsTheReferenceClientsInColons(t *testing.T) {
	for _, v := range readRecorded(t).Digests {
		bare := strings.TrimPrefix(v.Digest, "sha-256=")
		if got, want := mpp.Digest([]byte(v.Body)), "sha-256=:"+bare+":"; got != want {
			t.Errorf("digest of %q is %s, want %s", v.Body, got, want)
		}
	}
}

func TestReceiptsSayWhatTheReferenceClientSays(t *testing.T) {
	for _, v := range readRecorded(t).Receipts {
		at, err := time.Parse(time.RFC3339Nano, v.Receipt.Timestamp)
		if err != nil {
			t.Fatal(err)
		}
		header := mpp.Receipt{Method: v.Receipt.Method, Reference: v.Receipt.Reference, Timestamp: at}.Header()
		var got, want map[string]any
		if err := mpp.DecodeJSON(header, &got); err != nil {
			t.Fatal(err)
		}
		if err := mpp.DecodeJSON(v.Header, &want); err != nil {
			t.Fatal(err)
		}
		delete(want, "externalId") // the client's to give; the ring has no such ids
		if len(got) != len(want) {
			t.Errorf("receipt %v, want %v", got, want)
		}
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("receipt's %s is %v, want %v", name, got[name], want[name])
			}
		}
	}
}
