// Package visits looks whether the sites of members still answer, and whether what has verified
// them is still there.
//
// Each member is visited once a day, in a minute that its place in the ring decides, so that
// the visits of a day are spread over it. What is asked depends on the kind:
//
//   - website: its URL
//   - agent: its URL, and if that answers with an error, /.well-known/agent-card.json
//   - MCP server: initialize over streamable HTTP at its URL, and if no MCP server answers
//     there, its URL as of a website. Links back are looked for at the root of its host.
//
// A visit has one of four outcomes:
//
//   - answered: a status of 2xx with a page that is not parked, a card, or an MCP server's
//     answer, be it an error
//   - gated: 401, 402, 403 or 429. The site is there, and does not let this visitor in. For
//     the member's health it counts as an answer
//   - failed: everything else. Redirects are followed within a registrable domain and never
//     from https to http; one that leads elsewhere is a failure, since the ring has scored
//     another site than visitors would see. So is a page of a domain that is parked or for
//     sale
//   - put off: a limit of package fetch was reached, and the visit takes place later
//
// The third failure in a row makes a member asleep, and comes two days after the first. One
// answer wakes it. Failures count only if a member of another site answers in the same minute,
// or one of five others that are asked then: otherwise it is this process that is cut off, and
// the minute is repeated once it is not. Without another member to ask, no failure counts.
//
// A page that links back verifies its member (package siteproof), and so does a token that names
// its owner, where the site has named that account before. Of members that a token has verified
// the token is looked for at each visit that the site has answered. A link does in its
// place, so that a site may have either. Three visits in a row that find neither take the
// verification away again. What could not be read counts as nothing: a page that is not HTML or too
// long, for those that a link has verified; a file or a name server that does not answer, for
// the others. The account stays the owner.
//
// Only what changes is an event: asleep, awake, verified, unverified. Failures in a row lie in a
// table of the ledger's store, as does the minute that is next, so another process goes on where
// this one has ended. After a pause, what was due meanwhile is visited first, but not more than
// a day of it. Rows of the table:
//
//	"at"        the next minute since 1970, as a varint
//	'm' slug    failures in a row, the second of the first one since 1970, visits in a row that
//	            found no proof, and a checksum of the URL and the kind that they are about, as
//	            varints. Without any there is no row
//	'f' slug    that checksum, as a varint, and the address of the site's feed
//	'i' slug    that checksum, the second of the look at the site's icon and a checksum of its
//	            address, as varints, and the icon as a small PNG, empty if there is none
//
// A page that a visit reads may link to a feed in its head. [Feeds] lists the feeds of members as
// OPML. The icon that the page names, or /favicon.ico, is fetched once a week, and [Icon] shows it as
// package icon has drawn it. [Forget] deletes both of a member that moves, leaves, is removed or is
// hidden.
//
// One process at a time visits: the one that writes the ledger.
package visits
