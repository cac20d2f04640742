package mpp_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"webring/server/pay/mpp"
)

func fullChallenge() mpp.Challenge {
	return mpp.Challenge{
		Realm: "ring.example", Method: "tempo", Intent: "charge", Request: "e30",
		Expires: "2026-01-15T12:05:00Z", Digest: "sha-256=:X:", Opaque: "e30", Description: "Join",
	}
}

// No bound field can be changed, dropped, or moved into a neighbouring slot;
// the description can.
func TestVerifyBindsEveryFieldButTheDescription(t *testing.T) {
	keys := mpp.Keys{Current: bytes.Repeat([]byte{1}, 32)}
	signed := fullChallenge()
	keys.Sign(&signed)
	for _, tc := range []struct {
		name   string
		change func(*mpp.Challenge)
		want   bool
	}{
		{"nothing", func(c *mpp.Challenge) {}, true},
		{"description", func(c *mpp.Challenge) { c.Description = "Leave" }, true},
		{"id", func(c *mpp.Challenge) { c.ID = strings.Repeat("A", 43) }, false},
		{"id padded", func(c *mpp.Challenge) { c.ID += "=" }, false},
		{"id with a line break", func(c *mpp.Challenge) { c.ID += "\n" }, false},
		{"id shortened", func(c *mpp.Challenge) { c.ID = c.ID[:20] }, false},
		{"id empty", func(c *mpp.Challenge) { c.ID = "" }, false},
		{"realm", func(c *mpp.Challenge) { c.Realm = "other.example" }, false},
		{"method", func(c *mpp.Challenge) { c.Method = "evm" }, false},
		{"intent", func(c *mpp.Challenge) { c.Intent = "session" }, false},
		{"request", func(c *mpp.Challenge) { c.Request = "e30x" }, false},
		{"expires extended", func(c *mpp.Challenge) { c.Expires = "2027-01-15T12:05:00Z" }, false},
		{"expires removed", func(c *mpp.Challenge) { c.Expires = "" }, false},
		{"digest removed", func(c *mpp.Challenge) { c.Digest = "" }, false},
		{"opaque altered", func(c *mpp.Challenge) { c.Opaque = "e31" }, false},
		{"digest and opaque swapped", func(c *mpp.Challenge) { c.Digest, c.Opaque = c.Opaque, c.Digest }, false},
		{"slots merged", func(c *mpp.Challenge) { c.Request, c.Expires = c.Request+"|"+c.Expires, "" }, false},
		{"slots moved", func(c *mpp.Challenge) {
			c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque =
				c.Realm+"|"+c.Method, c.Intent, c.Request, c.Expires, c.Digest, c.Opaque, ""
		}, false},
	} {
		c := signed
		tc.change(&c)
		if got := keys.Verify(c); got != tc.want {
			t.Errorf("%s changed: Verify is %v", tc.name, got)
		}
	}
}

// An absent optional field keeps its slot: expiry without digest is not digest
// without expiry.
func TestEmptySlotsAreNotDropped(t *testing.T) {
	keys := mpp.Keys{Current: bytes.Repeat([]byte{1}, 32)}
	a := mpp.Challenge{Realm: "r", Method: "m", Intent: "i", Request: "q", Expires: "x"}
	b := mpp.Challenge{Realm: "r", Method: "m", Intent: "i", Request: "q", Digest: "x"}
	keys.Sign(&a)
	keys.Sign(&b)
	if a.ID == b.ID {
		t.Error("two different challenges have one id")
	}
}

func TestThePreviousKeyVerifiesAndDoesNotSign(t *testing.T) {
	old, new := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	c := fullChallenge()
	mpp.Keys{Current: old}.Sign(&c)
	if !(mpp.Keys{Current: new, Previous: old}).Verify(c) {
		t.Error("the previous key's challenge is refused during the rotation")
	}
	if (mpp.Keys{Current: new}).Verify(c) {
		t.Error("a dropped key's challenge is taken")
	}
	again := c
	mpp.Keys{Current: new, Previous: old}.Sign(&again)
	if again.ID == c.ID {
		t.Error("the previous key signs")
	}
}

// A missing key must not stand for the empty key, under which anyone can sign.
// A retired key tells our own challenges from others, and accepts no answer to one.
func TestRetiredKeysOnlyRecognise(t *testing.T) {
	old, older, new := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)
	keys := mpp.Keys{Current: new, Previous: old, Retired: [][]byte{older, []byte("short")}}
	for name, tc := range map[string]struct {
		key              []byte
		verified, signed bool
	}{"current": {new, true, true}, "previous": {old, true, true}, "retired": {older, false, true}, "unknown": {bytes.Repeat([]byte{4}, 32), false, false}} {
		c := mpp.Challenge{Realm: "ring.example", Method: "tempo", Intent: "charge", Request: "e30"}
		mpp.Keys{Current: tc.key}.Sign(&c)
		if keys.Verify(c) != tc.verified || keys.Signed(c) != tc.signed {
			t.Errorf("%s: verified %v, signed %v", name, keys.Verify(c), keys.Signed(c))
		}
		c.Realm = "other.example"
		if keys.Signed(c) {
			t.Errorf("%s: a changed challenge is taken for ours", name)
		}
	}
}

func TestShortKeysVerifyNothing(t *testing.T) {
	for _, short := range [][]byte{nil, {}, bytes.Repeat([]byte{1}, 31)} {
		keys := mpp.Keys{Current: bytes.Repeat([]byte{9}, 32), Previous: short}
		c := fullChallenge()
		forged := forge(c, short)
		if keys.Verify(forged) {
			t.Errorf("a key of %d bytes verifies", len(short))
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a short key signs")
		}
	}()
	c := fullChallenge()
	mpp.Keys{Current: []byte("short")}.Sign(&c)
}

// Whatever is in it, a challenge is one header line of ASCII.
func TestHeaderCannotBeBrokenOutOf(t *testing.T) {
	c := fullChallenge()
	c.ID = "id"
	c.Description = "a\"b\\c\r\nSet-Cookie: x\x00\x7f – 🎉"
	got := c.Header()
	want := `description="a\"b\\c  Set-Cookie: x   \u2013 \ud83c\udf89"`
	if !strings.HasSuffix(got, want) {
		t.Errorf("header ends %s\nwant        %s", got[len(got)-len(want)-5:], want)
	}
	for _, r := range got {
		if r < ' ' || r > '~' {
			t.Errorf("header contains %q", r)
		}
	}
	if !strings.HasPrefix(got, `Payment id="id", realm="ring.example", method="tempo", intent="charge", request="e30", expires=`) {
		t.Errorf("header %s", got)
	}
	bare := mpp.Challenge{ID: "i", Realm: "r", Method: "m", Intent: "c", Request: "e30"}.Header()
	if bare != `Payment id="i", realm="r", method="m", intent="c", request="e30"` {
		t.Errorf("absent parameters are written: %s", bare)
	}
}

func TestRealmIsAHostName(t *testing.T) {
	for realm, ok := range map[string]bool{
		"ring.example": true, "localhost": true, "127.0.0.1": true, "::1": true, "xn--bcher-kva.example": true,
		"": false, "a|b": false, "ring.example:443": false, "https://ring.example": false, "a b": false, "a\r\nb": false,
		`a"b`: false, "bücher.example": false, strings.Repeat("a", 254): false,
	} {
		if err := mpp.CheckRealm(realm); (err == nil) != ok {
			t.Errorf("CheckRealm(%q) = %v", realm, err)
		}
	}
}

func TestExpiryIsRequiredAndUTC(t *testing.T) {
	for expires, ok := range map[string]bool{
		"2026-01-15T12:05:00Z": true, "2026-01-15T12:05:00.123Z": true,
		"": false, "2026-01-15T12:05:00+01:00": false, "2026-01-15": false, "tomorrow": false, "2026-02-30T00:00:00Z": false,
	} {
		at, err := mpp.Challenge{Expires: expires}.ExpiresAt()
		if (err == nil) != ok {
			t.Errorf("ExpiresAt of %q: %v", expires, err)
		}
		if ok && at.Location() != time.UTC {
			t.Errorf("ExpiresAt of %q is in %v", expires, at.Location())
		}
	}
}

// Nothing that carries money or keys prints itself.
func TestSecretsDoNotReachLogs(t *testing.T) {
	const secret = "SECRETSECRETSECRETSECRETSECRETSE"
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	keys := mpp.Keys{Current: []byte(secret), Previous: []byte(secret)}
	cred := mpp.Credential{Payload: []byte(`{"x":"` + secret + `"}`), Source: secret}
	payment := mpp.Payment{Method: "tempo", Raw: []byte(secret), Reference: "0x01"}
	for _, v := range []any{keys, &keys, cred, &cred, payment, &payment} {
		fmt.Fprintf(&out, "%v %+v %#v %s %x\n", v, v, v, v, v)
		log.Info("x", "v", v)
	}
	for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprint([]byte(secret))[1:20]} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("output contains %q", leak)
		}
	}
	if !strings.Contains(out.String(), "0x01") {
		t.Error("a payment does not print its reference")
	}
}

// The words of an ID are bound as the other fields are, and none can pass for another.
func TestWordsOfAnIDAreBound(t *testing.T) {
	keys := mpp.Keys{Current: []byte(strings.Repeat("k", mpp.MinKey))}
	c := mpp.Challenge{Realm: "ring.example", Method: "tempo", Intent: mpp.Charge, Request: "e30", Expires: "2026-01-01T00:00:00Z", Opaque: "e30"}
	keys.SignWords(&c, "Remove ada from the ring")
	words, unique := c.SplitID()
	if words != "Remove ada from the ring" || c.ID != words+" #"+unique || !keys.Verify(c) {
		t.Fatalf("%q", c.ID)
	}
	plain := c
	keys.Sign(&plain)
	if w, u := plain.SplitID(); w != "" || u != plain.ID || !keys.Verify(plain) || u == unique {
		t.Errorf("%q", plain.ID)
	}
	moved := plain
	moved.Opaque = "e30|Remove ada from the ring"
	for _, id := range []string{unique, "Visit ada #" + unique, words + "  #" + unique, " #" + unique, words + " #" + plain.ID, "e30|" + c.ID} {
		other := c
		if other.ID = id; keys.Verify(other) {
			t.Errorf("%q is believed", id)
		}
		moved.ID = id
		if keys.Verify(moved) {
			t.Errorf("%q is believed with the words in another field", id)
		}
	}
}

func TestPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"Moss & Signal":                    "Moss & Signal",
		" a\t b\r\n c ":                    "a b c",
		"it's \"x\" \\ a|b, c #d; <e>":     "it s x a b c d e",
		"https://a.dev/~b?c=d%20e+f&g=(h)": "https://a.dev/~b?c=d%20e+f&g=(h)",
		"Łódź \u202e日本":                    "d",
		"":                                 "",
		strings.Repeat("ab ", 20):          strings.Repeat("ab ", 12) + "a...",
		strings.Repeat("x", 40):            strings.Repeat("x", 40),
		strings.Repeat("x", 41):            strings.Repeat("x", 37) + "...",
	} {
		if got := mpp.Plain(text, 40); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
