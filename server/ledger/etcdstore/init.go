package etcdstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

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

// Init makes a cluster of a single origin. If the ring is in etcd already, it adds the node to
// it, as [Cluster.Admit] does, with [ErrTooOld] for a node that needs a backup. In both cases the
// node's data folder gets the marker. It refuses with [ErrRefused] a node that has what etcd does
// not have, and an etcd that does not take groups of all sizes.
func Init(ctx context.Context, config Config, start Start) error {
	c, err := Open(config)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.checkLimits(ctx); err != nil {
		return err
	}
	resp, found, err := c.begin(ctx, start, false)
	if err != nil {
		return err
	}
	if _, ended := found[c.keys.tombstone()]; !ended && !start.Force {
		if err := c.knowsKey(found[c.keys.sealing()]); err != nil {
			return err
		}
	}
	if h, ok := found[c.keys.head()]; !resp.Succeeded && ok {
		_, ended := found[c.keys.tombstone()]
		_, marked := ReadMarker(config.Dir)
		has, err := decodeHead(h)
		switch {
		case start.Force:
		case err != nil:
			return err
		case ended && (!errors.Is(marked, os.ErrNotExist) || has.at.Serial > start.At.Serial):
			return fmt.Errorf("%w: this is not the node that was made a single origin", ErrRefused)
		case ended:
			start.Force = true
		case has.at.Serial < start.At.Serial || has.at.Serial == start.At.Serial && has.at != start.At:
			return errBeyond(start.At, has.at)
		}
		if start.Force {
			if ms, err := decodeUntil(found[c.keys.until()]); err == nil {
				start.Until = max(start.Until, ms)
			}
			if resp, found, err = c.begin(ctx, start, true); err != nil {
				return err
			}
		} else if _, err := c.checkFounded(found[c.keys.founded()], start.At.Serial); err != nil {
			return err
		}
	}
	if err := c.Admit(ctx, start.At); err != nil {
		return err
	}
	if config.Dir == "" {
		return nil
	}
	id, err := foundingID(found[c.keys.founded()])
	if err != nil {
		return err
	}
	before, err := ReadMarker(config.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return c.mark(before, resp.Header.ClusterId, id)
}

// begin puts the head into etcd, if there is none or by force.
func (c *Cluster) begin(ctx context.Context, start Start, force bool) (*clientv3.TxnResponse, map[string][]byte, error) {
	k := c.keys
	founded := encodeText(founding{start.At.Serial, rand.Text()})
	compare := []clientv3.Cmp{absent(k.head())}
	if force {
		compare = nil
	}
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(compare...).Then(
			clientv3.OpPut(k.head(), string(head{at: start.At}.encode())),
			clientv3.OpPut(k.trimmed(), string(trimmed{serial: start.At.Serial}.encode())),
			clientv3.OpPut(k.until(), string(encodeUntil(start.Until))),
			clientv3.OpPut(k.sealing(), encodeText(sealing{Key: c.sealer.ids()[0], Since: start.At.Serial + 1})),
			clientv3.OpPut(k.founded(), founded),
			clientv3.OpDelete(k.leader()), clientv3.OpDelete(k.tail(), clientv3.WithPrefix()), clientv3.OpDelete(k.tombstone()),
			clientv3.OpDelete(k.next()), clientv3.OpDelete(k.shared()), clientv3.OpDelete(k.nodes(), clientv3.WithPrefix()), clientv3.OpDelete(k.allAlive(), clientv3.WithPrefix()), clientv3.OpGet(k.founded()),
		).Else(clientv3.OpGet(k.founded()), clientv3.OpGet(k.head()), clientv3.OpGet(k.tombstone()), clientv3.OpGet(k.until()), clientv3.OpGet(k.sealing())).Commit()
	})
	if err != nil {
		return nil, nil, err
	}
	return resp, valuesOf(resp), nil
}

// checkLimits finds out whether every member of etcd takes the largest group. etcd compares
// the size of a request with its limit before it does anything, so nothing is stored.
func (c *Cluster) checkLimits(ctx context.Context) error {
	for i, client := range c.members.clients {
		one := &members{clients: []*clientv3.Client{client}}
		_, err := ask(ctx, one, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
			key := string(c.keys) + "probe"
			return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).
				Then(clientv3.OpPut(key, string(make([]byte, maxGroup)))).Commit()
		})
		if err != nil && refusal(err) {
			return fmt.Errorf("%w: the member %s of etcd does not take the largest transaction: start etcd with --max-request-bytes 8388608: %w", ErrRefused, c.c.Endpoints[i], err)
		}
		if err != nil {
			return fmt.Errorf("etcdstore: %s: %w", c.c.Endpoints[i], err)
		}
	}
	return nil
}
