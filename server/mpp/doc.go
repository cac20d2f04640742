// Package mpp is the "Payment" HTTP authentication scheme as this service
// speaks it: the challenge in WWW-Authenticate, the credential in
// Authorization, the receipt in Payment-Receipt, and the client's preferences
// in Accept-Payment. It follows draft-httpauth-payment-00, and where that is
// silent or widely ignored, the reference client (npm mppx 0.11.0).
//
// The package touches no network, clock or disk. A service that takes payments
// calls, in this order: [ParseAuthorization], [Keys.Verify], the comparison of
// every echoed parameter with what the route would ask for now,
// [Challenge.ExpiresAt] and [Digest]; only then the payment method named by
// the challenge, which turns the credential into a [Payment].
//
// Everything that comes from outside is bounded before it is decoded. No error
// made here contains any part of a credential or a key, and the types that
// carry them print themselves redacted: [Credential], [Keys], [Payment].
package mpp
