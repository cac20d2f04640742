package describe

import (
	"fmt"
	"net/url"
	"strings"

	"webring/core/api"
)

// markdownJoin says what it takes to join, and how.
func markdownJoin(s *Source) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	_, total, joinAtFirst, err := s.leaders(1)
	if err != nil {
		return nil, err
	}
	var categories struct {
		Categories []struct {
			Category string
			Members  int
		}
	}
	if err := s.read("/api/categories", &categories); err != nil {
		return nil, err
	}
	r := s.recipe(ring)
	head(&r.b, &ring, "Join "+inMarkdown(ring.Name))
	r.say("%d members. Joining costs %s USD, once.", total, ring.Fee)
	if joinAtFirst == "0.00" {
		r.say(" The fee alone takes rank 1.\n\n")
	} else {
		r.say(" With an opening `bid` of %s USD on top a new member begins at rank 1. A bid is at least %s USD; a standing that has bids in it fades when nobody renews it.\n\n", joinAtFirst, ring.MinBid)
	}
	r.blocks()
	r.check(draft)
	r.pay()
	r.join(draft)
	r.answers()
	r.lifetimes()
	r.rules()
	if len(categories.Categories) > 0 {
		r.say("**Categories in use.** ")
		for i, c := range categories.Categories[:min(len(categories.Categories), listedCategories)] {
			if i > 0 {
				r.say(", ")
			}
			r.say("%s (%d)", inMarkdown(c.Category), c.Members)
		}
		r.say(".\n\n")
	}
	r.say("A member can then show the ring on its own page: %s\n", address(ring.Base+"/embed"))
	r.b.WriteString(ring.Policies.lines())
	return []byte(r.b.String()), nil
}

// listedCategories is how many categories the page to join lists.
const listedCategories = 40

// markdownEmbed says what a member puts on its page, for the member that from names.
func markdownEmbed(s *Source, query string) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	asked, err := url.ParseQuery(query)
	if err != nil {
		asked = nil
	}
	from := strings.ToValidUTF8(asked.Get("from"), "\ufffd")
	var around struct{ Member, Prev, Next *Member }
	if err := s.read("/api/widget?from="+url.QueryEscape(from), &around); err != nil {
		return nil, err
	}
	slug, asks, attribute := "{slug}", "?from={slug}", ` from="{slug}"`
	r := s.recipe(ring)
	head(&r.b, &ring, inMarkdown(ring.Name)+" on your page")
	if m := around.Member; m != nil {
		slug, asks, attribute = m.Slug, "?from="+m.Slug, ` from="`+m.Slug+`"`
		r.say("For %s, between %s and %s.\n\n", inMarkdown(m.Name), inMarkdown(around.Prev.Name), inMarkdown(around.Next.Name))
	} else {
		r.say("`{slug}` is the slug of a member: `%s/embed?from=` with a slug, an address or a host fills it in.\n\n", ring.Base)
	}
	anchors := ""
	for _, to := range []struct{ path, text string }{{"/prev", "Previous"}, {"/random", "Random"}, {"/next", "Next"}} {
		anchors += fmt.Sprintf("  <a href=\"%s%s%s\">%s</a>\n", ring.Base, to.path, asks, to.text)
	}
	r.say("## Widget\n\nA custom element. It shows its neighbours' names when the ring answers, and these plain links whenever it does not: without script, before it, and when something fails. "+
		"Attributes: `compact` (one line), `theme` (`light`, `dark` or `auto`; otherwise the colours of the page), `level` (of the heading), `api`.\n\n```html\n<webring-online%s>\n%s</webring-online>\n<script src=\"%s/widget.js\" async></script>\n```\n\n", attribute, anchors, ring.Base)
	r.say("A page with a Content-Security-Policy names `%s` in `script-src` and `connect-src`. Nothing inline is used.\n\n", ring.Base)
	r.say("## Links\n\n```html\n<nav aria-label=\"Webring\">\n%s</nav>\n```\n\n", anchors)
	r.say("## Badge\n\n```html\n<a href=\"%[1]s/members/%[2]s\"><img src=\"%[1]s/badge/%[2]s.svg\" height=\"28\" alt=\"Member of the ring\"></a>\n```\n\n"+
		"A button of 88 × 31 pixels is at `/badge/%[2]s.png`.\n\n", ring.Base, slug)
	r.say("A link from the site to any of these addresses verifies the member. The neighbours as JSON: `%s/api/widget%s`\n", ring.Base, asks)
	return []byte(r.b.String()), nil
}

// markdownDocs is the page about the API.
func markdownDocs(s *Source) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	r := s.recipe(ring)
	head(&r.b, &ring, "The API of "+inMarkdown(ring.Name))
	r.say("Reads are free and need no authentication; CORS is open. %s %s The whole, step by step: %s. As OpenAPI: %s.\n\n", ring.How, ring.Rule, address(ring.Base+"/llms.txt"), address(ring.Base+"/openapi.json"))
	r.networks()
	r.say("## Addresses\n\n| | Address | |\n| --- | --- | --- |\n")
	for _, op := range Operations() {
		r.say("| %s | `%s` | %s |\n", op.Method, op.Path, inMarkdown(op.About))
	}
	r.say("\n## Payments\n\n")
	r.answers()
	r.lifetimes()
	r.say("## Problems\n\n| Code | Status | |\n| --- | ---: | --- |\n")
	for _, c := range api.Codes() {
		r.say("| [%[1]s](%[2]s/problems/%[1]s) | %[3]d | %[4]s |\n", c, ring.Base, c.Status(), c.Title())
	}
	r.say("\n## Why a payment is refused\n\nThe member `reason` of a problem.\n\n| Reason | |\n| --- | --- |\n")
	for _, reason := range Reasons() {
		r.say("| %s | %s |\n", reason.Name, inMarkdown(reason.Meaning))
	}
	r.b.WriteString(ring.Policies.lines())
	return []byte(r.b.String()), nil
}
