// Package faults is a proxy between a program and a JSON-RPC node that injects faults: it
// delays and drops requests, and answers late, wrongly or with nonsense. For tests only.
//
// A plan decides what a [Proxy] does with each request. A plan is a function: [On] is
// exact about one request, [Dice] throws dice over all of them, and [Pass] lets
// everything through.
package faults
