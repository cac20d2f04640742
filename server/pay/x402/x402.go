package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"webring/server/pay/mpp"
)

// The header fields.
const (
	RequiredField  = "PAYMENT-REQUIRED"
	SignatureField = "PAYMENT-SIGNATURE"
	ResponseField  = "PAYMENT-RESPONSE"
	// OldField is where version 1 has a payment.
	OldField = "X-PAYMENT"
)

const (
	// Version is the version of the protocol.
	Version = 2
	// Scheme is the name of the scheme that is offered: exactly the amount is paid.
	Scheme = "exact"
	// Intent is the intent of the challenges in offers. No challenge in WWW-Authenticate
	// has it, so neither kind can be answered as the other.
	Intent = "x402"
)

// Required is what a 402 asks for.
type Required struct {
	Version  int      `json:"x402Version"`
	Error    string   `json:"error,omitempty"` // why the request was not carried out
	Resource Resource `json:"resource"`
	Accepts  []Offer  `json:"accepts"` // any one may be paid
	// Extensions say more of what is paid for, by their names, such as [Bazaar].
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Bazaar is the extension that tells directories how the resource is called. Clients repeat
// it when they pay.
const Bazaar = "bazaar"

// Resource is what is paid for.
type Resource struct {
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// Offer is one way to pay.
type Offer struct {
	Scheme  string `json:"scheme"`
	Network string `json:"network"` // "eip155:" and the chain id
	Amount  string `json:"amount"`  // base units
	Asset   string `json:"asset"`   // address of the token
	PayTo   string `json:"payTo"`
	// MaxTimeoutSeconds is how long the offer holds, and how long, from when it is signed, an
	// authorisation is valid by the clock of its client.
	MaxTimeoutSeconds int   `json:"maxTimeoutSeconds"`
	Extra             Extra `json:"extra"`
}

// Extra has the token's EIP-712 domain, and the challenge that binds the offer to a request.
type Extra struct {
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Challenge mpp.Challenge `json:"challenge"`
}

// Header is the value of the PAYMENT-REQUIRED field that carries r.
func (r Required) Header() (string, error) { return encode(r) }

// Payment is what a client presents: the offer as it says it got it, and the signed
// authorisation. Nothing in it is true until it is verified. Like a credential, it must not
// reach a log, and prints itself redacted.
type Payment struct {
	Version  int             `json:"x402Version"`
	Accepted Offer           `json:"accepted"`
	Payload  json.RawMessage `json:"payload"` // a JSON object; the scheme's own
}

// Format keeps the payment out of logs and error texts.
func (Payment) Format(s fmt.State, _ rune) { fmt.Fprint(s, "x402.Payment(redacted)") }

// LogValue keeps the payment out of structured logs.
func (Payment) LogValue() slog.Value { return slog.StringValue("redacted") }

// Credential is p as an answer to the challenge in its offer.
func (p Payment) Credential() mpp.Credential {
	return mpp.Credential{Challenge: p.Accepted.Extra.Challenge, Payload: p.Payload}
}

// Parse finds the payment among the values of all PAYMENT-SIGNATURE fields of a request.
// found says that one was there at all. With found and an error ([mpp.ErrMalformed],
// [mpp.ErrTooLarge], [mpp.ErrMultiple] or [ErrVersion]) the payment is nil. Either alphabet of
// base64 is read, with or without padding.
func Parse(values []string) (p *Payment, found bool, err error) {
	var text string
	for _, value := range values {
		if strings.HasPrefix(strings.TrimLeft(value, " \t"), "{") {
			return nil, true, mpp.ErrMalformed // JSON, not encoded: its commas part nothing
		}
		// Proxies and clients join repeated fields with commas, which base64 does not have.
		for element := range strings.SplitSeq(value, ",") {
			switch element = strings.Trim(element, " \t"); {
			case element == "":
			case found:
				return nil, true, mpp.ErrMultiple
			default:
				text, found = element, true
			}
		}
	}
	switch {
	case !found:
		return nil, false, nil
	case len(text) > mpp.MaxCredential:
		return nil, true, mpp.ErrTooLarge
	}
	p = &Payment{}
	err = decode(text, p)
	switch {
	case err == nil && p.Version == 1:
		return nil, true, ErrVersion
	case err != nil || p.Version != Version || len(p.Payload) == 0 || p.Payload[0] != '{':
		return nil, true, mpp.ErrMalformed
	}
	return p, true, nil
}

// ErrVersion says that a payment is by version 1 of the protocol.
var ErrVersion = errors.New("x402: a payment by version 1")

// Response says what came of a payment that was presented.
type Response struct {
	Success      bool   `json:"success"`
	ErrorReason  string `json:"errorReason,omitempty"`  // for programs
	ErrorMessage string `json:"errorMessage,omitempty"` // for people
	Payer        string `json:"payer,omitempty"`        // address
	Transaction  string `json:"transaction"`            // hash; "" where none is known
	Network      string `json:"network"`
}

// Reasons of refusals; all but the first are the specification's.
const (
	Pending        = "settlement_pending" // the payment may be settled, and its outcome is not known
	InvalidPayload = "invalid_payload"    // the payment cannot be read
	InvalidVersion = "invalid_x402_version"
)

// Header is the value of the PAYMENT-RESPONSE field that carries r. Equal responses have
// equal headers.
func (r Response) Header() string {
	text, err := encode(r)
	if err != nil {
		panic("x402: a response of plain strings does not encode: " + err.Error())
	}
	return text
}

func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("x402: encode: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// standard spells base64url in the standard alphabet.
var standard = strings.NewReplacer("-", "+", "_", "/")

// decode is stricter than what the reference client writes needs: see [mpp.Unmarshal].
func decode(text string, v any) error {
	if strings.ContainsAny(text, "\r\n") {
		return mpp.ErrEncoding
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(standard.Replace(strings.TrimRight(text, "=")))
	if err != nil {
		return mpp.ErrEncoding
	}
	return mpp.Unmarshal(raw, v)
}
