package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// instance is the value of a node's key alive/, JSON. It tells which process has the name of the
// node, so that a second one is refused. A process that is started anew on the same folder takes the
// place of one that was killed; on another folder it has to wait until the lease of that has run out.
type instance struct {
	Folder  string `json:"folder,omitempty"` // random, of the marker in the data folder
	Process string `json:"process"`          // random
}

func (c *Cluster) errTwice(other string) error {
	return fmt.Errorf("%w: another process takes part under the name %s%s: give each node a name of its own (--node)", ErrRefused, c.c.Node, other)
}

// claim refuses this process while another one, on another folder, has the name of its node.
func (c *Cluster) claim(ctx context.Context) error {
	if c.c.Dir != "" {
		m, err := ReadMarker(c.c.Dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if c.self.Folder != m.Folder { // what reports reads it at any time
			c.self.Folder = m.Folder
		}
	}
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, c.keys.alive(c.c.Node))
	})
	if err != nil {
		return err
	}
	for _, kv := range resp.Kvs {
		var other instance
		if len(kv.Value) == 0 {
			continue // of an earlier version
		}
		if err := decodeText(kv.Value, &other); err != nil {
			return err
		}
		if other.Folder != c.self.Folder {
			return c.errTwice("")
		}
		if other.Process == c.displacedBy {
			return c.errTwice(", on a copy of this data folder")
		}
	}
	return nil
}

// sawAlive refuses this process when another one has come under the name of its node. A single
// sign of one that had the same folder may be a late one, from before it was killed.
func (s *session) sawAlive(value []byte) error {
	c := s.c
	var other instance
	if len(value) == 0 {
		return nil
	}
	if err := decodeText(value, &other); err != nil || other == c.self {
		return err
	}
	if other.Folder != c.self.Folder {
		return c.errTwice("")
	}
	if s.others++; s.others > 1 {
		c.displacedBy = other.Process
		return c.errTwice(", on a copy of this data folder")
	}
	return nil
}

// refusedText is the value of the key refused/ of a node, JSON.
type refusedText struct {
	Reason string `json:"reason"`
}

// refusedTime is how long etcd keeps why a node is refused. A node that still is says so again.
const refusedTime = 30 * time.Second

// sayRefused tells etcd why this node does not take part, for the status of the ring. What is
// lost of that is in the node's own log.
func (c *Cluster) sayRefused(reason error) {
	ctx, cancel := context.WithTimeout(context.Background(), firstAttempt)
	defer cancel()
	client, _ := c.members.pick()
	lease, err := client.Grant(ctx, int64(refusedTime/time.Second))
	if err == nil {
		k := c.keys
		put := clientv3.OpPut(k.refused(c.c.Node), encodeText(refusedText{fmt.Sprintf("%.1000s", reason)}), clientv3.WithLease(lease.ID))
		_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.Value(k.alive(c.c.Node)), "=", encodeText(c.self))).
			Then(put, clientv3.OpDelete(k.alive(c.c.Node))).Else(put).Commit()
	}
	if err != nil {
		c.log.Debug("etcd was not told that this node is refused", "error", err)
	}
}
