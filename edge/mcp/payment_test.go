package mcp

import (
	"encoding/base64"
	"encoding/json"
	"testing"
)

func TestChallengesAreReadAsTheRingWritesThem(t *testing.T) {
	const request = "eyJhbW91bnQiOiIxIn0" // {"amount":"1"}
	for _, c := range []struct{ field, description string }{
		{`Payment id="a", realm="ring.dev", method="tempo", intent="charge", request="` + request + `", opaque="e30", description="A bid of 1.00 USD"`, "A bid of 1.00 USD"},
		{`Payment id="a", request="` + request + `", description="\"q\\\u00e9\ud83d\ude00, x=\"y\""`, `"q\é😀, x="y"`},
		{`Payment id="a", request="` + request + `", other="x"`, ""},
	} {
		got, ok := readChallenge(c.field)
		if !ok || got.ID != "a" || string(got.Request) != `{"amount":"1"}` || got.Description != c.description {
			t.Errorf("%s: %+v %s", c.field, got, got.Request)
		}
	}
	for _, field := range []string{"", "Basic x", "Payment", `Payment id="a"`, `Payment id="a", request="!"`, `Payment id="a", request="W10"`, `Payment request="` + request, `Payment request="` + request + `", id="\`, `Payment request="e30", id="\uzzzz"`} {
		if c, ok := readChallenge(field); ok {
			t.Errorf("%q is read: %+v", field, c)
		}
	}
}

func TestCredentialsAreWhatHTTPCarries(t *testing.T) {
	for _, c := range []struct{ metadata, http, id string }{
		{`{"payload":{"b":1,"a":"x"},"challenge":{"request":{"b":"2","a":"1"},"id":"a","opaque":"e30"}}`, `{"challenge":{"id":"a","opaque":"e30","request":"eyJhIjoiMSIsImIiOiIyIn0"},"payload":{"a":"x","b":1}}`, "a"},
		{`{"challenge":{"id":"a","request":"e30","opaque":{"n":"1"}}}`, `{"challenge":{"id":"a","opaque":"eyJuIjoiMSJ9","request":"e30"}}`, "a"},
		// The origin refuses these as it does over HTTP.
		{`{"challenge":{"id":"a"},"challenge":{"id":"b"}}`, `{"challenge":{"id":"a"},"challenge":{"id":"b"}}`, ""},
		{`{"challenge":7}`, `{"challenge":7}`, ""},
		{`"Payment e30"`, `"Payment e30"`, ""},
		{`null`, `null`, ""},
	} {
		text, id := credential(json.RawMessage(c.metadata))
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || string(raw) != c.http || id != c.id {
			t.Errorf("%s: %s %q %v", c.metadata, raw, id, err)
		}
	}
}
