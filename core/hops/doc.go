// Package hops has the report by which a node tells the origin how many visitors it has
// sent on. A hop is a redirect from the site of one member to that of another.
//
// A report counts the hops of one day, by the rows of members ([webring/core.Ordinal]),
// which are the same at every node and never change. It names its sender, a random number
// that each process draws at its start, and its place among the sender's reports. So
// whoever receives a report twice counts it once.
package hops
