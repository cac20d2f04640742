package cluster

import (
	"context"
	"crypto/rand"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Start is what a ring begins with in etcd.
type Start struct {
	At    ledger.Position // of the node's own ledger
	Until int64           // time up to which it has signed checkpoints, in ms
	// Force has the ring begin with this node whatever etcd has, which is lost.
	Force bool
}

// Init makes a cluster of a single origin. If the ring is in etcd already, Init adds the node to it,
// as [Cluster.Admit] does, with [ErrTooOld] for a node that needs a backup. In both cases it writes
// the marker into the data folder. It refuses, with [ErrRefused], a node that has transactions that
// etcd does not have, and an etcd that does not take groups of all sizes.
func Init(ctx context.Context, config Config, start Start) error {
	c, err := Open(config)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.checkLimits(ctx); err != nil {
		return err
	}
	k := c.keys
	resp, found, err := c.begin(ctx, start, false)
	if err != nil {
		return err
	}
	before, err := ownMarker(config.Dir)
	if err != nil {
		return err
	}
	ended := found.has(k.tombstone())
	if !ended && !start.Force {
		if _, err := c.knowsKey(found); err != nil {
			return err
		}
	}
	if !resp.Succeeded {
		has, err := decodeHead(found.of(k.head()))
		switch {
		case start.Force:
		case err != nil:
			return err
		case ended && (before.Ring != "" || has.at.Serial > start.At.Serial):
			return fmt.Errorf("%w: this is not the node that was made a single origin", ErrRefused)
		case ended:
			start.Force = true
		case has.at.Serial < start.At.Serial || has.at.Serial == start.At.Serial && has.at != start.At:
			return errBeyond(start.At, has.at)
		}
		if start.Force {
			if ms, err := decodeUntil(found.of(k.until())); err == nil {
				start.Until = max(start.Until, ms)
			}
			if resp, found, err = c.begin(ctx, start, true); err != nil {
				return err
			}
		} else if _, err := before.checkFounded(found, k, start.At.Serial); err != nil {
			return err
		}
	}
	if err := c.Admit(ctx, start.At); err != nil {
		return err
	}
	var f founding
	if err := found.text(k.founded(), &f); err != nil {
		return err
	}
	return c.mark(before, resp.Header.ClusterId, f.ID)
}

// begin puts the head into etcd, if there is none or by force.
func (c *Cluster) begin(ctx context.Context, start Start, force bool) (*clientv3.TxnResponse, values, error) {
	k := c.keys
	founded := encodeText(founding{start.At.Serial, rand.Text()})
	compare := []clientv3.Cmp{absent(k.head())}
	if force {
		compare = nil
	}
	return c.members.txn(ctx, compare, []clientv3.Op{
		clientv3.OpPut(k.head(), string(head{at: start.At}.encode())),
		clientv3.OpPut(k.trimmed(), string(trimmed{serial: start.At.Serial}.encode())),
		clientv3.OpPut(k.until(), string(encodeUntil(start.Until))),
		clientv3.OpPut(k.sealing(), encodeText(sealing{Key: c.sealer.ids()[0], Since: start.At.Serial + 1})),
		clientv3.OpPut(k.founded(), founded),
		clientv3.OpDelete(k.leader()), clientv3.OpDelete(k.tail(), clientv3.WithPrefix()), clientv3.OpDelete(k.tombstone()),
		clientv3.OpDelete(k.next()), clientv3.OpDelete(k.shared()), clientv3.OpDelete(k.nodes(), clientv3.WithPrefix()),
		clientv3.OpDelete(k.allAlive(), clientv3.WithPrefix()), clientv3.OpGet(k.founded()),
	}, gets(k.founded(), k.head(), k.tombstone(), k.until(), k.sealing())...)
}

// checkLimits finds out whether every member of etcd takes the largest group. etcd compares
// the size of a request with its limit before it does anything, so nothing is stored.
func (c *Cluster) checkLimits(ctx context.Context) error {
	for i, client := range c.members.clients {
		one := &members{clients: []*clientv3.Client{client}}
		key := string(c.keys) + "probe"
		_, _, err := one.txn(ctx, []clientv3.Cmp{exists(key)}, []clientv3.Op{clientv3.OpPut(key, string(make([]byte, maxGroup)))})
		if err != nil && refusal(err) {
			return fmt.Errorf("%w: the member %s of etcd does not take the largest transaction: start etcd with --max-request-bytes 8388608: %w", ErrRefused, c.c.Endpoints[i], err)
		}
		if err != nil {
			return fmt.Errorf("cluster: %s: %w", c.c.Endpoints[i], err)
		}
	}
	return nil
}
