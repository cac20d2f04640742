package templates

import (
	"encoding/json"
	"strconv"
	"strings"
)

var (
	kinds = []string{"agent", "mcp", "website"}
	// draftFields are the fields of the form, in its order.
	draftFields = []string{"name", "url", "kind", "category", "description", "bid"}
)

func kindName(kind string) string {
	switch kind {
	case "agent":
		return "Agent"
	case "mcp":
		return "MCP server"
	}
	return "Website"
}

func kindNames(kind string) string { return kindName(kind) + "s" }

// kindWhat is the text of the link to the members of one kind.
func kindWhat(kind string) string {
	switch kind {
	case "agent":
		return "that act"
	case "mcp":
		return "that lend tools"
	}
	return "that can be read"
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// shortened is the most characters of a description in a list.
const shortened = 120

// short cuts a description at a word. The member's page has all of it.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= shortened {
		return s
	}
	cut := string(runes[:shortened])
	if i := strings.LastIndexByte(cut, ' '); i > shortened/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " .,;:") + "…"
}

// client is the reference client of the payment protocol.
const client = "npx mppx@0.11.0 "

// joinCommand is how an agent joins, with the words left to fill in.
func joinCommand(base string) string {
	return client + base + "/api/register \\\n  -J '{\"name\":\"…\",\"url\":\"https://…\",\"kind\":\"agent\"}'"
}

// bidCommand pays for the member: what takes rank 1, or the least there is.
// Slugs have no characters that a shell or JSON reads.
func bidCommand(v Member) string {
	amount := v.Row.TakeFirst
	if amount == "" {
		amount = v.MinBid
	}
	return client + v.Base + "/api/bid \\\n  -J '{\"member\":\"" + v.Row.Slug + "\",\"amount\":\"" + amount + "\"}'"
}

// RegisterCommand pays for a registration with this JSON body. extra stands
// between the address and the body; it is the caller's to make safe.
func RegisterCommand(base, extra string, body []byte) string {
	if extra != "" {
		extra = "  " + extra + " \\\n"
	}
	return client + quoted(base+"/api/register") + " \\\n" + extra + "  -J " + quoted(string(body))
}

// quoted is a word for a POSIX shell, whatever is in it.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// JSON is the draft as the body of a registration, without what was left empty.
func (d Draft) JSON() []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// Strings only: cannot fail.
	_ = e.Encode(d)
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
