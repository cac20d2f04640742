package describe

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schema abbreviates what the tables of this package are made of.
type schema = jsonschema.Schema

// field is one member of an object.
type field struct {
	name string
	*schema
}

// object has fields in their order. The names of those that need not be there
// end in "?".
func object(fields ...field) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}}
	for _, f := range fields {
		name, optional := strings.CutSuffix(f.name, "?")
		if !optional {
			s.Required = append(s.Required, name)
		}
		s.Properties[name] = f.schema
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	return s
}

func ref(name string) *schema     { return &schema{Ref: componentSchemas + name} }
func list(of *schema) *schema     { return &schema{Type: "array", Items: of} }
func text(about string) *schema   { return &schema{Type: "string", Description: about} }
func number(about string) *schema { return &schema{Type: "integer", Description: about} }

func oneOf(values ...string) *schema {
	s := &schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return s
}

// withPattern and withFormat narrow a string.
func withPattern(s *schema, pattern string) *schema { s.Pattern = pattern; return s }
func withFormat(s *schema, format string) *schema   { s.Format = format; return s }

// withDefault says what stands for a value that is left out.
func withDefault(s *schema, value any) *schema {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err) // a constant of this package
	}
	s.Default = b
	return s
}

func link(about string) *schema { return withFormat(text(about), "uri") }
func when(about string) *schema { return withFormat(text(about), "date-time") }
func usd(about string) *schema  { return &schema{Ref: componentSchemas + "USD", Description: about} }
func span(about string) *schema {
	return withFormat(withPattern(text(about), "^P([0-9]+D|T[0-9]+S)$"), "duration")
}

// orNull lets a value be null too. It is no list of types, which many readers of
// OpenAPI do not know.
func orNull(s *schema) *schema {
	either := &schema{Description: s.Description, AnyOf: []*schema{s, {Type: "null"}}}
	s.Description = ""
	return either
}

func ptr(n int) *int { return &n }

func bounded(s *schema, least, most int) *schema {
	s.MinLength, s.MaxLength = &least, &most
	return s
}

func between(s *schema, least, most float64) *schema {
	s.Minimum = &least
	if most > least {
		s.Maximum = &most
	}
	return s
}

// The service interface's bounds on what members say.
const (
	categoryPattern = "^[a-z0-9][a-z0-9-]{0,31}$"
	slugPattern     = "^[a-z0-9][a-z0-9-]{0,47}$"
	amountPattern   = `^[0-9]{1,7}(\.[0-9]{1,2})?$`
)

// onlyIfRank is the field of a paid request that names a rank.
func onlyIfRank() *schema {
	return between(orNull(number("The rank wanted, or better; else nothing is charged, and the answer is 409 rank_taken.")), 1, 999_999_999)
}

func kinds(about string) *schema {
	s := oneOf("agent", "mcp", "website")
	s.Description = about
	return s
}

// forecast is the field with what will be if nobody bids.
func forecast(fields ...field) field {
	return field{"forecast", list(object(append([]field{
		{"days", number("Ahead: 0, 7, 30.")}, {"at?", when("When that day begins in UTC; left out for now.")}}, fields...)...))}
}

// schemas builds the components anew: callers may change what they get.
//
// Document: the service interface, "Resources and their fields".
func schemas() map[string]*schema {
	page := func(name string, rows field, more ...field) *schema {
		s := object(append(append([]field{
			{"total", number("Items across all pages.")},
			{"count", number("Items in this page.")},
			{"limit", number("")},
			{"offset", number("")},
			{"links", ref("PageLinks")},
		}, more...), rows)...)
		s.Description = name
		return s
	}
	all := map[string]*schema{
		"Member": object(
			field{"slug", withPattern(text("Identifier of the member in paths and references."), slugPattern)},
			field{"name", text("As the member calls itself.")},
			field{"url", link("The member's site.")},
			field{"kind", kinds("")},
			field{"category", withPattern(text(""), categoryPattern)},
			field{"description?", text("As the member describes itself.")},
			field{"agentic_score", orNull(between(number("Agent-readiness score when it joined or moved."), 0, 100))},
			field{"agentic_report", orNull(link("Report of the score."))},
			field{"ring_position", between(number("Position in ring order, from 1."), 1, 0)},
			field{"joined_at", when("")},
			field{"paid_total_usd?", usd("Fee and every bid. On the leaderboard, the member's detail and paid answers.")},
			field{"bid_total_usd", usd("Every bid. Never shrinks.")},
			field{"effective_bid_usd?", usd("Standing after decay: what ranks. Stands where paid_total_usd does.")},
			field{"last_bid_at", orNull(when("Null when there was no bid."))},
			field{"verified", orNull(oneOf("file", "dns", "link"))},
			field{"verified_at?", when("When the site showed the ring's token, or linked back.")},
			field{"health", oneOf("awake", "asleep")},
			field{"health_since?", when("Left out: since it joined.")},
			field{"changed_at?", when("The owner's last change.")},
			field{"links", object(
				field{"self", link("")}, field{"next", link("")}, field{"prev", link("")}, field{"site", link("")})},
		),
		"MemberDetail": object(field{"member", &schema{AllOf: []*schema{ref("Member"),
			ref("Prospect"),
			object(field{"leaderboard_rank", orNull(number(""))},
				forecast(field{"effective_bid_usd", usd("")}, field{"to_take_first_usd", orNull(usd("Null: it is first."))}),
				field{"owner", orNull(text("The account that may change it; null: unknown."))},
				field{"claimed", &schema{Type: "boolean", Description: "Its site has named the owner, who otherwise paid for it."}})}}}),
		"Prospect": object(
			field{"full_until", orNull(when("Its standing is its whole total until then; null: for ever."))},
			field{"gone_at", orNull(when("Its standing is 0.00 from then on."))},
			field{"to_pass", orNull(object(
				field{"amount_usd", usd("Least bid that passes the member above; it restores the whole total first.")},
				field{"rank", number("Of the member above.")}, field{"slug", text("")}, field{"name", text("")},
				field{"takes_rank", number("That this bid gives.")}))}),
		"Traversal": object(field{"direction", oneOf("next", "prev", "random")}, field{"member", ref("Member")}),
		"PageLinks": object(field{"next", orNull(link("The next page, null for none."))}, field{"prev", orNull(link("The page before, null for none."))}),
		"MemberList": page("Members in ring order.",
			field{"members", list(ref("Member"))}),
		"Hops": object(field{"counted", text("What is counted.")}, field{"total", object(field{"hops", number("")})},
			field{"days", list(object(field{"day", withFormat(text(""), "date")}, field{"hops", number("")}))}),
		"MemberHops": object(field{"member", text("Its slug.")}, field{"counted", text("What is counted.")},
			field{"total", object(field{"from", number("Sent on from it.")}, field{"to", number("Sent to it.")})},
			field{"days", list(object(field{"day", withFormat(text(""), "date")}, field{"from", number("")}, field{"to", number("")}))}),
		"Event": object(field{"id", number("")}, field{"at", withFormat(text(""), "date-time")}, field{"type", text("")}, field{"member", text("")},
			field{"by?", text("Who outbid it.")}, field{"was_rank?", number("")}, field{"rank?", number("")}, field{"amount_usd?", text("")},
			field{"proof?", text("")}, field{"seq?", number("")}),
		"Events": object(field{"events", list(ref("Event"))}, field{"next", number("")}, field{"more", &schema{Type: "boolean"}}, field{"complete", &schema{Type: "boolean"}},
			field{"leads", list(object(field{"member", text("")}, field{"name?", text("Left out when it has left the ring.")}, field{"from", withFormat(text(""), "date-time")}, field{"until?", withFormat(text(""), "date-time")}))},
			field{"links", object(field{"next", link("")})}),
		"MemberEvents": object(field{"member", text("")}, field{"events", list(ref("Event"))}),
		"CategoryList": object(field{"count", number("")}, field{"categories", list(object(
			field{"category", withPattern(text(""), categoryPattern)}, field{"members", number("")},
			field{"links?", object(field{"members?", link("")})}))}),
		"Leaderboard": page("Members by rank.",
			field{"leaderboard", list(&schema{AllOf: []*schema{ref("Member"), ref("Prospect"), object(
				field{"rank", between(number(""), 1, 0)},
				field{"to_take_first_usd", orNull(usd("The single payment that puts this member at rank 1, above 1000000.00 what several must come to; null for the leader."))})}})},
			forecast(field{"first", orNull(text("Slug; null in an empty ring."))}, field{"first_usd", usd("Its standing.")}, field{"join_at_first_bid_usd", usd("")}),
			field{"rules", object(
				field{"minimum_bid_usd", usd("")},
				field{"registration_fee_usd", usd("")},
				field{"ranking", text("The rule in words.")},
				field{"join_at_first_bid_usd", usd("Opening bid that lets a new member join at rank 1; 0.00: the fee alone does; above 1000000.00: no opening bid does.")},
				field{"bid", text("How to bid.")},
				field{"grace_period", span("Time after a bid before standing decays.")},
				field{"decay_span", span("Time over which it then falls to 0.00.")})}),
		"Widget": object(
			field{"ring", object(field{"name", text("")}, field{"url", link("")}, field{"count", number("")})},
			field{"member", orNull(ref("Member"))}, field{"prev", orNull(ref("Member"))}, field{"next", orNull(ref("Member"))},
			field{"links", ref("Links")}),
		"Directory": object(
			field{"name", text("")}, field{"description", text("")}, field{"openapi", link("")}, field{"llms", link("")},
			field{"synthetic?", &schema{Type: "boolean", Description: "True for a ring that was made for measurement."}},
			field{"policies?", &schema{Type: "object", Description: "Pages of the operator, as far as there are any.", Properties: map[string]*schema{
				"terms": link("Terms of service."), "privacy": link("Privacy policy."), "report": link("Where to report a member: a web page, or a mailto address.")}}},
			field{"payments", object(
				field{"protocol", text("")}, field{"how", text("")}, field{"networks", list(text("CAIP-2, such as eip155:8453; the ledger has the method for eip155, as evm:8453."))},
				field{"offers", list(object(field{"method", text("")}, field{"intent", text("")}, field{"network", text("")}, field{"currency", text("")}))},
				field{"registration_fee_usd", usd("")}, field{"min_bid_usd", usd("")})},
			field{"validation", object(field{"service", text("")}, field{"rule", text("")})},
			field{"endpoints", &schema{Type: "object", AdditionalProperties: text("")}}),
		"RegisterRequest": object(
			field{"name", bounded(text("Without the words “official”, “verified” and “admin”, “rank” with a number, and the ring's own name, unless the operator allows them."), 1, 80)},
			field{"url", bounded(link("Public http or https address of the site."), 1, 300)},
			field{"kind", kinds("What the member is.")},
			field{"category?", orNull(withPattern(text("Its subject, as a word of letters, digits and hyphens; general when it is left out. GET /api/categories lists those there are."), categoryPattern))},
			field{"description?", orNull(bounded(text("What it offers, in a sentence or two."), 0, 300))},
			field{"bid?", orNull(withPattern(text("Opening bid in USD, at most 1000000.00."), amountPattern))},
			field{"only_if_rank?", onlyIfRank()}),
		"RegisterResponse": object(
			field{"joined", &schema{Type: "boolean"}}, field{"member", ref("Member")},
			field{"leaderboard_rank?", orNull(number("There when an opening bid was."))},
			field{"to_take_first_usd", ref("USDOrNull")}, field{"welcome", text("")}),
		"Check": object(
			field{"taken", &schema{Type: "boolean", Description: "Whether a paid registration with this body would be asked to pay, and would join."}},
			field{"errors", list(object(field{"pointer", text("JSON pointer into the body.")}, field{"detail", text("")}))},
			field{"refusal?", object(field{"code", text("As of a Problem.")}, field{"detail", text("")})},
			field{"price_usd?", usd("Fee and opening bid.")},
			field{"score?", object(field{"score", between(number(""), 0, 100)}, field{"service", text("")}, field{"report?", link("")})},
			field{"required_score", number("The least that may join.")},
			field{"slug?", text("The slug that it would get.")}, field{"leaderboard_rank?", between(number("The rank that it would get."), 1, 0)}),
		"BidRequest": object(
			field{"member", bounded(text("The member's slug or URL."), 1, 300)},
			field{"amount", withPattern(text("USD, at most two decimals, at most 1000000.00."), amountPattern)},
			field{"only_if_rank?", onlyIfRank()}),
		"BidResponse": object(
			field{"bid", object(field{"member", text("")}, field{"amount_usd", usd("")})},
			field{"bid_total_usd", usd("")}, field{"leaderboard_rank", orNull(number(""))},
			field{"to_take_first_usd", ref("USDOrNull")}, field{"links", ref("Links")}),
		"ChangeRequest": {Type: "object", MinProperties: ptr(1), Properties: map[string]*schema{
			"name": orNull(bounded(text("As when registering."), 1, 80)), "url": orNull(bounded(link("Where the site is now."), 1, 300)), "kind": orNull(kinds("As when registering.")),
			"category": orNull(withPattern(text("As when registering."), categoryPattern)), "description": orNull(bounded(text("Empty: none."), 0, 300))},
			PropertyOrder: []string{"name", "url", "kind", "category", "description"}},
		"ChangeResponse": object(field{"changed", list(text("A field of the request."))}, field{"member?", ref("Member")}),
		"VisitResponse":  object(field{"visiting", &schema{Type: "boolean"}}, field{"member?", ref("Member")}),
		"ReturnResponse": object(field{"returned", &schema{Type: "boolean"}}, field{"member?", ref("Member")}),
		"LeaveResponse":  object(field{"left", &schema{Type: "boolean"}}, field{"links", ref("Links")}),
		"ClaimRequest": object(
			field{"account?", orNull(withPattern(text("Asks for a token."), "^0x[0-9a-fA-F]{40}$"))},
			field{"token?", orNull(bounded(text("The site shows it."), 48, 48))}),
		"ClaimToken": object(
			field{"token", text("")}, field{"account", text("")}, field{"host", text("")},
			field{"file", object(field{"url", link("")}, field{"content", text("A line of the file.")})},
			field{"dns", object(field{"type", oneOf("TXT")}, field{"name", text("")}, field{"value", text("")})},
			field{"then", text("What to do with it.")}),
		"ClaimResponse": object(field{"claimed", &schema{Type: "boolean"}}, field{"owner", text("The account.")}, field{"member?", ref("Member")}),
		"USD":           withPattern(text(""), `^[0-9]+\.[0-9]{2}$`),
		"USDOrNull":     orNull(usd("")),
		"Links":         {Type: "object", AdditionalProperties: link("")},
		"Problem": object(
			field{"type?", link("Resolves to an explanation.")}, field{"title", text("")}, field{"status", number("")},
			field{"detail", text("")}, field{"code", codeSchema()},
			field{"parameter?", text("The query parameter that is invalid.")},
			field{"errors?", list(object(field{"pointer", text("JSON pointer into the body.")}, field{"detail", text("")}))},
			field{"amount_usd?", usd("Price, on a 402.")}, field{"expires?", when("End of the challenge, on a 402.")},
			field{"offers?", list(object(
				field{"method", text("")}, field{"intent", text("")}, field{"amount", text("Base units.")}, field{"currency", text("Token.")},
				field{"network", text("")}, field{"recipient", text("")}, field{"expires", when("")},
				field{"domain?", &schema{Type: "object", Description: "EIP-712 domain to sign under."}}, field{"wallet?", &schema{Type: "object"}}))},
			field{"outcome?", oneOf("applied", "pending", "failed")}, field{"reason?", reasonSchema()},
			field{"reference?", text("The transaction of a payment without effect, for the operator.")}, field{"links?", ref("Links")},
			field{"to_take_rank_usd?", usd("Bid that gives the rank wanted now, on rank_taken; above 1000000.00 what several must come to.")},
			field{"join_at_rank_bid_usd?", usd("Opening bid that gives it; above 1000000.00: no opening bid does.")},
			field{"score?", orNull(number(""))}, field{"required?", number("")}, field{"report?", orNull(link(""))},
			field{"file?", link("Where the token was looked for, on token_not_found.")}, field{"dns?", text("And the name of the TXT record.")}),
	}
	all["Problem"].Description = "RFC 9457. Every error is one. Other paths answer not_found, other methods method_not_allowed."
	for _, name := range []string{"RegisterRequest", "BidRequest", "ChangeRequest", "ClaimRequest"} {
		all[name].AdditionalProperties = &schema{Not: &schema{}} // unknown fields are refused
	}
	return all
}

// codeSchema has any code: there may be new ones. Those that there are stand with the
// responses.
func codeSchema() *schema {
	return text("Stable. Responses name those that there are; take one that you do not know by the status.")
}

// reasonSchema likewise has any reason.
func reasonSchema() *schema {
	var names []string
	for _, r := range Reasons() {
		names = append(names, r.Name)
	}
	return text("Why a payment was refused: " + strings.Join(names, ", ") + ". New ones may come.")
}

const componentSchemas = "#/components/schemas/"

// standalone gives a component as a schema of its own, with what it refers to
// in $defs.
func standalone(name string) *schema {
	all := schemas()
	maps.Copy(all, infoSchemas())
	return resolvedAmong(all, all[name])
}

// resolved is standalone for any schema.
func resolved(root *schema) *schema { return resolvedAmong(schemas(), root) }

func resolvedAmong(all map[string]*schema, root *schema) *schema {
	root.Defs = map[string]*schema{}
	var visit func(s *schema)
	visit = func(s *schema) {
		if name, ok := strings.CutPrefix(s.Ref, componentSchemas); ok {
			s.Ref = "#/$defs/" + name
			if _, seen := root.Defs[name]; !seen {
				root.Defs[name] = all[name]
				walk(all[name], visit)
			}
		}
	}
	walk(root, visit)
	return root
}

// walk visits a schema and what it consists of.
func walk(s *schema, visit func(*schema)) {
	if s == nil {
		return
	}
	visit(s)
	for _, part := range s.Properties {
		walk(part, visit)
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, []*schema{s.Items, s.AdditionalProperties}) {
		walk(part, visit)
	}
}
