// Package fair shares a limited resource between askers.
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
// An asker is an IPv4 address or an IPv6 /64, as in the limiter of requests. A client with
// an IPv4 /24 or an IPv6 /48 has hundreds of these. So what an asker takes counts
// for that network, too, and two clients of a network weigh as one: a client gets no
// more by changing its address, and cannot take everything from its neighbours.
//
// [Shares] is for what is counted anew each minute, such as requests to a site.
// [Semaphore] is for what is given back, such as room for scans.
package fair
