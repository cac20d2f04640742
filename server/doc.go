// Package server puts the origin's own work behind HTTP: the paid operations,
// which the shell calls inside its limits, and the operator's socket, which only
// this machine's operator can reach.
//
// The packages below it, in the order in which a payment meets them:
//
//   - mpp: challenges, credentials and receipts
//   - hosts: which host names are those of public sites
//   - fetch: reading strangers' sites, safely
//   - score: how ready a site is for agents, by asking a service or, in score/local, by
//     fetching the site; score/robots, score/report and score/exemplar belong to it
//   - tempo: charges on a Tempo chain; evm: charges by authorisation on an
//     Ethereum-like chain; node: how such chains are asked
//   - paid: the workflow from a request to its stored effect
//   - ledger, and ledger/badgerstore under it: the one writer
//   - aside: what the origin has besides the ledger: hops and news, in tables of the
//     ledger's store, and an index for searches, in memory
//   - siteproof: what sites say of the ring; visits: whether they answer, once a day
//   - publish: what edges follow, signed
//   - backup: the whole origin in one file, and back
//   - logging: the log of a process; logging/logscan finds in logs what none may hold
//   - durable: files that are there whole or not at all, and keys that are whole
//
// README.md is the handbook for operators, and tells what happens to a payment and to
// an event. Beside these packages:
//
//   - cmd/webring: the binary; cmd/bench: what its answers cost
//   - deploy: what operators copy: units, an image, proxies, alerts
//   - devchain: a real chain and a real payer for development and tests
package server
