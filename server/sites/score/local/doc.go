// Package local scores how ready a site is for agents by fetching it: at most thirty
// requests without redirects, four at once, twenty seconds in all. The rubric is published,
// and its points are the same for every site. Each check leaves evidence in a report and,
// if it failed, says what would mend it. All requests but one kind are GETs: an MCP server
// that is named is asked to introduce itself.
//
//   - scorer.go: [Scorer], one scan from start to report
//   - rubric.go, checks.go: the table of checks, and the checks
//   - report.go, store.go: reports, and where they are kept
//   - visit.go, page.go, robots.go, documents.go, mcp.go, skills.go: the requests, and reading
//     what comes
//   - scans.go: limits: how many scans run at a time, shared between clients, and that one
//     scan at a time reads, so that reading leaves processors free
//   - cache.go: answers of sites, which serve all scans of a site while its score is
//     cached; the query of a site's URL does not count
//
// Everything that a site sends is data from a stranger. Package fetch fetches it,
// reading it takes time and memory at most linear in its size, and no report repeats
// it.
package local
