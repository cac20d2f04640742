package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/publish"
)

// start is what a ring begins with: what the stopped origin on the data folder has, and has signed.
func (o *clusterOptions) start(log *slog.Logger) (s cluster.Start, err error) {
	until, err := publish.OpenUntil(syncPath(o.data))
	if err != nil {
		return s, err
	}
	store, err := badgerstore.Open(storePath(o.data), log)
	if err != nil {
		return s, err
	}
	of := options{data: o.data, capacity: o.capacity}
	config := of.ledgerConfig()
	config.Store = store
	books, err := ledger.Follow(config)
	if err != nil {
		return s, errors.Join(err, store.Close())
	}
	s = cluster.Start{At: books.Position(), Until: until.Until(), Force: o.force}
	return s, errors.Join(books.Close(), store.Close())
}

// needKey makes the file with the sealing key of a ring that is not in etcd yet. A node of a ring that
// is there needs the file of the other nodes.
func (o *clusterOptions) needKey(ctx context.Context) (made bool, err error) {
	path := o.cluster.sealPath(o.data)
	if exists(path) {
		return false, nil
	}
	err = o.with("", func(c *cluster.Cluster) error {
		s, err := c.Status(ctx)
		if err == nil && !s.Tombstone {
			return fmt.Errorf("%s is missing, and the ring is in etcd already: copy the file of another node there", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, cluster.ErrRefused) {
		return false, err
	}
	return true, cluster.NewKeyFile(path)
}

// renewKey makes the file with the sealing key, or puts a new key above the present one.
func (o *clusterOptions) renewKey(out io.Writer) error {
	path := o.cluster.sealPath(o.data)
	told := "%s has a new key above the one before; give every node a copy, and restart the nodes one after the other, the leader last\n"
	err := cluster.RenewKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		told = "%s holds a new key; give every node a copy\n"
		err = cluster.NewKeyFile(path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, told, path)
	return err
}
