// Package share has the limits of a node: [Limiter] counts the requests of each client, and
// [Shares] and [Semaphore] share what is limited in all between askers.
//
// # Sharing
//
// What a ring gives away free of charge, such as scans of sites, is limited in all. A
// plain limit would let the busiest client take everything, and no other could join. So
// each such limit is a [Shares], with one rule:
//
// An asker that has had u may have another while less than Most · Half/(Half+u) is
// taken in all.
//
// So an asker that has had nothing is refused only when all is taken, one that has had
// Half when half of it is taken, and one that has had three times Half when a quarter
// is. An asker is never refused while another that has had more is admitted. The more
// askers there are, the less each gets, and there is always room for a new one.
//
//	busy askers                                   1    2    4    8    16   64
//	each gets, of 180 a minute with a Half of 4   25   18   12   8    5    2
//
// # Networks
//
// An asker is an IPv4 address or an IPv6 /64, as in the limiter of requests. The owner of a
// network has many of these. So what an asker takes counts for the networks around it, too,
// and all askers of a network weigh as a few: a client gets no more by changing its
// address, and cannot take everything from its neighbours.
//
//	IPv4               an address   /24   /20   /16
//	IPv6               a /64        /48   /40   /32
//	weighs as clients  1            2     4     8
//
// # The past
//
// A crowd of many networks of which each asks for little could still take all. So a [Past]
// remembers for some minutes what askers have cost: each question, the time that their
// sites took, and each time that they were refused and asked on. That counts in addition to
// what they have: up to three times Half, and for the widest network up to Half. So a crowd that
// goes on asking is held to a quarter of a resource, and its neighbours to half. The rest is
// for clients of networks that have asked for little, or nothing.
//
// [Shares] is for what is counted anew each minute, such as requests to a site.
// [Semaphore] is for what is given back, such as room for scans.
//
// Rejected: golang.org/x/time/rate for requests. Its buckets have no end of a window, which
// RateLimit-Reset tells, and one for each client needs a lock and a bound of memory besides.
package share
