// Package local scores how ready a site is for agents by really looking at it:
// about twenty requests, four at once, twenty seconds in all, and a published
// rubric whose points are the same for every site. Each check leaves evidence
// and, where it failed, what would mend it, in a report under an id of its own.
//
// Everything a site sends is data from a stranger. It is fetched by package
// fetch, read by readers whose time and memory grow with the input at most
// linearly, and never repeated in a report.
package local
