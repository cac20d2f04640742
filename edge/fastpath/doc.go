// Package fastpath serves a connection's plain reads, and hands the rest to fasthttp.
//
// Every connection begins here. Plain reads, which are nearly all that a ring is asked,
// are answered in one pass over the request, with one write for all that have arrived
// together. The first request of any other kind hands the connection over to fasthttp,
// with what has been read of it; it never comes back. So nothing unusual but a broken head is decided
// here, and what is answered here is answered as fasthttp's handlers would: an
// [Answerer] writes the same header fields.
//
// A stop has two parts. While the server drains, each connection ends with its next
// answer, and new ones are accepted. Then the listeners are closed; a connection that was
// accepted and has sent nothing yet has a moment for its first request.
//
// What it is worth, by make bench: of /next, 7.5 µs of the server's processor time instead of
// 13 one at a time, and 1.1 instead of 4.3 pipelined, kernel included. The goal, which make bench looks
// at, is 1.15 times what fasthttp takes for a constant. Four fifths of what is left
// are the kernel's: three for the write, one for the read and for waiting.
//
// request.go says which requests are plain, connection.go serves one connection, head.go
// gives fasthttp one whole request at a time and refuses heads that are not HTTP/1, and
// server.go takes connections from listeners. Sockets are read and written in
// socket_linux.go, on amd64 and arm64; elsewhere Go's own calls are used.
package fastpath
