package mpp_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"webring/server/pay/mpp"
)

// forge makes an id by the published recipe, with any key.
func forge(c mpp.Challenge, key []byte) mpp.Challenge {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join([]string{c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque}, "|")))
	c.ID = base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	return c
}

const credentialJSON = `{"challenge":{"id":"i","realm":"r","method":"tempo","intent":"charge","request":"e30"},"payload":{"type":"x"}}`

func header(json string) string {
	return "Payment " + base64.RawURLEncoding.EncodeToString([]byte(json))
}

// When a payment may be sent, from below and above.
func TestPaymentInTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expires := now.Add(5 * time.Minute)
	for _, tc := range []struct {
		name         string
		from, before time.Time
		at           time.Time
		code, reason string
	}{
		{"in time", now, now.Add(25 * time.Second), now, "", ""},
		{"the shortest", now, now.Add(mpp.MinAhead), now, "", ""},
		{"the longest", now, now.Add(90 * time.Second), now, "", ""},
		{"until the challenge expires", now, expires, expires.Add(-time.Minute), "", ""},
		{"ends too soon", now, now.Add(mpp.MinAhead - 1), now, mpp.CodeExpired, mpp.ReasonExpired},
		{"ended", now, now.Add(-time.Hour), now, mpp.CodeExpired, mpp.ReasonExpired},
		{"the challenge has expired", now, expires.Add(time.Minute), expires, mpp.CodeExpired, mpp.ReasonExpired},
		{"too long", now, now.Add(90*time.Second + 1), now, mpp.CodeVerify, mpp.ReasonLong},
		{"longer than the challenge", now, expires.Add(1), expires.Add(-time.Minute), mpp.CodeVerify, mpp.ReasonLong},
		{"not yet", now.Add(1), now.Add(25 * time.Second), now, mpp.CodeVerify, mpp.ReasonEarly},
	} {
		no := mpp.Payment{ValidFrom: tc.from, ValidBefore: tc.before}.InTime(tc.at, expires, 90*time.Second)
		switch {
		case tc.code == "" && no != nil:
			t.Errorf("%s: %v", tc.name, no)
		case tc.code != "" && (no == nil || no.Code != tc.code || no.Reason != tc.reason):
			t.Errorf("%s: %v, want %s, %s", tc.name, no, tc.code, tc.reason)
		}
	}
}

// What is wrong with a credential before anything in it is believed. The
// numbers are those of the list of what must be refused.
func TestParseAuthorization(t *testing.T) {
	good := header(credentialJSON)
	token := strings.TrimPrefix(good, "Payment ")
	replace := func(old, new string) string { return header(strings.Replace(credentialJSON, old, new, 1)) }
	for _, tc := range []struct {
		name   string
		values []string
		found  bool
		err    error
	}{
		{"good", []string{good}, true, nil},
		{"scheme in any case", []string{"pAYMENT  " + token}, true, nil},
		{"unknown fields are skipped", []string{replace(`"payload"`, `"new":{"a":[1,2]},"payload"`)}, true, nil},
		{"no field", nil, false, nil},
		{"another scheme", []string{"Bearer " + token}, false, nil},
		{"beside another scheme", []string{"Bearer abc", good}, true, nil},
		{"joined to another scheme", []string{`Digest a="x, Payment y", b=c, ` + good}, true, nil},
		{"escaped quote in another scheme", []string{`Digest a="\", Payment y"`}, false, nil},
		{"6: two fields", []string{good, good}, true, mpp.ErrMultiple},
		{"6: two joined", []string{good + ", " + good}, true, mpp.ErrMultiple},
		{"6: two, one unreadable", []string{good, "Payment !"}, true, mpp.ErrMultiple},
		{"5: oversized", []string{"Payment " + strings.Repeat("A", mpp.MaxCredential+1)}, true, mpp.ErrTooLarge},
		{"largest that is read", []string{"Payment " + strings.Repeat("A", mpp.MaxCredential)}, true, mpp.ErrMalformed},
		{"empty", []string{"Payment"}, true, mpp.ErrMalformed},
		{"1: not base64", []string{"Payment {}"}, true, mpp.ErrMalformed},
		{"2: padded", []string{good + "="}, true, mpp.ErrMalformed},
		{"2: standard alphabet", []string{"Payment " + base64.RawStdEncoding.EncodeToString([]byte(strings.Replace(credentialJSON, `"r"`, `"???~~~"`, 1)))}, true, mpp.ErrMalformed},
		{"2: line break", []string{good[:40] + "\n" + good[40:]}, true, mpp.ErrMalformed},
		{"2: stray bits", []string{strayBits(good)}, true, mpp.ErrMalformed},
		{"3: array", []string{header(`[]`)}, true, mpp.ErrMalformed},
		{"3: null", []string{header(`null`)}, true, mpp.ErrMalformed},
		{"3: string", []string{header(`"x"`)}, true, mpp.ErrMalformed},
		{"3: not JSON", []string{header(`{`)}, true, mpp.ErrMalformed},
		{"3: two values", []string{header(credentialJSON + `{}`)}, true, mpp.ErrMalformed},
		{"3: trailing bracket", []string{header(credentialJSON + `}`)}, true, mpp.ErrMalformed},
		{"3: not UTF-8", []string{replace(`"x"`, "\"\xff\"")}, true, mpp.ErrMalformed},
		{"4: duplicate key", []string{replace(`"payload"`, `"payload":{},"payload"`)}, true, mpp.ErrMalformed},
		{"4: duplicate key in the challenge", []string{replace(`"realm"`, `"id":"j","realm"`)}, true, mpp.ErrMalformed},
		{"4: duplicate key in the payload", []string{replace(`"type":"x"`, `"type":"x","type":"y"`)}, true, mpp.ErrMalformed},
		{"4: duplicate by escape", []string{replace(`"realm"`, `"\u0069d":"j","realm"`)}, true, mpp.ErrMalformed},
		{"4: case variant", []string{replace(`"payload"`, `"Payload"`)}, true, mpp.ErrMalformed},
		{"4: case variant in the challenge", []string{replace(`"realm"`, `"Realm"`)}, true, mpp.ErrMalformed},
		{"4: case variant beside the key", []string{replace(`"payload"`, `"PAYLOAD":{},"payload"`)}, true, mpp.ErrMalformed},
		{"4: case variants of an unknown key", []string{replace(`"payload"`, `"new":1,"New":2,"payload"`)}, true, mpp.ErrMalformed},
		{"4: Kelvin sign", []string{replace(`"payload"`, `"k":1,"`+"\u212a"+`":2,"payload"`)}, true, mpp.ErrMalformed},
		{"nested too deep", []string{replace(`"x"`, strings.Repeat("[", 20)+strings.Repeat("]", 20))}, true, mpp.ErrMalformed},
		{"no challenge", []string{header(`{"payload":{}}`)}, true, mpp.ErrMalformed},
		{"no payload", []string{replace(`,"payload":{"type":"x"}`, ``)}, true, mpp.ErrMalformed},
		{"payload no object", []string{replace(`{"type":"x"}`, `"x"`)}, true, mpp.ErrMalformed},
		{"empty id", []string{replace(`"i"`, `""`)}, true, mpp.ErrMalformed},
		{"request an object", []string{replace(`"e30"`, `{}`)}, true, mpp.ErrMalformed},
		{"id a number", []string{replace(`"i"`, `1`)}, true, mpp.ErrMalformed},
	} {
		cred, found, err := mpp.ParseAuthorization(tc.values)
		if found != tc.found || !errors.Is(err, tc.err) || tc.err == nil && err != nil {
			t.Errorf("%s: found %v, error %v; want %v, %v", tc.name, found, err, tc.found, tc.err)
		}
		if err != nil && (cred.Challenge != mpp.Challenge{} || cred.Payload != nil) {
			t.Errorf("%s: an error comes with a credential", tc.name)
		}
		if err == nil && found && cred.Challenge.ID != "i" {
			t.Errorf("%s: id %q", tc.name, cred.Challenge.ID)
		}
	}
}

// strayBits sets a bit of the last character that no byte uses.
func strayBits(good string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for len(strings.TrimPrefix(good, "Payment "))%4 == 0 {
		good = header(credentialJSON + " ")
	}
	last := strings.IndexByte(alphabet, good[len(good)-1])
	return good[:len(good)-1] + string(alphabet[last+1])
}

func TestPayloadIsDecodedStrictly(t *testing.T) {
	var p struct {
		Type string `json:"type"`
	}
	for payload, ok := range map[string]bool{
		`{"type":"hash"}`: true, `{"type":"hash","new":1}`: true,
		`{"Type":"hash"}`: false, `{"type":"hash","type":"proof"}`: false, `{"type":1}`: false, ``: false,
	} {
		err := mpp.Credential{Payload: json.RawMessage(payload)}.DecodePayload(&p)
		if (err == nil) != ok {
			t.Errorf("payload %s: %v", payload, err)
		}
	}
}

// RFC 8785: order by UTF-16 units, shortest numbers, no HTML escapes.
func TestEncodeJSONIsCanonical(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want string
	}{
		{map[string]any{"b": 1, "a": []any{}, "B": nil}, `{"B":null,"a":[],"b":1}`},
		{map[string]string{"\U0001F600": "emoji", "\ufb33": "dalet", "\u20ac": "euro", "1": "<&>\u2028"}, "{\"1\":\"<&>\u2028\",\"\u20ac\":\"euro\",\"\U0001F600\":\"emoji\",\"\ufb33\":\"dalet\"}"},
		{json.RawMessage(`[ 333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001, -0 ]`), `[333333333.3333333,1e+30,4.5,0.002,1e-27,0]`},
		{json.RawMessage("\"\\u0008\\u000f\\u000a'\\u0042\\u0022\\u005c\\\\\\\"\\/\""), "\"\\b\\u000f\\n'B\\\"\\\\\\\\\\\"/\""},
		{struct {
			Z int `json:"z"`
			A int `json:"a"`
		}{1, 2}, `{"a":2,"z":1}`},
	} {
		text, err := mpp.EncodeJSON(tc.v)
		if err != nil {
			t.Errorf("%v: %v", tc.v, err)
			continue
		}
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || string(raw) != tc.want {
			t.Errorf("got  %s (%v)\nwant %s", raw, err, tc.want)
		}
	}
	if _, err := mpp.EncodeJSON(make(chan int)); err == nil {
		t.Error("a channel encodes")
	}
}

// A credential that is read can be written again and is read the same; nothing
// that is refused leaks into the error.
func FuzzParseAuthorization(f *testing.F) {
	f.Add(header(credentialJSON))
	f.Add("Payment e30")
	f.Add(`Digest a="b", Payment e30, Payment e30`)
	f.Fuzz(func(t *testing.T, value string) {
		cred, found, err := mpp.ParseAuthorization([]string{value})
		if err != nil {
			if !found || !(errors.Is(err, mpp.ErrMalformed) || errors.Is(err, mpp.ErrMultiple) || errors.Is(err, mpp.ErrTooLarge)) {
				t.Fatalf("found %v, error %v", found, err)
			}
			return
		}
		if !found {
			return
		}
		again, err := cred.Header()
		if err != nil {
			// JSON keeps numbers that canonical JSON cannot spell.
			return
		}
		back, found, err := mpp.ParseAuthorization([]string{again})
		if len(again) > mpp.MaxCredential {
			return
		}
		if err != nil || !found || back.Challenge != cred.Challenge || back.Source != cred.Source {
			t.Fatalf("written again, it reads as another: %v", err)
		}
	})
}

// FuzzVerify holds that a challenge is believed only as it was signed.
func FuzzVerify(f *testing.F) {
	keys := mpp.Keys{Current: bytes.Repeat([]byte{1}, 32), Previous: bytes.Repeat([]byte{2}, 32)}
	c := fullChallenge()
	keys.Sign(&c)
	f.Add(c.ID, c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque)
	f.Add(c.ID, c.Realm, c.Method, c.Intent, c.Request, c.Expires, "", c.Digest)
	f.Add(c.ID, c.Realm+"|"+c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque, "")
	f.Add(c.ID+"=", c.Realm, c.Method, c.Intent, c.Request, "2026-01-15T12:05:00+00:00", c.Digest, c.Opaque)
	f.Fuzz(func(t *testing.T, id, realm, method, intent, request, expires, digest, opaque string) {
		got := mpp.Challenge{ID: id, Realm: realm, Method: method, Intent: intent, Request: request, Expires: expires, Digest: digest, Opaque: opaque,
			Description: c.Description}
		if keys.Verify(got) != (got == c) {
			t.Fatalf("%+v: believed %v", got, keys.Verify(got))
		}
		if at, err := got.ExpiresAt(); err == nil {
			if again, err := time.Parse(time.RFC3339, expires); err != nil || !at.Equal(again) || at.Location() != time.UTC {
				t.Fatalf("%q is %v, %v", expires, at, err)
			}
		}
		// Whatever stands in it, it is one line of a header.
		if strings.ContainsFunc(got.Header(), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("header %q", got.Header())
		}
	})
}

// FuzzDecodeJSON holds what is taken against a stricter reader, which refuses
// names that stand twice and what is no UTF-8, and asks for one spelling of the
// base64.
func FuzzDecodeJSON(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":"b"}`, `{"type":"x","Type":"y"}`, `{"type":"x","type":"x"}`, `{"x":{"a":1,"A":2}}`, `[{"type":1}]`,
		`{"type":"\ud800"}`, `{"type":"x"} `, `{"type":"x"}{}`, "{\"\xff\":1}", `{"K":1,"` + "\u212a" + `":2}`, strings.Repeat(`{"x":`, 16) + "1" + strings.Repeat("}", 16)} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(text)))
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var payload struct {
			Type  string          `json:"type"`
			Inner json.RawMessage `json:"x"`
		}
		words := map[string]string{}
		err, errWords := mpp.DecodeJSON(text, &payload), mpp.DecodeJSON(text, &words)
		for _, e := range []error{err, errWords} {
			if e != nil && !errors.Is(e, mpp.ErrEncoding) {
				t.Fatalf("refused with %v", e)
			}
		}
		if err != nil && errWords != nil {
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text {
			t.Fatalf("%q is another spelling: %v", text, err)
		}
		d := jsontext.NewDecoder(bytes.NewReader(raw))
		names := []map[string]bool{}
		for {
			token, err := d.ReadToken()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			switch token.Kind() {
			case '{', '[':
				names = append(names, map[string]bool{})
			case '}', ']':
				names = names[:len(names)-1]
			case '"':
				if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 {
					folded := strings.ToLower(token.String())
					if names[len(names)-1][folded] {
						t.Fatalf("%s has names that differ by case", raw)
					}
					names[len(names)-1][folded] = true
				}
			}
		}
	})
}
