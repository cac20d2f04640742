// Package hops counts how many visitors this node has sent from and to each member, and
// reports the counts to the origin.
//
// A hop is a redirect. What is counted is the member that the request names in from, and the
// member that it is sent to. A client, which is an IPv4 address or an IPv6 /64, counts once an
// hour for each member that it comes from, and for each that it is sent to, at each node.
// Nothing is kept of it but a hash whose key is forgotten with the hour. Crawlers by the list
// in crawlers.go are left out. What asks beforehand, in case its user goes on, is left out by
// the shell.
//
// counter.go counts without locks and allocations, by the rows of members; visitors.go knows
// the clients of the hour; sender.go has the counts of each minute reported, in the form of
// [webring/core/hops].
package hops
