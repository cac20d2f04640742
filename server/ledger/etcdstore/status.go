package etcdstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Status is what etcd knows of the ring.
type Status struct {
	Head      ledger.Position // of the last transaction that was committed
	Leader    Leader
	Until     int64  // time up to which checkpoints were signed, in ms
	TailBytes uint64 // about how much of the log lies in etcd
	Trimmed   uint64 // the last transaction that does not lie there any more
	Tombstone bool   // the ring is a single origin again
	Single    string // which node that is
	// Shared has the fingerprints of the secrets by which the ring works, by name.
	Shared map[string]string
	// Refused says why nodes were refused in the last half minute, by name. A node may take part
	// meanwhile, when the process that was refused is a second one.
	Refused map[string]string
	// Key is the id of the key that seals. OldKey says that what lies in etcd is partly sealed
	// with the one before, which no node can do without then.
	Key    string
	OldKey bool
	Nodes  []Node // in the order of their names
}

// Role is the part of a node in the ring.
type Role string

// The roles.
const (
	RoleLeader  Role = "leader"
	RoleStandby Role = "standby"
	RoleRefused Role = "refused"
	RoleGone    Role = "gone" // it has not been heard of for a while
)

// Node is one of the ring.
type Node struct {
	Name, URL string
	Role      Role
	Serial    uint64        // the last transaction that it has said to have durably
	Age       time.Duration // since it said so, by the clocks of both
	Joining   bool          // it is to be made of a backup, and has nothing yet
	Keys      []string      // ids of the keys in its key file
}

// Status asks etcd for all that is known of the ring. There is none if it fails with
// [ErrRefused].
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	var s Status
	k := c.keys
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).Then(clientv3.OpGet(k.head()), clientv3.OpGet(k.leader()), clientv3.OpGet(k.until()), clientv3.OpGet(k.trimmed()), clientv3.OpGet(k.sealing()),
			clientv3.OpGet(k.tombstone()), clientv3.OpGet(k.shared()), clientv3.OpGet(k.nodes(), clientv3.WithPrefix()), clientv3.OpGet(k.allAlive(), clientv3.WithPrefix()),
			clientv3.OpGet(k.allRefused(), clientv3.WithPrefix())).Commit()
	})
	if err != nil {
		return s, err
	}
	found := valuesOf(resp)
	b, ok := found[k.head()]
	if !ok {
		return s, fmt.Errorf("%w: there is no ring %s in this etcd cluster", ErrRefused, c.c.Ring)
	}
	h, err := decodeHead(b)
	if err != nil {
		return s, err
	}
	s.Head, s.TailBytes = h.at, h.written
	if b, ok := found[k.leader()]; ok {
		if err := decodeText(b, &s.Leader); err != nil {
			return s, err
		}
	}
	if b, ok := found[k.until()]; ok {
		if s.Until, err = decodeUntil(b); err != nil {
			return s, err
		}
	}
	if b, ok := found[k.trimmed()]; ok {
		from, err := decodeTrimmed(b)
		if err != nil {
			return s, err
		}
		s.TailBytes -= min(from.written, h.written)
		s.Trimmed = from.serial
	}
	if b, ok := found[k.sealing()]; ok {
		var is sealing
		if err := decodeText(b, &is); err != nil {
			return s, err
		}
		s.Key, s.OldKey = is.Key, s.Trimmed+1 < is.Since && s.Trimmed < h.at.Serial
	}
	if b, ok := found[k.tombstone()]; ok {
		var end ending
		if err := decodeText(b, &end); err != nil {
			return s, err
		}
		s.Tombstone, s.Single = true, end.Node
	}
	if b, ok := found[k.shared()]; ok {
		if err := decodeText(b, &s.Shared); err != nil {
			return s, err
		}
	}
	for key, b := range found {
		name, ok := strings.CutPrefix(key, k.allRefused())
		var why refusedText
		if !ok {
			continue
		}
		if err := decodeText(b, &why); err != nil {
			return s, err
		}
		if s.Refused == nil {
			s.Refused = map[string]string{}
		}
		s.Refused[name] = why.Reason
	}
	s.Nodes, err = c.parseNodes(resp, found, s.Leader)
	return s, err
}

// nodes gives the nodes of the ring.
func (c *Cluster) nodes(ctx context.Context) ([]Node, error) {
	k := c.keys
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).Then(clientv3.OpGet(k.nodes(), clientv3.WithPrefix()), clientv3.OpGet(k.allAlive(), clientv3.WithPrefix())).Commit()
	})
	if err != nil {
		return nil, err
	}
	return c.parseNodes(resp, valuesOf(resp), Leader{})
}

// parseNodes reads the nodes from what was found, in the order of the answer.
func (c *Cluster) parseNodes(resp *clientv3.TxnResponse, found map[string][]byte, leader Leader) ([]Node, error) {
	var nodes []Node
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			name, ok := strings.CutPrefix(string(kv.Key), c.keys.nodes())
			if !ok {
				continue
			}
			var r report
			if err := decodeText(kv.Value, &r); err != nil {
				return nil, err
			}
			_, refused := found[c.keys.refused(name)]
			n := Node{Name: name, URL: r.URL, Serial: r.Serial, Joining: r.Joining, Keys: r.Keys, Role: RoleGone, Age: max(0, c.c.Now().Sub(time.UnixMilli(r.At)))}
			if refused {
				n.Role = RoleRefused
			}
			if _, alive := found[c.keys.alive(name)]; alive {
				n.Role = RoleStandby
			}
			if name == leader.Node {
				n.Role = RoleLeader
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// Current asks etcd for the position of the last transaction that was committed.
func (c *Cluster) Current(ctx context.Context) (ledger.Position, error) {
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, c.keys.head())
	})
	if err != nil {
		return ledger.Position{}, err
	}
	if len(resp.Kvs) == 0 {
		return ledger.Position{}, fmt.Errorf("%w: there is no ring %s in this etcd cluster", ErrRefused, c.c.Ring)
	}
	h, err := decodeHead(resp.Kvs[0].Value)
	return h.at, err
}

// Handover asks the leader to hand over to a node, or to any if the name is empty. It returns
// when that leads, or when another does if there is no name.
func (c *Cluster) Handover(ctx context.Context, to string) error {
	k := c.keys
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		compare := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k.leader()), ">", 0)}
		if to != "" {
			compare = append(compare, clientv3.Compare(clientv3.CreateRevision(k.alive(to)), ">", 0))
		}
		return client.Txn(ctx).If(compare...).Then(clientv3.OpGet(k.leader()), clientv3.OpPut(k.handover(), to)).Commit()
	})
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return fmt.Errorf("etcdstore: nobody leads, or the node %q is not there", to)
	}
	kv := resp.Responses[0].GetResponseRange().Kvs[0]
	var old Leader
	if err := decodeText(kv.Value, &old); err != nil {
		return err
	}
	if old.Node == to {
		return nil
	}
	for watch := true; watch; {
		got, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
			return client.Get(ctx, k.leader())
		})
		if err != nil {
			return err
		}
		for _, now := range got.Kvs {
			var l Leader
			if err := decodeText(now.Value, &l); err != nil {
				return err
			}
			if now.CreateRevision == kv.CreateRevision {
				continue
			}
			if to != "" && l.Node != to {
				return fmt.Errorf("etcdstore: the node %s leads now, not %s", l.Node, to)
			}
			return nil
		}
		if err := wait(ctx, longPause); err != nil {
			return err
		}
	}
	return nil
}
