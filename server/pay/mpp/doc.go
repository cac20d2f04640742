// Package mpp is the "Payment" HTTP authentication scheme as this service
// speaks it: the challenge in WWW-Authenticate, the credential in
// Authorization, the receipt in Payment-Receipt, and the client's preferences
// in Accept-Payment. It follows draft-httpauth-payment-00, and where that is
// silent or widely ignored, the reference client (npm mppx 0.11.0).
//
// The package touches no network, clock or disk. A service that takes payments
// calls [ParseAuthorization] and [Keys.Signed] first: until the challenge has proved
// to be one of ours, nothing may happen that costs more than a hash and a look-up of its
// id. Then the payment method that the challenge names turns the credential into a
// [Payment]. What the route would ask for now, [Digest], [Keys.Verify] and
// [Challenge.ExpiresAt] come last, because a payment that fails one of these may have been
// made already.
//
// [Keys.Mark] binds other words than challenges to this service, such as the tokens by which
// sites name accounts.
//
// Everything that comes from outside is bounded before it is decoded. No error
// made here contains any part of a credential or a key, and the types that
// carry them print themselves redacted: [Credential], [Keys], [Payment].
package mpp
