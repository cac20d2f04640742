// Package mcp is the MCP server. A tool is a read, and its result the document of the read,
// byte for byte, as structured content and as text; or it is a request that only the origin
// answers, such as a paid one, and its result the answer to the same request over HTTP.
//
// The tools come from [webring/edge/describe], the protocol from the official SDK:
// streamable HTTP without sessions, each answer one JSON message. Package edge calls
// [Server.Handle]; it has counted the request, bounded the body and checked the Origin
// field before. It also sends the requests, by an [Ask].
//
//   - server.go: a message, what it says besides the arguments of a tool, and the tools
//     that are answered here
//   - wire.go: what the SDK would change or refuse: ids, batches, encoded names
//   - payment.go: tools that send, credentials, receipts, and the offers of a 402
//
// # What is decided here
//
//   - Payment is asked for by a result with metadata since the revision 2026-07-28, which
//     keeps the codes of MPP's errors for itself, and by such an error before. Instructions
//     and descriptions of tools say which, so each kind has a server of the SDK of its own.
//   - A payment by x402 is asked for by a result in all revisions. Since 2026-07-28 one result
//     asks in both ways. Before, only clients get it that bring such a payment or use the
//     address for x402, see [Sender]. The output schemas of tools that are paid admit it.
//   - A credential that cannot be read is wrong parameters (-32602) in all revisions.
//   - A credential is taken from params and from outside of them; two are refused by the
//     origin, as they are over HTTP. Tools that are free ignore it.
//   - What the origin answers is not bounded in time here: it holds a payment until its
//     outcome is known.
//   - A failed call is a tool error whose text is the problem document, with its code.
//   - Members' words are in typed fields of results and nowhere else.
//   - The id of a call is echoed byte for byte.
//   - Clients before the revision 2025-06-18 may send batches, of 16 messages at most, each
//     of which counts as a request. They are answered one after the other.
//   - The method that subscribes is refused: nothing is streamed, and no request is held
//     open.
package mcp
