package describe

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"webring/core/api"
)

// Tool is a read as a tool of the MCP server. Its result is the document of the
// read, byte for byte.
type Tool struct {
	Name   string
	Title  string
	About  string
	Input  *schema // of the arguments
	Output *schema // of the structured content
	// Varies is whether the same arguments may give another result although the
	// ring stays as it is.
	Varies bool

	op Operation
}

// Tools lists the tools: one for each read. The caller owns them.
func Tools() (all []Tool) {
	for _, op := range Operations() {
		if op.Tool == "" {
			continue
		}
		t := Tool{Name: op.Tool, Title: strings.ReplaceAll(strings.ToUpper(op.Tool[:1])+op.Tool[1:], "_", " "), op: op, Varies: op.Tool == "random_member"}
		t.About = toolAbout[op.Tool]
		t.Input = object()
		t.Input.AdditionalProperties = &schema{Not: &schema{}}
		for _, p := range op.arguments() {
			p.schema.Description = p.about
			t.Input.Properties[p.name] = p.schema
			t.Input.PropertyOrder = append(t.Input.PropertyOrder, p.name)
			if p.required {
				t.Input.Required = append(t.Input.Required, p.name)
			}
		}
		t.Output = standalone(strings.TrimPrefix(op.success[0].schema.Ref, componentSchemas))
		all = append(all, t)
	}
	return all
}

// toolAbout says what a tool does. The directory's words name queries and
// redirects, which tools do not have.
var toolAbout = map[string]string{
	"get_directory":     "What this ring is, how to join and bid, and what both cost.",
	"list_members":      "The members in ring order, in pages.",
	"get_member":        "One member, with its standing, its leaderboard rank and its owner.",
	"next_member":       "The next member around the ring; without from the first one.",
	"previous_member":   "The previous member around the ring; without from the last one.",
	"random_member":     "A random member, another than from when another matches.",
	"list_categories":   "The categories in use, with the number of members in each.",
	"get_leaderboard":   "The members by rank, the rules of ranking, and what it costs to take rank 1.",
	"get_hops":          "How many visitors the ring has sent on, by day.",
	"get_member_hops":   "How many visitors the ring has sent to a member, and on from it, by day.",
	"get_events":        "What happened to members: bids, outbids, ranks, moves, sleep; poll with since.",
	"get_member_events": "What happened to a member last, as that it was outbid.",
	"get_widget":        "A member's place in the ring: the member, its neighbours, and links to put on a page.",
}

// arguments are the parameters that a tool has: a redirect is nothing for it.
func (op *Operation) arguments() []param {
	return slices.DeleteFunc(slices.Clone(op.params), func(p param) bool { return p.name == "format" })
}

// ErrNoMember is the error of [Tool.Target] when no member can have the slug that
// was given.
var ErrNoMember = errors.New("describe: no such member")

// ArgumentError says that arguments are not those of the tool. Detail is for the
// caller.
type ArgumentError struct{ Detail string }

// Error is for logs.
func (e *ArgumentError) Error() string { return "describe: " + e.Detail }

var slugForm = regexp.MustCompile(slugPattern)

// Target gives the target of the read that answers a call with these arguments,
// a JSON object or nothing. Values are checked by the read itself, so that both
// ways refuse alike; names are checked here. It refuses with an *[ArgumentError] or
// [ErrNoMember].
func (t *Tool) Target(arguments json.RawMessage) (string, error) {
	given := map[string]json.RawMessage{}
	if len(arguments) > 0 && string(arguments) != "null" {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return "", &ArgumentError{"The arguments must be an object."}
		}
	}
	path, query := t.op.Path, url.Values{}
	for _, p := range t.op.arguments() {
		raw := given[p.name]
		delete(given, p.name)
		// What is no string is read as it is spelled: a limit is a number here.
		value := string(raw)
		if len(raw) > 0 && raw[0] == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				return "", &ArgumentError{p.name + " is not a string."}
			}
		}
		if value == "" || string(raw) == "null" { // absent
			if p.required {
				return "", &ArgumentError{p.name + " is required."}
			}
			continue
		}
		if p.in == "query" {
			query.Set(p.name, value)
			continue
		}
		// A path is no place for just any word: /api/ring/next is another read.
		if path = strings.Replace(path, "{"+p.name+"}", value, 1); !slugForm.MatchString(value) || slices.Contains(api.Paths(), path) {
			return "", ErrNoMember
		}
	}
	for name := range given {
		return "", &ArgumentError{fmt.Sprintf("There is no argument %.32q.", name)}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}
