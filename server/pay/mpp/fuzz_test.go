package mpp_test

import (
	"bytes"
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
				// That reader also refuses half a surrogate pair, which this
				// one reads as a replacement character.
				if strings.Contains(err.Error(), "surrogate") {
					return
				}
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
