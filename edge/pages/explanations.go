package pages

import "webring/core/api"

// explanation is what the page of a problem says: what happened, and what the
// reader can do about it.
type explanation struct{ meaning, remedy string }

// explanations has an entry for every code of the problem table.
var explanations = map[api.Code]explanation{
	api.InvalidParameter: {
		"A query parameter has a value that it cannot have. The problem document names it in its member parameter.",
		"Correct the value, or leave the parameter out. The directory at /api lists what each address takes."},
	api.Malformed: {
		"What arrived was not a well-formed HTTP request, or its target was no path of this service.",
		"Check the client, or a proxy on the way. The connection was closed; open a new one."},
	api.UnsupportedAPIVersion: {
		"The request asked in its Api-Version field for a version that does not exist.",
		"Send Api-Version: 1, or leave the field out."},
	api.UnsupportedMethod: {
		"The credential pays by a method that was not among the offers.",
		"Send the request without a credential, and pay one of the offers in the challenge that comes back."},
	api.MultipleCredentials: {
		"The request carried more than one payment credential, so it is unclear which of them should pay.",
		"Send exactly one. Nothing was charged."},
	api.InvalidIdempotencyKey: {
		"The Idempotency-Key of the request is too short, too long, or holds something else than visible ASCII characters. Nothing was charged.",
		"Send a random key of 16 to 255 characters, such as a UUID, and the same one with every repeat of the request."},
	api.PaymentRequired: {
		"The request is valid and costs money. The WWW-Authenticate fields of the answer carry the offers; PAYMENT-REQUIRED those that x402 clients can pay. One with an amount of 0 is no offer: it asks the owner of a member for a proof, which is a signature.",
		"Pay one offer and send the identical request again with the credential in Authorization, or in PAYMENT-SIGNATURE by x402. It will be accepted."},
	api.PaymentExpired: {
		"The challenge that the credential answers has expired, or expires too soon to settle the payment. The payment in the credential was not made.",
		"Answer the fresh challenge of this response."},
	api.MalformedCredential: {
		"The Authorization field, or PAYMENT-SIGNATURE, does not contain a payment credential that can be read. Nothing was charged.",
		"Answer the fresh challenge of this response, with a client that speaks the Payment scheme, or x402 of version 2."},
	api.InvalidChallenge: {
		"The credential answers a challenge that was not issued here for this very request. Nothing was charged for it now.",
		"Send the identical request, body included, that received the challenge; or answer the fresh one of this response. If you know that the payment in the credential was made, write to the operator first."},
	api.VerificationFailed: {
		"The payment in the credential does not pay what the challenge asked, or could not be carried out. Nothing was charged. The problem document says in its member reason why; /docs explains each reason.",
		"Mend what the reason names, then answer the fresh challenge of this response."},
	api.TLSRequired: {
		"Payments are asked for and taken over a secure connection only, and this one was not.",
		"Use the https address of the ring. Behind a proxy, the operator must name it as trusted, and it must say which protocol was spoken."},
	api.OriginNotAllowed: {
		"The MCP server was called by a page of a browser that does not say which site it is of, or under a name that is not the ring's, as happens when somebody lets a name of theirs point here. Or a page of another site has sent the form of the page to join.",
		"Call the MCP server at the address that /llms.txt gives. Programs that are not browsers send no Origin field and are not asked. Fill in the form to join on the ring's own page."},
	api.NotFound: {
		"Nothing is published at this address. Addresses are compared exactly: case counts, and so does a slash at the end.",
		"The directory at /api lists all addresses."},
	api.UnknownMember: {
		"The reference names no member of the ring.",
		"Use a member's slug or URL, as /api/ring lists them."},
	api.EmptyRing: {
		"No member of the ring matches, or nobody is in the ring at present.",
		"Leave out kind or category; /api/categories lists the categories in use."},
	api.MethodNotAllowed: {
		"The address exists, but does not take this method.",
		"The Allow field of the answer lists the methods that it takes."},
	api.RequestTimeout: {
		"The request did not arrive in full within the time that it has.",
		"Send it again. Large headers and bodies are not needed anywhere here."},
	api.Overloaded: {
		"Too many requests are being sent to this node, or answered by it. This one was not read. Nothing was charged.",
		"Try again after the seconds that Retry-After gives. Send each request in one piece, and read its answer."},
	api.UnsupportedHTTP: {
		"The request names a version of HTTP that this node does not speak.",
		"Use HTTP/1.1. Over TLS, let the client and the server agree on it."},
	api.AlreadyRegistered: {
		"A member of the ring has this URL. URLs that differ in the scheme, a leading www. or a slash at the end are the same. Nothing was charged.",
		"To raise that member's rank, bid on it. To join with another site, register that one."},
	api.CredentialReused: {
		"The credential was used before, and every credential pays once. The problem document says in its member outcome what became of that payment.",
		"Do not pay again before you have read outcome. If it is applied, what was paid for exists: follow links.self."},
	api.IdempotencyKeyUsed: {
		"A payment for the same request was made, or an owner's request was carried out, under this Idempotency-Key in the last 24 hours: by anybody, if the request carries no credential, or by the account that its credential names. Nothing was charged for this request.",
		"To read the answer to that payment again, send its credential with the key. To pay once more, send another key."},
	api.PaymentUnapplied: {
		"The transaction of the credential has paid this ring, and what it was to pay for cannot be done: somebody else has the URL by now, the member is gone, or the credential came with another request than the one it was issued for. An x402 payment that was on its chain before it was presented here has no effect either: anybody can read it there, so it does not show whose request it pays for.",
		"Do not pay again. If the detail says that the request is another one, send the right one. Otherwise write to the operator and give the reference that the problem document holds."},
	api.PaymentMismatch: {
		"The transaction was mined, but it did not move the money that it had promised to this ring, so nothing was granted.",
		"Look at the transaction on its chain. If it did pay this ring, send its hash to the operator."},
	api.RankTaken: {
		"The request names in only_if_rank the rank without which nothing is to be paid, and the payment would give a lower one: others have paid since, or are paying now. The problem document says in to_take_rank_usd which bid gives that rank now, or in join_at_rank_bid_usd which opening bid. Without either, the payment would take a rank from another that was promised it and is being settled.",
		"Nothing was charged. Ask again with that amount, in a few seconds, with another rank, or without only_if_rank."},
	api.NotAdmitted: {
		"The operator of this ring keeps out the site, the account that pays, or a word in the name or description, or has taken the member out of the ring for now. This is said before anything is charged, and also where a 402 was answered before the operator decided.",
		"Nothing was charged. Do not pay another way for the same. If you think that this is a mistake, write to the operator."},
	api.NotOwner: {
		"The proof is by another account than the one that may do this: the account that paid for the member's registration, or the one that its site has named since; for a claim, the account that the token names. Nothing was done.",
		"Send the request with a proof by that account. If the site is yours and somebody else paid for it, have the site name your account: POST /api/ring/{slug}/claim."},
	api.TokenNotFound: {
		"The site of the member does not show the token, neither in its file nor in its TXT record. The problem document says in file and dns where it was looked for, and in its detail what was found there.",
		"Put the token into the file, in a line of its own, or into the TXT record, and send the request again. It is looked for anew each time."},
	api.MemberRemoved: {
		"The operator removed this member from the ring, or its owner has left.",
		"Nothing can be read of it or paid for it. If you own it and took it out of the ring, you can put it back for seven days: POST /api/ring/{slug}/return, with a proof by your account. After that, or after a removal by the operator, its URL may register again."},
	api.BodyTooLarge: {
		"The request body is longer than 16 KiB, as it was sent or without its content coding.",
		"Shorten it. The longest valid request is far below that."},
	api.UnsupportedEncoding: {
		"The request body came in a content coding that is not read here, or in several.",
		"Send it without Content-Encoding, or in one of the codings that Accept-Encoding lists. Nothing was charged."},
	api.InvalidRequest: {
		"The body is not what the operation takes. The problem document lists in its member errors what is wrong where.",
		"Correct those fields. Unknown and repeated fields are refused, so that nothing you meant is ignored. Nothing was charged."},
	api.InvalidURL: {
		"The URL cannot join: a member's URL is an absolute http or https address of a public site, on the usual port, without user name.",
		"Register the public address of the site. Nothing was charged."},
	api.ScoreTooLow: {
		"The scoring service gives the site less than the agent-readiness score that joining takes, or none. The problem document shows score, required and report.",
		"Follow the report to raise the score, then register again. Nothing was charged."},
	api.BidTooLow: {
		"The amount is less than any bid of this ring may be.",
		"Bid at least the minimum that /api shows as min_bid_usd. There are no increments. Nothing was charged."},
	api.BidTooHigh: {
		"The bid is above the highest amount that a single payment may have, USD 1,000,000.00.",
		"Bid less, or in several payments: bids add up. Nothing was charged."},
	api.TotalTooHigh: {
		"With this payment the member's total would be above the highest that the ring can count.",
		"Bid less. Nothing was charged."},
	api.CategoryUnavailable: {
		"The category is new, and so many are in use that only a site that names the paying account opens another; or the account that pays has opened three within a day, as many as one may. The detail says which.",
		"Use one of those that /api/categories lists. Nothing was charged."},
	api.RateLimited: {
		"This client has sent more requests than a client may in one minute, or a member was changed as often as it may be in a day, or its site was looked at as often as it may be in a minute. The detail says which.",
		"Wait as many seconds as Retry-After says. The RateLimit fields of every answer show what is left."},
	api.CredentialTooLarge: {
		"The payment credential is longer than 16 KiB. Nothing was charged.",
		"Pay with a plain transaction, as the challenge asks for it."},
	api.HeaderTooLarge: {
		"The request line and header fields together are longer than 24 KiB.",
		"Send fewer or shorter fields; cookies are never needed here."},
	api.Internal: {
		"Something failed here, and not because of the request.",
		"Try again later. A paid request may be repeated with the same credential: it has exactly one effect."},
	api.PaymentPending: {
		"A payment is on its way, for this request or by somebody else for the same URL, and its outcome is not known yet; as many payments, of the account or of all, are on their way as may be at a time; payments of this account, or of several, for the URL have failed lately; or what an owner asks for waits for a payment for the member. The detail says which.",
		"If you sent a credential, do not pay again: repeat the identical request with it after the seconds that Retry-After says. If you sent none, nothing was charged: ask again after those seconds."},
	api.PaymentsUnavailable: {
		"The payment network, or the part of the service that talks to it, cannot be reached, or has no place for another payment now. Nothing was charged.",
		"Try again after the seconds that Retry-After says. Reads work meanwhile."},
	api.PaymentsUnconfigured: {
		"This ring has no payment method, so nobody can join it or bid in it.",
		"Reads work. If this is your ring, configure a payment method."},
	api.NotLeader: {
		"The ring's origin runs on several machines, of which one takes payments at a time, and this one does not know which that is: another is about to take over. Nothing was done with the request, and it charges nothing.",
		"Send it again after the seconds that Retry-After says; a machine takes over within seconds. If you sent a credential before, do not pay anew: send the same request with the same credential."},
	api.OriginUnavailable: {
		"Only the origin of the ring has what was asked for, and this node cannot ask it now: it does not answer, or as many questions as may be are on their way. Payments have no part in it.",
		"Try again after the seconds that Retry-After says, or ask another node. All other reads work meanwhile."},
	api.ScoreUnavailable: {
		"The service that scores sites cannot be reached, and without a score nobody joins. Nothing was charged.",
		"Try again after the seconds that Retry-After says."},
	api.ScorePending: {
		"The service that scores sites is still at work on this one. Nothing was charged.",
		"Repeat the request after the seconds that Retry-After says."},
	api.RingFull: {
		"The ring has nearly as many members as it can hold and takes no more. Nothing was charged.",
		"Bids on members go on. The operator can raise the capacity."},
}
