// Package host runs the core for a process that serves it. It keeps the rules
// of time, whichever build of the core is inside: one head for the process,
// ledger position and second, that never decreases, unless the wall clock
// turns out to have been wrong.
//
// [Native] in native.go holds the core as it was compiled into the process, [Pool] a
// number of instances of the core as WebAssembly under wazero, behind the same
// functions. clock.go is the wall clock as both take it.
//
// Of the pool, read instance.go first, one guest and how bytes get in and out
// of it; then several.go, several answers in one call;
// image.go, the ring in memory that instances begin from, and
// share_linux.go, by which they share it; then pool.go, where requests and the
// writer take instances from the rack of rack.go; ahead.go has one of them move the
// head, by records or a second; catchup.go brings the others there and mends those
// that trapped; renew.go has them share memory again when they have written to too
// much of it; standin.go has the native core answer when none
// is left; kept.go holds what they are built from; engine.go compiles and starts
// modules.
//
// An instance takes what it has written of the guest's memory, up to the limit on
// that.
//
// An instance is out of the pool, and catches up beside it, while the way to the
// head is one that took the instance which went ahead more than half a millisecond:
// what a request may wait for. A bound of 2000 events or steps would be laxer, since
// that many bids take 10 ms or more, and still none, since a single event can take
// longer than they do.
//
// The differential test holds the two builds together: whole scripts of calls,
// damage included, must give the same bytes in every engine.
package host
