package forward

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"
)

const (
	maxCredential = 16 << 10 // as the origin has it, in characters
	maxAccount    = 128      // longer than the name of any account on a payment network
)

// payingAccount gives the account that the credential of a request names as its payer, ""
// where it names none or cannot be read. It is not verified here: the origin refuses at
// once a credential that names another account than the one that pays.
//
// Document: draft-httpauth-payment-00, "source".
func payingAccount(h *fasthttp.RequestHeader) string {
	lines := h.PeekAll("Authorization")
	if len(lines) == 0 {
		return payingAddress(h)
	}
	if len(lines) != 1 || len(lines[0]) > maxCredential {
		return ""
	}
	scheme, token, _ := strings.Cut(string(lines[0]), " ")
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !strings.EqualFold(scheme, "Payment") {
		return ""
	}
	var credential struct {
		Source string `json:"source"`
	}
	if json.Unmarshal(text, &credential) != nil || len(credential.Source) > maxAccount {
		return ""
	}
	return strings.ToLower(credential.Source) // the origin takes any case
}

// x402Field is the field in which x402 clients present a payment.
const x402Field = "PAYMENT-SIGNATURE"

// payingAddress gives the account that an x402 payment names as its payer, as payingAccount
// does: its signature must be by that account.
func payingAddress(h *fasthttp.RequestHeader) string {
	lines := h.PeekAll(x402Field)
	if len(lines) != 1 || len(lines[0]) > maxCredential {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(string(lines[0]))
	if err != nil {
		return ""
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
	if json.Unmarshal(text, &payment) != nil || payment.Payload.Authorization.From == "" {
		return ""
	}
	account := "did:pkh:" + payment.Accepted.Network + ":" + payment.Payload.Authorization.From
	if len(account) > maxAccount {
		return ""
	}
	return strings.ToLower(account)
}
