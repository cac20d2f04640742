package etcdstore

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

// reportOp tells which transaction this node has durably, or will have when it has joined.
func (c *Cluster) reportOp(serial uint64, joining bool) clientv3.Op {
	r := report{URL: c.c.Advertise, Serial: serial, At: c.c.Now().UnixMilli(), Joining: joining, Keys: c.sealer.ids()}
	return clientv3.OpPut(c.keys.node(c.c.Node), encodeText(r))
}

func (c *Cluster) errRemoved() error {
	return fmt.Errorf("%w: the node %s was removed from the ring; to add it again, run webring cluster init on its data folder", ErrRefused, c.c.Node)
}

// Register makes the node one of the ring that has this position. From then on the tail keeps
// what follows it, within bounds: long enough to restore a backup that reaches at least as far.
// If what follows is not in the tail any more, it fails with [ErrTooOld].
func (c *Cluster) Register(ctx context.Context, at ledger.Position) error {
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(c.notRemoved(), c.notTrimmed(at.Serial)).
			Then(c.reportOp(at.Serial, true)).Else(clientv3.OpGet(c.keys.removed(c.c.Node))).Commit()
	})
	switch {
	case err != nil || resp.Succeeded:
		return err
	case len(valuesOf(resp)) > 0:
		return c.errRemoved()
	}
	return errTooOld(at.Serial)
}

// Admit is Register, also for a node that was removed before.
func (c *Cluster) Admit(ctx context.Context, at ledger.Position) error {
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(c.notTrimmed(at.Serial)).
			Then(clientv3.OpDelete(c.keys.removed(c.c.Node)), c.reportOp(at.Serial, true)).Commit()
	})
	if err == nil && !resp.Succeeded {
		err = errTooOld(at.Serial)
	}
	return err
}

// errTooOld is [ErrTooOld] of a node that has this many transactions.
func errTooOld(has uint64) error { return fmt.Errorf("%w (it has %d transactions)", ErrTooOld, has) }

// Remove ends the part of a node in the ring: it holds the tail back no longer, and is refused
// until [Init] adds it again.
func (c *Cluster) Remove(ctx context.Context, node string) error {
	k := c.keys
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.node(node)), ">", 0)).
			Then(clientv3.OpPut(k.removed(node), ""), clientv3.OpDelete(k.node(node)), clientv3.OpDelete(k.alive(node))).
			Else(clientv3.OpGet(k.removed(node))).Commit()
	})
	switch {
	case err != nil:
		return err
	case !resp.Succeeded && len(valuesOf(resp)) == 0:
		return fmt.Errorf("etcdstore: the ring has no node %q", node)
	}
	return nil
}

// reporter tells etcd in the background that the node is there, and what it has.
type reporter struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

func (c *Cluster) startReporting(serial func() uint64) *reporter {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reporter{cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		c.report(ctx, serial)
	}()
	return r
}

func (r *reporter) stop() {
	r.cancel()
	<-r.ended
}

func (c *Cluster) report(ctx context.Context, serial func() uint64) {
	var lease clientv3.LeaseID
	var told uint64
	var toldKeys []string
	var toldAt, renewed time.Time
	for {
		now := time.Now()
		var err error
		if lease == 0 || now.Sub(renewed) > aliveTime/4 {
			lease, err = c.keepAlive(ctx, lease)
			renewed = now
		}
		if err == nil {
			if e := c.sealer.reload(); e != nil { // others want to know of a new key
				c.log.Warn("the key file cannot be read; the keys that are known stay in use", "error", e)
			}
		}
		has, keys := serial(), c.sealer.ids()
		if err == nil && (has != told || !slices.Equal(keys, toldKeys) || now.Sub(toldAt) > restTime) {
			if err = c.tell(ctx, has, lease); err == nil {
				told, toldKeys, toldAt = has, keys, now
			}
		}
		if err != nil && ctx.Err() == nil {
			lease = 0
			c.log.Debug("etcd was not told that this node is there", "error", err)
		}
		if wait(ctx, reportTime) != nil {
			return
		}
	}
}

// keepAlive renews the lease of the node, or takes a new one.
func (c *Cluster) keepAlive(ctx context.Context, lease clientv3.LeaseID) (clientv3.LeaseID, error) {
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
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(c.notRemoved(), c.notTrimmed(serial)).
			Then(c.reportOp(serial, false), clientv3.OpPut(c.keys.alive(c.c.Node), encodeText(c.self), clientv3.WithLease(lease))).Commit()
	})
	if err == nil && !resp.Succeeded {
		err = errors.New("etcdstore: the node was removed, or what follows its last transaction was trimmed")
	}
	return err
}

// notTrimmed holds while the tail has what follows a transaction. With it, a report that comes
// late cannot say that a node needs what the tail lacks. The first number of the value is the serial.
func (c *Cluster) notTrimmed(serial uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(c.keys.trimmed()), "<", string(trimmed{serial: serial + 1}.encode()))
}
