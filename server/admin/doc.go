// Package admin is the second listener of a process, for operators: health, readiness,
// metrics, and profiles of the running process.
//
// [Server] in admin.go has the listener and its addresses; ready.go answers what is asked of
// readiness, from the checks that a process adds; origin.go collects what a ledger and its
// payments say of themselves; counters.go counts what they do and nothing else remembers.
// edge.go has what an edge's replica says, and process.go what all processes have.
//
// Most of it is collected when it is asked for, from counters and views that are there
// anyway. The registry is the server's own, so that no library adds to it unasked.
package admin
