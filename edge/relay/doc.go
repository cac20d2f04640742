// Package relay gives an edge the documents that only the origin can make, from what it keeps
// beside the ledger: hops, news and feeds. A [Relay] asks for each once, however many
// readers wait for it, caches it for as long as the origin says, and goes on showing it for a
// day while the origin cannot be reached.
package relay
