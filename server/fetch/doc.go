// Package fetch reads from strangers' sites without being used against anybody.
//
// Whoever wants to join names a URL, and the origin goes there. So every
// request to an address that a stranger chose is made by a [Client], and by
// nothing else in this project. It holds:
//
//   - where: public addresses only, checked on the socket that is about to be
//     connected, which covers redirects and names that change their address
//     between two looks; http and https on their own ports; names below a public
//     suffix, after their conversion to A-labels;
//   - what is said: no cookies, no Referer, no credentials, no proxy from the
//     environment; TLS certificates are verified;
//   - how much: bounded headers and decoded bodies, three redirects within one
//     registrable domain and never from https to http, a bounded time for each
//     step and for the whole;
//   - how often: sockets in all and for each site, and requests a minute for each
//     site and each address, so that nobody can aim the origin at a third party.
//     What a minute has is shared between those on whose behalf requests are sent,
//     so that nobody keeps the origin from a site by asking for it.
//
// Errors say what kind of thing went wrong, never what was found at an address:
// a refused address and a closed port look alike.
package fetch
