// Package socket reads and writes connected sockets that do not block, by system
// calls alone.
//
// Go's own system calls tell the scheduler that the thread may block. These never block,
// so they do not tell it. That saves the cost of telling, and keeps the scheduler's
// monitor from looking at a thread that does little else. Together with leaving out most
// reads that find nothing, it was measured to save 12 % of the processor time of /next.
//
// The package imports unsafe, because a raw system call takes addresses as numbers.
//
// The package exists for Linux on amd64 and arm64. Elsewhere [webring/edge/fastpath]
// reads with Go's own calls.
package socket
