// Package hops counts how many visitors this node has sent from and to each member, and
// reports the counts to the origin.
//
// A hop is a redirect. What is counted is the member that the request names in from, and the
// member that it is sent to. A client, which is an IPv4 address or an IPv6 /64, counts once an
// hour for each member that it comes from, and for each that it is sent to, at each node.
// Nothing is kept of it but a hash whose key is forgotten with the hour. Crawlers by the list
// in crawlers.json are left out. What asks beforehand, in case its user goes on, is left out by
// the shell.
//
// counter.go counts without locks and allocations, by the rows of members, and knows the
// clients of the hour; sender.go reports the counts of each minute; report.go encodes a report. package server/aside adds reports up at the origin.
//
// A report counts the hops of one day, by the rows of members ([webring/core.Ordinal]), which
// are the same at every node and never change. It names its sender, a random number that each
// process draws at its start, and has a number among the sender's reports. So a receiver counts
// a report that comes twice once.
package hops
