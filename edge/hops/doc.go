// Package hops counts how many visitors this node has sent from and to each member, and
// reports the counts to the origin.
//
// A hop is a redirect. Neither who asked nor from which page is looked at: what is counted
// is the member that the request names in from, and the member that it is sent to. Crawlers
// by the list in crawlers.go are left out. What asks beforehand, in case its user goes on,
// is left out by the shell.
//
// counter.go counts without locks and allocations, by the rows of members; sender.go has the
// counts of each minute reported, in the form of [webring/core/hops].
package hops
