// Package clientaddr finds the client of a request, by which limits count, and says
// whether a payment may be asked for on its connection.
//
// A [Client] is an IPv4 address or an IPv6 /64. Behind a trusted proxy it is the
// client that the proxy names in one header field; [Proxies] decides which peers are
// trusted and which field is believed.
//
// # What is decided here
//
//   - Of what a request says of proxies, one field is believed, and only from a trusted
//     proxy. What such a proxy asks without that field is its own, a health check above
//     all, and has ten times the limit. Requests in which the field, or the whole header,
//     cannot be read share one limit for each proxy, and share it with no others.
//   - Any field by which proxies speak, believed or not, makes a request on loopback one
//     that was forwarded, and no payment is asked for on it.
package clientaddr
