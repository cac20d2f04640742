// Package describe makes all documents that describe the service to programs, from one
// description: the OpenAPI document, llms.txt, robots.txt, sitemaps, feeds, the
// documents under /.well-known, and the tools of the MCP server. So they cannot contradict each other.
//
//   - openapi.json: the operations, with the schemas of their documents, as an OpenAPI document
//     in which the facts of a ring have names, and what tools and reasons are; operations.go reads it
//   - openapi.go: the document with the facts of this ring; tools.go: the MCP tools, and what they
//     make of calls; reference.go: the same operations for the page about the API
//   - texts.tmpl: how to check, pay, join, bid and change, as requests to send, in llms.txt and the
//     skills, and the documents in XML; texts.go fills it
//   - documents.go: the list of published documents, sitemaps, and the documents of which a ring has
//     several; feeds.go: feeds and OPML; wellknown.go: catalogues and cards; registry.go: the
//     members that are MCP servers, as a registry; agentcard.go: the card of the A2A agent; openwebring.go: the ring for directories of rings
//   - source.go: the facts, read from the same read surface that answers readers, so
//     a document says what a read says
//
// Problem codes and the words of the directory come from [webring/core/api].
//
// The package contains no HTTP server: package edge caches, compresses and sends the
// documents.
//
// # What is decided here
//
//   - Documents link only to paths that the node answers.
//   - Crawlers read 64 KB of the OpenAPI document. So what all answers have in common is
//     written once, problems are one response for each status, and documents that are published
//     have no problems of their own but 429. Names of components and operations differ, since
//     generators make types of both. The tools of the MCP server fit into 40 KB: one
//     of them says what a member is in full.
//   - Networks have the names that others give them (CAIP-2), and not the ledger's.
//   - Examples can be paid: that of a bid names the earliest member, that of a
//     registration an address with the ledger position in it, which no member
//     has. In an empty ring there is no member to bid on, and the operation carries no offer.
//   - The price of a paid operation depends on its body. So offers state no amount, and
//     say in words what it is.
//   - The feeds of the lead name the present leader and the payment since which it
//     leads. Earlier leaders are not in them: decay changes the lead without an event,
//     so the ledger does not hold them.
//   - Only the parts of sitemap, OPML, OpenWebring and AI catalogue take time in proportion to the
//     members, and the size of a part is bounded.
//   - The A2A agent only reads. Its skills are the MCP tools that do, so its card promises nothing
//     that is paid.
package describe
