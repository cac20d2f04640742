package templates

// Share is what a link to a page shows in feeds. Its addresses are absolute. It is empty for
// pages that have no card.
type Share struct {
	URL   string // of the page
	Image string // of its card, a PNG of 1200 × 630
	Alt   string // what the card says
}

// ShareMember is that of the page of a member, in a ring of so many.
func ShareMember(base, ring string, r Row, members int) Share {
	return Share{URL: base + "/members/" + r.Slug, Image: base + "/cards/" + r.Slug + ".png",
		Alt: withHost(r) + " has rank " + grouped(r.Rank) + " of " + grouped(members) + " in " + ring + "."}
}

// withHost is a member's name, and in brackets where its site lies.
func withHost(r Row) string { return r.Name + " (" + Where(r.URL) + ")" }

// words are those that an owner may post with a link to the member's page.
func (v Member) words() string {
	return withHost(v.Row) + " has rank " + grouped(v.Row.Rank) + " of " + grouped(v.Members) + " in " + v.name() + ": " + v.Base + "/members/" + v.Row.Slug
}
