// Package pages draws the pages for people, and what is published for programs, from
// documents of the core, and caches them until a number on them can change.
//
// A request comes to pages.go, which has the [Route] of each page, and to cache.go, which draws
// a page once for all requests. While it draws a page again, other requests get the previous
// page, if only time has passed; it caches what [webring/edge/describe] makes, too. A [View] fills a
// page: views.go, and lists.go for the ring and the leaderboard; cards.go fills cards,
// look.go draws files in the colour of the ring. reader.go
// reads the documents of a page from the [Core], all of one position, and what pages show of the
// whole ring. documents.go has the documents, and says what standings are and what bids do; parameters.go
// has the parameters, drawing.go what open pages draw, moments.go the ring as it was, when.go how long ago something was. markdown.go converts a page to Markdown.
//
// Routes are listed here and served by package edge, which also writes the header fields
// that are not of the page. errorpage.go draws what people see in place of a problem
// document; it is not cached, as it names its request, but for clients that ask too often.
package pages
