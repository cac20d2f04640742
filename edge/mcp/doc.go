// Package mcp is the MCP server: the reads as tools, each result the document
// of its read, byte for byte, as structured content and as text.
//
// The tools come from [webring/edge/describe], the protocol from the official
// SDK: streamable HTTP without sessions, every answer JSON and whole. The shell
// in front counts requests, bounds bodies and checks the origin; [Server.Handle]
// is all that it calls.
//
// Decisions: a failed call is a tool error whose text is the problem document,
// with its code. Members' words come in typed fields of results and nowhere
// else. Batches, which the protocol had for a while, are refused: one request
// would cost as many reads as fit into it. So is the method that subscribes:
// nothing is streamed, and no request is held open.
package mcp
