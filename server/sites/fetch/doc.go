// Package fetch reads from strangers' sites, and cannot be used to attack others.
//
// To join, a client names a URL, and the origin fetches it. So a [Client] makes every
// request of this project to an address that a stranger chose. It limits:
//
//   - where requests go: public addresses only, checked on each socket before it is
//     connected, which covers redirects and names that change their address between
//     two look-ups; http and https on ports 80 and 443; names below a public suffix,
//     after their conversion to A-labels
//   - what they say: no cookies, no Referer, no credentials, no proxy from the
//     environment; TLS certificates are verified
//   - how much they read: bounded headers and decoded bodies; three redirects within
//     one registrable domain and never from https to http; a time for each step and
//     for the whole
//   - how many there are: fetches at a time, in all and for each site, and requests a
//     minute for each site and each address, so that the origin cannot be used to flood
//     a third party. Package share shares these, so one client cannot use up a site's
//     requests
//
// TXT records of sites' names are looked up within the same limits.
//
// hosts.go says which host names are names of public sites: URLs that join and URLs that are
// fetched use the same rules. mcp.go has the requests that ask an MCP server to introduce itself.
//
// Errors say what kind of thing went wrong, and not what was found at an address: a
// refused address and a closed port look alike.
package fetch
