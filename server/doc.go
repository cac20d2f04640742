// Package server is what an origin is made of. It puts the packages below together by the role
// of the origin, and has the origin's own work behind HTTP: the paid operations, which the
// shell calls inside its limits, and the operator's socket, which only this machine's operator
// can reach.
//
// origin.go has what all roles share; its publish shows each event to readers and edges. leader.go
// writes the ledger, publishes it to edges and takes payments: the only origin, or the leader of a
// cluster. node.go has a node of a cluster, which follows and leads in turn. backend.go switches the
// handlers when the role changes, and has that of paid requests; check.go and reports.go serve drafts
// and readiness reports over HTTP, and introduce.go fills in a draft by what its site says. hops.go takes the counts of edges, and serves hops, news and
// searches. sites.go scores sites and looks at those of members. ready.go says whether the origin is ready, and measures it and its disk.
// operator*.go serve the operator.
//
// The packages below it. A payment meets the first ones in this order:
//
//   - pay/mpp: challenges, credentials and receipts; pay/x402: the same by x402
//   - sites/fetch: reading strangers' sites, safely, and which host names are public;
//     sites/markup: their pages as browsers read them
//   - sites/score: how ready a site is for agents, by asking a service or, in score/local, by
//     fetching the site
//   - pay/tempo: charges on a Tempo chain; pay/evm: charges by authorisation on an
//     Ethereum-like chain; pay/node: how such chains are asked
//   - paid: the workflow from a request to its stored effect; paid/form: the bodies of
//     requests; paid/risk: what others can cost the ring
//   - ledger: the one writer; ledger/badgerstore: its store; ledger/cluster: several nodes with one
//     ledger, through etcd
//   - aside: news of members and counts of their visitors, in tables of the ledger's store, and an
//     index for searches, in memory
//   - sites/siteproof: what sites say of the ring; sites/visits: whether they answer, once a day
//   - publish: what edges follow, signed
//   - backup: the whole origin in one file, and back
//   - admin: health, readiness and metrics
//   - logging: the log of a process; logging/logscan finds secrets in logs
//
// HANDBOOK.md is for operators. DESIGN.md tells what happens to a payment and to an event, and where
// to add things. Also:
//
//   - cmd/webring: the binary; cmd/bench: what its answers cost
//   - deploy: what operators copy: units, an image, proxies, alerts
//   - devchain: a real chain and a real payer for development and tests
package server
