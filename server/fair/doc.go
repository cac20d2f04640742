// Package fair shares what is scarce between those who ask for it.
//
// What a ring gives away free of charge, looks at sites above all, is limited in
// all. Without more, whoever asks most has all of it, and nobody else can join. So
// each such limit is a [Shares], and one rule holds for all of them:
//
// An asker that has had u may have another while less than Most · Half/(Half+u) is
// taken in all.
//
// An asker that has had nothing is refused only when all is taken; one that has had
// Half, when half of it is; one that has had three times Half, when a quarter is. So
// nobody is refused what somebody is given who has had more. And what askers have
// taken counts against those among them who ask again: the more there are, the less
// each takes, and the room for those who have yet to ask stays.
//
//	askers that ask as much as they may           1    2    4    8    16   64
//	each has, of 180 a minute with a Half of 4    25   18   12   8    5    2
//
// An asker is an IPv4 address or an IPv6 /64, as the limiter of requests counts
// them. Addresses and /64s come by the hundred to whoever has one IPv4 /24 or IPv6
// /48. So what is used up counts for that network, too, in which two clients weigh as
// one: a client cannot get more by changing its address, nor take all from its
// neighbours.
//
// The rule suits what is counted anew each minute, such as requests to a site, and
// what is given back, such as places of scans.
package fair
