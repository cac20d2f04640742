package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"webring/server/ledger/cluster"
	"webring/server/pay/mpp"
)

// shared compares the secrets that all nodes share with those by which the ring works.
func (c *checks) shared(o *options, s cluster.Status) {
	keys, err := challengeKeys(o)
	secrets, wrong := openEdgeSecrets(o.edgeSecretFile)
	if errors.Join(err, wrong) != nil {
		return // told of as those files
	}
	own := sharedSecrets(func() mpp.Keys { return keys }, secrets, o.data)
	switch lacks := s.Lacks(own()); {
	case lacks != nil:
		c.fail("cluster", fmt.Errorf("%s of this node is not that of the ring: copy what the node that leads has", strings.Join(lacks, ", ")))
	case s.Shared != nil:
		c.ok("cluster", "the keys of this node are those of the ring")
	}
}

// cluster checks what a node of a cluster needs, and asks etcd for the ring.
func (c *checks) cluster(o *options) {
	f := &o.cluster
	m, err := cluster.ReadMarker(o.data)
	if !f.given() {
		if !errors.Is(err, fs.ErrNotExist) {
			c.fail("cluster", refuseMarker(o.data))
		}
		return
	}
	if f.validateAll() != nil {
		return // told of as a flag
	}
	at, err := f.reachedAt(o.shell.listen, o.shell.tls.given())
	if !c.fail("cluster", err) {
		c.ok("cluster", "others reach this node at %s", at)
	}
	if !c.fail("cluster", needKeys(o)) {
		c.ok("cluster", "the keys that all nodes share are there")
	}
	config, err := f.config(o.data, at, slog.New(slog.DiscardHandler))
	if c.fail("etcd", err) {
		return
	}
	in, err := cluster.Open(config)
	if c.fail("etcd", err) {
		return
	}
	defer in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := in.Status(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.fail("etcd", fmt.Errorf("--etcd %s gives no answer within %s: correct it, or have most of its members answer", f.endpoints.String(), patience))
	case c.fail("etcd", err):
	case s.Tombstone:
		c.fail("etcd", fmt.Errorf("the ring %s was made a single origin again", f.ring))
	default:
		c.ok("etcd", "the ring %s is at transaction %d; nodes: %d", f.ring, s.Head.Serial, len(s.Nodes))
		c.shared(o, s)
		if m.Node == "" {
			c.note("cluster", "%s joins the ring with this start", f.node)
		}
	}
}
