// Package relay gives an edge the documents that only the origin can make: hops, news and
// searches. A [Relay] asks for each once, however many readers wait for it, and caches it for
// as long as the origin says.
//
// While the origin cannot be reached, the last document is shown for a day (relay.go). A
// question that has failed is asked again every few seconds at most, by one reader who waits
// briefly; the others are answered at once (failures.go).
//
// A document with words of members names the ledger position that it shows. It is not shown
// any more, stale or not, once the edge's own core has an event of a later position that took
// words of any member away. Rejected: dropping it at every new position, since bids come many
// a second and change no words; and a short bound on its age, since words that were redacted
// would then be shown for that long.
package relay
