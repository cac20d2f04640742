package main

import (
	"net/netip"
	"strings"

	"webring/edge"
	"webring/server"
	"webring/server/paid"
	"webring/server/publish"
)

// openShell makes the shell of what the flags say of it and of what it answers with.
func (n *originNode) openShell() (*edge.Shell, error) {
	cfg := n.config
	var err error
	if cfg.CoreDigest, err = buildName(); err != nil {
		return nil, err
	}
	cfg.Core, cfg.ExampleSite, cfg.Log = n.answers, n.o.exampleSite(), n.log
	cfg.NoCache = !n.o.core.keep
	cfg.Paid = map[string]edge.Handler{
		"/api/register": server.Paid(n.payments, paid.OpRegister, edge.Body),
		"/api/bid":      server.Paid(n.payments, paid.OpBid, edge.Body),
	}
	cfg.Check = server.Check(n.payments, n.answers.BaseURL, n.o.payingWords())
	cfg.Sync = publish.Handlers(n.publisher, n.answers.BaseURL)
	n.scorer.serve(&cfg)
	n.counting = n.keepHops(&cfg)
	return edge.New(cfg)
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
