package cluster

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// instance is the value of a node's key alive/, JSON. It identifies the process that has the name of
// the node, so that a second process is refused. A process that restarts on the same folder replaces
// one that was killed. On another folder it must wait until the lease of the other has run out.
type instance struct {
	Folder  string `json:"folder,omitempty"` // random, of the marker in the data folder
	Process string `json:"process"`          // random
}

func (c *Cluster) errTwice(other string) error {
	return fmt.Errorf("%w: another process takes part under the name %s%s: give each node a name of its own (--node)", ErrRefused, c.c.Node, other)
}

// claim refuses this process while another one, on another folder, has the name of its node.
func (c *Cluster) claim(ctx context.Context, m Marker) error {
	if c.self.Folder != m.Folder { // the reporter reads it at any time
		c.self.Folder = m.Folder
	}
	resp, err := c.members.get(ctx, c.keys.alive(c.c.Node))
	if err != nil {
		return err
	}
	for _, kv := range resp.Kvs {
		var other instance
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
// sign of life from the same folder may be a late one, of a process that was killed.
func (w *watcher) sawAlive(value []byte) error {
	c := w.c
	var other instance
	if err := decodeText(value, &other); err != nil || other == c.self {
		return err
	}
	if other.Folder != c.self.Folder {
		return c.errTwice("")
	}
	if w.others++; w.others > 1 {
		c.displacedBy = other.Process
		return c.errTwice(", on a copy of this data folder")
	}
	return nil
}

// refusedText is the value of the key refused/ of a node, JSON.
type refusedText struct {
	Reason string `json:"reason"`
}

// refusedTime is how long etcd keeps the reason. A node that is still refused writes it again.
const refusedTime = 30 * time.Second

// sayRefused tells etcd why this node does not take part, for the status of the ring. It does not
// retry: the node's own log has the reason too.
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
