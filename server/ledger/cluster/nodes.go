package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Times of reports.
const (
	reportTime = time.Second      // between reports, if there is something new
	restTime   = 5 * time.Second  // between reports, if there is nothing new
	aliveTime  = 10 * time.Second // lease of a node
)

// reportOp says which transaction this node has durably, or will have once it has joined.
func (c *Cluster) reportOp(serial uint64, joining bool) clientv3.Op {
	r := report{URL: c.c.Advertise, Serial: serial, At: c.c.Now().UnixMilli(), Joining: joining, Keys: c.sealer.ids()}
	if err := c.holdsBack(); err != nil {
		r.Unfit = fmt.Sprintf("%.500s", err)
	}
	return clientv3.OpPut(c.keys.node(c.c.Node), encodeText(r))
}

func (c *Cluster) errRemoved() error {
	return fmt.Errorf("%w: the node %s was removed from the ring; to add it again, run webring cluster init on its data folder", ErrRefused, c.c.Node)
}

// Admit makes this a node of the ring, at a position, even if it was removed before. From then on the
// tail keeps what follows, within bounds: long enough to restore a backup that reaches at least as far.
// It fails with [ErrTooOld] if the tail no longer has what follows.
func (c *Cluster) Admit(ctx context.Context, at ledger.Position) error {
	resp, _, err := c.members.txn(ctx, []clientv3.Cmp{c.notTrimmed(at.Serial)},
		[]clientv3.Op{clientv3.OpDelete(c.keys.removed(c.c.Node)), c.reportOp(at.Serial, true)})
	if err == nil && !resp.Succeeded {
		err = errTooOld(at.Serial)
	}
	return err
}

// errTooOld is [ErrTooOld] for a node that has this many transactions.
func errTooOld(has uint64) error { return fmt.Errorf("%w (it has %d transactions)", ErrTooOld, has) }

// Remove takes a node out of the ring. The node no longer holds the tail back, and is refused until
// [Init] adds it again.
func (c *Cluster) Remove(ctx context.Context, node string) error {
	k := c.keys
	resp, found, err := c.members.txn(ctx, []clientv3.Cmp{exists(k.node(node))},
		[]clientv3.Op{clientv3.OpPut(k.removed(node), ""), clientv3.OpDelete(k.node(node)), clientv3.OpDelete(k.alive(node))}, clientv3.OpGet(k.removed(node)))
	if err == nil && !resp.Succeeded && len(found) == 0 {
		err = fmt.Errorf("cluster: the ring has no node %q", node)
	}
	return err
}

// report tells etcd that the node is there and which transactions it has, until ctx ends.
func (c *Cluster) report(ctx context.Context, serial func() uint64) {
	var lease clientv3.LeaseID
	var told uint64
	var toldKeys []string
	var toldFit bool
	var toldAt, renewed time.Time
	for ; ctx.Err() == nil; wait(ctx, reportTime) {
		now := time.Now()
		var err error
		if lease == 0 || now.Sub(renewed) > aliveTime/4 {
			lease, err = c.renewAlive(ctx, lease)
			renewed = now
		}
		if e := c.sealer.reload(); e != nil { // others want to know of a new key
			c.log.Warn("the key file cannot be read; the known keys stay in use", "error", e)
		}
		has, keys, fit := serial(), c.sealer.ids(), c.holdsBack() == nil
		if err == nil && (has != told || fit != toldFit || !slices.Equal(keys, toldKeys) || now.Sub(toldAt) > restTime) {
			if err = c.tell(ctx, has, lease); err == nil {
				told, toldKeys, toldFit, toldAt = has, keys, fit, now
			}
		}
		if err != nil && ctx.Err() == nil {
			lease = 0
			c.log.Debug("etcd was not told that this node is there", "error", err)
		}
	}
}

// renewAlive renews the lease of the node, or takes a new one.
func (c *Cluster) renewAlive(ctx context.Context, lease clientv3.LeaseID) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, aliveTime/2)
	defer cancel()
	if lease != 0 {
		left, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (time.Duration, error) {
			return keepAlive(ctx, client, lease)
		})
		if err != nil || left > 0 {
			return lease, err
		}
	}
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		return client.Grant(ctx, int64(aliveTime/time.Second))
	})
	if err != nil {
		return 0, err
	}
	return resp.ID, nil
}

func (c *Cluster) tell(ctx context.Context, serial uint64, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTime/2)
	defer cancel()
	resp, _, err := c.members.txn(ctx, []clientv3.Cmp{c.notRemoved(), c.notTrimmed(serial)},
		[]clientv3.Op{c.reportOp(serial, false), clientv3.OpPut(c.keys.alive(c.c.Node), encodeText(c.self), clientv3.WithLease(lease))})
	if err == nil && !resp.Succeeded {
		err = errors.New("cluster: the node was removed, or what follows its last transaction was trimmed")
	}
	return err
}

// notTrimmed holds while the tail has what follows a transaction. So a late report cannot claim
// that a node needs what the tail lacks. The value begins with the serial.
func (c *Cluster) notTrimmed(serial uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(c.keys.trimmed()), "<", string(trimmed{serial: serial + 1}.encode()))
}

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
	resp, err := c.members.get(ctx, c.keys.alive(c.c.Node))
	if err != nil {
		return err
	}
	begins := c.self.Folder != m.Folder
	if begins { // the reporter reads it at any time
		c.self.Folder = m.Folder
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
		if begins {
			c.displaces = other.Process
		}
	}
	return nil
}

// sawAlive refuses this process when another one has come under the name of its node. A single
// sign of life from the same folder may be a late one, of a process that was killed. The process that
// had the name when this one began is refused itself: its signs do not count.
func (w *watcher) sawAlive(value []byte) error {
	c := w.c
	var other instance
	if err := decodeText(value, &other); err != nil || other == c.self || other == (instance{c.self.Folder, c.displaces}) {
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
