package main

import (
	"context"
	"net/netip"
	"strings"

	"webring/edge"
	"webring/server/paid"
	"webring/server/publish"
)

// paidOperations are the operations that are paid for or proved, where [edge.Config] has
// them. Edges pass their requests on.
var paidOperations = map[string]string{
	"POST /api/register":           paid.OpRegister,
	"POST /api/bid":                paid.OpBid,
	"PATCH /api/ring/{slug}":       paid.OpChange,
	"DELETE /api/ring/{slug}":      paid.OpLeave,
	"POST /api/ring/{slug}/claim":  paid.OpClaim,
	"POST /api/ring/{slug}/visit":  paid.OpVisit,
	"POST /api/ring/{slug}/return": paid.OpReturn,
}

// openShell makes the shell of what the flags say of it and of what it answers with. counting
// reports the hops that it counts until its context ends.
func (n *originNode) openShell() (shell *edge.Shell, counting func(context.Context), err error) {
	cfg := n.config
	if cfg.CoreDigest, err = buildName(); err != nil {
		return nil, nil, err
	}
	cfg.Core, cfg.ExampleSite, cfg.Log = n.answers, n.o.exampleSite(), n.log
	cfg.NoCache = !n.o.core.keep
	n.desk.fill(&cfg, n.o.cluster.given())
	if s := n.desk.source; s != nil {
		cfg.Sync = publish.Handlers(s, n.answers.BaseURL)
	} else {
		cfg.Sync = publish.Handlers(n.desk.now.Load().source, n.answers.BaseURL)
	}
	counting = n.countHops(&cfg)
	shell, err = edge.New(cfg)
	return shell, counting, err
}

// payingWords are what the command line that pays needs beside the request: the address of
// the chain's node, if it is on this machine. Another node's address may be secret.
func (o *options) payingWords() string {
	address, found := strings.CutPrefix(strings.TrimRight(o.tempoRPC, "/"), "http://")
	at, err := netip.ParseAddrPort(address)
	if !found || err != nil || !at.Addr().IsLoopback() {
		return ""
	}
	return "-r http://" + at.String()
}

// exampleSite is a site that may join this ring: one that the flags for
// development admit, or the ring's own when it has a public name.
func (o *options) exampleSite() string {
	policy := o.sites.policy()
	for _, pattern := range policy.AllowHosts {
		return "https://" + strings.Replace(pattern, "*.", "example.", 1)
	}
	if _, _, err := policy.Canonical(o.baseURL); err == nil {
		return o.baseURL
	}
	return "https://my-agent.dev"
}
