// Package mcpask has what it takes to ask a stranger's MCP server to introduce itself: the
// requests, for package fetch to send, and a reader of what is answered. No tool is
// called.
//
// Servers of the revision 2026-07-28 answer server/discover, and need no session. Those
// of earlier revisions answer initialize.
//
// Document: Model Context Protocol, revisions 2025-06-18 and 2026-07-28, "Streamable
// HTTP", "Discovery" and "Lifecycle".
package mcpask
