package etcdstore

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A new key is put above the old one in the key file of each node, in any order. The leader
// seals with it as soon as all registered nodes have said that they have it. The old key is
// needed until nothing that it has sealed lies in the tail ([Status.OldKey]). Once it is deleted
// everywhere, what etcd's files still have of that time cannot be read any more.

// knowsKey refuses a key file that does not have the key with which the ring is sealed.
func (c *Cluster) knowsKey(value []byte) error {
	if value == nil {
		return nil
	}
	var is sealing
	if err := decodeText(value, &is); err != nil {
		return err
	}
	if !c.sealer.has(is.Key) {
		return c.sealer.errKey(is.Key)
	}
	return nil
}

// useKey seals with the key with which the ring is sealed, from the transaction after head on.
func (c *Cluster) useKey(value []byte, head uint64) error {
	if err := c.knowsKey(value); err != nil {
		return err
	}
	var is sealing
	if err := decodeText(value, &is); err != nil {
		return err
	}
	c.sealer.begin(is.Key, head)
	return nil
}

// rotate goes over to the newest key, when all nodes have it.
func (t *Term) rotate(nodes []Node) error {
	s := t.c.sealer
	newest, old := s.ids()[0], s.inUse()
	if old == "" || newest == old || slices.ContainsFunc(nodes, func(n Node) bool { return !n.Joining && !slices.Contains(n.Keys, newest) }) {
		return nil
	}
	last := s.use(newest) // what is sealed from now on is sealed with the new key
	k := t.c.keys
	resp, err := ask(t.ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.leader()), "=", t.epoch)).
			Then(clientv3.OpPut(k.sealing(), encodeText(sealing{Key: newest, Since: last + 1}))).Commit()
	})
	switch {
	case err != nil:
		s.use(old)
		return err
	case !resp.Succeeded:
		return t.end(fmt.Errorf("%w: another was elected", ErrLost))
	}
	t.c.log.Info("the ring is sealed with a new key in etcd", "key", newest, "since", last+1)
	return nil
}
