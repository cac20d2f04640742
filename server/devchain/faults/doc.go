// Package faults injects faults between programs that talk to each other. For tests only.
//
// A [Proxy] stands between a program and a JSON-RPC node: it delays and drops requests,
// and answers late, wrongly or with nonsense. A plan decides what it does with each
// request. A plan is a function: [On] is exact about one request, [Dice] throws dice over
// all of them, and [Pass] lets everything through.
//
// A [Link] stands between programs and one address, and knows connections only: it is
// slow, silent or cut.
//
// A [Disk] is a file system that gives errors or hangs.
package faults
