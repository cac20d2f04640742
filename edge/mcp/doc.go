// Package mcp is the MCP server. A tool is a read, and its result the document of the read,
// byte for byte, as structured content and as text; or it is a request that only the origin
// answers, such as a paid one, and its result the answer to the same request over HTTP.
//
// The tools come from [webring/edge/describe], the protocol from the official SDK:
// streamable HTTP without sessions, each answer one JSON message. Package edge calls
// [Server.Handle]; it has counted the request, bounded the body and checked the Origin
// field before. It also sends the requests, by an [Ask].
//
//   - server.go: a message, and the tools that are answered here
//   - caller.go: what a message says beside the arguments of a tool
//   - payment.go: tools that send, credentials and receipts; challenge.go reads the offers
//     of a 402
//
// # What is decided here
//
//   - Payment is asked for by a result with metadata since the revision 2026-07-28, which
//     keeps the codes of MPP's errors for itself, and by such an error before.
//   - A credential is taken from params and from beside them; two are refused by the
//     origin, as they are over HTTP. Tools that are free ignore it.
//   - What the origin answers is not bounded in time here: it holds a payment until its
//     outcome is known.
//   - A failed call is a tool error whose text is the problem document, with its code.
//   - Members' words stand in typed fields of results and nowhere else.
//   - Batches, which the protocol once had, are refused: one request would cost as many
//     reads as fit into it.
//   - The method that subscribes is refused: nothing is streamed, and no request is held
//     open.
package mcp
