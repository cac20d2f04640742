package api

import (
	"slices"
	"strconv"
	"strings"

	"webring/core"
)

// Endpoint is one row of the directory: what there is at an address.
type Endpoint struct {
	Method, Path string // Path has "{slug}" for the segment that varies
	About        string // what it answers and takes, in a sentence or two
}

// Endpoints lists the directory's rows in their order: first those that [Serve]
// answers, then the paid operations, then what the host publishes around them.
// The caller owns the list.
func Endpoints() []Endpoint { return slices.Clone(endpoints[:]) }

// endpoints is what the directory lists. Of those with the method GET, the ones
// up to the paid operations are [Serve]'s own, and route in serve.go answers
// each of them.
var endpoints = [...]Endpoint{
	{"GET", "/api", "This directory."},
	{"GET", "/api/ring", "The members in ring order. Query: q (words that names, hosts or slugs begin with, found at the origin), kind (agent, mcp, website), category, limit (1 to 500, default 100), offset (0 or above) or page (1 or above; offset wins)."},
	{"GET", "/api/ring/next", "The next member around the ring. Query: from (a member's slug, a member's URL or a bare host name; without it the first member), kind, category, format=redirect for a 302 to the member's site."},
	{"GET", "/api/ring/prev", "The previous member around the ring. Query as for next; without from the last member."},
	{"GET", "/api/ring/random", "A random member. Query: from (not that member, when another matches), kind, category, format=redirect."},
	{"GET", "/api/ring/{slug}", "One member, with its standing, what becomes of it, its leaderboard rank and its owner."},
	{"GET", "/api/categories", "The categories in use, with the number of members in each."},
	{"GET", "/api/widget", "What a page needs to show its place in the ring. Query: from."},
	{"GET", "/api/leaderboard", "The members by rank, the rules of ranking, and what it costs to take rank 1, now and in 7 and 30 days. Query: limit, offset, page."},
	{"GET", "/next", "302 to the next member's site. Query: from, kind, category."},
	{"GET", "/prev", "302 to the previous member's site. Query: from, kind, category."},
	{"GET", "/random", "302 to a random member's site. Query: from, kind, category."},
	{"POST", "/api/register", "Join the ring. Paid. JSON body: name, url, kind, and optionally category, description, bid (an opening bid in USD)."},
	{"POST", "/api/check", "What a registration would come to: whether it would be taken, the score, the price and the rank. Free, and nothing is kept. JSON body as for /api/register."},
	{"POST", "/api/bid", "Fund a member. Paid. JSON body: member (slug or URL), amount (USD as a string)."},
	{"POST", "/api/ring/{slug}/visit", "Have the site of a member visited now, instead of at its time of the day. Free, with a proof by the account that owns it."},
	{"GET", "/api/ring/{slug}/hops", "How many visitors the ring has sent to a member, and on from it, by day. Query: days (1 to 400, default 30)."},
	{"GET", "/api/hops", "How many visitors the ring has sent on, by day. Query: days."},
	{"GET", "/api/ring/{slug}/events", "What happened to a member last, as that it was outbid. Also as feeds, which its page links."},
	{"GET", "/api/events", "What happened to members: bids, outbids, ranks, moves, sleep. Query: since (the next of the answer before), limit (1 to 500, default 100)."},
	{"PATCH", "/api/ring/{slug}", "Change a member, or move it to another URL. Free, with a proof by the account that owns it. JSON body: any of name, description, category, kind, url."},
	{"DELETE", "/api/ring/{slug}", "Leave the ring. Free, with a proof by the account that owns the member, which can return for seven days."},
	{"POST", "/api/ring/{slug}/return", "Return to the ring within seven days of leaving it, to the same place. Free, with a proof by the account that owns the member."},
	{"POST", "/api/ring/{slug}/claim", "Have the site of a member name the account that owns it. Free. JSON body: account (0x and 40 hexadecimal digits) for a token; then token, with a proof by that account."},
	{"GET", "/widget.js", "The script of the custom element webring-online, which shows a member's place in the ring on the member's page."},
	{"GET", "/openapi.json", "This service as an OpenAPI document."},
	{"GET", "/llms.txt", "This service in a page of plain text."},
	{"POST", "/mcp", "All of this but pages and links as the tools of an MCP server over streamable HTTP: reads, checks, and what is paid or proved."},
}

// served is how many of them [Serve] answers.
const served = 12

// ChainID names a payment network as everybody does (CAIP-2): eip155 and the number of the
// chain. The ledger names it by the payment method, such as evm:8453 for eip155:8453.
func ChainID(network string) string {
	if method, number, ok := strings.Cut(network, ":"); ok && (method == "evm" || method == "tempo") {
		return "eip155:" + number
	}
	return network
}

// appendPolicies appends the member policies with the pages that there are, if any.
func appendPolicies(dst []byte, p *core.Policies) []byte {
	if *p == (core.Policies{}) {
		return dst
	}
	dst = append(dst, `,"policies":{`...)
	n := 0
	for _, page := range [...]struct{ name, address string }{{"terms", p.Terms}, {"privacy", p.Privacy}, {"report", p.Report}} {
		dst, n = appendNamed(dst, n, page.name, page.address)
	}
	return append(dst, '}')
}

// appendLook appends the member look with what the operator has chosen, if anything.
func appendLook(dst []byte, l *core.Look) []byte {
	if *l == (core.Look{}) {
		return dst
	}
	dst = append(dst, `,"look":{`...)
	n := 0
	for _, part := range [...]struct{ name, words string }{{"welcome", l.Welcome}, {"accent", l.Accent}, {"accent_dark", l.AccentDark}, {"logo", l.Logo}} {
		dst, n = appendNamed(dst, n, part.name, part.words)
	}
	return append(dst, '}')
}

// appendOperator appends the member operator with what is said of it, if anything.
func appendOperator(dst []byte, o *core.Operator) []byte {
	if *o == (core.Operator{}) {
		return dst
	}
	dst = append(dst, `,"operator":{`...)
	n := 0
	for _, part := range [...]struct{ name, words string }{{"name", o.Name}, {"contact", o.Contact}, {"payee", o.Payee}} {
		dst, n = appendNamed(dst, n, part.name, part.words)
	}
	return append(dst, '}')
}

// appendNamed appends a named string to an object after n others, unless its value is empty.
func appendNamed(dst []byte, n int, name, value string) ([]byte, int) {
	if value == "" {
		return dst, n
	}
	dst = append(comma(dst, n), '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return AppendString(dst, value), n + 1
}

// directory writes the document that tells an agent what there is and what
// it costs.
func (a *answer) directory() {
	a.document()
	base, rules := a.rules.BaseURL, a.rules
	b := append(a.Body, `{"name":`...)
	b = AppendString(b, rules.Name)
	b = append(b, `,"description":"A ring of agents, MCP servers and websites. Reading it and walking around it is free; joining costs a fee, `+
		`and bids decide the order of the leaderboard.","openapi":`...)
	b = appendLink(b, base, "/openapi.json", "")
	b = append(b, `,"llms":`...)
	b = appendLink(b, base, "/llms.txt", "")
	if rules.Synthetic {
		b = append(b, `,"synthetic":true`...)
	}
	b = appendOperator(appendLook(appendPolicies(b, &rules.Policies), &rules.Look), &rules.Operator)
	b = append(b, `,"payments":{"protocol":"MPP (Machine Payments Protocol): a 402 with a WWW-Authenticate: Payment challenge. `+
		`A challenge can carry several offers; any one of them may be paid.","how":"`...)
	if len(rules.Networks) > 0 {
		b = append(b, `POST without payment; once the request is valid the answer is 402. Pay one offer, then send the identical request `+
			`with an Authorization: Payment credential. A 402 with PAYMENT-REQUIRED can be paid by x402 (version 2) as well. A 402 means that the request will be accepted once paid.`...)
	} else {
		b = append(b, `This ring takes no payments at present: paid operations answer 503 with the code payments_unconfigured.`...)
	}
	b = append(b, `","networks":[`...)
	for i, network := range rules.Networks {
		b = comma(b, i)
		b = AppendString(b, ChainID(network.Name))
	}
	b = append(b, `],"offers":[`...)
	for i, network := range rules.Networks {
		b = comma(b, i)
		b = append(b, `{"method":`...)
		b = AppendString(b, network.Method)
		b = append(b, `,"intent":"charge","network":`...)
		b = AppendString(b, ChainID(network.Name))
		b = append(b, `,"currency":`...)
		b = AppendString(b, network.Currency)
		b = append(b, '}')
	}
	b = append(b, `],"registration_fee_usd":"`...)
	b = AppendUSD(b, rules.Fee)
	b = append(b, `","min_bid_usd":"`...)
	b = AppendUSD(b, rules.MinBid)
	b = append(b, `"},"validation":{"service":`...)
	b = AppendString(b, rules.Scorer)
	b = append(b, `,"rule":"A site needs an agent-readiness score of at least `...)
	b = strconv.AppendUint(b, uint64(rules.RequiredScore), 10)
	b = append(b, ` to join. The score is checked before the 402, and not again after payment."},"endpoints":{`...)
	for i := range endpoints {
		e := &endpoints[i]
		b = comma(b, i)
		b = append(b, '"')
		b = append(b, e.Method...)
		b = append(b, ' ')
		b = append(b, e.Path...)
		b = append(b, `":`...)
		b = AppendString(b, e.About)
	}
	a.Body = append(b, "}}"...)
}
