package describe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"webring/core/api"
)

// Tool is a tool of the MCP server. It is one of three: a read, which returns the document of
// the read, byte for byte; a document made of several reads; or a request that only the origin
// answers, such as a paid one, which returns the answer to the same request over HTTP.
type Tool struct {
	Name   string
	Title  string
	About  string
	Input  *schema // of the arguments
	Output *schema // of the structured content
	// Varies is whether the same arguments may give another result although the
	// ring stays as it is.
	Varies bool

	op    Operation
	build func(*Source) []byte // nil: the document of a read, or the answer to a request
}

// Tools lists the tools. The caller owns them.
func Tools() (all []Tool) {
	for _, op := range Operations() {
		if op.Tool == "" {
			continue
		}
		t := newTool(op.Tool, op)
		for _, p := range op.arguments() {
			s := p.Schema.CloneSchemas()
			if s.Description = p.Description; p.Name == "limit" && !t.Sends() {
				s.Maximum, s.Default = ptr(float64(mostItems)), json.RawMessage(strconv.Itoa(someItems))
			}
			t.argument(p.Name, s, p.Required)
		}
		if t.Sends() {
			t.bodyArguments()
			if t.Varies = t.Changes(); t.Varies {
				t.argument(keyArgument, &schema{Type: "string", MinLength: ptr(16), MaxLength: ptr(255),
					Description: "A random word of yours, such as a UUID. Repeats with the same key and arguments never pay twice."}, false)
			}
		}
		// Revisions of MCP before 2026-07-28 want the schema itself to say that it is an object.
		t.Output = standalone(op.result)
		t.Output.Type = "object"
		if op.needs == "payment" {
			t.Output = orAsked(t.Output)
		}
		t.shorten()
		all = append(all, t)
	}
	for _, i := range infos {
		t := newTool(i.name, Operation{Method: "GET"})
		t.build, t.Output = i.build, standalone(written().Results[i.output])
		t.shorten()
		all = append(all, t)
	}
	return all
}

// orAsked is the schema of a result that can also be what x402 clients are asked to pay: clients of MCP
// hold structured content against the schema of a tool when it is an error, too.
func orAsked(of *schema) *schema {
	either := &schema{Type: "object", Defs: of.Defs}
	of.Defs = nil
	either.AnyOf = []*schema{of, {Type: "object", Description: "What is to be paid by x402.", Required: []string{"x402Version", "accepts"}}}
	return either
}

// Pages that tools give are shorter than those of the reads: a result has its document twice,
// is made for each call, and takes room in the context of a model.
const someItems, mostItems = 20, 100

// pageLength is the limit of a read for the one of a call.
func pageLength(value string) (string, error) {
	if value == "" {
		return strconv.Itoa(someItems), nil
	}
	if n, err := strconv.Atoi(value); err == nil && n > mostItems {
		return "", &ArgumentError{fmt.Sprintf("limit can be at most %d here. Use offset for more.", mostItems)}
	}
	return value, nil
}

func newTool(name string, op Operation) Tool {
	w := written().Tools[name]
	t := Tool{Name: name, Title: w.Title, About: w.About, op: op, Varies: name == "ring_random", Input: &schema{Type: "object", Properties: map[string]*schema{}}}
	t.Input.AdditionalProperties = &schema{Not: &schema{}}
	return t
}

// argument adds an argument to the input of t.
func (t *Tool) argument(name string, s *schema, required bool) {
	t.Input.Properties[name] = s
	t.Input.PropertyOrder = append(t.Input.PropertyOrder, name)
	if required {
		t.Input.Required = append(t.Input.Required, name)
	}
}

// bodyArguments adds the fields of the request's body to the input of t.
func (t *Tool) bodyArguments() {
	if t.op.body == "" {
		return
	}
	body := written().Components.Schemas[t.op.body].CloneSchemas()
	for _, name := range body.PropertyOrder {
		t.argument(name, body.Properties[name], slices.Contains(body.Required, name))
	}
}

// shorten leaves out of the schema of the result what clients need not know to read it: all
// tools together are read by models before the first call. Bounds are the server's own
// affair, and one tool says what a member is in full.
func (t *Tool) shorten() {
	if t.Output.Defs["Member"] != nil && t.Name != "ring_member" {
		brief := &schema{Type: "object", Description: "As ring_member has it.", Properties: map[string]*schema{}, Required: []string{"slug", "name", "url", "kind", "category"}}
		for _, name := range brief.Required {
			brief.Properties[name] = &schema{Type: "string"}
		}
		t.Output.Defs["Member"] = brief
	}
	for _, s := range append(slices.Collect(maps.Values(t.Output.Defs)), t.Output) {
		walk(s, func(s *schema) { s.Pattern, s.Minimum, s.Maximum = "", nil, nil })
	}
}

// keyArgument is the argument of a request that is its Idempotency-Key.
const keyArgument = "idempotency_key"

// arguments are the parameters that a tool has: a redirect is nothing for it.
func (op *Operation) arguments() []param {
	return slices.DeleteFunc(slices.Clone(op.params), func(p param) bool { return p.Name == "format" })
}

// Sends says that a call is a request which only the origin answers; [Tool.Request] gives
// it. Any other call is answered here, by the read at the target of its request, or by [Tool.Build].
func (t *Tool) Sends() bool { return t.op.Method != "GET" }

// Changes says that a call may change the ring.
func (t *Tool) Changes() bool { return t.op.needs != "" }

// AboutFor is About and, of a tool that is paid or proved, where a call without a credential
// finds its challenges. [Instructions] says what modern is.
func (t *Tool) AboutFor(modern bool) string {
	switch {
	case !t.Changes():
		return t.About
	case modern:
		return t.About + " Without a credential the result has challenges in _meta."
	}
	return t.About + " Without a credential the call fails with error -32042 and challenges."
}

// Overwrites says that a call may take away what an owner has said of a member.
func (t *Tool) Overwrites() bool {
	return t.op.needs == "proof" && t.op.ID != "visitMember" && t.op.ID != "returnToRing"
}

// Makes says that the result is made of several reads, by [Tool.Build].
func (t *Tool) Makes() bool { return t.build != nil }

// Build makes the result of a tool that has no arguments. It refuses with a *[Problem] or
// an *[ArgumentError].
func (t *Tool) Build(s *Source, arguments json.RawMessage) ([]byte, error) {
	if _, err := t.Request(arguments); err != nil {
		return nil, err
	}
	b := t.build(s)
	return b, s.err
}

// ErrNoMember is the error of [Tool.Request] when no member can have the
// slug that was given.
var ErrNoMember = errors.New("describe: no such member")

// ArgumentError says that arguments are not those of the tool. Detail is for the
// caller.
type ArgumentError struct{ Detail string }

// Error is for logs.
func (e *ArgumentError) Error() string { return "describe: " + e.Detail }

var errNoObject = &ArgumentError{"The arguments must be one object in which no name is repeated, and no number is out of range."}

var slugForm = regexp.MustCompile(slugPattern)

// readArguments reads the arguments of a call, a JSON object or nothing. Values come in
// canonical spelling (RFC 8785): an integer is one as 2.0 and 2e0, too. It refuses a name
// that is there twice, where two readers could see two values.
func readArguments(arguments json.RawMessage) (map[string]json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	if len(arguments) == 0 || string(arguments) == "null" {
		return given, nil
	}
	canonical, err := jcs.Transform(arguments)
	if err != nil || canonical[0] != '{' || json.Unmarshal(canonical, &given) != nil {
		return nil, errNoObject
	}
	return given, nil
}

// unknown refuses arguments that are left over.
func unknown(given map[string]json.RawMessage) error {
	for name := range given {
		return &ArgumentError{fmt.Sprintf("There is no argument %.32q.", name)}
	}
	return nil
}

// take takes an argument of a type out of those given, "" if it is absent or null. The handler
// of the request checks its value.
func take(given map[string]json.RawMessage, name, kind string) (value string, err error) {
	raw := given[name]
	delete(given, name)
	value = string(raw)
	switch isText := strings.HasPrefix(value, `"`); {
	case value == "" || value == "null":
		return "", nil
	case kind == "integer" && (isText || strings.Trim(value, "-+.e0123456789") != ""):
		return "", &ArgumentError{name + " must be a number, without quotes."}
	case kind == "integer":
		return value, nil
	case !isText || json.Unmarshal(raw, &value) != nil:
		return "", &ArgumentError{name + " must be a string."}
	}
	return value, nil
}

// target takes the parameters of the operation out of the arguments given.
func (t *Tool) target(given map[string]json.RawMessage) (string, error) {
	path, query := t.op.Path, url.Values{}
	for _, p := range t.op.arguments() {
		value, err := take(given, p.Name, p.Schema.Type)
		if err == nil && p.Name == "limit" {
			value, err = pageLength(value)
		}
		switch {
		case err != nil:
			return "", err
		case value == "" && p.Required:
			return "", &ArgumentError{p.Name + " is required."}
		case value == "":
			continue
		case p.In == "query":
			query.Set(p.Name, value)
			continue
		}
		// A path is no place for just any word: /api/ring/next is another read.
		if path = strings.Replace(path, "{"+p.Name+"}", value, 1); !slugForm.MatchString(value) || slices.Contains(api.Paths(), path) {
			return "", ErrNoMember
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

// Request is a call of a tool as a request over HTTP.
type Request struct {
	Method, Target string
	// Body is canonical JSON (RFC 8785), nil of a read: the same arguments are the same bytes, in
	// whichever order and spelling they come. A challenge binds the body, and an agent may
	// write its arguments anew before it pays.
	Body           []byte
	IdempotencyKey string // "" for none
}

// Request gives the request of a call of a tool with these arguments, a JSON object or nothing.
// It checks names only: the handler checks values, so that both ways refuse alike. It
// refuses with an *[ArgumentError] or [ErrNoMember].
func (t *Tool) Request(arguments json.RawMessage) (Request, error) {
	r := Request{Method: t.op.Method}
	given, err := readArguments(arguments)
	if err != nil {
		return r, err
	}
	if r.Target, err = t.target(given); err == nil && t.Changes() {
		r.IdempotencyKey, err = take(given, keyArgument, "string")
	}
	if err == nil && t.op.body == "" {
		err = unknown(given)
	}
	if err != nil || !t.Sends() {
		return r, err
	}
	rest, err := json.Marshal(given)
	if err == nil {
		r.Body, err = jcs.Transform(rest)
	}
	return r, err
}

// infos are the tools that combine several reads in one document: what an agent needs to join
// or to bid. output names the schema of the result in x-results.
var infos = []struct {
	name, output string
	build        func(*Source) []byte
}{
	{"ring_join_info", "JoinInfo", joinInfo},
	{"ring_bid_info", "BidInfo", bidInfo},
}

// node of a request that a tool stands for.
func requestOf(base, tool string) node {
	for _, op := range Operations() {
		if op.Tool == tool {
			return node{"tool": tool, "method": op.Method, "url": base + op.Path}
		}
	}
	return nil
}

func joinInfo(s *Source) []byte {
	ring, parts, board := s.forPayers()
	var rules struct {
		JoinAtFirst string `json:"join_at_first_bid_usd"`
	}
	if s.err == nil {
		s.fail(json.Unmarshal(board.Rules, &rules))
	}
	doc := node{"payments": parts.Payments, "validation": parts.Validation, "join_at_first_bid_usd": rules.JoinAtFirst,
		"check": requestOf(ring.Base, "ring_check"), "join": requestOf(ring.Base, "ring_join"),
		"then": "Call ring_check with the draft (free). Call ring_join with the same arguments: it answers with challenges. Pay one and call again with the credential. bid adds an opening bid. With only_if_rank nothing is charged unless the member gets that rank."}
	if parts.Policies != nil {
		doc["policies"] = parts.Policies
	}
	return s.json(doc)
}

func bidInfo(s *Source) []byte {
	ring, parts, board := s.forPayers()
	var rules struct {
		Grace string `json:"grace_period"`
		Decay string `json:"decay_span"`
	}
	if s.err == nil {
		s.fail(json.Unmarshal(board.Rules, &rules))
	}
	if s.err != nil {
		return nil
	}
	full := s.now.Add(Span(rules.Grace))
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	var first any
	if len(board.Leaderboard) > 0 {
		first = node{"slug": board.Leaderboard[0].Slug, "effective_bid_usd": board.Leaderboard[0].Standing}
	}
	var news struct {
		Best json.RawMessage `json:"best_bid"`
	}
	s.origin("/api/events?limit=1", &news)
	doc := node{"payments": parts.Payments, "rules": board.Rules, "first": first, "bid": requestOf(ring.Base, "ring_bid"),
		"fading": "Without bids a member keeps the standing of its fee. From its first bid on, the whole total fades, fee included, unless it is renewed: it counts in full until " + day(full) +
			" if the bid is made today, and is 0.00 on " + day(full.Add(Span(rules.Decay))) + ". Any new bid restores it: the least one, every grace_period, keeps it.",
		"then": "ring_leaderboard has the price of rank 1 for each member in to_take_first_usd. Call ring_bid with member and amount: it answers with challenges. Pay one and call again with the credential. With only_if_rank nothing is charged unless the bid gives that rank."}
	if news.Best != nil {
		doc["best_bid"] = news.Best
	}
	return s.json(doc)
}

// payerParts are parts of the directory, unchanged.
type payerParts struct{ Payments, Validation, Policies json.RawMessage }

// payerBoard is what the leaderboard says to a payer.
type payerBoard struct {
	Rules       json.RawMessage
	Leaderboard []Member
}

// forPayers reads what joining and bidding cost.
func (s *Source) forPayers() (ring Ring, parts payerParts, board payerBoard) {
	ring = s.ring()
	s.read("/api", &parts)
	s.read("/api/leaderboard?limit=1", &board)
	return
}
