package templates

import (
	"encoding/json"
	"strconv"
	"strings"

	"webring/edge/describe"
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

// stop ends a sentence whose last word is a name: names such as Knot & Co. bring the full stop.
func stop(name string) string {
	if strings.HasSuffix(name, ".") {
		return ""
	}
	return "."
}

// kindCount is what so many members of one kind are called.
func kindCount(kind string, n int) string {
	name := kindName(kind)
	if kind != "mcp" {
		name = strings.ToLower(name)
	}
	if n != 1 {
		name += "s"
	}
	return name
}

// sizeOf is the class of a name's size: longer names are set smaller, so that what is
// below them stays on the first screen. Characters of East Asia are as wide as two.
func sizeOf(name string) string {
	width, word, widest := 0, 0, 0
	for _, r := range name {
		n := 1
		if r >= 0x1100 {
			n = 2
		}
		width += n
		if word += n; r == ' ' {
			word = 0
		}
		widest = max(widest, word)
	}
	switch {
	case width > 48 || widest > 24:
		return "longest"
	case width > 28 || widest > 15:
		return "longer"
	case width > 16 || widest > 11:
		return "long"
	}
	return ""
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// longestPath is the longest path of a member's URL that is shown after its name.
const longestPath = 32

// Where says, after a member's name, where its site is: its host, whole, and the
// path below it when it is short.
func Where(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest = strings.TrimSuffix(rest, "/")
	if host, path, _ := strings.Cut(rest, "/"); len(path) > longestPath {
		return host + "/…"
	}
	return rest
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

// policiesOf names the pages of the operator that there are.
func policiesOf(p Page) string {
	var names []string
	for _, page := range [...]struct{ name, address string }{{"terms", p.Policies.Terms}, {"privacy policy", p.Policies.Privacy}, {"report address", p.Policies.Report}} {
		if page.address != "" {
			names = append(names, page.name)
		}
	}
	words := strings.Join(names, ", ")
	if last := strings.LastIndex(words, ", "); last >= 0 {
		words = words[:last] + " and " + words[last+2:]
	}
	return words
}

// Command lines are of one line each, and mean the same in POSIX shells and in
// PowerShell, which differ in how lines go on and in what quotes a quotation mark.

// client runs the reference client of the payment protocol, before its arguments.
const client = describe.Client + " "

// joinCommand is how an agent joins, with the words left to fill in.
func joinCommand(base string) string {
	return RegisterCommand(base, "", Draft{Name: "…", URL: "https://…", Kind: "agent"}.JSON())
}

// order is the body of a bid of the amount that the page begins with, for the rank that it shows.
// Slugs have no characters that JSON reads.
func (v Member) order() string {
	return `{"member":"` + v.Row.Slug + `","amount":"` + v.Buys.Amount + `","only_if_rank":` + strconv.Itoa(v.Buys.Rank) + `}`
}

// bidCommand bids the amount that the page begins with.
func bidCommand(v Member) string {
	return client + quotedURL(v.Base+"/api/bid") + " -J " + quotedJSON([]byte(v.order()))
}

// ownerCommand is what an owner asks of a member, by a signature: arguments follow the address,
// which ends in path.
func ownerCommand(base, slug, path, arguments string) string {
	return client + quotedURL(base+"/api/ring/"+slug+path) + " " + arguments
}

// changing are the arguments that change a description.
const changing = `-X PATCH -J '{"description":"…"}'`

// proved says how a site proved itself.
func proved(how string) string {
	switch how {
	case "file":
		return "by a file on it"
	case "dns":
		return "by its DNS"
	}
	return "by a link back"
}

// RegisterCommand pays for a registration with this JSON body. extra stands
// between the address and the body; it is the caller's to make safe.
func RegisterCommand(base, extra string, body []byte) string {
	if extra != "" {
		extra += " "
	}
	return client + quotedURL(base+"/api/register") + " " + extra + "-J " + quotedJSON(body)
}

// quotedURL is a URL, which is ASCII, as a word of a command line.
func quotedURL(u string) string { return "'" + strings.ReplaceAll(u, "'", "%27") + "'" }

// quotedJSON is a JSON text as a word of a command line.
func quotedJSON(text []byte) string { return "'" + quotationMarks.Replace(string(text)) + "'" }

// quotationMarks writes those that end a word, and can only stand in strings of a JSON
// text, in another way of JSON's. To PowerShell the typographic ones are the same.
var quotationMarks = strings.NewReplacer("'", `\u0027`, "‘", `\u2018`, "’", `\u2019`, "‚", `\u201a`, "‛", `\u201b`)

// JSON is the draft as the body of a registration, without what was left empty.
func (d Draft) JSON() []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// Strings only: cannot fail.
	_ = e.Encode(d)
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// Plural is the word for so many.
func Plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// The link to a proof: its address below the ring, the name of the file, and the words.

func (p Proof) path() string { return "/log/proof/" + strconv.FormatUint(p.Index, 10) }

func (p Proof) file(slug string) string {
	return slug + "-" + strconv.FormatUint(p.Index, 10) + ".tlog-proof"
}

func (p Proof) words() string {
	what := map[string]string{"joined": "Joined", "bid": "Bid", "credited": "Credit"}[p.What]
	if p.Amount == "" {
		return what
	}
	return what + " " + Dollars(p.Amount)
}
