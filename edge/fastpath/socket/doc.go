// Package socket reads and writes connected sockets that do not block, by system
// calls alone.
//
// Go's own calls tell its scheduler that the thread may be away for long. These
// never are: what cannot be done at once they leave. So they say nothing, which
// saves what the telling costs, and has no watchdog of the scheduler look after a
// process that does little else.
//
// There is one for Linux, on the processors for which the core is compiled, too.
// Elsewhere [webring/edge/fastpath] reads as every program does.
package socket
