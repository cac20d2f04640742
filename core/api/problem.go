package api

import "strconv"

// Code is the stable machine-readable name of a problem. [Codes] lists them
// all; what each means is part of the service's interface.
type Code string

// The problems of the read surface and of the paid operations.
const (
	InvalidParameter      Code = "invalid_parameter"
	InvalidRequest        Code = "invalid_request"
	InvalidURL            Code = "invalid_url"
	AlreadyRegistered     Code = "already_registered"
	UnknownMember         Code = "unknown_member"
	MemberRemoved         Code = "member_removed"
	EmptyRing             Code = "empty_ring"
	NotFound              Code = "not_found"
	MethodNotAllowed      Code = "method_not_allowed"
	UnsupportedAPIVersion Code = "unsupported_api_version"
	BodyTooLarge          Code = "body_too_large"
	UnsupportedEncoding   Code = "unsupported_encoding"
	HeaderTooLarge        Code = "header_too_large"
	RateLimited           Code = "rate_limited"
	Internal              Code = "internal"
	Malformed             Code = "bad_request"
	RequestTimeout        Code = "request_timeout"
	OriginNotAllowed      Code = "origin_not_allowed"
	Overloaded            Code = "overloaded"
	UnsupportedHTTP       Code = "unsupported_http_version"

	ScoreTooLow      Code = "agentic_score_too_low"
	ScoreUnavailable Code = "score_unavailable"
	ScorePending     Code = "score_pending"

	BidTooLow           Code = "bid_too_low"
	BidTooHigh          Code = "bid_too_high"
	TotalTooHigh        Code = "total_too_high"
	CategoryUnavailable Code = "category_unavailable"
	RingFull            Code = "ring_full"

	NotAdmitted         Code = "not_admitted"
	NotOwner            Code = "not_owner"
	TokenNotFound       Code = "token_not_found"
	TLSRequired         Code = "tls_required"
	PaymentRequired     Code = "payment_required"
	PaymentExpired      Code = "payment_expired"
	MalformedCredential Code = "malformed_credential"
	InvalidChallenge    Code = "invalid_challenge"
	VerificationFailed  Code = "verification_failed"
	CredentialReused    Code = "credential_reused"
	IdempotencyKeyUsed  Code = "idempotency_key_used"
	CredentialTooLarge  Code = "credential_too_large"
	MultipleCredentials Code = "multiple_credentials"

	InvalidIdempotencyKey Code = "invalid_idempotency_key"

	UnsupportedMethod    Code = "unsupported_method"
	PaymentPending       Code = "payment_pending"
	PaymentMismatch      Code = "payment_mismatch"
	PaymentUnapplied     Code = "payment_unapplied"
	RankTaken            Code = "rank_taken"
	PaymentsUnavailable  Code = "payments_unavailable"
	PaymentsUnconfigured Code = "payments_unconfigured"
	NotLeader            Code = "not_leader"
	OriginUnavailable    Code = "origin_unavailable"
)

// A row of the problem table. Title and status belong to the code; the detail
// belongs to the occasion.
type problem struct {
	code    Code
	status  int
	title   string
	payment string // last segment of the type at paymentauth.org, for 402
}

var problems = [...]problem{
	{InvalidParameter, 400, "A query parameter is not valid", ""},
	{Malformed, 400, "The request cannot be read", ""},
	{UnsupportedAPIVersion, 400, "This version of the API does not exist", ""},
	{UnsupportedMethod, 400, "The payment method is not offered", ""},
	{MultipleCredentials, 400, "More than one payment credential", ""},
	{InvalidIdempotencyKey, 400, "The Idempotency-Key is not valid", ""},
	{PaymentRequired, 402, "Payment required", "payment-required"},
	{PaymentExpired, 402, "The challenge has expired", "payment-expired"},
	{MalformedCredential, 402, "The payment credential cannot be read", "malformed-credential"},
	{InvalidChallenge, 402, "The credential answers no challenge for this request", "invalid-challenge"},
	{VerificationFailed, 402, "The payment does not pay what was asked", "verification-failed"},
	{TLSRequired, 403, "Payments need a secure connection", ""},
	{NotAdmitted, 403, "The operator does not admit this", ""},
	{NotOwner, 403, "The member belongs to another account", ""},
	{OriginNotAllowed, 403, "Pages of this origin may not call here", ""},
	{NotFound, 404, "Nothing is at this address", ""},
	{UnknownMember, 404, "No such member", ""},
	{EmptyRing, 404, "No member matches", ""},
	{MethodNotAllowed, 405, "The method is not allowed here", ""},
	{RequestTimeout, 408, "The request took too long", ""},
	{AlreadyRegistered, 409, "The URL is already in the ring", ""},
	{CredentialReused, 409, "The payment credential was used before", ""},
	{IdempotencyKeyUsed, 409, "The Idempotency-Key was used for a payment", ""},
	{PaymentMismatch, 409, "The transaction did not pay this service", ""},
	{PaymentUnapplied, 409, "The payment came and has no effect", ""},
	{RankTaken, 409, "The rank takes more than this payment", ""},
	{MemberRemoved, 410, "The member was removed", ""},
	{BodyTooLarge, 413, "The request body is too large", ""},
	{UnsupportedEncoding, 415, "The request body has a content coding that is not read here", ""},
	{InvalidRequest, 422, "The request is not valid", ""},
	{InvalidURL, 422, "The URL cannot join the ring", ""},
	{ScoreTooLow, 422, "The agent-readiness score is too low", ""},
	{BidTooLow, 422, "The bid is below the minimum", ""},
	{BidTooHigh, 422, "The bid is above the maximum", ""},
	{TotalTooHigh, 422, "The member's total would be above the maximum", ""},
	{TokenNotFound, 422, "The site does not show the token", ""},
	{CategoryUnavailable, 422, "No further category can be opened", ""},
	{RateLimited, 429, "Too many requests", ""},
	{CredentialTooLarge, 431, "The payment credential is too large", ""},
	{HeaderTooLarge, 431, "The request header is too large", ""},
	{Internal, 500, "Something went wrong here", ""},
	{PaymentPending, 503, "A payment is being settled", ""},
	{PaymentsUnavailable, 503, "Payments are unavailable at the moment", ""},
	{PaymentsUnconfigured, 503, "This ring takes no payments", ""},
	{NotLeader, 503, "This node does not take payments at the moment", ""},
	{OriginUnavailable, 503, "The origin of this ring cannot be asked at the moment", ""},
	{ScoreUnavailable, 503, "The scoring service is unavailable", ""},
	{ScorePending, 503, "The scoring service is still at work", ""},
	{RingFull, 503, "The ring is full", ""},
	{Overloaded, 503, "This node is overloaded", ""},
	{UnsupportedHTTP, 505, "This version of HTTP is not supported", ""},
}

// Codes lists every problem code in the order of the table.
func Codes() []Code {
	codes := make([]Code, len(problems))
	for i := range problems {
		codes[i] = problems[i].code
	}
	return codes
}

// row finds the code's row; an unknown code is an internal problem.
func row(code Code) *problem {
	for i := range problems {
		if problems[i].code == code {
			return &problems[i]
		}
	}
	return row(Internal)
}

// Status is the HTTP status of a problem.
func (c Code) Status() int { return row(c).status }

// Title describes a problem in one line, which does not vary with the occasion.
func (c Code) Title() string { return row(c).title }

// AppendProblem appends a problem document (RFC 9457). Its type is
// {base}/problems/{code}, or for the codes with status 402 the one that the
// payment scheme defines. detail is free text for the reader.
// more is appended as it is before the closing brace: further members,
// each beginning with a comma, or nothing.
func AppendProblem(dst []byte, base string, code Code, detail string, more []byte) []byte {
	dst = appendProblem(dst, base, code, detail)
	dst = append(dst, more...)
	return append(dst, '}')
}

// appendProblem leaves the object open for further members.
func appendProblem(dst []byte, base string, code Code, detail string) []byte {
	p := row(code)
	dst = append(dst, `{"type":`...)
	if p.payment != "" {
		dst = appendLink(dst, "https://paymentauth.org", "/problems/", p.payment)
	} else {
		dst = appendLink(dst, base, "/problems/", string(p.code))
	}
	dst = append(dst, `,"title":`...)
	dst = AppendString(dst, p.title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(dst, `,"detail":`...)
	dst = AppendString(dst, detail)
	dst = append(dst, `,"code":"`...)
	dst = append(dst, p.code...)
	return append(dst, '"')
}
