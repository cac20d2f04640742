// Package front has what a node knows of a request before it looks for an answer: the
// client, the id and the target. It also has the access log and the certificates of
// listeners.
//
// # Clients
//
// A [Client] is an IPv4 address or an IPv6 /64, by which limits count (client.go). Behind a
// trusted proxy it is the client that the proxy names in one header field; [Proxies] decides
// which peers are trusted and which field is believed (proxies.go).
//
//   - Of what a request says of proxies, one field is believed, and only from a trusted
//     proxy. A request of such a proxy without that field is its own, a health check above
//     all, and has ten times the limit. Requests in which the field, or the whole header,
//     cannot be read share one limit for each proxy.
//   - Any field by which proxies speak, believed or not, makes a request on loopback one
//     that was forwarded, and no payment is asked for on it.
//   - Rejected: github.com/realclientip/realclientip-go. It splits the whole field before it
//     looks at the last hop: nine allocations for two hops, and milliseconds for a field of
//     16 kB. It reads no scheme.
//
// # Ids
//
// The id of a request is the value of X-Request-Id if there is one line of it, of 8 to 64
// letters, digits, dots, underscores and hyphens; else the trace id of a valid traceparent
// (W3C Trace Context); else one that is made here. Anything else that a client sends is
// dropped: it reaches no answer, no origin and no log (requestid.go).
//
// # Targets
//
// target.go reads request targets. hosts.go puts the host of a from parameter into A-labels.
//
// # Access log
//
// [AccessLog] writes one line for each request that was answered. Handlers put lines
// together; one goroutine writes them a little later, many at a time. An answer never waits
// for the disk: lines that the disk does not take in time are dropped, and the log of the
// process says how many. Text from clients is escaped and cut to [maxText] bytes. Of a query
// the line has the value of from alone.
//
// # Certificates
//
// A listener shows the certificate of two files that the operator replaces
// ([CertificateFiles]), or one that an authority issues by ACME, RFC 8555 ([ACME]). A new
// certificate is shown on later connections; open ones go on. Files that cannot be used, such
// as a key that does not belong to its certificate, leave the present certificate in place.
package front
