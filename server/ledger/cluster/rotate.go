package cluster

import (
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A new key is put above the old one in the key file of each node, in any order. The leader
// seals with it as soon as all registered nodes have said that they have it. The old key is
// needed until the tail has nothing that it sealed ([Status.OldKey]). Once it is deleted everywhere,
// nothing can read what etcd's files still have of that time.

// knowsKey refuses a key file that lacks the key with which the ring is sealed.
func (c *Cluster) knowsKey(found values) (is sealing, err error) {
	if err = found.text(c.keys.sealing(), &is); err == nil && is.Key != "" {
		_, err = c.sealer.key(is.Key)
	}
	return is, err
}

// useKey seals what follows the transaction head with the key of the ring.
func (c *Cluster) useKey(found values, head uint64) error {
	is, err := c.knowsKey(found)
	if err == nil {
		c.sealer.begin(is.Key, head)
	}
	return err
}

// rotate switches to the newest key when all nodes have it.
func (t *Term) rotate(nodes []Node) error {
	s := t.c.sealer
	newest, old := s.ids()[0], s.inUse()
	if old == "" || newest == old || slices.ContainsFunc(nodes, func(n Node) bool { return !n.Joining && !slices.Contains(n.Keys, newest) }) {
		return nil
	}
	last := s.use(newest) // what is sealed from now on is sealed with the new key
	if err := t.fenced(t.ctx, clientv3.OpPut(t.c.keys.sealing(), encodeText(sealing{Key: newest, Since: last + 1}))); err != nil {
		s.use(old)
		return err
	}
	t.c.log.Info("the ring is sealed with a new key in etcd", "key", newest, "since", last+1)
	return nil
}
