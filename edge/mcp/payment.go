package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/gowebpki/jcs"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"webring/core/api"
	"webring/edge/describe"
)

// The names of payments in metadata and the codes of errors.
//
// Documents: draft-payment-transport-mcp-00; x402, "Transport: MCP". The first name is the
// reference client's: a result in place of the error, because MCP reserves error codes since
// 2026-07-28.
const (
	requiredKey   = "org.paymentauth/payment-required"
	credentialKey = "org.paymentauth/credential"
	receiptKey    = "org.paymentauth/receipt"

	paymentKey  = "x402/payment"
	responseKey = "x402/payment-response"

	codeRequired = -32042
	codeFailed   = -32043
)

// maxCredential is the longest credential in an Authorization field, as the origin has it.
const maxCredential = 16 << 10

// send answers a call with the answer to its request.
func (s *Server) send(ctx context.Context, t *describe.Tool, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	c := callerOf(ctx)
	r, err := t.Request(arguments)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(r.IdempotencyKey, func(c rune) bool { return c < '!' || c > '~' }) {
		return s.refused(api.InvalidIdempotencyKey, "An idempotency_key must have 16 to 255 visible ASCII characters."), nil
	}
	var with Credentials
	var challenge string
	if t.Changes() { // elsewhere MPP has a credential ignored
		for _, raw := range c.credentials {
			text, id := credential(raw)
			if len(text) > maxCredential {
				return s.refused(api.CredentialTooLarge, "A payment credential can have at most 16384 characters."), nil
			}
			with.Authorization, challenge = append(with.Authorization, "Payment "+text), id
		}
		for _, raw := range c.payments {
			text := base64.StdEncoding.EncodeToString(raw)
			if len(text) > maxCredential {
				return s.refused(api.CredentialTooLarge, "A payment by x402 can have at most 12288 bytes."), nil
			}
			with.PaymentSignature = append(with.PaymentSignature, text)
		}
	}
	reply := c.Ask(r, with)
	if reply.Status == http.StatusPaymentRequired {
		return c.required(reply, s.x402Required(t, reply))
	}
	result := document(reply.Status/100 == 2, reply.Body)
	if receipt := receipt(reply.Header.Get("Payment-Receipt"), challenge); receipt != nil && !result.IsError && len(c.payments) == 0 {
		result.Meta = sdk.Meta{receiptKey: receipt}
	}
	c.respond(result, reply)
	return result, nil
}

// x402Required gives what a 402 asks of an x402 client, as it is of a tool; nil if that is nothing.
func (s *Server) x402Required(t *describe.Tool, reply *Reply) json.RawMessage {
	text, err := base64.StdEncoding.DecodeString(reply.Header.Get("PAYMENT-REQUIRED"))
	var asks, resource map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &asks) != nil || json.Unmarshal(asks["resource"], &resource) != nil || resource == nil {
		return nil
	}
	resource["url"], err = json.Marshal(s.reader.BaseURL() + "/mcp")
	if err == nil {
		asks["resource"], err = json.Marshal(resource)
	}
	if says := t.Bazaar(); says != nil && err == nil {
		asks["extensions"], err = json.Marshal(map[string]json.RawMessage{"bazaar": says})
	}
	if err == nil {
		text, err = json.Marshal(asks)
	}
	if err != nil {
		return nil
	}
	return text
}

// respond puts into the result of a call that brought a payment by x402 what became of it.
func (c *caller) respond(result *sdk.CallToolResult, reply *Reply) {
	text, err := base64.StdEncoding.DecodeString(reply.Header.Get("PAYMENT-RESPONSE"))
	if err != nil || len(c.payments) == 0 || !json.Valid(text) {
		return
	}
	if result.Meta == nil {
		result.Meta = sdk.Meta{}
	}
	result.Meta[responseKey] = json.RawMessage(text)
}

// paymentRequired is what a client gets that has to pay.
type paymentRequired struct {
	Status     int             `json:"httpStatus"`
	Challenges []challenge     `json:"challenges"`
	Problem    json.RawMessage `json:"problem"`
	Failure    *failure        `json:"failure,omitempty"` // why its credential did not do
}

type failure struct {
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// required asks for payment: by an error of the protocol, as the draft of MPP has it, and since
// the revision that forbids its code by a result. A credential that cannot be read is wrong
// parameters. x402 always has a result, with asks as its content; so a client gets one that pays
// by x402, and others get asks in the result that they get anyhow.
func (c *caller) required(reply *Reply, asks json.RawMessage) (*sdk.CallToolResult, error) {
	var problem struct{ Code, Reason, Detail, Title string }
	if err := json.Unmarshal(reply.Body, &problem); err != nil {
		return nil, err
	}
	p := paymentRequired{Status: reply.Status, Problem: reply.Body, Challenges: []challenge{}}
	for _, value := range reply.Header.Values("WWW-Authenticate") {
		if offer, ok := readChallenge(value); ok {
			p.Challenges = append(p.Challenges, offer)
		}
	}
	code := int64(codeRequired)
	if problem.Code != string(api.PaymentRequired) {
		code = codeFailed
		p.Failure = &failure{cmp.Or(problem.Reason, problem.Code), problem.Detail}
	}
	if problem.Code == string(api.MalformedCredential) {
		code = jsonrpc.CodeInvalidParams // which all revisions have
	} else if c.modern || asks != nil && (c.X402 || len(c.payments) > 0) {
		result := document(false, reply.Body)
		if asks != nil {
			result.StructuredContent = asks
			result.Content = append([]sdk.Content{&sdk.TextContent{Text: string(asks)}}, result.Content...)
		}
		result.Meta = sdk.Meta{requiredKey: p}
		c.respond(result, reply)
		return result, nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: code, Message: problem.Title + ": " + problem.Detail, Data: data}
}

// credential gives a credential in JSON as an Authorization field has it, and the id of its
// challenge. One that cannot be read comes out as one that the origin cannot read.
func credential(raw json.RawMessage) (text, challenge string) {
	encode := base64.RawURLEncoding.EncodeToString
	// It refuses a name that is there twice, where two readers could see two values.
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return encode(raw), ""
	}
	var members, echo map[string]json.RawMessage
	if json.Unmarshal(canonical, &members) != nil || json.Unmarshal(members["challenge"], &echo) != nil {
		return encode(raw), ""
	}
	_ = json.Unmarshal(echo["id"], &challenge)
	// Both are objects here and text over HTTP. The text is what the id binds.
	for _, name := range [...]string{"request", "opaque"} {
		if value := echo[name]; len(value) > 0 && value[0] == '{' {
			echo[name] = json.RawMessage(`"` + encode(value) + `"`)
		}
	}
	whole, err := json.Marshal(echo)
	if err == nil {
		members["challenge"] = whole
		whole, err = json.Marshal(members)
	}
	if err != nil {
		return encode(raw), challenge
	}
	return encode(whole), challenge
}

// receipt is a receipt with the challenge that was answered, nil for none.
func receipt(field, challenge string) map[string]any {
	text, err := base64.RawURLEncoding.DecodeString(field)
	var r map[string]any
	if err != nil || json.Unmarshal(text, &r) != nil || r == nil {
		return nil
	}
	r["challengeId"] = challenge
	return r
}

// challenge is an offer to be paid, with its request as an object.
type challenge struct {
	ID          string          `json:"id"`
	Realm       string          `json:"realm"`
	Method      string          `json:"method"`
	Intent      string          `json:"intent"`
	Request     json.RawMessage `json:"request"`
	Expires     string          `json:"expires,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Opaque      string          `json:"opaque,omitempty"`
	Description string          `json:"description,omitempty"`
}

// readChallenge reads a WWW-Authenticate field as this ring writes it: one challenge of the
// scheme Payment with quoted strings as parameters.
func readChallenge(field string) (c challenge, ok bool) {
	rest, ok := strings.CutPrefix(field, "Payment ")
	if !ok {
		return c, false
	}
	var request string
	into := map[string]*string{"id": &c.ID, "realm": &c.Realm, "method": &c.Method, "intent": &c.Intent, "request": &request,
		"expires": &c.Expires, "digest": &c.Digest, "opaque": &c.Opaque, "description": &c.Description}
	for rest != "" {
		name, after, found := strings.Cut(rest, `="`)
		if !found {
			return c, false
		}
		value, length, closed := unquote(after)
		if !closed {
			return c, false
		}
		if p := into[name]; p != nil {
			*p = value
		}
		rest = strings.TrimPrefix(after[length:], ", ")
	}
	text, err := base64.RawURLEncoding.DecodeString(request)
	c.Request = text
	return c, err == nil && len(text) > 0 && text[0] == '{' && json.Valid(text)
}

// unquote reads the inside of a quoted string, up to the quote that ends it and length bytes
// long with that. Characters beyond ASCII are spelled \uXXXX, in units of UTF-16.
func unquote(s string) (value string, length int, closed bool) {
	var units []uint16
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return string(utf16.Decode(units)), i + 1, true
		case s[i] != '\\':
			units = append(units, uint16(s[i]))
		case i+5 < len(s) && s[i+1] == 'u':
			unit, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
			if err != nil {
				return "", 0, false
			}
			units = append(units, uint16(unit))
			i += 5
		case i+1 < len(s):
			i++
			units = append(units, uint16(s[i]))
		}
	}
	return "", 0, false
}
