package describe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The recipe says how a program joins, bids, and changes what is its own, in pieces that
// llms.txt and the skills are put together from. A block marked
// http is one request to send unchanged, once the words in braces are replaced, so a
// program needs to know nothing else. The pieces name no member.

// recipe writes the pieces for one ring.
type recipe struct {
	ring   Ring
	client string // the command that runs the reference client
	b      strings.Builder
}

func (r *recipe) say(format string, words ...any) { fmt.Fprintf(&r.b, format, words...) }

// How long what a payer holds stays valid: the bounds of the payment workflow.
const (
	challengeLife   = "five minutes"
	transactionLife = "5 to 90 seconds"
	keyLife         = "24 hours"
)

// The header fields of the requests, besides the type of a body.
const (
	keyField  = "Idempotency-Key: {key}\n"
	paidField = "Authorization: Payment {credential}\n"
)

// draft is the body of a registration with everything left to fill in.
var draft = node{"name": "{name}", "url": "{url}", "kind": "{kind}", "category": "{category}", "description": "{description}"}

// request writes one request as a block. fields are whole lines.
func (r *recipe) request(method, path string, body any, fields ...string) {
	r.say("```http\n%s %s%s\n", method, r.ring.Base, path)
	if body != nil {
		fields = append([]string{"Content-Type: application/json\n"}, fields...)
	}
	r.b.WriteString(strings.Join(fields, ""))
	if body != nil {
		r.say("\n%s\n", inJSON(body))
	}
	r.b.WriteString("```\n\n")
}

// command writes the same as one command line of the reference client.
func (r *recipe) command(path, words string, body any) {
	if words != "" {
		words += " "
	}
	text := "-J '" + strings.ReplaceAll(string(inJSON(body)), "'", `\u0027`) + "'"
	r.say("```sh\n%s '%s%s' %s%s\n```\n\n", r.client, strings.ReplaceAll(r.ring.Base, "'", "%27"), path, words, text)
}

// inJSON is a constant or a map of words: it can be encoded.
func inJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// blocks says how to read the blocks.
func (r *recipe) blocks() {
	r.say("Each `http` block is one request: method and address, header fields, an empty line, the body. " +
		"Replace the words in braces. `{key}` is random, 16 to 255 visible characters, new for each payment. The field is optional.\n\n")
}

// check is what costs nothing: to check a draft, and to ask for its price.
func (r *recipe) check(body any) {
	r.say("**1. Check a draft.** Free. Everything is validated, including the site's score. %s\n\n", r.ring.Rule)
	r.request("POST", "/api/check", body)
	r.say("Status 200 says whether it can join, the price and the rank. To get an offer, send it to the paid address:\n\n")
	r.request("POST", "/api/register", body, keyField)
	r.say("`kind` is `agent`, `mcp` or `website`. `category` and `description` are optional, and so is an opening `bid` in USD. " +
		"Status 402 means: pay and it is accepted. It has the price in `amount_usd`, and `offers`, each with an amount in base units, token, recipient and network. " +
		"Status 422 says in `detail`, `code` and `errors` what to fix.\n\n")
}

// pay says how to pay what a 402 asks.
func (r *recipe) pay() {
	r.say("**2. Pay.** An MPP client does this step and the next for you. Without one: choose a `WWW-Authenticate: Payment` line; `offers` has them decoded, in the same order. " +
		"Sign what its method asks for, and do not send it to the network: the ring does. " +
		"`{credential}` is base64url, without padding, of `{\"challenge\":{…},\"payload\":{…},\"source\":\"did:pkh:eip155:CHAIN:ADDRESS\"}`, with all parameters of the line in `challenge`, unchanged. " +
		"Specifications: https://paymentauth.org.\n\n")
	r.networks()
}

// signing says of each payment method what is signed, and what the payload of its credential is.
var signing = map[string]string{
	"tempo": "a type 0x76 transaction with one call, `transferWithMemo(recipient, amount, memo)` of the token (to pay with another token, put `approve` and `swapExactAmountOut` of Tempo's exchange before it: sell at most twice the amount, buy exactly the amount), nonceKey 2²⁵⁶−1, nonce 0, no fee payer, and a validBefore " + transactionLife + " ahead. " +
		"The memo is `ef1ed712`, `01`, the first 10 bytes of Keccak-256 of the realm, 10 bytes of your own, and the first 7 of Keccak-256 of the challenge's id. " +
		"Payload: `{\"type\":\"transaction\",\"signature\":\"0x…\"}` with the signed transaction. Document: draft-tempo-charge-00.",
	"evm": "an EIP-3009 `TransferWithAuthorization` under the token's EIP-712 domain, found in `domain` of the offer, with `name` and `version` of the token (`USD Coin` and `2` for USDC on Base); validAfter 0, validBefore the challenge's `expires`, nonce Keccak-256 of the id followed by the realm. " +
		"Payload: `type` (`authorization`), `from`, `to`, `value`, `validAfter`, `validBefore`, `nonce` and `signature`, all strings. Document: draft-evm-charge-00. " +
		"An x402 v2 client reads the `PAYMENT-REQUIRED` field of the 402 instead, if present, and sends `PAYMENT-SIGNATURE`.",
}

// networks lists what is taken, and how it is signed.
func (r *recipe) networks() {
	if len(r.ring.Offers) == 0 {
		r.say("This ring takes no payments right now.\n\n")
		return
	}
	r.say("Accepted here, as US dollars with 6 decimals:\n\n")
	for _, o := range r.ring.Offers {
		r.say("- `%s` on `%s`, token `%s`", o.Method, o.Network, o.Currency)
		if how := signing[o.Method]; how != "" {
			r.say(": %s", how)
		}
		r.say("\n")
	}
	r.say("\nThe ledger writes the method name instead of `eip155`.\n\n")
}

// join is the paid request.
func (r *recipe) join(body any) {
	r.say("**3. Join.** Send the identical request again, with the credential. The challenge binds every byte of the body.\n\n")
	r.request("POST", "/api/register", body, keyField, paidField)
	r.say("Status 201: the site is a member. `member.slug` is its permanent name, `Payment-Receipt` the receipt. Joining costs %s USD. ", r.ring.Fee)
	r.say("Steps 1 to 3 with the reference client (needs Node 20 and a wallet with the token: `%s account create`, or a key in `MPPX_PRIVATE_KEY`):\n\n", r.client)
	r.command("/api/register", "", body)
}

// bid is how to raise a member.
func (r *recipe) bid() {
	body := node{"member": "{slug}", "amount": r.ring.MinBid}
	r.say("**Bid.** Anyone can bid on any member, at least %s USD. Bids add up. `{slug}` is the slug or URL of a member. Without a credential the answer is a 402 with the price.\n\n", r.ring.MinBid)
	r.request("POST", "/api/bid", body, keyField)
	r.request("POST", "/api/bid", body, keyField, paidField)
	r.say("Status 200: the bid counts. See `bid_total_usd`, `leaderboard_rank`, and `to_take_first_usd` (the price of rank 1). With the client:\n\n")
	r.command("/api/bid", "", body)
}

// change is what an owner may do.
func (r *recipe) change() {
	body := node{"description": "{description}"}
	r.say("**Change.** The account that paid for a member owns it. Changes are free: the 402 has a challenge for 0, and the credential is a signature, " +
		"EIP-712 with domain `{\"name\":\"MPP\",\"version\":\"3\",\"chainId\":CHAIN}` and `Proof {address account, string challengeId, string realm}`, as the payload `{\"type\":\"proof\",\"signature\":\"0x…\"}`. " +
		"The `challengeId` starts with the action, such as `Change {slug}: description '…'`. Check it before you sign. Do not sign anything else.\n\n")
	r.request("PATCH", "/api/ring/{slug}", body)
	r.request("PATCH", "/api/ring/{slug}", body, paidField)
	r.say("Fields: `name`, `description`, `category`, `kind` and `url`. A new `url` is a move and is scored again. `DELETE` at the same address leaves the ring. `POST /api/ring/{slug}/return` undoes that within seven days. With the client:\n\n")
	r.command("/api/ring/{slug}", "-X PATCH", body)
}

// answers says what each status means for somebody who pays.
func (r *recipe) answers() {
	r.say("**What answers mean.** Every error is an `application/problem+json` document with a stable `code`; `%s/problems/` plus the code explains it.\n\n", r.ring.Base)
	r.say("- 402: nothing was charged. `payment_required` is the first answer. Any other code means that the credential was rejected: `reason` says why, and there is a new challenge.\n" +
		"- 409 `already_registered`, `rank_taken`: nothing was charged. `idempotency_key_used`: this key has already paid.\n" +
		"- 409 `credential_reused`: this payment was already made; `outcome` says `applied`, `pending` or `failed`, and `links.self` what it paid for. `payment_mismatch`, `payment_unapplied`: money moved without effect; contact the operator. After these three, do not pay again.\n" +
		"- 422: the request is wrong. Nothing was charged. 403 `not_admitted`: blocked by the operator. Nothing was charged; do not retry.\n" +
		"- 503: never pay again on 503. After `Retry-After` seconds send the identical request with the same credential, until you get another status. It takes effect only once. Do the same after a broken connection or a 500.\n" +
		"- 429: wait for `Retry-After` seconds.\n\n")
}

// lifetimes says how long things hold.
func (r *recipe) lifetimes() {
	r.say("**Lifetimes.** Pay a challenge before it `expires`, at most %s after you get it. A signed transaction is valid for %s. Each credential works once. "+
		"Repeat the same `Idempotency-Key`, credential and body to get the same answer again, for %s.\n\n", challengeLife, transactionLife, keyLife)
}
