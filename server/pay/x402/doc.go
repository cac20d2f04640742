// Package x402 is version 2 of the x402 protocol as this service speaks it in addition to the
// "Payment" scheme of package mpp: the offer in PAYMENT-REQUIRED, the signed payment in
// PAYMENT-SIGNATURE, and what came of it in PAYMENT-RESPONSE. Each is standard base64 of JSON,
// and base64url and text without padding are read, too. The shapes are those of npm @x402/core
// 2.27.0; of its schemes, "exact" by EIP-3009 authorisation is offered.
//
// In x402 a payer signs an authorisation with a nonce of its own choice. The signature
// names neither a request nor a challenge, so the offer carries what it is for: its member
// extra.challenge is a challenge of package mpp, with [Intent] in place of a charge. Clients
// repeat the offer that they have paid in the member accepted, and with it the challenge,
// which the service verifies as it does any other.
//
// The package touches no network, clock or disk. What comes from outside is bounded before
// it is decoded, and no error carries any part of it.
package x402
