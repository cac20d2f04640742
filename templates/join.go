package templates

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/a-h/templ"
)

// titled is the page with what was found in its title, which is what a screen reader says
// first.
func (v Join) titled() Join {
	verdict := v.Checked.verdict()
	if v.Foreign {
		verdict = "Not checked: "
	}
	v.Title = verdict + v.Title
	return v
}

// described ties a field of the form to what is said about it.
func (v Join) described(field string) templ.Attributes {
	by := field + "-hint"
	if field == "kind" {
		by = ""
	}
	attributes := templ.Attributes{}
	if v.Checked != nil && v.Checked.Wrong[field] != "" {
		if by != "" {
			by += " "
		}
		by += field + "-wrong"
		if field != "kind" {
			attributes["aria-invalid"] = "true"
		}
	}
	if by != "" {
		attributes["aria-describedby"] = by
	}
	return attributes
}

// control is the id of what is filled in for a field.
func (v Join) control(field string) string {
	if field == "kind" {
		return "kind-" + kinds[0]
	}
	return field
}

// begins says which opening bid takes which rank: the one that is chosen, or the first.
func (v Join) begins() string {
	switch v.chosen() {
	case "first":
		return Dollars(total(v.Fee, v.Draft.Bid)) + " with the opening bid below takes first place."
	case "ten":
		return Dollars(total(v.Fee, v.Draft.Bid)) + " with the opening bid below passes number 10."
	case Own:
		return Dollars(total(v.Fee, v.Draft.Bid)) + " with the opening bid below puts you at rank " + grouped(v.Buys.Rank) + "."
	}
	if v.JoinAtFirst == "0.00" {
		return "The fee alone takes first place."
	}
	if !Payable(v.JoinAtFirst) {
		return "First place costs more than one payment may pay."
	}
	return Dollars(total(v.Fee, v.JoinAtFirst)) + " in total takes first place."
}

// prompt is what a person tells an agent before anything was checked. The agent asks before it
// pays.
func (v Join) prompt() string {
	base := v.Wallet.Base
	return "Have my site join the webring at " + base + ". Read " + base + "/llms.txt first.\n" +
		"The site: name …, url https://…, kind agent (or mcp, or website).\n" +
		"Send it as JSON to POST " + base + "/api/check. That is free, and says whether the site can join, the price, and what is missing." +
		" If so, tell me the price. When I agree, send the same JSON to POST " + base + "/api/register.\n" + payingOnce
}

// opening is an opening bid that can be chosen.
type opening struct{ ID, Value, Words, Amount string }

// Values of the form's field "opening" that are no amounts: with Own its field "bid" counts.
const (
	Own   = "own"
	NoBid = "none"
)

// bids are the opening bids that can be chosen.
func (v Join) bids() []opening {
	list := []opening{{ID: NoBid, Value: NoBid, Words: "None"}}
	if v.JoinAtTen != "" && v.JoinAtTen != v.JoinAtFirst && Payable(v.JoinAtTen) {
		list = append(list, opening{"ten", v.JoinAtTen, "Pass number 10", v.JoinAtTen})
	}
	if v.JoinAtFirst != "" && v.JoinAtFirst != "0.00" && Payable(v.JoinAtFirst) {
		list = append(list, opening{"first", v.JoinAtFirst, "Take first place", v.JoinAtFirst})
	}
	return append(list, opening{ID: Own, Value: Own, Words: "Another amount"})
}

// chosen is the id of the bid in the draft.
func (v Join) chosen() string {
	if v.Draft.Bid == "" {
		if v.Checked != nil && v.Checked.Wrong["bid"] != "" {
			return Own
		}
		return NoBid
	}
	for _, b := range v.bids() {
		if b.Amount == v.Draft.Bid {
			return b.ID
		}
	}
	return Own
}

// ownBid is the amount that was typed.
func (v Join) ownBid() string {
	if v.chosen() == Own {
		return v.Draft.Bid
	}
	return ""
}

// refusal says why a draft would not be taken, and whether waiting helps.
type refusal struct {
	heading, reason string
	kind            icon
}

// refuses is the icon in words.
func (i icon) refuses() string {
	if i == wait {
		return "Not now"
	}
	return "Not accepted"
}

// refused gives the words for the refusal of a draft.
func (c *Checked) refused() refusal {
	words := problemWords()[c.Code].Draft
	r := refusal{words.Heading, words.Reason, bad}
	if words.Wait {
		r.kind = wait
	}
	switch {
	case c.Departed != nil:
		r = refusal{"This site has left the ring", "Its owner can still return, so nobody else can register the address. If the site is yours, it can name your account as the owner.", wait}
	case words.Heading == "":
		r = refusal{"Not eligible right now", c.Refusal, bad}
	case c.Code == "agentic_score_too_low" && c.Readiness != nil:
		r.heading, r.reason = points(c.Readiness.missing())+" missing", "Joining takes "+strconv.Itoa(c.Readiness.Required)+" of 100 points for readiness, and the site has "+strconv.Itoa(c.Readiness.Score)+"."
	}
	if r.reason == "" {
		r.reason = plainWords.Replace(c.Refusal)
	}
	if first, size := utf8.DecodeRuneInString(r.reason); size > 0 {
		r.reason = string(unicode.ToUpper(first)) + r.reason[size:]
	}
	if !strings.HasSuffix(r.reason, ".") {
		r.reason += "."
	}
	return r
}

// plainWords takes out of the detail of a problem what it says to programs, and what the page
// says itself.
var plainWords = strings.NewReplacer("There is no agent-readiness score for this site: ", "", " Nothing was charged.", "",
	"send the request again", "check again", "Send the request again", "Check again")

// verdict says what was found, for the title of the page.
func (c *Checked) verdict() string {
	switch {
	case c == nil:
		return ""
	case c.Unknown:
		return "Not checked: "
	case len(c.Wrong) > 0:
		return "Error: "
	case c.Refusal != "":
		return c.refused().kind.refuses() + ": "
	}
	return "Eligible: "
}
