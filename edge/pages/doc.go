// Package pages draws the pages for people, and what is published for programs, from
// documents of the core, and caches them until a number on them can change.
//
// A [View] fills a page. views.go, ring.go, docs.go and join.go say what is on each page, cards.go
// what is on the cards for sharing, survey.go reads
// what pages show of the whole ring, and documents.go has the parts of documents that they
// show. reader.go reads the documents of a page from the [Core], all of
// one position. leaderboard.go and standing.go say what standings are and what
// bids do; when.go says in words how long ago something was, and for how long the words hold.
// cache.go draws a page once for all requests. While it draws
// a page again, other requests get the page before, if only time has passed. markdown.go
// converts a page to Markdown, published.go what [webring/edge/describe] makes, and
// explanations.go says what problem codes mean.
//
// Routes are listed here and served by package edge, which also writes the header fields
// that are not of the page. errorpage.go draws what people see in place of a problem
// document; it is not cached, as it names its request. crowded.go has that of clients that ask
// too often, which is cached with blanks for what differs.
package pages
