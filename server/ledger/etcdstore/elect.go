package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// try stands for election if nobody leads, and gives the term if this node was elected.
func (s *session) try(ctx context.Context) (*Term, error) {
	if !s.stand || s.led || s.next != "" && s.next != s.c.c.Node && time.Since(s.nextSince) < s.c.c.Lease {
		return nil, nil
	}
	t, h, err := s.c.elect(ctx)
	if t == nil {
		s.led = err == nil // the watch will tell of who was
		return nil, err
	}
	// The watch may lag behind the election.
	if err := s.catchUp(ctx, t.epoch, h.at); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if err := t.share(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.start()
	s.c.setLeader(Leader{s.c.c.Node, s.c.c.Advertise})
	s.c.log.Info("this node leads", "epoch", t.epoch, "serial", h.at.Serial)
	return t, nil
}

// elect makes this node the leader, if there is none. The term is nil if another was elected.
func (c *Cluster) elect(ctx context.Context) (*Term, head, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var h head
	began := time.Now()
	lease, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		began = time.Now()
		return client.Grant(ctx, int64(c.c.Lease/time.Second))
	})
	if err != nil {
		return nil, h, fmt.Errorf("etcdstore: a lease: %w", err)
	}
	k := c.keys
	reads := []clientv3.Op{clientv3.OpGet(k.leader()), clientv3.OpGet(k.head()), clientv3.OpGet(k.until()), clientv3.OpGet(k.trimmed()), clientv3.OpGet(k.sealing()), clientv3.OpGet(k.shared())}
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).
			If(absent(k.leader()), absent(k.tombstone()), c.notRemoved()).
			Then(append([]clientv3.Op{
				clientv3.OpPut(k.leader(), encodeText(Leader{c.c.Node, c.c.Advertise}), clientv3.WithLease(lease.ID)),
				clientv3.OpDelete(k.next()), clientv3.OpDelete(k.handover()),
			}, reads...)...).
			Else(reads...).Commit()
	})
	if err != nil {
		c.revoke(lease.ID)
		return nil, h, err
	}
	t := newTerm(c, lease.ID, began)
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			switch string(kv.Key) {
			case k.leader():
				// An answer that was lost may have told of it before.
				if clientv3.LeaseID(kv.Lease) == lease.ID {
					t.epoch = kv.CreateRevision
				}
			case k.head():
				t.store.head.rev = kv.ModRevision
				h, err = decodeHead(kv.Value)
			case k.until():
				t.until.rev = kv.ModRevision
				var ms int64
				if ms, err = decodeUntil(kv.Value); err == nil {
					c.sawUntil(kv.ModRevision, ms)
				}
			case k.trimmed():
				t.tail.from, err = decodeTrimmed(kv.Value)
			}
			if err == nil && string(kv.Key) == k.sealing() {
				err = c.useKey(kv.Value, h.at.Serial)
			}
			if err == nil && string(kv.Key) == k.shared() {
				t.shares, err = string(kv.Value), c.checkShared(kv.Value)
			}
			if err != nil {
				c.revoke(lease.ID)
				return nil, h, err
			}
		}
	}
	if t.epoch == 0 || t.store.head.rev == 0 {
		c.revoke(lease.ID)
		return nil, h, nil
	}
	t.store.at, t.tail.written = h, h.written
	t.store.local.Store(h.at.Serial)
	t.running.Go(t.renew)
	return t, h, nil
}

// revoke ends a lease, and with it what is stored under it. Without an answer the lease runs out by itself.
func (c *Cluster) revoke(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), firstAttempt)
	defer cancel()
	client, _ := c.members.pick()
	if _, err := client.Revoke(ctx, id); err != nil {
		c.log.Debug("a lease was not given back", "error", err)
	}
}

func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

func (c *Cluster) notRemoved() clientv3.Cmp { return absent(c.keys.removed(c.c.Node)) }
