package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Term is the time during which a node leads. Its methods may be called concurrently.
// One of [Term.Resign], [Term.Leave] and [Term.Close] must be called in the end.
type Term struct {
	c     *Cluster
	lease clientv3.LeaseID
	epoch int64 // create revision of the leader's key

	// deadline is how long after began the node may act as the leader, in ns of its own
	// monotonic clock. It counts from when a renewal was sent; etcd counts from later.
	began    time.Time
	deadline atomic.Int64

	ctx      context.Context // ends with the term
	cancel   context.CancelFunc
	over     sync.Once
	revoking sync.Once
	done     chan struct{}
	err      error // why done is closed
	running  sync.WaitGroup

	store *Store

	signing sync.Mutex // guards until
	until   cell

	shares string // what the key shared holds; of try, and then of keepTail

	tail    tailBounds
	handing chan string
}

func newTerm(c *Cluster, lease clientv3.LeaseID, began time.Time) *Term {
	t := &Term{c: c, lease: lease, began: began, done: make(chan struct{}), handing: make(chan string, 1),
		until: cell{key: c.keys.until()}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.store = newStore(t, cell{key: c.keys.head()})
	t.renewed(0, c.c.Lease)
	return t
}

// start begins what runs beside a term besides renew.
func (t *Term) start() {
	t.running.Go(t.awaitHandover)
	t.running.Go(t.keepTail)
	t.running.Go(func() {
		r := t.c.startReporting(t.store.local.Load)
		<-t.done
		r.stop()
	})
}

// Epoch numbers the term: a later term has a greater one.
func (t *Term) Epoch() int64 { return t.epoch }

// Done is closed when the term is over: when another may lead, when the lease may run out
// before it can be renewed, when a commit has failed or the node's own disk hangs, and when the
// node has handed over.
// From then on the node must not offer, broadcast or sign.
func (t *Term) Done() <-chan struct{} { return t.done }

// Live reports whether the node still leads. It asks the clock, and so it is right also
// immediately after the process was paused, when Done is not closed yet; see Confirm.
func (t *Term) Live() bool {
	select {
	case <-t.done:
		return false
	default:
		return t.left() > 0
	}
}

// Confirm asks etcd whether this node leads, and takes no answer within ctx for no. It is also
// right after the whole machine was suspended, or a virtual one stopped for a snapshot: then no clock
// of this node says that time has passed, and Live does not know for a moment that it has.
func (t *Term) Confirm(ctx context.Context) bool {
	if !t.Live() {
		return false
	}
	k := t.c.keys
	resp, err := ask(ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		// With a write, though of nothing, the answer cannot be from the past.
		return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.leader()), "=", t.epoch)).Then(clientv3.OpDelete(k.next())).Commit()
	})
	if err == nil && !resp.Succeeded {
		t.end(fmt.Errorf("%w: another was elected", ErrLost))
	}
	return err == nil && resp.Succeeded
}

// Err says why Done is closed: an error that wraps [ErrLost] or [ErrResigned].
func (t *Term) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

// end ends the term, unless it is over, and gives the reason.
func (t *Term) end(err error) error {
	t.over.Do(func() {
		t.err = err
		close(t.done)
		t.cancel()
		t.c.setLeader(Leader{})
		if errors.Is(err, ErrLost) {
			t.c.log.Warn("this node no longer leads", "epoch", t.epoch, "error", err)
		}
	})
	return t.err
}

// left is how long the node may still act as the leader without renewing its lease.
func (t *Term) left() time.Duration {
	return time.Duration(t.deadline.Load()) - time.Since(t.began)
}

// renewed sets the deadline after a renewal, which was sent so long after began.
func (t *Term) renewed(sent, lease time.Duration) {
	t.deadline.Store(int64(sent + lease - t.c.c.Lease/6))
}

// renew keeps the lease alive, or ends the term before it can have run out.
func (t *Term) renew() {
	lease := t.c.c.Lease
	for sought := time.Duration(-1); ; {
		left := t.left()
		if left <= 0 {
			t.end(fmt.Errorf("%w: etcd has not renewed its lease in time", ErrLost))
			return
		}
		if stalls := t.store.stalls(); stalls > t.c.c.stall {
			t.end(fmt.Errorf("%w: its own disk has not taken a transaction for %s", ErrLost, stalls.Round(time.Second)))
			return
		}
		if now := time.Since(t.began); sought < 0 || now-sought > 2*lease {
			sought = now
			t.running.Go(func() { t.c.members.seekLeader(t.ctx) })
		}
		ctx, cancel := context.WithTimeout(t.ctx, min(left, lease/4))
		client, i := t.c.members.pick()
		sent := time.Since(t.began)
		ttl, err := keepAlive(ctx, client, t.lease)
		cancel()
		pause := lease / 4
		switch {
		case err == nil && ttl <= 0:
			t.end(fmt.Errorf("%w: its lease has run out", ErrLost))
			return
		case err == nil:
			t.renewed(sent, min(ttl, lease))
		default:
			t.c.members.failed(i)
			pause = lease / 40
		}
		if wait(t.ctx, min(pause, max(0, t.left()))) != nil {
			return
		}
	}
}

// keepAlive renews a lease once, and gives for how long; 0 if it has run out.
func keepAlive(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// Store decorates the local store for the ledger that leads: see [Store]. It is called once,
// and local has what was committed when the term began.
func (t *Term) Store(local ledger.Store) *Store {
	t.store.open(local)
	return t.store
}

// Until is the time up to which checkpoints were signed, in ms; 0 if there were none.
func (t *Term) Until() int64 { return t.c.Until() }

// MoveUntil makes Until a later time, durably and for all later terms. After an error it is
// not known, and nothing of that time may be signed.
func (t *Term) MoveUntil(ctx context.Context, ms int64) error {
	return t.setUntil(ctx, ms, func(is int64) bool { return ms > is })
}

// SetUntilBack makes Until an earlier time, after a clock that was ahead, as MoveUntil makes it
// a later one.
func (t *Term) SetUntilBack(ctx context.Context, ms int64) error {
	return t.setUntil(ctx, ms, func(is int64) bool { return ms < is })
}

func (t *Term) setUntil(ctx context.Context, ms int64, may func(is int64) bool) error {
	moved := make(chan error, 1)
	// The request outlives ctx: only its answer tells what the next one must compare.
	go func() {
		t.signing.Lock()
		defer t.signing.Unlock()
		if is := t.c.Until(); !may(is) {
			moved <- fmt.Errorf("etcdstore: checkpoints were signed up to %d ms, and %d ms lies on the wrong side of it", is, ms)
			return
		}
		err := t.Err()
		if err == nil {
			err = t.move(&t.until, encodeUntil(ms))
		}
		if err == nil {
			t.c.sawUntil(t.until.rev, ms)
		}
		moved <- err
	}()
	select {
	case err := <-moved:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handover receives the name of the node to which an operator asks this one to hand over;
// it is empty if any will do. The node then stops to write, closes its ledger, and calls Resign.
func (t *Term) Handover() <-chan string { return t.handing }

// awaitHandover watches for what an operator asks. A request is deleted by the election, so
// that one which is later is of this term.
func (t *Term) awaitHandover() {
	hand := func(to []byte) {
		select {
		case t.handing <- string(to):
		default: // one is there
		}
	}
	for t.ctx.Err() == nil {
		t.watchHandover(hand)
		if wait(t.ctx, longPause) != nil {
			return
		}
	}
}

// watchHandover gives what is asked for now and from now on, until the watch fails. It does not
// watch from the election: what was then is compacted soon.
func (t *Term) watchHandover(hand func(to []byte)) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.ctx))
	defer cancel()
	key := t.c.keys.handover()
	now, err := ask(ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, key)
	})
	if err != nil {
		return
	}
	for _, kv := range now.Kvs {
		if kv.ModRevision > t.epoch {
			hand(kv.Value)
		}
	}
	client, _ := t.c.members.pick()
	for r := range client.Watch(ctx, key, clientv3.WithRev(now.Header.Revision+1), clientv3.WithFilterDelete()) {
		for _, e := range r.Events {
			hand(e.Kv.Value)
		}
	}
}

// Resign hands over to the node that is named, or to any if the name is empty. It is called
// when the ledger is closed. Afterwards everything is in the local store and the term is over,
// also after an error, which says that the lease must run out before another can lead.
func (t *Term) Resign(ctx context.Context, to string) error {
	next := clientv3.OpDelete(t.c.keys.next())
	if to != "" {
		next = clientv3.OpPut(t.c.keys.next(), to)
	}
	_, err := t.leave(ctx, next)
	return err
}

// Leave ends the ring's time in etcd. It is called when the ledger is closed. Afterwards all nodes
// refuse to take part, until [Init] makes a cluster of a single origin again. The caller then
// removes the marker of this node, which is the single origin.
func (t *Term) Leave(ctx context.Context) error {
	k := t.c.keys
	took, err := t.leave(ctx, clientv3.OpPut(k.tombstone(), t.tombstone()), clientv3.OpDelete(k.next()),
		clientv3.OpDelete(k.tail(), clientv3.WithPrefix()), clientv3.OpDelete(k.alive(t.c.c.Node)))
	if err == nil && !took {
		// The lease has run out before etcd has answered: others may lead, and write.
		err = fmt.Errorf("%w: the ring goes on in etcd", ErrLost)
	}
	return err
}

// tombstone is what this term leaves when it ends the ring's time in etcd.
func (t *Term) tombstone() string { return encodeText(ending{t.epoch, t.c.c.Node}) }

// leave ends the term with a transaction. It reports whether that has taken effect; an earlier
// attempt of a hand-over looks like another leader, which comes to the same.
func (t *Term) leave(ctx context.Context, ops ...clientv3.Op) (took bool, err error) {
	if err := t.store.Settle(); err != nil {
		return false, errors.Join(err, t.Close())
	}
	// A head that is not known is not handed over.
	if err := t.Err(); err != nil {
		return false, errors.Join(err, t.Close())
	}
	t.end(ErrResigned)
	t.wait()
	k := t.c.keys
	resp, err := ask(ctx, t.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k.leader()), "=", t.epoch)).
			Then(append([]clientv3.Op{clientv3.OpDelete(k.leader()), clientv3.OpDelete(k.handover())}, ops...)...).
			Else(clientv3.OpGet(k.tombstone())).Commit()
	})
	t.revoking.Do(func() { t.c.revoke(t.lease) })
	if err != nil {
		return false, fmt.Errorf("etcdstore: hand over: %w", err)
	}
	return resp.Succeeded || string(valuesOf(resp)[k.tombstone()]) == t.tombstone(), nil
}

// Close ends a term that is lost, and waits until its store has settled.
func (t *Term) Close() error {
	t.end(ErrResigned)
	err := t.store.Settle()
	t.wait()
	t.revoking.Do(func() { t.c.revoke(t.lease) })
	return err
}

func (t *Term) wait() {
	t.store.stop()
	t.running.Wait()
}
