// Package mcp is the MCP server. Its tools are the reads; the result of a tool is the
// document of its read, byte for byte, as structured content and as text.
//
// The tools come from [webring/edge/describe], the protocol from the official SDK:
// streamable HTTP without sessions, each answer one JSON message. Package edge calls
// [Server.Handle]; it has counted the request, bounded the body and checked the Origin
// field before.
//
// # What is decided here
//
//   - A failed call is a tool error whose text is the problem document, with its code.
//   - Members' words stand in typed fields of results and nowhere else.
//   - Batches, which the protocol once had, are refused: one request would cost as many
//     reads as fit into it.
//   - The method that subscribes is refused: nothing is streamed, and no request is held
//     open.
package mcp
