// Package describe is the one description of the service, and every document
// made from it: the OpenAPI document, llms.txt, robots.txt, sitemaps, feeds, what
// lies under /.well-known, the Markdown of pages, and the tools of the MCP
// server. None of them can say something that another does not know.
//
// A tour: operations.go is the table of what the service does, schema.go what
// its documents look like. openapi.go, tools.go and documents.go make of these
// what programs read; wellknown.go, feeds.go, sitemap.go and markdown.go the
// rest. source.go brings the facts: it asks the read surface of the node, the
// same that answers readers, so a document says what a read would have said.
// Problem codes come from the table in [webring/core/api], and so do the words
// of the directory.
//
// The package knows no HTTP server: edge keeps, compresses and sends what is
// made here.
//
// # What is decided here
//
//   - Documents lead only to what the node answers.
//   - Examples can be paid for: a bid names the earliest member, a registration
//     an address that nobody has, because the ledger position is part of it. In
//     an empty ring nobody can be bid on, and the operation carries no offer.
//   - What a paid operation costs depends on its body, so offers state no
//     amount, and say in words what it is.
//   - The feeds of the lead tell who leads now, since which payment. Who led
//     before would have to be kept by the ledger, which does not: decay changes
//     the lead without an event.
//   - Nothing is O(members) but the parts of sitemap and OPML, which are bounded
//     in size.
//   - No A2A agent card: the service is no A2A agent.
package describe
