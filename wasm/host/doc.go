// Package host runs the core for a process that serves it. It keeps the rules
// of time, whichever build of the core is inside: one head for the process,
// ledger position and second, that never decreases, unless the wall clock
// turns out to have been wrong.
//
// [Native] holds the core as it was compiled into the process. The other host,
// with the core as WebAssembly, stands beside it behind the same functions.
package host
