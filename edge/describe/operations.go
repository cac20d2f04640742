package describe

import (
	"slices"
	"strings"

	"webring/core/api"
)

// Operation is one thing that the service does at an address. The table
// [Operations] is the one description of the service; everything that speaks
// of its operations is made from it.
type Operation struct {
	ID           string // in OpenAPI
	Method, Path string
	About        string // the directory's words
	More         string // what these do not say
	Tag          string
	Tool         string // the MCP tool that mirrors it, "" for none

	params  []param
	body    string // component of a JSON request body, "" for none
	success []success
	codes   []api.Code // problems beyond those that any request can meet
	paid    bool
	proved  bool // it takes a proof by an account instead of a payment
	check   bool // it says what a paid one would come to
}

// success is an answer that is no problem document.
type success struct {
	status  int
	about   string
	media   string // "" for no body
	schema  *schema
	headers []string // components beyond those of every answer
	shared  string   // component that it is, "" where it is the operation's own
}

// param is a query or path parameter.
type param struct {
	name, in, about string
	schema          *schema
	required        bool
}

// The tags that are more than a heading: redirects for a page, and what is
// published and no part of the ring.
const (
	linksTag     = "links"
	documentsTag = "documents"
)

const (
	jsonMedia    = "application/json"
	problemMedia = "application/problem+json"
	htmlMedia    = "text/html; charset=utf-8"
	plainMedia   = "text/plain; charset=utf-8"
)

func fromParam() param {
	return param{name: "from", in: "query", about: "Member slug, member URL or bare host name to start from.", schema: text("")}
}

func wordsParam() param {
	return param{name: "q", in: "query", about: "Only members with words in name, host or slug that begin with each of these. Found at the origin.", schema: bounded(text(""), 1, 100)}
}

func filters() []param {
	return []param{
		{name: "kind", in: "query", about: "Only members of this kind.", schema: kinds("")},
		{name: "category", in: "query", about: "Only members of this category.", schema: text("")},
	}
}

func pages() []param {
	return []param{
		{name: "limit", in: "query", about: "Items in a page.", schema: withDefault(between(number(""), 1, 500), 100)},
		{name: "offset", in: "query", about: "Items to leave out at the start; wins over page.", schema: withDefault(between(number(""), 0, 1<<53), 0)},
		{name: "page", in: "query", about: "Page from 1, instead of offset.", schema: between(number(""), 1, 1<<53/500+1)},
	}
}

func formatParam() param {
	return param{name: "format", in: "query", about: "redirect answers with a 302 to the member's site.", schema: oneOf("redirect")}
}

func slugParam() param {
	return param{name: "slug", in: "path", about: "The member's slug.", schema: withPattern(text(""), slugPattern), required: true}
}

// Problems that any request can meet, and those of the paid operations.
var (
	anyCodes = []api.Code{api.Malformed, api.UnsupportedAPIVersion, api.RequestTimeout, api.BodyTooLarge, api.RateLimited, api.HeaderTooLarge, api.Internal, api.Overloaded, api.UnsupportedHTTP}

	bodyCodes = []api.Code{api.UnsupportedEncoding, api.InvalidRequest} // of what reads a body

	paidCodes = []api.Code{api.UnsupportedMethod, api.MultipleCredentials, api.InvalidIdempotencyKey,
		api.PaymentRequired, api.PaymentExpired, api.MalformedCredential, api.InvalidChallenge, api.VerificationFailed, api.TLSRequired, api.NotAdmitted,
		api.CredentialReused, api.IdempotencyKeyUsed, api.PaymentMismatch, api.PaymentUnapplied, api.RankTaken, api.BidTooLow, api.BidTooHigh, api.TotalTooHigh, api.CredentialTooLarge,
		api.PaymentPending, api.PaymentsUnavailable, api.PaymentsUnconfigured, api.NotLeader}

	provedCodes = []api.Code{api.UnsupportedEncoding, api.InvalidRequest, api.MultipleCredentials, api.InvalidIdempotencyKey,
		api.PaymentRequired, api.PaymentExpired, api.MalformedCredential, api.InvalidChallenge, api.VerificationFailed, api.TLSRequired, api.NotAdmitted, api.NotOwner,
		api.UnknownMember, api.MemberRemoved, api.CredentialReused, api.IdempotencyKeyUsed, api.CredentialTooLarge, api.PaymentPending, api.PaymentsUnavailable, api.NotLeader}
)

// done is the answer to a request that was proved.
func done(about string, s *schema) []success {
	return []success{{200, about, jsonMedia, s, []string{"Payment-Receipt"}, ""}}
}

// document is the answer of a read that may be kept.
func document(name string, more ...string) []success {
	return []success{
		{200, name, jsonMedia, ref(name), more, ""},
		notModified,
	}
}

// beside is the answer of a read that the ledger position says nothing of.
func beside(name string) []success {
	return []success{{200, name, jsonMedia, ref(name), nil, ""}, notModified}
}

const (
	eventsMore       = "Give next as since. Types are joined, bid, credited, outbid, rank (of the first 100), fading, asleep, awake, changed, moved, claimed, verified, unverified, left, returned and removed. What time does comes hourly."
	memberEventsMore = "The last 40, newest first. Its page links feeds of them."
)

func sinceParam() param {
	return param{name: "since", in: "query", about: "Only higher numbers, oldest first; else the newest.", schema: between(number(""), 0, 1<<53-1)}
}

func daysParam() param {
	return param{name: "days", in: "query", about: "Of how many days, the present one (UTC) last.", schema: withDefault(between(number(""), 1, 400), 30)}
}

// notModified is the answer to a client that has the present document.
var notModified = success{status: 304, about: "Not modified.", headers: []string{"ETag"}, shared: "NotModified"}

func redirect() success {
	return success{302, "To the member's site.", htmlMedia, text(""), []string{"Location", "Webring-From"}, "Redirect"}
}

// once is the answer of a read that differs each time.
func once(name string) []success {
	return []success{{200, name, jsonMedia, ref(name), []string{"Webring-From"}, ""}}
}

// summary is what the directory says of the operation, but for what its parameters and its
// body say themselves.
func (op *Operation) summary() string {
	about, _, _ := strings.Cut(op.About, " Query")
	about, _, _ = strings.Cut(about, " JSON body")
	return about
}

// file is the answer of a published document.
func file(media string) []success {
	s := text("")
	if strings.Contains(media, "json") {
		s = &schema{Type: "object"}
	}
	shared := map[string]string{jsonMedia: "JSONDocument", plainMedia: "TextDocument"}[media]
	return []success{{200, "The document.", media, s, nil, shared}}
}

// Operations lists everything that the service does for programs: first what
// the directory lists, in its order, then the other documents. The caller owns
// the list.
func Operations() []Operation {
	traversal := slices.Concat([]param{fromParam()}, filters(), []param{formatParam()})
	links := slices.Concat([]param{fromParam()}, filters())
	list := []Operation{
		{ID: "getDirectory", More: "What the ring is, where it is described, how to pay, and every address.", Path: "/api", Tag: "directory", Tool: "ring_directory", success: document("Directory")},
		{ID: "listMembers", More: "Filters select members, which total counts. Beyond the end a page is empty.", Path: "/api/ring", Tag: "ring", Tool: "ring_list", params: slices.Concat([]param{wordsParam()}, filters(), pages()),
			success: document("MemberList", "Link"), codes: []api.Code{api.InvalidParameter, api.OriginUnavailable}},
		{ID: "nextMember", More: "from is located in the whole ring; kind and category select where to go from there. The ring wraps around.", Path: "/api/ring/next", Tag: "ring", Tool: "ring_next", params: traversal,
			success: append(document("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.UnknownMember, api.EmptyRing}},
		{ID: "previousMember", More: "Takes and answers what GET /api/ring/next does, and goes the other way around.", Path: "/api/ring/prev", Tag: "ring", Tool: "ring_prev", params: traversal,
			success: append(document("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.UnknownMember, api.EmptyRing}},
		{ID: "randomMember", More: "Another one each time. An unknown from is ignored, and said in Webring-From.", Path: "/api/ring/random", Tag: "ring", Tool: "ring_random", params: traversal,
			success: append(once("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "getMember", More: "Standing and rank change with time.", Path: "/api/ring/{slug}", Tag: "ring", Tool: "ring_member", params: []param{slugParam()},
			success: document("MemberDetail"), codes: []api.Code{api.NotFound, api.UnknownMember, api.MemberRemoved}},
		{ID: "listCategories", More: "In the order of their names.", Path: "/api/categories", Tag: "ring", Tool: "ring_categories", success: document("CategoryList")},
		{ID: "getWidget", More: "Without a known from, member is null, and prev and next are the ring's edges.", Path: "/api/widget", Tag: "ring", Tool: "ring_widget", params: []param{fromParam()},
			success: document("Widget", "Webring-From"), codes: []api.Code{api.InvalidParameter}},
		{ID: "getLeaderboard", More: "The higher effective_bid_usd ranks first, the earlier join wins ties. Filters do not apply.", Path: "/api/leaderboard", Tag: "ring", Tool: "ring_leaderboard", params: pages(),
			success: document("Leaderboard", "Link"), codes: []api.Code{api.InvalidParameter}},
		{ID: "getMemberHops", More: "Counted as GET /api/hops says.", Path: "/api/ring/{slug}/hops", Tag: "ring", Tool: "ring_member_hops", params: []param{slugParam(), daysParam()},
			success: beside("MemberHops"), codes: []api.Code{api.InvalidParameter, api.UnknownMember, api.MemberRemoved, api.OriginUnavailable}},
		{ID: "getHops", More: "Redirects, a client once an hour for each member, without crawlers and prefetches, and nothing about visitors. Counted once a minute. Kept for 400 days.", Path: "/api/hops", Tag: "ring", Tool: "ring_hops", params: []param{daysParam()},
			success: beside("Hops"), codes: []api.Code{api.InvalidParameter, api.OriginUnavailable}},
		{ID: "getMemberEvents", More: memberEventsMore, Path: "/api/ring/{slug}/events", Tag: "ring", Tool: "ring_member_events", params: []param{slugParam()},
			success: document("MemberEvents"), codes: []api.Code{api.UnknownMember, api.MemberRemoved, api.OriginUnavailable}},
		{ID: "getEvents", More: eventsMore, Path: "/api/events", Tag: "ring", Tool: "ring_events", params: []param{sinceParam(), pages()[0]},
			success: document("Events"), codes: []api.Code{api.InvalidParameter, api.OriginUnavailable}},
		{ID: "goNext", More: "For links on a page. With a from that names nobody, to the first member, as Webring-From says.", Path: "/next", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "goPrevious", More: "For links on a page. With a from that names nobody, to the last member, as Webring-From says.", Path: "/prev", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "goRandom", More: "For links on a page.", Path: "/random", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "registerMember", More: "Validated and scored before the 402, so paying it joins, unless the operator keeps site or payer out meanwhile (403, nothing charged). The challenge binds the bytes of the body.", Method: "POST", Path: "/api/register", Tag: "paid", Tool: "ring_join", body: "RegisterRequest", paid: true,
			success: []success{{201, "Joined and paid.", jsonMedia, ref("RegisterResponse"), []string{"Location", "Payment-Receipt", "PAYMENT-RESPONSE"}, ""}},
			codes: slices.Concat(bodyCodes, paidCodes, []api.Code{api.AlreadyRegistered, api.InvalidURL, api.ScoreTooLow,
				api.CategoryUnavailable, api.ScoreUnavailable, api.ScorePending, api.RingFull})},
		{ID: "checkRegistration", More: "As a registration is checked and scored before its 402. The answer is 200 whatever is found.", Method: "POST", Path: "/api/check", Tag: "paid", Tool: "ring_check", body: "RegisterRequest", check: true,
			success: []success{{200, "What was found.", jsonMedia, ref("Check"), nil, ""}}, codes: append(slices.Clone(bodyCodes), api.OriginUnavailable, api.NotLeader)},
		{ID: "bidOnMember", More: "Anyone may fund any member. Amounts add up, and each bid restores the full standing.", Method: "POST", Path: "/api/bid", Tag: "paid", Tool: "ring_bid", body: "BidRequest", paid: true,
			success: []success{{200, "Paid and counted.", jsonMedia, ref("BidResponse"), []string{"Payment-Receipt", "PAYMENT-RESPONSE"}, ""}},
			codes:   slices.Concat(bodyCodes, paidCodes, []api.Code{api.UnknownMember, api.MemberRemoved})},
		{ID: "changeMember", More: "Only the fields given change; an empty description removes it. A url is a move: validated and scored before the 402, it waits for payments for the member, and frees the old one. At most ten a day.",
			Method: "PATCH", Path: "/api/ring/{slug}", Tag: "owner", Tool: "ring_change", params: []param{slugParam()}, body: "ChangeRequest", proved: true, success: done("Changed.", ref("ChangeResponse")),
			codes: slices.Concat(provedCodes, []api.Code{api.AlreadyRegistered, api.InvalidURL, api.ScoreTooLow, api.CategoryUnavailable, api.ScoreUnavailable, api.ScorePending})},
		{ID: "leaveRing", More: "The owner can return for seven days (returnToRing); until then the URL stays with the member. What was paid stays in the books, and nobody else gets the slug. Waits for payments for the member. A body may be {}.",
			Method: "DELETE", Path: "/api/ring/{slug}", Tag: "owner", Tool: "ring_leave", params: []param{slugParam()}, proved: true, success: done("Left.", ref("LeaveResponse")), codes: provedCodes},
		{ID: "returnToRing", More: "Undoes leaveRing within seven days: the member is back at its place, with all that was paid. A body may be {}.",
			Method: "POST", Path: "/api/ring/{slug}/return", Tag: "owner", Tool: "ring_return", params: []param{slugParam()}, proved: true, success: done("Back in the ring.", ref("ReturnResponse")), codes: append(slices.Clone(provedCodes), api.CategoryUnavailable)},
		{ID: "claimMember", More: "With account: a token, for the site to show in /.well-known/webring-online.txt or in a TXT record of _webring-online.HOST. With token: the site is looked at anew, and a 402 asks for a proof by the account that the token names, which owns the member then; one that has left is back.",
			Method: "POST", Path: "/api/ring/{slug}/claim", Tag: "owner", Tool: "ring_claim", params: []param{slugParam()}, body: "ClaimRequest", proved: true,
			success: []success{{200, "With account, the token; with token and proof, the member with its new owner.", jsonMedia, &schema{AnyOf: []*schema{ref("ClaimToken"), ref("ClaimResponse")}}, nil, ""}},
			codes:   append(slices.Clone(provedCodes), api.TokenNotFound, api.CategoryUnavailable)},
		{ID: "visitMember", More: "An answer wakes a member that is asleep, and a link back verifies it; a failure does not count. At most ten a day. A body may be {}.",
			Method: "POST", Path: "/api/ring/{slug}/visit", Tag: "owner", Tool: "ring_visit", params: []param{slugParam()}, proved: true, success: done("To be visited within moments.", ref("VisitResponse")), codes: provedCodes},
		{ID: "getWidgetScript", More: "For a script element of any site. It asks /api/widget and nothing else.", Path: "/widget.js", Tag: documentsTag, success: file("text/javascript; charset=utf-8")},
		{ID: "getOpenAPI", Path: "/openapi.json", Tag: documentsTag, success: file(jsonMedia)},
		{ID: "getLLMs", Path: "/llms.txt", Tag: documentsTag, success: file(plainMedia)},
		{ID: "callMCP", More: "One JSON-RPC message, or a batch before the revision 2025-06-18; the answer is JSON, never a stream. Payment is asked for and made in _meta, as MPP has it for MCP.", Method: "POST", Path: "/mcp", Tag: "mcp", body: "MCPMessage",
			success: []success{
				{200, "The JSON-RPC response, a list of them for a batch.", jsonMedia, &schema{AnyOf: []*schema{{Type: "object"}, list(&schema{Type: "object"})}}, nil, ""},
				{202, "A notification was taken.", "", nil, nil, ""},
				{404, "A JSON-RPC error.", jsonMedia, &schema{Type: "object"}, nil, ""},
				{400, "A JSON-RPC error.", jsonMedia, &schema{Type: "object"}, nil, ""}},
			codes: append([]api.Code{api.OriginNotAllowed}, bodyCodes...)},
	}
	listed := api.Endpoints()
	for i := range list {
		op := &list[i]
		if op.Method == "" {
			op.Method = "GET"
		}
		for _, e := range listed {
			if e.Method == op.Method && e.Path == op.Path {
				op.About = e.About
			}
		}
	}
	for _, d := range Documents() {
		if !slices.ContainsFunc(list, func(op Operation) bool { return op.Path == d.Path }) {
			list = append(list, Operation{ID: d.id, Method: "GET", Path: d.Path, About: d.About, Tag: documentsTag, success: file(d.Media)})
		}
	}
	return list
}
