package evm

import (
	"strconv"
	"time"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/x402"
)

const (
	// exactTimeout is how long x402 clients let an authorisation be valid. A registration
	// whose payment ends later than in a minute is refused after another one has failed, so
	// ten seconds are left for a clock that is ahead.
	exactTimeout = 50 * time.Second
	// exactSkew is how far ahead of ours a client's clock may be.
	exactSkew = time.Minute
)

// Exact gives what an x402 offer says of a charge, by the request parameter of its
// challenge. ok is false if x402 is not offered, or if the charge is one of another
// configuration.
func (m *Method) Exact(request string) (offer x402.Offer, ok bool) {
	cents, token, recipient, err := node.Asked(request, m.request)
	if !m.cfg.X402 || err != nil || token != m.Token {
		return x402.Offer{}, false
	}
	return x402.Offer{
		Scheme: x402.Scheme, Network: "eip155:" + strconv.FormatUint(m.cfg.ChainID, 10),
		Amount: strconv.FormatUint(node.Units(cents), 10), Asset: token.Hex(), PayTo: recipient.Hex(),
		MaxTimeoutSeconds: int(exactTimeout / time.Second), Extra: x402.Extra{Name: m.cfg.Name, Version: m.cfg.Version},
	}, true
}

// readExact takes the authorisation out of an x402 payload of the scheme "exact". Its errors
// are *mpp.Rejection. It does not check the signature.
func readExact(c mpp.Credential) (*authorization, error) {
	var p struct {
		Authorization spelled `json:"authorization"`
		Signature     string  `json:"signature"`
	}
	if err := c.DecodePayload(&p); err != nil {
		return nil, errMalformed
	}
	return p.Authorization.read(p.Signature)
}
