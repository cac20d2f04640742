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
	Tag          string
	Tool         string // the MCP tool that mirrors it, "" for none

	params  []param
	body    string // component of a JSON request body, "" for none
	success []success
	codes   []api.Code // problems beyond those that any request can meet
	paid    bool
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
)

func fromParam() param {
	return param{name: "from", in: "query", about: "Member slug, member URL or bare host name to start from.", schema: text("")}
}

func filters() []param {
	return []param{
		{name: "kind", in: "query", about: "Only members of this kind.", schema: kinds()},
		{name: "category", in: "query", about: "Only members of this category.", schema: text("")},
	}
}

func pages() []param {
	return []param{
		{name: "limit", in: "query", about: "Items in a page; 100 when left out.", schema: between(number(""), 1, 500)},
		{name: "offset", in: "query", about: "Items to leave out at the start; wins over page.", schema: between(number(""), 0, 0)},
		{name: "page", in: "query", about: "Page from 1, instead of offset.", schema: between(number(""), 1, 0)},
	}
}

func formatParam() param {
	return param{name: "format", in: "query", about: "redirect answers with a 302 to the member's site.", schema: oneOf("redirect")}
}

func slugParam() param {
	return param{name: "slug", in: "path", about: "The member's slug.", schema: text(""), required: true}
}

// Problems that any request can meet, and those of the paid operations.
var (
	anyCodes = []api.Code{api.Malformed, api.UnsupportedAPIVersion, api.RequestTimeout, api.BodyTooLarge, api.RateLimited, api.HeaderTooLarge, api.Internal}

	paidCodes = []api.Code{api.UnsupportedMethod, api.MultipleCredentials,
		api.PaymentRequired, api.PaymentExpired, api.MalformedCredential, api.InvalidChallenge, api.VerificationFailed, api.TLSRequired,
		api.CredentialReused, api.PaymentMismatch, api.InvalidRequest, api.BidTooLow, api.BidTooHigh, api.TotalTooHigh, api.CredentialTooLarge,
		api.PaymentPending, api.PaymentsUnavailable, api.PaymentsUnconfigured}
)

// document is the answer of a read that may be kept.
func document(name string, more ...string) []success {
	return []success{
		{200, name, jsonMedia, ref(name), append([]string{"ETag", "Webring-Seq"}, more...), ""},
		notModified,
	}
}

// notModified is the answer to whoever has what would be sent.
var notModified = success{status: 304, about: "Not modified.", headers: []string{"ETag"}, shared: "NotModified"}

func redirect() success {
	return success{302, "To the member's site.", htmlMedia, text(""), []string{"Location", "Webring-Seq", "Webring-From"}, "Redirect"}
}

// once is the answer of a read that differs each time.
func once(name string) []success {
	return []success{{200, name, jsonMedia, ref(name), []string{"Webring-Seq", "Webring-From"}, ""}}
}

// file is the answer of a published document.
func file(media string) []success {
	s := text("")
	if strings.Contains(media, "json") {
		s = &schema{Type: "object"}
	}
	return []success{{200, "The document.", media, s, []string{"ETag"}, ""}, notModified}
}

// Operations lists everything that the service does for programs: first what
// the directory lists, in its order, then the other documents. The caller owns
// the list.
func Operations() []Operation {
	traversal := slices.Concat([]param{fromParam()}, filters(), []param{formatParam()})
	links := slices.Concat([]param{fromParam()}, filters())
	list := []Operation{
		{ID: "getDirectory", Path: "/api", Tag: "directory", Tool: "get_directory", success: document("Directory")},
		{ID: "listMembers", Path: "/api/ring", Tag: "ring", Tool: "list_members", params: append(filters(), pages()...),
			success: document("MemberList", "Link"), codes: []api.Code{api.InvalidParameter}},
		{ID: "nextMember", Path: "/api/ring/next", Tag: "ring", Tool: "next_member", params: traversal,
			success: append(document("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.UnknownMember, api.EmptyRing}},
		{ID: "previousMember", Path: "/api/ring/prev", Tag: "ring", Tool: "previous_member", params: traversal,
			success: append(document("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.UnknownMember, api.EmptyRing}},
		{ID: "randomMember", Path: "/api/ring/random", Tag: "ring", Tool: "random_member", params: traversal,
			success: append(once("Traversal"), redirect()), codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "getMember", Path: "/api/ring/{slug}", Tag: "ring", Tool: "get_member", params: []param{slugParam()},
			success: document("MemberDetail"), codes: []api.Code{api.NotFound, api.UnknownMember, api.MemberRemoved}},
		{ID: "listCategories", Path: "/api/categories", Tag: "ring", Tool: "list_categories", success: document("CategoryList")},
		{ID: "getWidget", Path: "/api/widget", Tag: "ring", Tool: "get_widget", params: []param{fromParam()},
			success: document("Widget", "Webring-From"), codes: []api.Code{api.InvalidParameter}},
		{ID: "getLeaderboard", Path: "/api/leaderboard", Tag: "ring", Tool: "get_leaderboard", params: pages(),
			success: document("Leaderboard", "Link"), codes: []api.Code{api.InvalidParameter}},
		{ID: "goNext", Path: "/next", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "goPrevious", Path: "/prev", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "goRandom", Path: "/random", Tag: linksTag, params: links,
			success: []success{redirect()}, codes: []api.Code{api.InvalidParameter, api.EmptyRing}},
		{ID: "register", Method: "POST", Path: "/api/register", Tag: "paid", body: "RegisterRequest", paid: true,
			success: []success{{201, "Joined and paid.", jsonMedia, ref("RegisterResponse"), []string{"Location", "Payment-Receipt", "Webring-Seq"}, ""}},
			codes: slices.Concat(paidCodes, []api.Code{api.AlreadyRegistered, api.InvalidURL, api.ScoreTooLow,
				api.CategoryUnavailable, api.ScoreUnavailable, api.ScorePending, api.RingFull})},
		{ID: "bid", Method: "POST", Path: "/api/bid", Tag: "paid", body: "BidRequest", paid: true,
			success: []success{{200, "Paid and counted.", jsonMedia, ref("BidResponse"), []string{"Payment-Receipt", "Webring-Seq"}, ""}},
			codes:   slices.Concat(paidCodes, []api.Code{api.UnknownMember, api.MemberRemoved})},
		{ID: "getWidgetScript", Path: "/widget.js", Tag: documentsTag, success: file("text/javascript; charset=utf-8")},
		{ID: "getOpenAPI", Path: "/openapi.json", Tag: documentsTag, success: file(jsonMedia)},
		{ID: "getLLMs", Path: "/llms.txt", Tag: documentsTag, success: file("text/plain; charset=utf-8")},
		{ID: "callMCP", Method: "POST", Path: "/mcp", Tag: "mcp", body: "MCPMessage",
			success: []success{
				{200, "The JSON-RPC response.", jsonMedia, &schema{Type: "object"}, nil, ""},
				{202, "A notification was taken.", "", nil, nil, ""},
				{400, "A JSON-RPC error.", jsonMedia, &schema{Type: "object"}, nil, ""},
				{404, "A JSON-RPC error.", jsonMedia, &schema{Type: "object"}, nil, ""}},
			codes: []api.Code{api.InvalidRequest, api.OriginNotAllowed}},
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
