// Package clientaddr says whose request a request is: the key that limits count by,
// and whether a payment may be asked for.
//
// A [Client] is an IPv4 address or an IPv6 /64. Behind a trusted proxy it is the
// client that the proxy names in one header field; [Proxies] decides which peers are
// trusted and which field is believed.
package clientaddr
