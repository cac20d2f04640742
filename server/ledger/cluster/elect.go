package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// holdBack is for how many leases without a leader a node that can take no payments lets others go first.
const holdBack = 2

// try stands for election if no node leads, and gives the term if this node was elected.
func (w *watcher) try(ctx context.Context) (*Term, error) {
	if !w.stand || w.led || w.next != "" && w.next != w.c.c.Node && time.Since(w.nextSince) < w.c.c.lease {
		return nil, nil
	}
	if w.c.holdsBack() != nil && time.Since(w.alone) < holdBack*w.c.c.lease {
		return nil, nil
	}
	t, h, err := w.c.elect(ctx)
	if t == nil {
		w.led = err == nil // the watch will tell which node was elected
		return nil, err
	}
	// The watch may lag behind the election.
	err = w.catchUp(ctx, t.epoch, h.at)
	if err == nil {
		err = t.share()
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.start()
	w.c.setLeader(w.c.leaderHere())
	w.c.log.Info("this node leads", "epoch", t.epoch, "serial", h.at.Serial)
	return t, nil
}

// elect makes this node the leader, if there is none. The term is nil if another node was elected.
func (c *Cluster) elect(ctx context.Context) (*Term, head, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	lease, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		began = time.Now()
		return client.Grant(ctx, int64(c.c.lease/time.Second))
	})
	if err != nil {
		return nil, head{}, fmt.Errorf("cluster: a lease: %w", err)
	}
	t, h, err := c.claimLead(ctx, lease.ID, began)
	if t == nil {
		c.revoke(lease.ID)
	}
	return t, h, err
}

// claimLead puts the leader's key on a lease, if no node leads, and reads in the same transaction
// what the term begins with.
func (c *Cluster) claimLead(ctx context.Context, lease clientv3.LeaseID, began time.Time) (*Term, head, error) {
	k := c.keys
	reads := gets(k.leader(), k.head(), k.until(), k.trimmed(), k.sealing(), k.shared())
	_, found, err := c.members.txn(ctx, []clientv3.Cmp{absent(k.leader()), absent(k.tombstone()), c.notRemoved()}, append([]clientv3.Op{
		clientv3.OpPut(k.leader(), encodeText(c.leaderHere()), clientv3.WithLease(lease)),
		clientv3.OpDelete(k.next()), clientv3.OpDelete(k.handover()),
	}, reads...), reads...)
	if err != nil {
		return nil, head{}, err
	}
	// If the answer to an earlier attempt was lost, this node is the leader that was found.
	if found[k.leader()].GetLease() != int64(lease) || !found.has(k.head()) {
		return nil, head{}, nil
	}
	h, err := decodeHead(found.of(k.head()))
	if err != nil {
		return nil, h, err
	}
	from, err := decodeTrimmed(found.of(k.trimmed()))
	if err != nil {
		return nil, h, err
	}
	ms, err := decodeUntil(found.of(k.until()))
	if err != nil {
		return nil, h, err
	}
	if err := errors.Join(c.checkShared(found.of(k.shared())), c.useKey(found, h.at.Serial)); err != nil {
		return nil, h, err
	}
	t := newTerm(c, lease, began)
	t.epoch = found[k.leader()].CreateRevision
	t.until.rev, t.store.head.rev = found[k.until()].ModRevision, found[k.head()].ModRevision
	c.sawUntil(t.until.rev, ms)
	t.shares = string(found.of(k.shared()))
	t.tail.from, t.tail.to = from, trimmed{h.at.Serial, h.written}
	t.store.at = h
	t.store.local.Store(h.at.Serial)
	t.running.Go(t.renew)
	return t, h, nil
}

// leaderHere is what etcd holds while this node leads.
func (c *Cluster) leaderHere() Leader { return Leader{c.c.Node, c.c.Advertise} }

// revoke ends a lease, and with it the keys on it. If etcd does not answer, the lease runs out by itself.
func (c *Cluster) revoke(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), firstAttempt)
	defer cancel()
	client, _ := c.members.pick()
	if _, err := client.Revoke(ctx, id); err != nil {
		c.log.Debug("a lease was not given back", "error", err)
	}
}

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

func exists(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

func (c *Cluster) notRemoved() clientv3.Cmp { return absent(c.keys.removed(c.c.Node)) }
