package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"webring/edge/voucher"
	"webring/server"
	"webring/server/ledger/cluster"
	"webring/server/pay/mpp"
)

// clusterConfig reads what the flags say of etcd and of this node in it, and the keys that all nodes
// share.
func (n *originNode) clusterConfig() (*cluster.Config, error) {
	f := &n.o.cluster
	if err := needKeys(n.o); err != nil {
		return nil, err
	}
	at, err := f.reachedAt(n.o.shell.listen, n.o.shell.tls.given())
	if err != nil {
		return nil, err
	}
	c, err := f.config(n.o.data, at, n.log)
	c.Now, c.Unfenced, c.Shared = n.o.clock, testUnfenced(n.o), sharedSecrets(n.keys.Get, n.config.EdgeSecrets, n.o.data)
	return &c, err
}

// needKeys says which of the keys that all nodes share is missing.
func needKeys(o *options) error {
	var errs []error
	for _, path := range []string{secretPath(o), server.SyncKeyPath(o.data)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is missing, and must be the same on all nodes: start a ring that has none once without --etcd, or restore a backup of another node into an empty folder", path))
		}
	}
	return errors.Join(errs...)
}

// refuseMarker refuses to serve the folder of a node as an only origin: its ledger would go on
// apart from that of the other nodes.
func refuseMarker(data string) error {
	m, err := cluster.ReadMarker(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s belongs to the node %s of the ring %s in etcd: give --etcd, --cluster-id and --node, or make the ring a single origin again with webring cluster leave", data, m.Node, m.Ring)
}

// Names of other secrets than [secretName].
const (
	signName = "sync-key"
	edgeName = "edge-secret"
)

// sharedSecrets is the Shared of [cluster.Config]. An operator replaces the files while the node
// runs. Signing keys that cannot be read, as in a file that is only half copied, change nothing.
func sharedSecrets(challenges func() mpp.Keys, edge *voucher.Secrets, data string) func() map[string][]string {
	var mu sync.Mutex
	var signs []string
	return func() map[string][]string {
		keys := challenges()
		known := map[string][]string{secretName: {cluster.Fingerprint(secretName, keys.Current)}}
		if keys.Previous != nil {
			known[secretName] = append(known[secretName], cluster.Fingerprint(secretName, keys.Previous))
		}
		for _, secret := range edge.All() {
			known[edgeName] = append(known[edgeName], cluster.Fingerprint(edgeName, secret))
		}
		mu.Lock()
		defer mu.Unlock()
		if keys, err := server.ReadSigningKeys(data); err == nil {
			signs = nil
			for _, v := range keys.All() {
				signs = append(signs, cluster.Fingerprint(signName, []byte(v)))
			}
		}
		known[signName] = signs
		return known
	}
}
