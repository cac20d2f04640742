// Package local scores how ready a site is for agents by really looking at it:
// about twenty requests, four at once, twenty seconds in all, and a published
// rubric whose points are the same for every site. Each check leaves evidence
// and, where it failed, what would mend it, in a report under an id of its own.
//
// What a scan needs is shared between those who ask, as package fair says: places of
// scans (scans.go), the turn to read (turns.go), and requests to sites (package
// fetch). What a site sent serves all scans of it for as long as its score is
// remembered (cache.go); the query of a site's URL does not count.
//
// Everything a site sends is data from a stranger. It is fetched by package
// fetch, read by readers whose time and memory grow with the input at most
// linearly, and never repeated in a report.
package local
