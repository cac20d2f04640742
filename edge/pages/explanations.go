package pages

import "webring/core/api"

// explanation is what the page of a problem says: what happened, and what the
// reader can do about it.
type explanation struct{ meaning, remedy string }

// explanations has an entry for every code of the problem table.
var explanations = map[api.Code]explanation{
	api.InvalidParameter: {
		"A query parameter has an invalid value. The member parameter names it.",
		"Correct the value, or leave the parameter out. The directory at /api lists what each address takes."},
	api.Malformed: {
		"The request is not well-formed HTTP, or its target is not a path of this service.",
		"Check the client, or a proxy in between. The connection was closed; open a new one."},
	api.UnsupportedAPIVersion: {
		"The Api-Version field names a version that does not exist.",
		"Send Api-Version: 1, or leave the field out."},
	api.UnsupportedMethod: {
		"The credential uses a payment method that was not offered. Nothing was charged.",
		"Send the request without a credential, then pay one of the offers in the challenge."},
	api.MultipleCredentials: {
		"The request has more than one payment credential. Nothing was charged.",
		"Send exactly one."},
	api.InvalidIdempotencyKey: {
		"The Idempotency-Key is too short, too long, or has characters other than visible ASCII. Nothing was charged.",
		"Send a random key of 16 to 255 characters, such as a UUID. Use the same key for every repeat of the request."},
	api.PaymentRequired: {
		"The request is valid and costs money. The WWW-Authenticate fields have the offers; PAYMENT-REQUIRED has those for x402 clients. An amount of 0 is not a payment: it asks the owner of a member for a signature.",
		"Pay one offer and send the identical request again, with the credential in Authorization (x402: in PAYMENT-SIGNATURE). It will be accepted."},
	api.PaymentExpired: {
		"The challenge has expired, or expires too soon to settle the payment. Nothing was charged.",
		"Answer the new challenge in this response."},
	api.MalformedCredential: {
		"The credential in Authorization or PAYMENT-SIGNATURE cannot be read. Nothing was charged.",
		"Answer the new challenge in this response, with a client for the Payment scheme or for x402 version 2."},
	api.InvalidChallenge: {
		"The credential answers a challenge that was not issued for this exact request. This request charged nothing.",
		"Send the identical request, body included, that got the challenge; or answer the new one in this response. If you know that the payment was already made, contact the operator first."},
	api.VerificationFailed: {
		"The payment does not pay what the challenge asks, or cannot be executed. Nothing was charged. The member reason says why; /docs explains each reason.",
		"Fix the reason, then answer the new challenge in this response."},
	api.TLSRequired: {
		"Payments need a secure connection. This one is not secure. Nothing was charged.",
		"Use the https address of the ring. Behind a proxy, the operator must trust the proxy, and the proxy must forward the protocol."},
	api.OriginNotAllowed: {
		"A browser page on another site, or with an unknown origin or host name, called the MCP server, or sent the join form.",
		"Call the MCP server at the address in /llms.txt. Programs send no Origin field and are not affected. Fill in the join form on the ring's own page."},
	api.NotFound: {
		"Nothing is published at this address. Addresses are case-sensitive, and a trailing slash counts.",
		"The directory at /api lists all addresses."},
	api.UnknownMember: {
		"No member of the ring has this slug or URL.",
		"Use a slug or URL from /api/ring."},
	api.EmptyRing: {
		"No member matches, or the ring is empty.",
		"Leave out kind or category. /api/categories lists the categories in use."},
	api.MethodNotAllowed: {
		"The address exists, but does not accept this method.",
		"The Allow field lists the accepted methods."},
	api.RequestTimeout: {
		"The request did not arrive completely in time.",
		"Send it again. No request here needs large headers or bodies."},
	api.Overloaded: {
		"This node is getting too many requests. It did not read this one. Nothing was charged.",
		"Try again after the seconds in Retry-After. Send each request in one piece, and read its answer."},
	api.UnsupportedHTTP: {
		"This node does not support this version of HTTP.",
		"Use HTTP/1.1. Over TLS, let client and server negotiate."},
	api.AlreadyRegistered: {
		"A member of the ring already has this URL. URLs are the same if they differ only in scheme, a leading www. or a trailing slash. Nothing was charged.",
		"To raise that member's rank, bid on it. To join, register another site."},
	api.CredentialReused: {
		"This credential was already used. Each one pays once. The member outcome says what happened to the payment.",
		"Do not pay again before you read outcome. If it is applied, you have what you paid for: follow links.self."},
	api.IdempotencyKeyUsed: {
		"This Idempotency-Key was used in the last 24 hours for a payment or an owner's request, by anyone if this request has no credential, or by the account in its credential. This request charged nothing.",
		"To get that answer again, send its credential with the key. To pay again, use a new key."},
	api.PaymentUnapplied: {
		"The transaction paid this ring, but has no effect: the URL is taken by now, the member is gone, or the credential came with a different request. An x402 payment that was already on chain before it was sent here has no effect either: anyone could have copied it.",
		"Do not pay again. If the detail says that the request is different, send the right one. Otherwise contact the operator with the reference in the problem document."},
	api.PaymentMismatch: {
		"The transaction was mined, but did not move the promised money to this ring. It has no effect.",
		"Look at the transaction on its chain. If it did pay this ring, send its hash to the operator."},
	api.RankTaken: {
		"The payment would not give the rank in only_if_rank: others have paid, or are paying now. to_take_rank_usd or join_at_rank_bid_usd has the current price. If neither is present, the rank is reserved for a pending payment.",
		"Nothing was charged. Try again in a few seconds with that amount, another rank, or without only_if_rank."},
	api.NotAdmitted: {
		"The operator blocks this site, this account or a word in the name or description, or has hidden the member. This can also happen after a 402. Nothing was charged.",
		"Do not pay another way. If you think that this is a mistake, contact the operator."},
	api.NotOwner: {
		"The proof is from the wrong account. The owner is the account that paid for the registration, or the one its site named later; for a claim, the account in the token. Nothing was changed.",
		"Send the request with a proof by the owner's account. If it is your site and someone else paid, claim it: POST /api/ring/{slug}/claim."},
	api.TokenNotFound: {
		"The site does not show the token, neither in its file nor in its TXT record. The members file and dns say where the ring looked, the detail what it found.",
		"Put the token on a line of the file, or into the TXT record, and send the request again. The ring looks again each time."},
	api.MemberRemoved: {
		"The operator removed this member, or its owner left.",
		"You cannot read it or pay for it. If you own it and left, you can return within seven days: POST /api/ring/{slug}/return, with a proof by your account. After that, or after a removal by the operator, the URL can register again."},
	api.BodyTooLarge: {
		"The request body is longer than 16 KiB, encoded or decoded.",
		"Shorten it. The longest valid request is much smaller."},
	api.UnsupportedEncoding: {
		"The request body has an unsupported content coding, or several. Nothing was charged.",
		"Send it without Content-Encoding, or with one of the codings in Accept-Encoding."},
	api.InvalidRequest: {
		"The body is not valid for this operation. The member errors lists what is wrong and where. Nothing was charged.",
		"Correct those fields. Unknown and repeated fields are rejected, so nothing you meant is ignored."},
	api.InvalidURL: {
		"This URL cannot join. It must be the http or https address of a public site, on the usual port, without a user name. Nothing was charged.",
		"Register the public address of the site."},
	api.ScoreTooLow: {
		"The site's agent-readiness score is too low or missing. The problem document has score, required and report. Nothing was charged.",
		"Use the report to raise the score, then register again."},
	api.BidTooLow: {
		"The amount is below the minimum bid. Nothing was charged.",
		"Bid at least min_bid_usd, as in /api. There are no increments."},
	api.BidTooHigh: {
		"The bid is above the maximum of a single payment, $1,000,000. Nothing was charged.",
		"Bid less, or pay several times: bids add up."},
	api.TotalTooHigh: {
		"With this payment the member's total would be more than the ring can count. Nothing was charged.",
		"Bid less."},
	api.CategoryUnavailable: {
		"The category is new, and either so many are in use that the site must name the paying account first, or this account has opened three categories within a day. The detail says which. Nothing was charged.",
		"Use a category from /api/categories."},
	api.RateLimited: {
		"This client sent too many requests in a minute, or this member was changed or visited too often. The detail says which.",
		"Wait for the seconds in Retry-After. The RateLimit fields show what is left."},
	api.CredentialTooLarge: {
		"The payment credential is longer than 16 KiB. Nothing was charged.",
		"Pay with a plain transaction, as in the challenge."},
	api.HeaderTooLarge: {
		"The request line and header fields are longer than 24 KiB in total.",
		"Send fewer or shorter fields. Cookies are never needed here."},
	api.Internal: {
		"Something failed here. It is not your request.",
		"Try again later. You can repeat a paid request with the same credential: it takes effect only once."},
	api.PaymentPending: {
		"A payment for this request or this URL is pending, too many payments are pending, payments for the URL have failed recently, or an owner's request waits for a pending payment. The detail says which.",
		"If you sent a credential, do not pay again: repeat the identical request with it after the seconds in Retry-After. If you sent none, nothing was charged: try again after those seconds."},
	api.PaymentsUnavailable: {
		"The payment network, or the part of the service that talks to it, is unavailable or busy. Nothing was charged.",
		"Try again after the seconds in Retry-After. Reads still work."},
	api.PaymentsUnconfigured: {
		"This ring has no payment method. You cannot join or bid.",
		"Reads work. If this is your ring, configure a payment method."},
	api.NotLeader: {
		"The origin runs on several machines, and another one is about to take over payments. Nothing was done with this request, and it charged nothing.",
		"Send it again after the seconds in Retry-After. If you sent a credential before, do not pay again: send the same request with the same credential."},
	api.OriginUnavailable: {
		"Only the ring's origin has this, and it does not answer right now, or too many requests to it are open. Payments are not affected.",
		"Try again after the seconds in Retry-After, or ask another node. All other reads still work."},
	api.ScoreUnavailable: {
		"The scoring service is unavailable, and joining needs a score. Nothing was charged.",
		"Try again after the seconds in Retry-After."},
	api.ScorePending: {
		"The scoring service is still working on this site. Nothing was charged.",
		"Repeat the request after the seconds in Retry-After."},
	api.RingFull: {
		"The ring is almost full and accepts no new members. Nothing was charged.",
		"Bids still work. The operator can raise the capacity."},
}
