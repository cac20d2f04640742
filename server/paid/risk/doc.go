// Package risk bounds what others can cost a ring: gas, names, room and rank. The workflow in
// package paid asks it before a payment is made, and again where it reserves.
//
//   - gas.go: what submissions are charged with, and what was wasted
//   - endless.go: payments without an end or with a late one, which can be waited for long
//   - accounts.go: limits for each account; domains.go: the members on a domain
//   - strangers.go: what accounts that have never paid may ask of networks
//   - rank.go: what a rank takes, while other payments are open
//   - blocklist.go: what the operator keeps out
//   - proofs.go: proofs that were used, and how many requests that leaves an owner
package risk
