package forward

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// x402Field is the field in which x402 clients present a payment, and x402ResponseField the
// one in which they read what came of it.
const x402Field, x402ResponseField = "PAYMENT-SIGNATURE", "PAYMENT-RESPONSE"

// standard spells base64url in the standard alphabet.
var standard = strings.NewReplacer("-", "+", "_", "/")

// x402Payer gives the network and the address that the one x402 payment of a request names, as
// the client has written them, "" where it cannot be read.
func x402Payer(h *fasthttp.RequestHeader) (network, address string) {
	lines := h.PeekAll(x402Field)
	if len(lines) != 1 || len(lines[0]) > maxCredential {
		return "", ""
	}
	// Either alphabet is read, with or without padding.
	text, err := base64.RawStdEncoding.DecodeString(standard.Replace(strings.TrimRight(string(lines[0]), "=")))
	if err != nil {
		return "", ""
	}
	var payment struct {
		Accepted struct {
			Network string `json:"network"`
		} `json:"accepted"`
		Payload struct {
			Authorization struct {
				From string `json:"from"`
			} `json:"authorization"`
		} `json:"payload"`
	}
	if json.Unmarshal(text, &payment) != nil {
		return "", ""
	}
	return payment.Accepted.Network, payment.Payload.Authorization.From
}

// networkName is the form of the name of a network (CAIP-2).
var networkName = regexp.MustCompile(`^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$`)

// x402Refused is the field that says to an x402 client that its payment was not taken, or that its
// outcome is not known. It is the origin's, but for facts that only the origin verifies.
//
// Document: x402, version 2, "Transport: HTTP".
func x402Refused(h *fasthttp.RequestHeader, code api.Code, detail string) string {
	reason := string(code)
	if code == api.PaymentPending {
		reason = "settlement_pending"
	}
	network, _ := x402Payer(h)
	if !networkName.MatchString(network) {
		network = ""
	}
	text, _ := json.Marshal(struct { // plain strings can be encoded
		Success      bool   `json:"success"`
		ErrorReason  string `json:"errorReason"`
		ErrorMessage string `json:"errorMessage"`
		Transaction  string `json:"transaction"`
		Network      string `json:"network"`
	}{false, reason, detail, "", network})
	return base64.StdEncoding.EncodeToString(text)
}
