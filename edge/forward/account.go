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
