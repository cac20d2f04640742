package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"webring/edge/durable"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/etcdstore"
	"webring/server/publish"
)

// start is what a ring begins with: all that the stopped origin on the data folder has, and
// has signed.
func (o *clusterOptions) start(log *slog.Logger) (s etcdstore.Start, err error) {
	until, err := publish.OpenUntil(syncPath(o.data))
	if err != nil {
		return s, err
	}
	store, err := badgerstore.Open(storePath(o.data), log)
	if err != nil {
		return s, err
	}
	of := options{data: o.data, capacity: o.capacity}
	books, err := ledger.Follow(of.ledgerConfig(store, nil, nil, nil, nil))
	if err != nil {
		return s, errors.Join(err, store.Close())
	}
	s = etcdstore.Start{At: books.Position(), Until: until.Until(), Force: o.force}
	return s, errors.Join(books.Close(), store.Close())
}

// needKey makes the file with the sealing key of a ring that is not in etcd yet. A node of
// one that is there needs the file of the others.
func (o *clusterOptions) needKey() (made bool, err error) {
	path := o.cluster.sealPath(o.data)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	dir, err := os.MkdirTemp("", "webring-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	ask := *o
	ask.cluster.sealFile = filepath.Join(dir, "none") // nothing that is asked here is sealed
	if err := etcdstore.NewKeyFile(ask.cluster.sealFile); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	err = ask.with("", func(c *etcdstore.Cluster) error {
		s, err := c.Status(ctx)
		if err == nil && !s.Tombstone {
			return fmt.Errorf("%s is missing, and the ring is in etcd already: copy the file of another node there", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, etcdstore.ErrRefused) {
		return false, err
	}
	return true, etcdstore.NewKeyFile(path)
}

// renewKey makes the file with the sealing key, or puts a new key above the present one.
func (o *clusterOptions) renewKey(out io.Writer) error {
	path := o.cluster.sealPath(o.data)
	text, err := durable.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = etcdstore.NewKeyFile(path); err == nil {
			_, err = fmt.Fprintf(out, "%s holds a new key; give every node a copy\n", path)
		}
		return err
	}
	if err != nil {
		return err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 1 {
		return fmt.Errorf("%s has %d lines: delete the second one when no node needs it any more, and then make the next key", path, len(lines))
	}
	var next [32]byte
	rand.Read(next[:])
	if err := durable.Write(path, []byte(hex.EncodeToString(next[:])+"\n"+lines[0]+"\n"), 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has a new key above the one before; give every node a copy, and restart the nodes one after the other, the leader last\n", path)
	return err
}
