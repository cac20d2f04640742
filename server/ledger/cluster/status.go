package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	TailBytes uint64 // approximate size of the log in etcd
	Trimmed   uint64 // the last transaction that etcd no longer has
	Tombstone bool   // the ring has left etcd and is a single origin again
	Single    string // the node that is the single origin
	// Shared has the fingerprints of the ring's secrets, by name.
	Shared map[string]string
	// Refused says why nodes were refused in the last half minute, by name. Such a node may take part
	// anyway, if the refused process is a second one.
	Refused map[string]string
	// Key is the id of the key that seals. OldKey says that etcd still has transactions that the
	// previous key sealed. Every node needs that key then.
	Key    string
	OldKey bool
	Nodes  []Node // by name
}

// BackedUp is the least transaction that a backup of a node may have. Nodes that lack what is already
// trimmed do not count: registering a new node there would hold nothing back.
func (s Status) BackedUp() uint64 {
	least := s.Head.Serial
	for _, n := range s.Nodes {
		if n.Serial >= s.Trimmed {
			least = min(least, n.Serial)
		}
	}
	return least
}

// Role is what a node does in the ring.
type Role string

// The roles.
const (
	RoleLeader  Role = "leader"  // it writes the ledger and takes payments
	RoleStandby Role = "standby" // it follows the ledger and passes paid requests on
	RoleRefused Role = "refused" // it may not take part, and answers reads with what it has
	RoleGone    Role = "gone"    // etcd has not heard of it for a while
)

// Node is one of the ring.
type Node struct {
	Name, URL string
	Role      Role
	Serial    uint64        // the last transaction that it says it has durably
	Age       time.Duration // since it said so, by the clocks of both
	Joining   bool          // it will be made of a backup, and has nothing yet
	Keys      []string      // ids of the keys in its key file
	Unfit     string        // why it can take no payments, by its own account; "" if it can
}

// Status asks etcd for everything it knows of the ring. It fails with [ErrRefused] if the ring is
// not in etcd.
func (c *Cluster) Status(ctx context.Context) (s Status, err error) {
	k := c.keys
	_, found, err := c.members.txn(ctx, nil, append(gets(k.head(), k.leader(), k.until(), k.trimmed(), k.sealing(), k.tombstone(), k.shared()),
		clientv3.OpGet(k.nodes(), clientv3.WithPrefix()), clientv3.OpGet(k.allAlive(), clientv3.WithPrefix()), clientv3.OpGet(k.allRefused(), clientv3.WithPrefix())))
	if err != nil {
		return s, err
	}
	if !found.has(k.head()) {
		return s, c.errNoRing()
	}
	var seals sealing
	var end ending
	h, wrong := decodeHead(found.of(k.head()))
	from, wrongTail := decodeTrimmed(found.of(k.trimmed()))
	until, wrongUntil := decodeUntil(found.of(k.until()))
	err = errors.Join(wrong, wrongTail, wrongUntil, found.text(k.leader(), &s.Leader), found.text(k.sealing(), &seals), found.text(k.tombstone(), &end), found.text(k.shared(), &s.Shared))
	s.Head, s.Until, s.Trimmed = h.at, until, from.serial
	s.TailBytes = h.written - min(from.written, h.written)
	s.Key, s.OldKey = seals.Key, s.Trimmed+1 < seals.Since && s.Trimmed < h.at.Serial
	s.Tombstone, s.Single = found.has(k.tombstone()), end.Node
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if name, ok := strings.CutPrefix(key, k.allRefused()); ok {
			var why refusedText
			err = errors.Join(err, found.text(key, &why))
			if s.Refused == nil {
				s.Refused = map[string]string{}
			}
			s.Refused[name] = why.Reason
		}
		if name, ok := strings.CutPrefix(key, k.nodes()); ok {
			var r report
			err = errors.Join(err, found.text(key, &r))
			role := RoleGone
			switch {
			case name == s.Leader.Node:
				role = RoleLeader
			case found.has(k.alive(name)):
				role = RoleStandby
			case found.has(k.refused(name)):
				role = RoleRefused
			}
			s.Nodes = append(s.Nodes, Node{Name: name, URL: r.URL, Serial: r.Serial, Joining: r.Joining, Keys: r.Keys, Unfit: r.Unfit, Role: role, Age: max(0, c.c.Now().Sub(time.UnixMilli(r.At)))})
		}
	}
	return s, err
}

func (c *Cluster) errNoRing() error {
	return fmt.Errorf("%w: there is no ring %s in this etcd cluster", ErrRefused, c.c.Ring)
}

// Current asks etcd for the position of the last transaction that was committed.
func (c *Cluster) Current(ctx context.Context) (ledger.Position, error) {
	resp, err := c.members.get(ctx, c.keys.head())
	if err != nil {
		return ledger.Position{}, err
	}
	if len(resp.Kvs) == 0 {
		return ledger.Position{}, c.errNoRing()
	}
	h, err := decodeHead(resp.Kvs[0].Value)
	return h.at, err
}

// Handover asks the leader to hand over to a node, or to any if the name is empty. It returns when
// that node leads, or without a name when another does. It refuses a node that can take no payments
// while the leader can.
func (c *Cluster) Handover(ctx context.Context, to string) error {
	k := c.keys
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	unfit := map[string]string{}
	for _, n := range s.Nodes {
		unfit[n.Name] = n.Unfit
	}
	if unfit[to] != "" && unfit[s.Leader.Node] == "" {
		return fmt.Errorf("cluster: the node %q can take no payments now, and %s can: %s", to, s.Leader.Node, unfit[to])
	}
	compare := []clientv3.Cmp{exists(k.leader())}
	if to != "" {
		compare = append(compare, exists(k.alive(to)))
	}
	resp, found, err := c.members.txn(ctx, compare, []clientv3.Op{clientv3.OpGet(k.leader()), clientv3.OpPut(k.handover(), to)})
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return fmt.Errorf("cluster: no node leads, or the node %q is not there", to)
	}
	for old := found[k.leader()]; ; {
		now, err := c.members.get(ctx, k.leader())
		if err != nil {
			return err
		}
		for _, kv := range now.Kvs {
			var l Leader
			err := decodeText(kv.Value, &l)
			switch {
			case err != nil || l.Node == to:
				return err
			case kv.CreateRevision == old.CreateRevision:
			case to == "":
				return nil
			default:
				return fmt.Errorf("cluster: the node %s leads now, not %s", l.Node, to)
			}
		}
		if err := wait(ctx, longPause); err != nil {
			return err
		}
	}
}
