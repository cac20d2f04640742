package mpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// MaxCredential is the longest credential that is looked at, in bytes of text
// after the scheme name.
const MaxCredential = 16 << 10

// What can be wrong with an Authorization field before anything in it is
// believed. None carries a word of the credential.
var (
	ErrMalformed = errors.New("mpp: malformed credential")                    // 402 malformed_credential
	ErrMultiple  = errors.New("mpp: more than one Payment credential")        // 400 multiple_credentials
	ErrTooLarge  = errors.New("mpp: credential larger than 16 KiB of base64") // 431 credential_too_large
)

// Credential is what a client presents for a challenge: the challenge as it
// says it got it, and the method's proof of payment. Nothing in it is true
// until [Keys.Verify] and the payment method have said so. It is a bearer
// token: it must not reach a log, and prints itself redacted.
type Credential struct {
	Challenge Challenge       `json:"challenge"`
	Payload   json.RawMessage `json:"payload"` // a JSON object; the method's own
	Source    string          `json:"source,omitempty"`
}

// Format keeps the credential out of logs and error texts.
func (Credential) Format(s fmt.State, _ rune) { fmt.Fprint(s, "mpp.Credential(redacted)") }

// LogValue keeps the credential out of structured logs.
func (Credential) LogValue() slog.Value { return slog.StringValue("redacted") }

// DecodePayload reads the payload into v, a pointer, under the rules of
// [DecodeJSON].
func (c Credential) DecodePayload(v any) error { return Unmarshal(c.Payload, v) }

// Header is the value of the Authorization field that carries c.
func (c Credential) Header() (string, error) {
	text, err := EncodeJSON(c)
	if err != nil {
		return "", err
	}
	return Scheme + " " + text, nil
}

// ParseAuthorization finds the Payment credential among the values of all
// Authorization fields of a request. Other schemes are ignored. The field
// holds one credential by RFC 9110, but proxies and fetch implementations join
// repeated fields with commas, and the reference server splits them again; so
// does this, outside quoted strings. A second Payment credential is
// [ErrMultiple] even if either is unreadable.
//
// found says that a Payment credential was there at all. With found and an
// error (ErrMalformed, ErrTooLarge or ErrMultiple) the credential is zero.
func ParseAuthorization(values []string) (cred Credential, found bool, err error) {
	var token string
	for _, value := range values {
		for element := range splitElements(value) {
			scheme, rest, _ := strings.Cut(strings.Trim(element, " \t"), " ")
			if !strings.EqualFold(scheme, Scheme) {
				continue
			}
			if found {
				return Credential{}, true, ErrMultiple
			}
			found = true
			token = strings.Trim(rest, " ")
		}
	}
	if !found {
		return Credential{}, false, nil
	}
	if len(token) > MaxCredential {
		return Credential{}, true, ErrTooLarge
	}
	read := new(Credential) // not cred, which would be allocated without a credential too
	if err := DecodeJSON(token, read); err != nil || !read.complete() {
		return Credential{}, true, ErrMalformed
	}
	return *read, true, nil
}

// complete says that the fields which the draft requires are there.
func (c Credential) complete() bool {
	h := c.Challenge
	return h.ID != "" && h.Realm != "" && h.Method != "" && h.Intent != "" && h.Request != "" &&
		len(c.Payload) > 0 && c.Payload[0] == '{'
}

// splitElements yields the comma-separated elements of a field value; commas
// inside quoted strings do not count.
func splitElements(value string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(value); i++ {
			switch c := value[i]; {
			case c == '"':
				quoted = !quoted
			case c == '\\' && quoted:
				i++
			case c == ',' && !quoted:
				if !yield(value[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(value[start:])
	}
}

// Receipt says that a payment was verified and settled. It goes out on 2xx
// answers only, in Payment-Receipt, with Cache-Control: private, and like a
// credential it stays out of logs.
type Receipt struct {
	Method    string    // "tempo"
	Reference string    // the transaction hash, lower-case 0x hex
	Timestamp time.Time // of settlement
}

// Header is the value of the Payment-Receipt field: base64url of canonical
// JSON. Equal receipts have equal headers, so a stored response repeats it
// byte for byte.
func (r Receipt) Header() string {
	text, err := EncodeJSON(struct {
		Method    string `json:"method"`
		Reference string `json:"reference"`
		Status    string `json:"status"`
		Timestamp string `json:"timestamp"`
	}{r.Method, r.Reference, "success", r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z")})
	if err != nil {
		panic("mpp: a receipt of plain strings does not encode: " + err.Error())
	}
	return text
}
